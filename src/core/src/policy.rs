//! What a `GovernancePolicy` says. Every restricting field is required: a misspelt one must not become a weaker rule.

use crate::budget::AutonomyBudget;
use crate::risk::Risk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rules under which proposals of a namespace are judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// What a proposal must be like.
    pub constraints: Constraints,
    /// What a run may use up.
    pub autonomy_budget: AutonomyBudget,
    /// What may go ahead without a person's yes.
    pub approvals: Approvals,
    /// The process that runs under this policy; without it, the one that m87 ships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSource>,
}

/// What a proposal must be like to pass the first gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    /// Whether a proposal must say why; `Required` unless written otherwise.
    #[serde(default)]
    pub reasoning_trace: Requirement,
    /// The risk classes that may run.
    #[schemars(length(max = 4))]
    pub risks_allowed: Vec<Risk>,
    /// Globs of targets that nobody may touch; `*` does not cross `/`, `**` does.
    #[schemars(length(max = 256), inner(length(min = 1, max = 1024)))]
    pub targets_forbidden: Vec<String>,
    /// Globs of usernames that may ask at all.
    #[schemars(length(max = 256), inner(length(min = 1, max = 256)))]
    pub actors_allowed: Vec<String>,
}

/// Whether something must be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Requirement {
    /// Refused without it.
    #[default]
    Required,
    /// Taken without it.
    Optional,
}

/// What may go ahead without a person's yes. Plans whose every effect is a read need none when the actor is human.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    /// Approved in advance, up to a risk; nothing is, without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<AutoApprove>,
}

/// Approval given in advance by the policy's author. Irreversible plans are never approved in advance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoApprove {
    /// The highest risk that goes ahead.
    pub risk_at_most: Risk,
    /// Usernames of attested non-human actors for whom it counts too; humans always qualify, the unattested never.
    #[schemars(length(max = 256), inner(length(min = 1, max = 256)))]
    pub non_humans: Vec<String>,
}

/// A process of the user's own. It is proved before it is deployed; one that fails is refused with a counterexample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessSource {
    /// BPMN 2.0 XML with Zeebe's extensions.
    #[schemars(length(min = 1, max = 262_144))]
    pub bpmn: String,
}
