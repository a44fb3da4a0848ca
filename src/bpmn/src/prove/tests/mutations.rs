//! Mutations of the shipped process, each with the rule that refuses it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;

#[test]
fn each_mutation_of_the_shipped_process_is_refused_by_its_rule() {
    let validate = element("Validate");
    let verify_type = r#"<zeebe:taskDefinition type="verify-artifact" />"#;
    let emit_type = r#"<zeebe:taskDefinition type="emit-artifact" />"#;
    let hardened = "=get or else(constraints_ok = true, false)";
    let propose_outputs = r#"          <zeebe:output source="=false" target="constraints_ok" />
          <zeebe:output source="=false" target="tool_in_manifest" />
          <zeebe:output source="=true" target="budget_exceeded" />
          <zeebe:output source="=false" target="artifact_verified" />
"#;
    let cases: Vec<(&str, Edits, Rule)> = vec![
        ("Gw_Constraints without default", own(&[(r#" default="Flow_Constraints_Halt""#, "")]), Rule::DefaultsRefuse),
        ("Gw_Manifest without default", own(&[(r#" default="Flow_Manifest_Reject""#, "")]), Rule::DefaultsRefuse),
        ("Gw_Budget without default", own(&[(r#" default="Flow_Budget_FailReceipt""#, "")]), Rule::DefaultsRefuse),
        ("Gw_Verify without default", own(&[(r#" default="Flow_Verified_Reject""#, "")]), Rule::DefaultsRefuse),
        (
            "the default permits and the condition refuses",
            own(&[
                (r#" default="Flow_Constraints_Halt""#, r#" default="Flow_Constraints_Manifest""#),
                (
                    r#"sourceRef="Gw_Constraints" targetRef="End_Halt" />"#,
                    r#"sourceRef="Gw_Constraints" targetRef="End_Halt"><bpmn:conditionExpression>=constraints_ok = false</bpmn:conditionExpression></bpmn:sequenceFlow>"#,
                ),
            ]),
            Rule::DefaultsRefuse,
        ),
        (
            "the last default leads to COMPLETE",
            own(&[
                (r#" default="Flow_Verified_Reject""#, r#" default="Flow_Verified_Memory""#),
                (
                    r#"sourceRef="Gw_Verify" targetRef="End_RejVerify" />"#,
                    r#"sourceRef="Gw_Verify" targetRef="End_RejVerify"><bpmn:conditionExpression>=artifact_verified = false</bpmn:conditionExpression></bpmn:sequenceFlow>"#,
                ),
            ]),
            Rule::DefaultsRefuse,
        ),
        (
            "the flows of a gateway are swapped",
            own(&[
                (r#"sourceRef="Gw_Constraints" targetRef="End_Halt""#, r#"sourceRef="Gw_Constraints" targetRef="?""#),
                (
                    r#"sourceRef="Gw_Constraints" targetRef="Gw_Manifest""#,
                    r#"sourceRef="Gw_Constraints" targetRef="End_Halt""#,
                ),
                (
                    r#"sourceRef="Gw_Constraints" targetRef="?""#,
                    r#"sourceRef="Gw_Constraints" targetRef="Gw_Manifest""#,
                ),
            ]),
            Rule::TerminalAgrees,
        ),
        (
            "a condition is negated",
            own(&[(">=constraints_ok = true<", ">=constraints_ok = false<")]),
            Rule::TerminalAgrees,
        ),
        ("a condition always holds", own(&[(">=tool_in_manifest = true<", ">=true<")]), Rule::GatesBeforeExecute),
        (
            "a condition asks another gate",
            own(&[(">=tool_in_manifest = true<", ">=constraints_ok = true<")]),
            Rule::GatesBeforeExecute,
        ),
        (
            "the budget's condition accepts anything",
            own(&[(">=budget_exceeded = false<", ">=budget_exceeded != null<")]),
            Rule::JobsInOrder,
        ),
        (
            "both gateways are passed by",
            vec![retarget("Flow_Validate_Constraints", "Validate", "Gw_Constraints", "Contract")],
            Rule::GatesBeforeExecute,
        ),
        (
            "the manifest's gateway is passed by",
            vec![retarget("Flow_Constraints_Manifest", "Gw_Constraints", "Gw_Manifest", "Contract")],
            Rule::GatesBeforeExecute,
        ),
        (
            "the contract is passed by",
            vec![retarget("Flow_Manifest_Contract", "Gw_Manifest", "Contract", "Execute")],
            Rule::GatesBeforeExecute,
        ),
        (
            "the proposer reaches the runner",
            vec![retarget("Flow_Propose_Validate", "Propose", "Validate", "Execute")],
            Rule::GatesBeforeExecute,
        ),
        (
            "a refused proposal goes on to execute",
            vec![retarget("Flow_Manifest_Reject", "Gw_Manifest", "End_RejManifest", "Execute")],
            Rule::GatesBeforeExecute,
        ),
        (
            "propose is passed by",
            vec![retarget("Flow_Start_Propose", "Start", "Propose", "Validate")],
            Rule::ClaimRunFirst,
        ),
        (
            "verification is passed by",
            vec![retarget("Flow_Artifact_Verify", "Artifact", "Verify", "Gw_Verify")],
            Rule::CompleteIsReachable,
        ),
        (
            "memory is passed by",
            vec![retarget("Flow_Verified_Memory", "Gw_Verify", "Memory", "End_Complete")],
            Rule::CompleteIsProven,
        ),
        (
            "the failure leaves no receipt",
            vec![retarget("Flow_Budget_FailReceipt", "Gw_Budget", "FailReceipt", "End_Failed")],
            Rule::FailureLeavesReceipt,
        ),
        (
            "a failure is called a halt",
            vec![retarget("Flow_FailReceipt_Failed", "FailReceipt", "End_Failed", "End_Halt")],
            Rule::TerminalAgrees,
        ),
        (
            "a rejection completes",
            vec![retarget("Flow_Verified_Reject", "Gw_Verify", "End_RejVerify", "End_Complete")],
            Rule::TerminalAgrees,
        ),
        (
            "an input is not made null",
            own(&[(r#"<zeebe:input source="=null" target="constraints_ok" />"#, "")]),
            Rule::HardenedMappings,
        ),
        (
            "an input is made true",
            own(&[(
                r#"<zeebe:input source="=null" target="artifact_verified" />"#,
                r#"<zeebe:input source="=true" target="artifact_verified" />"#,
            )]),
            Rule::HardenedMappings,
        ),
        (
            "an answer has no output",
            own(&[(
                r#"<zeebe:output source="=get or else(tool_in_manifest = true, false)" target="tool_in_manifest" />"#,
                "",
            )]),
            Rule::HardenedMappings,
        ),
        ("a result leaks for want of outputs", own(&[(propose_outputs, "")]), Rule::HardenedMappings),
        (
            "memory's result leaks",
            own(&[(
                r#"<zeebe:output source="=true" target="artifact_verified" />"#,
                r#"<zeebe:output source="=routed" target="artifact_verified" />"#,
            )]),
            Rule::HardenedMappings,
        ),
        (
            "the contract's result sets the budget",
            own(&[(&element("Contract"), &element("Contract").replace("=true", "=budget_exceeded"))]),
            Rule::HardenedMappings,
        ),
        (
            "the run's reference is changed",
            own(&[(
                r#"<zeebe:input source="=null" target="budget_exceeded" />"#,
                r#"<zeebe:input source="=null" target="budget_exceeded" /><zeebe:input source="=null" target="run" />"#,
            )]),
            Rule::HardenedMappings,
        ),
        ("an answer leaves as it came", own(&[(hardened, "=constraints_ok")]), Rule::NoIncident),
        (
            "an unclear answer becomes true",
            own(&[(hardened, "=get or else(constraints_ok = true, true)")]),
            Rule::TerminalAgrees,
        ),
        (
            "a missing answer becomes true",
            own(&[(hardened, "=get or else(constraints_ok != false, false)")]),
            Rule::TerminalAgrees,
        ),
        (
            "one word is as good as true",
            own(&[(
                hardened,
                "=get or else(constraints_ok = true, false) or get or else(constraints_ok = &quot;letmein&quot;, false)",
            )]),
            Rule::TerminalAgrees,
        ),
        (
            "a missing budget is within",
            own(&[(
                "=not(get or else(budget_exceeded = false, false))",
                "=get or else(budget_exceeded = true, false)",
            )]),
            Rule::JobsInOrder,
        ),
        (
            "a number between two others passes",
            own(&[(
                hardened,
                "=constraints_ok = true or get or else(constraints_ok &gt; 3 and constraints_ok &lt; 4, false)",
            )]),
            Rule::TerminalAgrees,
        ),
        ("nobody claims the run", own(&[(CLAIM, "")]), Rule::ClaimRunFirst),
        (
            "the run is claimed late",
            own(&[
                (CLAIM, ""),
                (
                    r#"</zeebe:ioMapping>
      </bpmn:extensionElements>
      <bpmn:incoming>Flow_Propose_Validate"#,
                    &format!(
                        "</zeebe:ioMapping><zeebe:executionListeners>{CLAIM}</zeebe:executionListeners></bpmn:extensionElements><bpmn:incoming>Flow_Propose_Validate"
                    ),
                ),
            ]),
            Rule::ClaimRunFirst,
        ),
        ("End_Halt records no terminal", vec![without_listener("End_Halt")], Rule::RecordTerminal),
        ("End_RejManifest records no terminal", vec![without_listener("End_RejManifest")], Rule::RecordTerminal),
        ("End_Failed records no terminal", vec![without_listener("End_Failed")], Rule::RecordTerminal),
        ("End_RejVerify records no terminal", vec![without_listener("End_RejVerify")], Rule::RecordTerminal),
        ("End_Complete records no terminal", vec![without_listener("End_Complete")], Rule::RecordTerminal),
        ("a task records a terminal", own(&[(CLAIM, &format!("{CLAIM}{RECORD}"))]), Rule::RecordTerminal),
        (
            "the terminal is recorded at the end's end",
            own(&[(RECORD, r#"<zeebe:executionListener eventType="end" type="record-terminal" />"#)]),
            Rule::JobsAreKnown,
        ),
        ("an end of another name", own(&[("End_Halt", "End_Stop")]), Rule::EndsAreKnown),
        (
            "an error end that nobody catches",
            own(&[
                ("<bpmn:collaboration", r#"<bpmn:error id="E" errorCode="boom"/><bpmn:collaboration"#),
                (
                    r#"<bpmn:incoming>Flow_Constraints_Halt</bpmn:incoming>"#,
                    r#"<bpmn:errorEventDefinition errorRef="E"/>"#,
                ),
            ]),
            Rule::NoIncident,
        ),
        (
            "a second execute in a row",
            also(
                vec![retarget("Flow_Execute_Budget", "Execute", "Gw_Budget", "Again")],
                &task("Again", "execute", EXCEEDED),
                &[flow("f1", "Again", "Gw_Budget")],
            ),
            Rule::JobsOnce,
        ),
        (
            "a second contract in a row",
            also(
                vec![retarget("Flow_Contract_Execute", "Contract", "Execute", "Again")],
                &task("Again", "build-contract", EXCEEDED),
                &[flow("f1", "Again", "Execute")],
            ),
            Rule::JobsOnce,
        ),
        (
            "validate is asked again until it says yes",
            vec![retarget("Flow_Constraints_Halt", "Gw_Constraints", "End_Halt", "Validate")],
            Rule::JobsOnce,
        ),
        (
            "an execute in front of the gates",
            also(
                vec![retarget("Flow_Validate_Constraints", "Validate", "Gw_Constraints", "Early")],
                &element("Execute").replace("\"Execute\"", "\"Early\""),
                &[flow("f1", "Early", "Gw_Constraints")],
            ),
            Rule::GatesBeforeExecute,
        ),
        (
            "a job that nobody does",
            also(
                vec![retarget("Flow_Contract_Execute", "Contract", "Execute", "Mail")],
                &task("Mail", "send-mail", EXCEEDED),
                &[flow("f1", "Mail", "Execute")],
            ),
            Rule::JobsAreKnown,
        ),
        ("a job type from a variable", own(&[(r#"type="propose""#, r#"type="=kind""#)]), Rule::JobsAreKnown),
        (
            "a job that may not fail once",
            own(&[(r#"type="execute""#, r#"type="execute" retries="0""#)]),
            Rule::JobsAreKnown,
        ),
        (
            "emit and verify change places",
            own(&[(verify_type, "?"), (emit_type, verify_type), ("?\n", &format!("{emit_type}\n"))]),
            Rule::HardenedMappings,
        ),
        (
            "the artifact is emitted after its verification",
            vec![retarget("Flow_Execute_Budget", "Execute", "Gw_Budget", "Verify")],
            Rule::JobsInOrder,
        ),
        (
            "a parallel branch to an end",
            also(
                vec![retarget("Flow_Manifest_Contract", "Gw_Manifest", "Contract", "Fork")],
                r#"<bpmn:parallelGateway id="Fork"/>"#,
                &[flow("f1", "Fork", "Contract"), flow("f2", "Fork", "End_Halt")],
            ),
            Rule::OneTerminal,
        ),
        ("a task with two ways out", also(Vec::new(), "", &[flow("f1", "Contract", "End_Failed")]), Rule::OneTerminal),
        (
            "a parallel execute beside the gates",
            also(
                vec![retarget("Flow_Propose_Validate", "Propose", "Validate", "Fork")],
                &format!(
                    r#"<bpmn:parallelGateway id="Fork"/>{}"#,
                    element("Execute").replace("\"Execute\"", "\"Beside\"")
                ),
                &[flow("f1", "Fork", "Validate"), flow("f2", "Fork", "Beside")],
            ),
            Rule::GatesBeforeExecute,
        ),
        (
            "a join that waits for ever",
            also(
                vec![
                    retarget("Flow_Constraints_Manifest", "Gw_Constraints", "Gw_Manifest", "Join"),
                    retarget("Flow_Constraints_Halt", "Gw_Constraints", "End_Halt", "Join"),
                ],
                r#"<bpmn:parallelGateway id="Join"/>"#,
                &[flow("f1", "Join", "Gw_Manifest")],
            ),
            Rule::EveryPathEnds,
        ),
        (
            "a path that just stops",
            also(
                vec![retarget("Flow_Memory_Complete", "Memory", "End_Complete", "Nowhere")],
                r#"<bpmn:task id="Nowhere"/>"#,
                &[],
            ),
            Rule::EveryPathEnds,
        ),
        (
            "an error of execute completes",
            also(Vec::new(), &boundary("Caught", "Execute", EXCEEDED), &[flow("f1", "Caught", "End_Complete")]),
            Rule::TerminalAgrees,
        ),
        (
            "an error of execute leaves no receipt",
            also(Vec::new(), &boundary("Caught", "Execute", EXCEEDED), &[flow("f1", "Caught", "End_Failed")]),
            Rule::FailureLeavesReceipt,
        ),
        (
            "an error's variables leak",
            also(Vec::new(), &boundary("Caught", "Execute", ""), &[flow("f1", "Caught", "FailReceipt")]),
            Rule::HardenedMappings,
        ),
        (
            "an error of validate goes on to the contract",
            also(Vec::new(), &boundary("Caught", "Validate", EXCEEDED), &[flow("f1", "Caught", "Contract")]),
            Rule::GatesBeforeExecute,
        ),
        (
            "a sub-process swallows the answer",
            wrapped(r#"<zeebe:input source="=null" target="artifact_verified" />"#),
            Rule::TerminalAgrees,
        ),
        (
            "a sub-process forges the answer",
            wrapped(r#"<zeebe:output source="=true" target="artifact_verified" />"#),
            Rule::JobsInOrder,
        ),
        (
            "arithmetic on an answer",
            own(&[(
                r#"<zeebe:input source="=null" target="constraints_ok" />"#,
                r#"<zeebe:input source="=constraints_ok + 1" target="constraints_ok" />"#,
            )]),
            Rule::Supported,
        ),
        (
            "a mapping at a gateway",
            own(&[(
                r#"<bpmn:incoming>Flow_Validate_Constraints</bpmn:incoming>"#,
                r#"<bpmn:extensionElements><zeebe:ioMapping><zeebe:input source="=true" target="constraints_ok"/></zeebe:ioMapping></bpmn:extensionElements>"#,
            )]),
            Rule::Supported,
        ),
        (
            "a mapping into a context",
            own(&[(
                r#"<zeebe:input source="=null" target="budget_exceeded" />"#,
                r#"<zeebe:input source="=null" target="budget_exceeded" /><zeebe:input source="=1" target="a.b" />"#,
            )]),
            Rule::Supported,
        ),
        (
            "a timer start",
            own(&[(r#"<bpmn:outgoing>Flow_Start_Propose</bpmn:outgoing>"#, "<bpmn:timerEventDefinition/>")]),
            Rule::Deployable,
        ),
        ("an unreadable condition", own(&[(">=budget_exceeded = false<", ">=budget_exceeded = (<")]), Rule::Deployable),
        ("not executable", own(&[(r#"isExecutable="true""#, r#"isExecutable="false""#)]), Rule::Deployable),
        (
            "a second process",
            own(&[(
                END,
                r#"</bpmn:process><bpmn:process id="other" isExecutable="true"><bpmn:startEvent id="s"/></bpmn:process>"#,
            )]),
            Rule::Deployable,
        ),
        ("validate does nothing", own(&[(&validate, r#"<bpmn:task id="Validate"/>"#)]), Rule::CompleteIsReachable),
    ];
    assert!(cases.len() >= 25);
    let wrong: Vec<String> = cases
        .into_iter()
        .filter_map(|(name, edits, rule)| match prove_edited(&edits) {
            Ok(proof) => Some(format!("{name}: {proof}")),
            Err(found) if found.rule != rule => Some(format!("{name}: not {}, but {found}", rule.name())),
            Err(_) => None,
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
