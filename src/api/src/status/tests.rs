#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::conditions::{Finding, READY, set_condition};
use m87_core::time::Timestamp;

#[test]
fn a_status_that_nobody_wrote_says_so() {
    for value in [
        to_value(&GovernancePolicyStatus::default()),
        to_value(&ToolManifestStatus::default()),
        to_value(&GovernedRunStatus::default()),
    ] {
        assert_eq!(value, serde_json::json!({"observedGeneration": -1}));
    }
}

#[test]
fn a_text_is_cut_to_its_bytes_as_json() {
    let mut conditions = Vec::new();
    let message = "\u{1b}[31m\"\\\n😀".repeat(1000);
    set_condition(&mut conditions, 1, Timestamp::from_millis(0), Finding::new(READY, true, "Sealed", message));
    let status = GovernedRunStatus { conditions, ..Default::default() };
    let value = to_value(&status);
    let message = value["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("\u{fffd}[31m\"\\\n😀\u{fffd}") && message.ends_with('…'), "{message}");
    let size = serde_json::to_string(message).unwrap().len();
    assert!((1010..=1026).contains(&size), "{size}");
}

mod worst {
    use super::*;
    use crate::conditions::{Condition, TYPES, Truth};
    use m87_core::budget::{Dimension, Source, Usage, Used};
    use m87_core::decide::{Effect, GateResults};
    use m87_core::decision::{Decision, Outcome};
    use m87_core::evidence::Ended;
    use m87_core::reason::{Reason, Terminal};
    use m87_core::receipt::Artifact;
    use proptest::prelude::*;

    /// Texts that are long, or long as JSON.
    fn text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("a"),
            Just("\u{0}"),
            Just("\""),
            Just("\\"),
            Just("\n"),
            Just("\u{85}"),
            Just("ä"),
            Just("😀")
        ];
        (proptest::collection::vec(part, 1..8), prop_oneof![Just(1_usize), Just(100), Just(8000)])
            .prop_map(|(parts, times)| parts.concat().repeat(times))
    }

    fn conditions() -> impl Strategy<Value = Vec<Condition>> {
        (text(), text(), 0..40_usize).prop_map(|(reason, message, many)| {
            let condition = |at: usize| Condition {
                kind: TYPES.get(at).map_or_else(|| format!("Other{at}"), |kind| (*kind).to_owned()),
                status: Truth::Unknown,
                observed_generation: i64::MAX,
                last_transition_time: Timestamp::from_millis(i64::MAX),
                reason: reason.clone(),
                message: message.clone(),
            };
            (0..many).map(condition).collect()
        })
    }

    fn longest<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> T {
        all.iter().copied().max_by_key(|one| name(*one).len()).unwrap()
    }

    fn run() -> impl Strategy<Value = GovernedRunStatus> {
        (text(), text(), conditions()).prop_map(|(text, other, conditions)| GovernedRunStatus {
            observed_generation: i64::MAX,
            phase: Some(Phase::Contracted),
            terminal: Some(longest(&Terminal::ALL, Terminal::name)),
            reason: Some(longest(Reason::ALL, Reason::name)),
            message: Some(text.clone()),
            failure_class: Some(m87_core::reason::FailureClass::Environmental),
            effect: Some(Effect::Dispatched),
            plan_hash: Some(text.clone()),
            decision: Some(Decision {
                outcome: Outcome::ApprovalRequired,
                reason_codes: Reason::ALL.to_vec(),
                id: other.clone(),
            }),
            engine: Some(EngineInstance {
                id: text.clone(),
                instance_key: i64::MIN.to_string(),
                definition_key: i64::MIN.to_string(),
                version: i32::MIN,
            }),
            gates: Some(GateResults {
                constraints_ok: Some(false),
                tool_in_manifest: Some(false),
                budget_exceeded: None,
                artifact_verified: Some(false),
            }),
            usage: Dimension::ALL
                .map(|dimension| (dimension, Used { value: i64::MIN, source: Source::Measured }))
                .into_iter()
                .collect::<Usage>(),
            artifact: Some(Artifact { declared: Some(text.clone()), recomputed: None, size: i64::MIN }),
            verification: Some(Ended::NotStarted(other.clone())),
            receipt: Some(SealedReceipt { hash: text.clone(), log_index: i64::MAX }),
            already_done: Some(AlreadyDone { name: other, uid: text }),
            conditions,
        })
    }

    fn manifest() -> impl Strategy<Value = ToolManifestStatus> {
        (text(), text(), conditions(), 0..300_usize).prop_map(|(name, message, conditions, many)| {
            let refused = |at: usize| RefusedTool {
                name: format!("{at}{name}"),
                reason: longest(Reason::ALL, Reason::name),
                message: message.clone(),
            };
            ToolManifestStatus {
                observed_generation: i64::MAX,
                sha256: Some(name.clone()),
                tools: Some(ToolCounts { ready: i32::MAX, refused: i32::MAX }),
                refused: (0..many).map(refused).collect(),
                conditions,
            }
        })
    }

    fn policy() -> impl Strategy<Value = GovernancePolicyStatus> {
        (text(), conditions()).prop_map(|(text, conditions)| GovernancePolicyStatus {
            observed_generation: i64::MAX,
            deployment: Some(Deployment {
                engine_id: Some(text.clone()),
                definition_key: i64::MIN.to_string(),
                version: i32::MIN,
                bpmn_sha256: text.clone(),
            }),
            proof: Some(Proof { bpmn_sha256: text.clone(), proved: false, counterexample: Some(text) }),
            conditions,
        })
    }

    /// Rule 18: fits, however long the texts are, and is what the schema takes.
    #[track_caller]
    fn is_small_and_valid<S: Status>(status: &S) {
        let mut value = to_value(status);
        let size = value.to_string().len();
        assert!(size < 32_768, "{size} bytes");
        // A reason of our own is never cut; these are of no shape at all.
        if let Some(conditions) = value.get_mut("conditions").and_then(Value::as_array_mut) {
            conditions.iter_mut().for_each(|condition| condition["reason"] = Value::from("Reason"));
        }
        let errors: Vec<String> = jsonschema::draft202012::new(S::schema())
            .unwrap()
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_worst_status_is_smaller_than_32_kib(run in run(), manifest in manifest(), policy in policy()) {
            is_small_and_valid(&run);
            is_small_and_valid(&manifest);
            is_small_and_valid(&policy);
        }
    }
}
