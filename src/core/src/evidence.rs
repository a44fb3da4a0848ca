//! What happened to a run, as recorded once by the one lane that may. `decide` judges nothing else.

use crate::decide::Effect;
use crate::reason::Reason;
use crate::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything recorded of a run. What is `None` has not been recorded: absence refuses, it never permits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    /// By the Proposer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed: Option<Proposed>,
    /// By Governance, at Validate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validated: Option<Validated>,
    /// By the authority, at Contract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractRecord>,
    /// By the authority, when `exec` redeemed. From here on there may be an effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redeemed: Option<Redeemed>,
    /// By `exec`, or by the authority when `exec` was never heard of again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// By Governance, at Verify.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// By Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted: Option<Promoted>,
    /// By the authority, when the run was ended from outside the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

/// The Proposer's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposed {
    /// `compute_hash` of the proposal, as the Proposer computed it.
    pub proposal_hash: String,
    /// `compute_hash` of the reasoning trace alone (of `null` if absent).
    pub trace_hash: String,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Governance's record of the first two gates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validated {
    /// What Governance found at `Gw_Constraints`.
    pub constraints_ok: bool,
    /// What Governance found at `Gw_Manifest`.
    pub tool_in_manifest: bool,
    /// True if what is pinned was no longer what the references said.
    pub drifted: bool,
    /// When it was recorded: the instant of every clause of the first two gates.
    pub at: Timestamp,
}

/// What the authority answered at Contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContractRecord {
    /// Issued, for one attempt.
    Issued {
        /// The contract's id.
        id: String,
        /// When.
        at: Timestamp,
    },
    /// Refused, or voided before it was redeemed.
    Refused {
        /// Why.
        cause: Refusal,
        /// When.
        at: Timestamp,
    },
}

/// Why the authority gives no contract, or takes one back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The gates, judged again by the authority, do not pass.
    GatesRefuse,
    /// Policy, baseline or tool entry are no longer what was pinned.
    Drifted,
    /// Not enough room to seal what already runs.
    HeadroomExhausted,
    /// The store is older than its high-water mark.
    StoreRestored,
    /// The effect's identity is another run's.
    EffectSpent,
    /// The tool did not start in time.
    NeverStarted,
    /// The tool's process could not be made.
    ExecutorFailed,
    /// The run or its policy is suspended.
    Suspended,
    /// What was started is no longer what was made.
    Tampered,
}

/// The contract was redeemed: the point after which an effect is possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redeemed {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
}

/// What became of the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// What `exec` reported; `None` if nobody did by the time limit: the outcome is unknown.
    pub report: Option<ExecutionReport>,
    /// When it was recorded.
    pub at: Timestamp,
}

/// `exec`'s report of one tool process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionReport {
    /// How the tool ended.
    pub ended: Ended,
    /// What m87 measured.
    pub measured: Measured,
    /// What the tool reported, as it stands: any JSON, or a string if it was no JSON. `None` if it left no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Value>,
    /// The artifact, if there was a regular file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<DeclaredArtifact>,
    /// The end of what the tool printed, cleaned of control characters, for people; at most 2 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

impl ExecutionReport {
    /// Whether the tool may have touched anything: not if it could not even be started.
    pub const fn effect(&self) -> Effect {
        match self.ended {
            Ended::NotStarted(_) => Effect::None,
            Ended::Exited(_) | Ended::Signalled(_) | Ended::Limit(_) => Effect::Dispatched,
        }
    }
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that nobody here sent.
    Signalled(i32),
    /// Killed at a limit.
    Limit(LimitKind),
    /// It could not be started at all (no such program, not executable).
    NotStarted(#[schemars(length(max = 512))] String),
}

/// At which limit a tool was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LimitKind {
    /// Wall-clock time.
    Seconds,
    /// Processor time.
    CpuSeconds,
    /// Bytes written.
    OutputBytes,
    /// Processes at one time.
    Processes,
}

/// What m87 measured from outside the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Tool processes that were started.
    pub tool_calls: i64,
    /// Wall-clock seconds, begun ones counted whole; 0 where the clock is injected.
    pub seconds: i64,
    /// Bytes of the artifact; 0 if none.
    pub artifact_bytes: i64,
}

/// An artifact as `exec` declared it while it copied it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredArtifact {
    /// SHA-256 in lower-case hex, computed while the artifact was read; `None` if it could not be.
    pub sha256: Option<String>,
    /// Bytes.
    pub size: i64,
}

/// Governance's record of the last gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// SHA-256 recomputed from the store by Governance; `None` if there was nothing to read.
    pub recomputed: Option<String>,
    /// The validating process's report; `None` if there was none.
    pub validation: Option<ValidationReport>,
    /// When it was recorded.
    pub at: Timestamp,
}

/// What the validating process reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidationReport {
    /// How it ended; only `Exited(0)` passes.
    pub ended: Ended,
    /// The end of what it printed, cleaned, for people; at most 2 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// Memory's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promoted {
    /// Whether the verified artifact was taken into memory.
    pub accepted: bool,
    /// When.
    pub at: Timestamp,
}

/// The run was ended from outside the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupted {
    /// Why: one of the reasons that end by dispatch.
    pub reason: Reason,
    /// When.
    pub at: Timestamp,
}
