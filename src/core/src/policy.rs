//! What a `GovernancePolicy` says. Every restricting field is required: a misspelt one must not become a weaker rule.

use crate::budget::{AutonomyBudget, Limit};
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
    /// Whether a tool's image may be named by a tag, which can mean another image tomorrow; `Refused` unless written otherwise.
    #[serde(default, skip_serializing_if = "ImageTags::are_refused")]
    pub image_tags: ImageTags,
}

/// Whether images may be named by tags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImageTags {
    /// Only a digest names an image.
    #[default]
    Refused,
    /// A tag will do.
    Allowed,
}

impl ImageTags {
    // What is not written is not hashed: a policy from before there were images keeps its hash.
    fn are_refused(&self) -> bool {
        *self == Self::Refused
    }
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

/// The rules that count: the policy and the platform's baseline, the stricter of both everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Required if either requires it.
    pub reasoning_trace: Requirement,
    /// Allowed by both.
    pub risks_allowed: Vec<Risk>,
    /// Forbidden by either.
    pub targets_forbidden: Vec<String>,
    /// One list for each policy: an actor must be in every list.
    pub actors_allowed: Vec<Vec<String>>,
    /// Allowed if both allow it.
    pub image_tags: ImageTags,
    /// The lower limit of both; a tool may report what both let it report.
    pub autonomy_budget: AutonomyBudget,
    /// Approved in advance by both, up to the lower risk, for the non-humans in both.
    pub auto_approve: Option<AutoApprove>,
}

/// Policy ∩ baseline. Without a baseline it is the policy itself.
pub fn effective(policy: &PolicySpec, baseline: Option<&PolicySpec>) -> Effective {
    let own = Effective {
        reasoning_trace: policy.constraints.reasoning_trace,
        risks_allowed: policy.constraints.risks_allowed.clone(),
        targets_forbidden: policy.constraints.targets_forbidden.clone(),
        actors_allowed: vec![policy.constraints.actors_allowed.clone()],
        image_tags: policy.constraints.image_tags,
        autonomy_budget: policy.autonomy_budget.clone(),
        auto_approve: policy.approvals.auto_approve.clone(),
    };
    match baseline {
        Some(baseline) => own.and(effective(baseline, None)),
        None => own,
    }
}

impl Effective {
    fn and(mut self, other: Self) -> Self {
        if other.reasoning_trace == Requirement::Required {
            self.reasoning_trace = Requirement::Required;
        }
        self.risks_allowed.retain(|risk| other.risks_allowed.contains(risk));
        self.targets_forbidden.extend(other.targets_forbidden);
        self.actors_allowed.extend(other.actors_allowed);
        if other.image_tags == ImageTags::Refused {
            self.image_tags = ImageTags::Refused;
        }
        self.autonomy_budget = self.autonomy_budget.and(&other.autonomy_budget);
        self.auto_approve = match (self.auto_approve, other.auto_approve) {
            (Some(mut a), Some(b)) => {
                a.risk_at_most = a.risk_at_most.min(b.risk_at_most);
                a.non_humans.retain(|name| b.non_humans.contains(name));
                Some(a)
            }
            (None, _) | (_, None) => None,
        };
        self
    }
}

impl AutonomyBudget {
    /// The lower limit in every dimension; a dimension that either leaves out may not be used.
    pub fn and(&self, other: &Self) -> Self {
        let lower = |a: Option<Limit>, b: Option<Limit>| match (a?, b?) {
            (Limit::Limit(a), Limit::Limit(b)) => Some(Limit::Limit(a.min(b))),
            (Limit::Limit(limit), Limit::Unlimited(_)) | (Limit::Unlimited(_), Limit::Limit(limit)) => {
                Some(Limit::Limit(limit))
            }
            (Limit::Unlimited(yes), Limit::Unlimited(_)) => Some(Limit::Unlimited(yes)),
        };
        Self {
            steps: lower(self.steps, other.steps),
            tool_calls: lower(self.tool_calls, other.tool_calls),
            tokens: lower(self.tokens, other.tokens),
            seconds: lower(self.seconds, other.seconds),
            external_calls: lower(self.external_calls, other.external_calls),
            artifact_bytes: lower(self.artifact_bytes, other.artifact_bytes),
            reported: self.reported.iter().copied().filter(|dimension| other.reported.contains(dimension)).collect(),
        }
    }
}
