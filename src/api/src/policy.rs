//! What a `GovernancePolicy` says: the rules that core judges by, and what only its own object is about.

use m87_core::policy::PolicySpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rules of a namespace, and how its runs are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernancePolicySpec {
    /// What is judged, and so all that is pinned and hashed: to suspend a policy is no drift of its rules.
    #[serde(flatten)]
    pub rules: PolicySpec,
    /// While true, no run under this policy is started, contracted for or let loose; `m87 run` refuses to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How long the objects of sealed runs are kept; for ever, without it. Receipts are always kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

/// How long the objects of sealed runs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// Seconds from a run's receipt to the deletion of its object. Objects that Argo CD or Flux track are never deleted.
    #[schemars(range(min = 0, max = 315_360_000))]
    pub ttl_seconds_after_sealed: i64,
}

impl GovernancePolicySpec {
    /// Whether it is suspended; absent is no.
    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }
}

impl From<PolicySpec> for GovernancePolicySpec {
    fn from(rules: PolicySpec) -> Self {
        Self { rules, suspend: None, retention: None }
    }
}
