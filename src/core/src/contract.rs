//! What the authority hands to `exec` and to the validating process once everything holds.

use crate::json::Document;
use crate::tool::{CommandLimits, Run, Validation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `exec` gets for a redeemed contract: enough to run this tool on this input once, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOrder {
    /// `WorkOrder`.
    pub kind: String,
    /// Raised when the meaning changes.
    pub spec_version: String,
    /// The contract.
    pub contract_id: String,
    /// The plan it was issued for.
    pub plan_hash: String,
    /// How the tool is run; its limits are already the lower of the tool's and the budget's.
    pub run: Run,
    /// The input, `null` if the proposal had none.
    pub input: Value,
    /// True if recorded figures must not depend on real time (`--clock`).
    pub injected_clock: bool,
}

/// What the validating process gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidationOrder {
    /// `ValidationOrder`.
    pub kind: String,
    /// Raised when the meaning changes.
    pub spec_version: String,
    /// What to run.
    pub validation: Validation,
    /// The input of the run.
    pub input: Value,
    /// The artifact's declared hash; the copy must have it.
    pub sha256: String,
}

impl WorkOrder {
    /// The limits under which the tool runs.
    pub const fn limits(&self) -> &CommandLimits {
        match &self.run {
            Run::Command(command) => &command.limits,
        }
    }
}

impl Document for WorkOrder {
    const KIND: &'static str = "WorkOrder";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

impl Document for ValidationOrder {
    const KIND: &'static str = "ValidationOrder";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}
