//! What m87 says of a policy: whether its process is proved and deployed.

use super::{NEVER_OBSERVED, Status};
use crate::conditions::Condition;
use crate::schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::LazyLock;

/// Whether runs under this policy can be started, and if not, why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GovernancePolicyStatus {
    /// The `metadata.generation` that this was found for; -1 if nobody has looked yet.
    #[serde(default = "super::never_observed")]
    pub observed_generation: i64,
    /// The process as the engine has it; absent until it is deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
    /// What the prover says of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// What is so of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A process as an engine has it. Keys are 64-bit numbers in decimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// The engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub engine_id: Option<String>,
    /// The engine's key of the definition, by which instances are started.
    #[schemars(length(max = 20))]
    pub definition_key: String,
    /// The engine's version of it.
    pub version: i32,
    /// SHA-256 of the deployed bytes.
    #[schemars(length(max = 64))]
    pub bpmn_sha256: String,
}

/// What the prover says of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// SHA-256 of the bytes that were proved, or refused.
    #[schemars(length(max = 64))]
    pub bpmn_sha256: String,
    /// Whether every path ends as the gates decide. A process that is not proved is not deployed.
    pub proved: bool,
    /// The first path that does not, for people; absent if it is proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub counterexample: Option<String>,
}

impl Default for GovernancePolicyStatus {
    fn default() -> Self {
        Self { observed_generation: NEVER_OBSERVED, deployment: None, proof: None, conditions: Vec::new() }
    }
}

impl Status for GovernancePolicyStatus {
    fn schema() -> &'static Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(schema::of_type::<GovernancePolicyStatus>);
        &SCHEMA
    }

    fn observed_generation(&self) -> i64 {
        self.observed_generation
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}
