#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use std::fs;

const RUN: &str = r#"
apiVersion: m87.dev/v1alpha1
kind: GovernedRun
metadata: {name: refund-7}
spec:
  policyRef: {name: payments}
  manifestRef: {name: office}
  proposal: {tool: totals, target: reports/q3}
"#;

/// The messages for one file of this text, without the folder's name.
fn messages(text: impl AsRef<[u8]>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.yaml");
    fs::write(&file, text).unwrap();
    let errors = read(std::slice::from_ref(&file)).err().unwrap_or_default();
    let prefix = format!("{}: ", file.display());
    errors.iter().map(|error| error.to_string().strip_prefix(&prefix).unwrap().to_owned()).collect()
}

#[test]
fn a_good_run_is_read_and_defaults_to_the_default_namespace() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), RUN).unwrap();
    let objects = read(&[folder.path().to_owned()]).unwrap();
    let (key, run) = objects.runs.first_key_value().unwrap();
    assert_eq!((key.namespace.as_str(), key.name.as_str()), ("default", "refund-7"));
    assert_eq!(run.spec.proposal.target.as_deref(), Some("reports/q3"));
}

#[test]
fn every_error_names_object_field_and_remedy() {
    for (from, to, message) in [
        ("target:", "targte:", r#"run "refund-7": spec.proposal.targte: is not a field; did you mean "target"?"#),
        ("  proposal:", "  mode: Live\n  proposal:", r#"run "refund-7": spec.mode: is not a field; known here are"#),
        (
            "metadata: {name",
            "metadata: {generateName: x, name",
            r#"run "refund-7": metadata.generateName: is not a field; write metadata.name"#,
        ),
        ("reports/q3", "5", r#"run "refund-7": spec.proposal.target: is the number 5; must be a string"#),
        ("{tool: totals, target: reports/q3}", "[]", r#"run "refund-7": spec.proposal: is a list; must be an object"#),
        ("manifestRef: {name: office}", "manifestRef: {}", r#"run "refund-7": spec.manifestRef.name: is missing"#),
        ("refund-7", "Refund_7", r#"run "Refund_7": metadata.name: "Refund_7" may hold only lower-case letters"#),
        (
            "kind: GovernedRun",
            "kind: GovernedRum",
            r#"document 1: kind: "GovernedRum" is not a kind of m87.dev/v1alpha1; did you mean "GovernedRun"?"#,
        ),
        (
            "  proposal:",
            "  actor: {username: alice}\n  proposal:",
            r#"run "refund-7": spec.actor: is not written by hand: a cluster stamps who applied the run, and m87 run takes"#,
        ),
        ("v1alpha1", "v2", r#"document 1: apiVersion: is "m87.dev/v2"; write m87.dev/v1alpha1"#),
        (
            "{name: refund-7}",
            "{name: refund-7, annotations: {m87.dev/expect-terminal: DONE}}",
            r#"run "refund-7": metadata.annotations["m87.dev/expect-terminal"]: "DONE" is not a terminal; write one of COMPLETE, HALT"#,
        ),
    ] {
        let text = RUN.replacen(from, to, 1);
        let found = messages(&text);
        assert!(found.len() == 1 && found[0].starts_with(message), "{text}\ngave {found:?}\nnot  {message}");
    }
}

#[test]
fn all_errors_are_collected() {
    let text = RUN.replace("target:", "targte:").replace("tool: totals", "tool: 1")
        + "---"
        + &RUN.replace("name: office", "nam: office");
    let found = messages(text);
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn an_input_may_hold_what_it_likes() {
    assert_eq!(
        messages(RUN.replace("{tool: totals,", "{tool: totals, input: {a: {b: [1, null]}},")),
        Vec::<String>::new()
    );
}

#[test]
fn what_an_api_server_writes_is_let_through() {
    let text = RUN.replace("{name: refund-7}", "{name: refund-7, uid: u, resourceVersion: '3', managedFields: []}")
        + "status: {phase: Sealed}\n";
    assert_eq!(messages(text), Vec::<String>::new());
}

#[test]
fn two_objects_with_one_name_are_refused_across_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), RUN).unwrap();
    fs::write(folder.path().join("b.yaml"), RUN).unwrap();
    let errors = read(&[folder.path().to_owned()]).unwrap_err();
    let message = errors[0].to_string();
    assert!(
        errors.len() == 1
            && message.contains("b.yaml: run \"refund-7\": metadata.name: is also in ")
            && message.contains("a.yaml"),
        "{message}"
    );
    // The same name in another namespace is another object, and a file named twice is read once.
    fs::write(folder.path().join("b.yaml"), RUN.replace("{name: refund-7}", "{name: refund-7, namespace: other}"))
        .unwrap();
    let objects = read(&[folder.path().to_owned(), folder.path().join("a.yaml")]).unwrap();
    assert_eq!(objects.runs.len(), 2);
}

#[test]
fn a_ten_megabyte_proposal_is_refused_by_its_field() {
    let text = RUN.replace("{tool: totals,", &format!("{{input: {{csv: {:?}}}, tool: totals,", "x".repeat(10 << 20)));
    let found = messages(text);
    assert!(
        found.len() == 1 && found[0].contains("run \"refund-7\": spec.proposal.input.csv: has 1048576"),
        "{:?}",
        found.iter().map(|m| &m[..m.len().min(200)]).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_no_text_file_is_refused_without_a_hang() {
    assert!(messages(b"kind: \xff\xfe\n").len() == 1);
    assert!(messages("- 1\n").len() == 1);
    assert!(messages("a: 1\na: 2\n").len() == 1);
    assert!(messages("a: .nan\n").len() == 1);
    assert!(messages("a: 9007199254740993\n").len() == 1);
    let missing = read(&["/nonexistent/x.yaml".into()]).unwrap_err();
    assert!(missing[0].to_string().contains("cannot be read"));
    let device = read(&["/dev/zero".into()]).unwrap_err();
    assert!(device[0].to_string().contains("not a regular file"));
    let empty = tempfile::tempdir().unwrap();
    assert!(read(&[empty.path().to_owned()]).unwrap_err()[0].to_string().contains("holds no *.yaml"));
}

#[test]
fn a_policy_that_misspells_a_restriction_is_refused() {
    let policy = "apiVersion: m87.dev/v1alpha1\nkind: GovernancePolicy\nmetadata: {name: p}\nspec:\n  constraints: {risksAllowed: [low], targetsForbiden: [], actorsAllowed: []}\n  autonomyBudget: {steps: {limit: 20, unlimited: true}, seconds: {limit: -1}, reported: [stepps]}\n  approvals: {autoApprove: {riskAtMost: lowish, nonHumans: []}}\n";
    let found = messages(policy).join("\n");
    for message in [
        "spec.constraints.targetsForbiden: is not a field; did you mean \"targetsForbidden\"?",
        "spec.constraints.targetsForbidden: is missing",
        "spec.autonomyBudget.steps: must hold exactly one of limit, unlimited",
        "spec.autonomyBudget.seconds.limit: is -1; at least 0",
        "spec.autonomyBudget.reported[0]: is \"stepps\"; must be one of steps,",
        "spec.approvals.autoApprove.riskAtMost: is \"lowish\"; must be one of low, medium, high, critical",
    ] {
        assert!(found.contains(message), "{found}\nlacks {message}");
    }
}

#[test]
fn the_examples_are_read() {
    let objects = read(&[concat!(env!("CARGO_MANIFEST_DIR"), "/../../policy").into()]).unwrap();
    assert_eq!((objects.policies.len(), objects.manifests.len()), (1, 1));
    assert!(objects.runs.values().all(|run| run.expected_terminal().is_some()));
}
