//! What a tool does to the world, declared by the tool's author, never by the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One effect that a tool has when it runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EffectSignature {
    /// What sort of thing is touched, for example `file` or `ticket`.
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,
    /// What is done to it.
    pub operation: Operation,
    /// What the touched thing is in the tool's own words, for example `report`.
    #[schemars(length(min = 1, max = 64))]
    pub target_type: String,
}

/// What is done to the touched thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Looked at only.
    Read,
    /// Made.
    Create,
    /// Changed.
    Update,
    /// Removed.
    Delete,
}
