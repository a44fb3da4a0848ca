//! The governed loop itself on the machine: whatever workers send and callers seed, only clear answers open a gate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};

use crate::fixture::*;
use crate::machine::Command;
use crate::view::Ending;

const TYPES: [&str; 10] = [
    "claim-run",
    "propose",
    "validate",
    "build-contract",
    "execute",
    "emit-artifact",
    "verify-artifact",
    "route-memory",
    "failure-receipt",
    "record-terminal",
];

/// Each gate: its variable, who sets it, what opens it, and where a refusal ends.
const GATES: [(&str, &str, bool, &str); 4] = [
    ("constraints_ok", "validate", true, "End_Halt"),
    ("tool_in_manifest", "validate", true, "End_RejManifest"),
    ("budget_exceeded", "execute", false, "End_Failed"),
    ("artifact_verified", "verify-artifact", true, "End_RejVerify"),
];

/// Runs an instance to its end; the gates get these answers (`None`: nothing is sent). Answers the jobs done, and the end.
fn run(seed: &Value, answers: &[Option<Value>; 4]) -> (Vec<String>, String) {
    let mut lab = Lab::new();
    lab.run(Command::Deploy(vec![resource("loop.bpmn", m87_bpmn::EXECUTABLE)])).unwrap();
    lab.run(create("m87-governed-loop", seed.clone())).unwrap();
    let instance = lab.state.instances().next().unwrap();
    let mut done = Vec::new();
    while lab.endings(instance).is_empty() {
        assert_eq!(lab.state.incidents(), []);
        let job = TYPES.iter().find_map(|job_type| lab.activate(job_type, 1).pop()).expect("nothing to do");
        let mut result = json!({});
        for ((variable, job_type, ..), answer) in GATES.iter().zip(answers) {
            if let (true, Some(answer)) = (job.job_type == *job_type, answer) {
                result[variable] = answer.clone();
            }
        }
        done.push(job.job_type.clone());
        lab.complete(job.key, result);
    }
    assert_eq!(lab.endings(instance), [Ending::Completed]);
    assert_eq!(done.last().unwrap(), "record-terminal");
    (done, (*lab.path().last().unwrap()).to_owned())
}

#[test]
fn every_gate_opens_for_its_boolean_only_whatever_is_seeded() {
    let open = || GATES.map(|(_, _, opens, _)| Some(json!(opens)));
    let everything_open = json!({
        "run": "r.1", "constraints_ok": true, "tool_in_manifest": true, "budget_exceeded": false, "artifact_verified": true
    });
    for seed in [json!({"run": "r.1"}), everything_open, json!({"constraints_ok": "true", "budget_exceeded": null})] {
        let (done, end) = run(&seed, &open());
        assert_eq!(end, "End_Complete");
        assert_eq!(done[..3], ["claim-run", "propose", "validate"]);
        for (at, (variable, _, opens, refusal)) in GATES.iter().enumerate() {
            let wrong =
                [json!(!opens), json!(null), json!(opens.to_string()), json!(1), json!([opens]), json!({"ok": opens})];
            for answer in wrong.map(Some).into_iter().chain([None]) {
                let mut answers = open();
                answers[at] = answer.clone();
                let (done, end) = run(&seed, &answers);
                assert_eq!(end, *refusal, "{variable} = {answer:?}, seeded {seed}");
                assert_eq!(done.iter().any(|job| job == "execute"), at >= 2, "{variable} = {answer:?}: {done:?}");
            }
        }
    }
}
