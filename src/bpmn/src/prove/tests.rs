#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::model;

mod mutations;

/// The shipped process with edits; each must find its text.
fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(crate::EXECUTABLE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the shipped file no longer has {from:?}");
        text.replace(from, to)
    })
}

fn proved(edits: &[(&str, &str)]) -> Result<Proof, Counterexample> {
    prove(&model::parse(edited(edits).as_bytes()).expect("the edited file parses"))
}

const END: &str = "</bpmn:process>";

const fn flow(id: &'static str, from: &'static str, to: &'static str) -> (&'static str, &'static str, &'static str) {
    (id, from, to)
}

/// Elements and flows to put in front of the end of the process.
fn more(elements: &str, flows: &[(&str, &str, &str)]) -> String {
    let flows: String = flows
        .iter()
        .map(|(id, from, to)| format!(r#"<bpmn:sequenceFlow id="{id}" sourceRef="{from}" targetRef="{to}"/>"#))
        .collect();
    format!("{elements}{flows}{END}")
}

fn retarget(id: &str, source: &str, from: &str, to: &str) -> (String, String) {
    let name_free = |target: &str| format!(r#"sourceRef="{source}" targetRef="{target}""#);
    assert!(crate::EXECUTABLE.contains(&format!(r#"id="{id}""#)));
    (name_free(from), name_free(to))
}

fn task(id: &str, job: &str, outputs: &str) -> String {
    format!(
        r#"<bpmn:serviceTask id="{id}"><bpmn:extensionElements><zeebe:taskDefinition type="{job}"/><zeebe:ioMapping>{outputs}
        </zeebe:ioMapping></bpmn:extensionElements></bpmn:serviceTask>"#
    )
}

fn boundary(id: &str, host: &str, outputs: &str) -> String {
    format!(
        r#"<bpmn:boundaryEvent id="{id}" attachedToRef="{host}"><bpmn:extensionElements><zeebe:ioMapping>{outputs}</zeebe:ioMapping>
        </bpmn:extensionElements><bpmn:errorEventDefinition/></bpmn:boundaryEvent>"#
    )
}

const EXCEEDED: &str = r#"<zeebe:output source="=true" target="budget_exceeded" />"#;
const RECORD: &str = r#"<zeebe:executionListener eventType="start" type="record-terminal" />"#;
const CLAIM: &str = r#"<zeebe:executionListener eventType="start" type="claim-run" />"#;

/// The task's element, to move or drop it.
fn element(id: &str) -> String {
    let from = crate::EXECUTABLE.find(&format!(r#"<bpmn:serviceTask id="{id}""#)).unwrap();
    let text = &crate::EXECUTABLE[from..];
    text[..text.find("</bpmn:serviceTask>").unwrap() + "</bpmn:serviceTask>".len()].to_owned()
}

fn without_listener(end: &str) -> (String, String) {
    let from = crate::EXECUTABLE.find(&format!(r#"<bpmn:endEvent id="{end}""#)).unwrap();
    let text = &crate::EXECUTABLE[from..];
    let whole = text[..text.find("</bpmn:endEvent>").unwrap()].to_owned();
    let bare = whole.replace(RECORD, "");
    (whole, bare)
}

type Edits = Vec<(String, String)>;

fn own(edits: &[(&str, &str)]) -> Edits {
    edits.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

fn also(mut edits: Edits, elements: &str, flows: &[(&str, &str, &str)]) -> Edits {
    edits.push((END.to_owned(), more(elements, flows)));
    edits
}

fn prove_edited(edits: &Edits) -> Result<Proof, Counterexample> {
    let borrowed: Vec<(&str, &str)> = edits.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    proved(&borrowed)
}

#[test]
fn the_shipped_process_is_proved_and_reaches_all_five_ends() {
    let proof = proved(&[]).unwrap();
    assert_eq!(proof.ends.keys().copied().collect::<Vec<_>>(), Terminal::ALL);
    assert!(proof.assignments >= 8 * 8 + 8 + 8, "{proof}");
}

/// Verify inside of a sub-process with these mappings.
fn wrapped(mappings: &str) -> Edits {
    let verify = element("Verify");
    let inner = format!(
        r#"<bpmn:subProcess id="Around"><bpmn:extensionElements><zeebe:ioMapping>{mappings}</zeebe:ioMapping></bpmn:extensionElements>
        <bpmn:startEvent id="In"/>{verify}<bpmn:endEvent id="Out"/>
        <bpmn:sequenceFlow id="f1" sourceRef="In" targetRef="Verify"/><bpmn:sequenceFlow id="f2" sourceRef="Verify" targetRef="Out"/></bpmn:subProcess>"#
    );
    vec![
        (verify, inner),
        retarget("Flow_Artifact_Verify", "Artifact", "Verify", "Around"),
        (
            r#"sourceRef="Verify" targetRef="Gw_Verify""#.to_owned(),
            r#"sourceRef="Around" targetRef="Gw_Verify""#.to_owned(),
        ),
    ]
}

#[test]
fn harmless_changes_are_proved() {
    let manual = r#"<bpmn:parallelGateway id="Fork"/><bpmn:manualTask id="A"/><bpmn:task id="B"/><bpmn:parallelGateway id="Join"/>"#;
    let flows = [
        flow("f1", "Fork", "A"),
        flow("f2", "Fork", "B"),
        flow("f3", "A", "Join"),
        flow("f4", "B", "Join"),
        flow("f5", "Join", "Contract"),
    ];
    let refused = r#"<zeebe:output source="=false" target="constraints_ok" />"#;
    let cases: Vec<(&str, Edits)> = vec![
        ("a condition that reads the boolean alone", own(&[(">=tool_in_manifest = true<", ">=tool_in_manifest<")])),
        (
            "a condition that also asks the gate before",
            own(&[(">=tool_in_manifest = true<", ">=constraints_ok = true and tool_in_manifest = true<")]),
        ),
        (
            "a fork that is joined",
            also(vec![retarget("Flow_Manifest_Contract", "Gw_Manifest", "Contract", "Fork")], manual, &flows),
        ),
        ("verify inside of a sub-process", wrapped("")),
        (
            "a terminating end",
            own(&[(r#"<bpmn:incoming>Flow_Constraints_Halt</bpmn:incoming>"#, "<bpmn:terminateEventDefinition/>")]),
        ),
        (
            "an error of execute leaves a failure receipt",
            also(Vec::new(), &boundary("Caught", "Execute", EXCEEDED), &[flow("f1", "Caught", "FailReceipt")]),
        ),
        (
            "an error of validate halts",
            also(Vec::new(), &boundary("Caught", "Validate", refused), &[flow("f1", "Caught", "End_Halt")]),
        ),
        ("another process id", own(&[("m87-governed-loop", "my-loop")])),
    ];
    for (name, edits) in cases {
        if let Err(counterexample) = prove_edited(&edits) {
            panic!("{name}: {counterexample}");
        }
    }
}

#[test]
fn a_counterexample_names_the_path_and_the_values() {
    let counterexample =
        proved(&[("=get or else(constraints_ok = true, false)", "=get or else(constraints_ok = true, true)")])
            .unwrap_err();
    assert_eq!(counterexample.rule, Rule::TerminalAgrees);
    assert_eq!(counterexample.path.first().map(String::as_str), Some("Start"));
    assert_eq!(counterexample.path.last().map(String::as_str), Some("End_RejManifest"));
    assert!(counterexample.path.iter().any(|id| id == "Flow_Constraints_Manifest"));
    let unclear = counterexample.assignment.iter().find(|assigned| assigned.variable == "constraints_ok").unwrap();
    assert_eq!(unclear.from, "Validate");
    assert!(!["true", "false"].contains(&unclear.value.as_str()), "{unclear}");
}

/// What a start variable can do where the first task does not reset it and the setting task does not null it.
#[test]
fn a_seeded_variable_is_found_where_nothing_resets_it() {
    let text = edited(&[
        (r#"<zeebe:output source="=false" target="artifact_verified" />"#, EXCEEDED),
        (r#"sourceRef="Artifact" targetRef="Verify""#, r#"sourceRef="Artifact" targetRef="Gw_Verify""#),
    ]);
    let counterexample = prove(&model::parse(text.as_bytes()).unwrap()).unwrap_err();
    assert!(
        counterexample
            .assignment
            .iter()
            .any(|assigned| assigned.from == "start" && assigned.variable == "artifact_verified"),
        "{counterexample}"
    );
}

#[test]
fn a_model_past_the_bound_is_refused_in_time() {
    let branches = 16;
    let mut elements = String::from(r#"<bpmn:parallelGateway id="Fork"/><bpmn:parallelGateway id="Join"/>"#);
    let mut names: Vec<(String, String, String)> = vec![("out".into(), "Join".into(), "Contract".into())];
    for at in 0..branches {
        elements.push_str(&format!(r#"<bpmn:task id="T{at}"/>"#));
        names.push((format!("i{at}"), "Fork".into(), format!("T{at}")));
        names.push((format!("o{at}"), format!("T{at}"), "Join".into()));
    }
    let flows: Vec<(&str, &str, &str)> =
        names.iter().map(|(id, from, to)| (id.as_str(), from.as_str(), to.as_str())).collect();
    let edits = also(vec![retarget("Flow_Manifest_Contract", "Gw_Manifest", "Contract", "Fork")], &elements, &flows);
    assert_eq!(prove_edited(&edits).unwrap_err().rule, Rule::Bounded);
}

#[test]
fn too_many_variables_or_literals_in_one_place_are_refused_at_once() {
    let many: String = (0..6).map(|at| format!(r#"<zeebe:input source="=v{at}" target="v{at}" />"#)).collect();
    let null = r#"<zeebe:input source="=null" target="budget_exceeded" />"#;
    assert_eq!(proved(&[(null, &format!("{null}{many}"))]).unwrap_err().rule, Rule::Bounded);
    let literals: Vec<String> = (0..200).map(|at| format!("constraints_ok = {at}")).collect();
    let condition = format!(">=constraints_ok = true or {}<", literals.join(" or "));
    assert_eq!(proved(&[(">=constraints_ok = true<", &condition)]).unwrap_err().rule, Rule::Bounded);
}

#[test]
fn the_first_gate_that_did_not_pass_names_the_terminal() {
    use super::rules::{Gate, Set, terminal};
    let of = |gates: &[Gate]| {
        let mut passed = Set::default();
        gates.iter().for_each(|gate| passed.add(*gate));
        terminal(passed)
    };
    let [constraints, manifest, budget, verified] = Gate::ALL;
    assert_eq!(of(&[]), Terminal::Halt);
    assert_eq!(of(&[manifest, budget, verified]), Terminal::Halt);
    assert_eq!(of(&[constraints]), Terminal::RejectManifest);
    assert_eq!(of(&[constraints, budget, verified]), Terminal::RejectManifest);
    assert_eq!(of(&[constraints, manifest]), Terminal::Failed);
    assert_eq!(of(&[constraints, manifest, verified]), Terminal::Failed);
    assert_eq!(of(&[constraints, manifest, budget]), Terminal::RejectVerify);
    assert_eq!(of(&[constraints, manifest, budget, verified]), Terminal::Complete);
}

#[test]
fn the_domain_has_every_class_and_a_value_in_each_region() {
    let literals = ["3", "4", "\"m\"", "true"].map(|text| crate::feel::parse(text).unwrap().plain_literals().unwrap());
    let values = super::domain::values(&literals.concat());
    let has = |what: fn(&serde_json::Value) -> bool| values.iter().any(what);
    assert!(has(|value| value == true) && has(|value| value == false) && has(serde_json::Value::is_null));
    assert!(has(serde_json::Value::is_array) && has(serde_json::Value::is_object));
    let numbers: Vec<f64> = values.iter().filter_map(serde_json::Value::as_f64).collect();
    assert!(numbers.iter().any(|number| *number < 3.0) && numbers.contains(&3.0) && numbers.contains(&4.0));
    assert!(numbers.iter().any(|number| 3.0 < *number && *number < 4.0) && numbers.iter().any(|number| *number > 4.0));
    let strings: Vec<&str> = values.iter().filter_map(serde_json::Value::as_str).collect();
    assert!(strings.contains(&"") && strings.contains(&"m") && strings.iter().any(|string| *string > "m"));
}

#[test]
fn a_counterexample_reads_as_a_story() {
    let found =
        proved(&[("=get or else(artifact_verified = true, false)", "=get or else(artifact_verified != false, false)")]);
    insta::assert_snapshot!(found.unwrap_err().to_string());
}
