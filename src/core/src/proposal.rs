//! What an actor asks for. Every field is optional here: a bad proposal is judged by the gates, so that it leaves a receipt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An action that an actor proposes. Proposing is never executing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// The tool by name; or use `capability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub tool: Option<String>,
    /// What should be done, in words that a manifest's tools declare with `provides`; m87 resolves the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub capability: Option<String>,
    /// The kind of action; must be the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub action_type: Option<String>,
    /// What would be touched; must equal what m87 derives from the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub target: Option<String>,
    /// The risk that the actor declares: low, medium, high or critical. The higher of this and the tool's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub risk: Option<String>,
    /// Why this should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub reasoning_trace: Option<String>,
    /// The tool's input; at most 4 KiB as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}
