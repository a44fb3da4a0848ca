//! Any dossier and any evidence: laws, and no panic.

use super::*;
use proptest::prelude::*;

#[test]
fn the_twin_law_holds() {
    let asking = |username: &str, attestation, auto: bool, listed: bool, operation, reversibility| {
        let mut dossier = with_tool(|tool| {
            tool.effects[0].operation = operation;
            tool.reversibility = reversibility;
        });
        dossier.actor = Actor { username: username.to_owned(), uid: String::new(), credential_id: None, attestation };
        let approvals = &mut dossier.policy.as_mut().unwrap().spec.approvals;
        if !auto {
            approvals.auto_approve = None;
        } else if listed {
            approvals.auto_approve.as_mut().unwrap().non_humans = vec![username.to_owned()];
        }
        decide(&dossier, &validated_only(&dossier)).reason != Some(Reason::ApprovalRequired)
    };
    use Attestation::{Admission, OperatingSystem, Unattested};
    use Operation::{Create, Delete, Read, Update};
    use Reversibility::{Irreversible, Reversible};
    let robot = "system:serviceaccount:default:agent";
    for human in [OperatingSystem, Admission] {
        assert!(asking("alice", human, false, false, Read, Irreversible), "a person may read");
        for operation in [Create, Update, Delete] {
            assert!(!asking("alice", human, false, false, operation, Reversible));
            assert!(asking("alice", human, true, false, operation, Reversible));
            assert!(!asking("alice", human, true, false, operation, Irreversible));
        }
    }
    for operation in [Read, Create] {
        assert!(
            !asking(robot, Admission, false, false, operation, Reversible),
            "a non-human needs a yes even for reads"
        );
        assert!(!asking(robot, Admission, true, false, operation, Reversible));
        assert!(asking(robot, Admission, true, true, operation, Reversible));
        assert!(!asking("system:node:n1", OperatingSystem, true, false, operation, Reversible));
        for username in ["alice", robot] {
            assert!(!asking(username, Unattested, true, true, operation, Reversible), "nobody vouches for {username}");
        }
    }
    stops(
        &with_policy(|policy| policy.approvals.auto_approve.as_mut().unwrap().risk_at_most = Risk::Low)
            .tap(|dossier| dossier.proposal.risk = Some("medium".to_owned())),
        Reason::ApprovalRequired,
    );
    // Declaring no effect is not believed to be a read.
    let mut undeclared = with_tool(|tool| tool.effects.clear());
    undeclared.policy.as_mut().unwrap().spec.approvals.auto_approve = None;
    stops(&undeclared, Reason::ApprovalRequired);
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
impl Tap for Dossier {}

/// A leaf or a member of a valid document replaced by any JSON, or removed.
fn mutated(valid: Value) -> impl Strategy<Value = Value> {
    let mut places = vec![];
    collect(&valid, String::new(), &mut places);
    let any_json = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!(["**", "["])),
        Just(json!({"limit": -1})),
        Just(json!({"unlimited": true})),
        Just(json!("2026-11-30T00:00:00Z")),
        Just(json!("critical")),
        Just(json!([[[[1e308]]]])),
    ];
    prop::collection::vec((prop::sample::select(places), prop::option::of(any_json)), 1..5).prop_map(move |changes| {
        let mut value = valid.clone();
        for (place, change) in changes {
            match change {
                Some(new) => {
                    if let Some(old) = value.pointer_mut(&place) {
                        *old = new;
                    }
                }
                None => {
                    if let Some((parent, key)) = place.rsplit_once('/')
                        && let Some(Value::Object(members)) = value.pointer_mut(parent)
                    {
                        members.remove(key);
                    }
                }
            }
        }
        value
    })
}

fn collect(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| collect(member, format!("{at}/{key}"), places))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| collect(item, format!("{at}/{index}"), places))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    places.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decide_never_panics_and_always_says_one_thing(
        dossier in mutated(serde_json::to_value(dossier()).unwrap()),
        evidence in mutated(serde_json::to_value(evidence()).unwrap()),
    ) {
        let dossier = serde_json::from_value(dossier).unwrap_or_else(|_| crate::fixtures::dossier());
        let evidence = serde_json::from_value(evidence).unwrap_or_else(|_| crate::fixtures::evidence());
        let verdict = decide(&dossier, &evidence);
        let first = verdict.trace.iter().find(|clause| !clause.passed);
        prop_assert_eq!(verdict.reason, first.map(|clause| clause.reason));
        prop_assert_eq!(verdict.reason.is_none(), verdict.terminal == Terminal::Complete);
        prop_assert!(verdict.terminal == Terminal::Complete || verdict.failure_class.is_some());
        if matches!(verdict.terminal, Terminal::Halt | Terminal::RejectManifest) {
            prop_assert_eq!(verdict.effect, Effect::None);
        }
        if verdict.terminal == Terminal::Complete {
            prop_assert_eq!(verdict.effect, Effect::Dispatched);
        }
        // The explanation ends with the verdict and has each clause once.
        let explained = explain(&verdict);
        let last = explained.lines().last().unwrap();
        let ending = format!("{} {}", verdict.terminal.name(), verdict.reason.map_or("", Reason::name));
        prop_assert_eq!(last, ending.trim_end());
        prop_assert_eq!(explained.lines().filter(|line| line.starts_with("  NO   ")).count(), verdict.trace.iter().filter(|clause| !clause.passed).count());
        // Whoever reads the canonical text of the inputs judges the same.
        if let (Ok(dossier), Ok(evidence)) = (to_canonical(&dossier), to_canonical(&evidence)) {
            let again = decide(&serde_json::from_str(&dossier).unwrap(), &serde_json::from_str(&evidence).unwrap());
            prop_assert_eq!(again, verdict);
        }
    }
}
