//! Conditions, by Kubernetes' `metav1.Condition` and kstatus: what `kubectl wait`, Helm, Argo CD and Flux read.
//!
//! `Ready` is always there once m87 has looked at an object. `Reconciling` and `Stalled` are there only while they are true.

use m87_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The object is as it was asked for: a policy is deployed, a manifest's tools can be used, a run has ended.
pub const READY: &str = "Ready";
/// m87 is at it, and what status says is not the end of it.
pub const RECONCILING: &str = "Reconciling";
/// m87 does not go on by itself: it was refused, or somebody has to do something.
pub const STALLED: &str = "Stalled";
/// The run's policy, manifest and baseline are pinned by hash.
pub const POLICY_PINNED: &str = "PolicyPinned";
/// The run's process instance has been started.
pub const STARTED: &str = "Started";
/// The run's receipt is signed and in the log.
pub const RECEIPT_SEALED: &str = "ReceiptSealed";
/// The run has ended, and is COMPLETE.
pub const SUCCEEDED: &str = "Succeeded";

/// Every type of condition, in the order in which they are written.
pub const TYPES: [&str; 7] = [READY, RECONCILING, STALLED, POLICY_PINNED, STARTED, RECEIPT_SEALED, SUCCEEDED];

/// What is so, since when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, for example `Ready`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// Whether it is so.
    pub status: Truth,
    /// The `metadata.generation` that this was found for.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
    /// When `status` last became another.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_transition_time: Timestamp,
    /// Why, in one word for programs.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, for people, and what to do.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// Whether something is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Truth {
    /// It is.
    True,
    /// It is not.
    False,
    /// Nobody knows.
    Unknown,
}

impl From<bool> for Truth {
    fn from(so: bool) -> Self {
        if so { Self::True } else { Self::False }
    }
}

/// A finding about an object: a condition that has no time yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about: one of [`TYPES`].
    pub kind: &'static str,
    /// Whether it is so.
    pub status: Truth,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Finding {
    /// Something that is so, is not, or is not known.
    pub fn new(
        kind: &'static str,
        status: impl Into<Truth>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, status: status.into(), reason: reason.into(), message: message.into() }
    }
}

/// Writes a finding among an object's conditions. The time is that of the last change of `status`, and so stays if the status is
/// the same: the same finding twice leaves the same conditions.
pub fn set_condition(conditions: &mut Vec<Condition>, generation: i64, now: Timestamp, finding: Finding) {
    let Finding { kind, status, reason, message } = finding;
    let since = conditions.iter().find(|known| known.kind == kind && known.status == status);
    let condition = Condition {
        kind: kind.to_owned(),
        status,
        observed_generation: generation,
        last_transition_time: since.map_or_else(|| whole_seconds(now), |known| known.last_transition_time),
        reason,
        message,
    };
    match conditions.iter_mut().find(|known| known.kind == kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    conditions.sort_by_key(|condition| order(&condition.kind));
}

/// Takes a condition away, if it is there.
pub fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// Makes an object's conditions exactly these findings, keeping the times of those that were so before.
pub fn set_conditions(
    conditions: &mut Vec<Condition>,
    generation: i64,
    now: Timestamp,
    findings: impl IntoIterator<Item = Finding>,
) {
    let mut kept = Vec::new();
    for finding in findings {
        kept.push(finding.kind);
        set_condition(conditions, generation, now, finding);
    }
    conditions.retain(|condition| kept.contains(&condition.kind.as_str()));
}

/// The condition of that type, if it is there.
pub fn condition<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Whether the condition of that type is there and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|condition| condition.status == Truth::True)
}

/// Conditions of other types, which somebody else may have written, come last.
fn order(kind: &str) -> usize {
    TYPES.iter().position(|known| *known == kind).unwrap_or(TYPES.len())
}

/// API machinery writes times of conditions to the second.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.millis().div_euclid(1000) * 1000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    const NOON: i64 = 1_769_860_800_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(NOON + millis)
    }

    #[test]
    fn the_time_of_a_condition_changes_only_with_its_status() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, 1, at(1500), Finding::new(READY, false, "Waiting", "for the policy"));
        assert_eq!(conditions[0].last_transition_time, at(1000));
        set_condition(&mut conditions, 2, at(9000), Finding::new(READY, false, "Waiting", "for the manifest"));
        let Condition { observed_generation, last_transition_time, message, .. } = &conditions[0];
        assert_eq!((*observed_generation, *last_transition_time, message.as_str()), (2, at(1000), "for the manifest"));
        set_condition(&mut conditions, 2, at(9000), Finding::new(READY, true, "Sealed", ""));
        assert_eq!(conditions[0].last_transition_time, at(9000));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn the_same_findings_later_change_nothing() {
        let findings =
            || [Finding::new(STALLED, true, "Refused", "HALT"), Finding::new(READY, true, "Sealed", "it has ended")];
        let mut conditions = Vec::new();
        set_conditions(&mut conditions, 1, at(0), findings());
        let before = conditions.clone();
        assert_eq!(before.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>(), [READY, STALLED]);
        set_conditions(&mut conditions, 1, at(600_000), findings());
        assert_eq!(conditions, before);
    }

    #[test]
    fn what_is_no_longer_found_goes_away() {
        let mut conditions = Vec::new();
        set_conditions(&mut conditions, 1, at(0), [Finding::new(RECONCILING, true, "Waiting", "")]);
        set_conditions(&mut conditions, 1, at(1), [Finding::new(READY, true, "Sealed", "")]);
        assert!(condition(&conditions, RECONCILING).is_none() && is_true(&conditions, READY));
        remove_condition(&mut conditions, READY);
        assert_eq!(conditions, []);
    }

    #[test]
    fn a_condition_is_written_as_kubernetes_writes_one() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, 3, at(7), Finding::new(SUCCEEDED, Truth::Unknown, "Running", "not over"));
        assert_eq!(
            serde_json::to_value(&conditions).unwrap(),
            serde_json::json!([{
                "type": "Succeeded",
                "status": "Unknown",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-31T12:00:00Z",
                "reason": "Running",
                "message": "not over",
            }])
        );
    }
}
