//! What m87 says of a manifest: which of its tools no proposal can use, and why.

use super::{NEVER_OBSERVED, Status};
use crate::conditions::Condition;
use crate::schema;
use m87_core::reason::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::LazyLock;

/// Which tools can be used. A tool that cannot does not stop the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolManifestStatus {
    /// The `metadata.generation` that this was found for; -1 if nobody has looked yet.
    #[serde(default = "super::never_observed")]
    pub observed_generation: i64,
    /// `compute_hash` of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub sha256: Option<String>,
    /// How many tools there are of each sort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolCounts>,
    /// The tools that no proposal can use, and why; the first ones, if there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub refused: Vec<RefusedTool>,
    /// What is so of the manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How many tools there are of each sort.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCounts {
    /// Those that a proposal can use.
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// Those that none can.
    #[schemars(range(min = 0))]
    pub refused: i32,
}

/// A tool that no proposal can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedTool {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The reason with which every run that means it would end.
    pub reason: Reason,
    /// What is wrong with it, and what to do.
    #[schemars(length(max = 512))]
    pub message: String,
}

impl Default for ToolManifestStatus {
    fn default() -> Self {
        Self {
            observed_generation: NEVER_OBSERVED,
            sha256: None,
            tools: None,
            refused: Vec::new(),
            conditions: Vec::new(),
        }
    }
}

impl Status for ToolManifestStatus {
    fn schema() -> &'static Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(schema::of_type::<ToolManifestStatus>);
        &SCHEMA
    }

    fn observed_generation(&self) -> i64 {
        self.observed_generation
    }

    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}
