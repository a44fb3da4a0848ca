//! What m87 says of a run: where it is, how it ended, and where its receipt is. Bodies are in the authority's store; here are
//! their hashes.

use super::{NEVER_OBSERVED, Status};
use crate::conditions::Condition;
use crate::schema;
use m87_core::budget::Usage;
use m87_core::decide::{Effect, GateResults};
use m87_core::decision::Decision;
use m87_core::evidence::Ended;
use m87_core::reason::{FailureClass, Reason, Terminal};
use m87_core::receipt::Artifact;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::LazyLock;

/// A projection of the authority's row of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernedRunStatus {
    /// The `metadata.generation` that this was found for; -1 if nobody has looked yet.
    #[serde(default = "super::never_observed")]
    pub observed_generation: i64,
    /// Where the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How it ended; written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Terminal>,
    /// Why; absent if it is COMPLETE or not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What was found and what would have passed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// What sort of failure the reason is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<FailureClass>,
    /// Whether the tool may have touched anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// `compute_hash` of the plan; absent where it cannot be said what would happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub plan_hash: Option<String>,
    /// Governance's answer on the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The process instance that the run went through; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineInstance>,
    /// What each gate said; a gate that was not reached is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GateResults>,
    /// What was used, and who says so.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    #[schemars(extend("maxProperties" = 6))]
    pub usage: Usage,
    /// The artifact's hashes and size; absent if the tool left none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// How the validation of the artifact ended; only `exited: 0` passes. Absent if nobody reported on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Ended>,
    /// The signed receipt in the namespace's log; written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<SealedReceipt>,
    /// The run that had done the same before: nothing was executed for this one, and terminal and receipt are that run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already_done: Option<AlreadyDone>,
    /// What is so of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where a run is: the states of the authority's row, and `Pending` before there is a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It is not opened yet: what it refers to is waited for, or it is suspended.
    Pending,
    /// What it refers to is pinned.
    Open,
    /// It is bound to its process instance.
    Claimed,
    /// A contract was issued and not redeemed.
    Contracted,
    /// The contract was redeemed: there may be an effect.
    Dispatched,
    /// It is settled how it ends.
    Closing,
    /// The receipt is there.
    Sealed,
}

/// A process instance. Keys are 64-bit numbers in decimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineInstance {
    /// The engine.
    #[schemars(length(max = 253))]
    pub id: String,
    /// The instance.
    #[schemars(length(max = 20))]
    pub instance_key: String,
    /// The deployed definition.
    #[schemars(length(max = 20))]
    pub definition_key: String,
    /// The engine's version of it.
    pub version: i32,
}

/// Where the receipt is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SealedReceipt {
    /// `compute_hash` of the receipt.
    #[schemars(length(max = 64))]
    pub hash: String,
    /// Its place in the namespace's log, from 0.
    #[schemars(range(min = 0))]
    pub log_index: i64,
}

/// The run that had done the same before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlreadyDone {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its uid.
    #[schemars(length(max = 64))]
    pub uid: String,
}

impl Default for GovernedRunStatus {
    fn default() -> Self {
        Self {
            observed_generation: NEVER_OBSERVED,
            phase: None,
            terminal: None,
            reason: None,
            message: None,
            failure_class: None,
            effect: None,
            plan_hash: None,
            decision: None,
            engine: None,
            gates: None,
            usage: Usage::new(),
            artifact: None,
            verification: None,
            receipt: None,
            already_done: None,
            conditions: Vec::new(),
        }
    }
}

impl Status for GovernedRunStatus {
    fn schema() -> &'static Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(schema::of_type::<GovernedRunStatus>);
        &SCHEMA
    }

    fn observed_generation(&self) -> i64 {
        self.observed_generation
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}
