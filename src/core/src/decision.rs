//! The decision: governance's one answer on a plan. A projection of gate 1's clauses, so that it cannot say otherwise.

use crate::case::Prepared;
use crate::dossier::Dossier;
use crate::gates::judge_constraints;
use crate::json::compute_hash;
use crate::plan::Plan;
use crate::reason::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What governance answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It may go ahead: only reads, asked for by a person, or approved in advance by the policy.
    Allowed,
    /// A person has to say yes first.
    ApprovalRequired,
    /// Nobody can let it through.
    Blocked,
}

/// An answer on one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The answer.
    pub outcome: Outcome,
    /// Why it is not `allowed`, sorted by name; empty if it is.
    #[schemars(length(max = 64))]
    pub reason_codes: Vec<Reason>,
    /// The same plan and answer have the same id, always: `compute_hash` of both.
    #[schemars(length(max = 64))]
    pub id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    kind: &'static str,
    spec_version: &'static str,
    plan_hash: &'a str,
    outcome: Outcome,
    reason_codes: &'a [Reason],
}

/// The answer on a plan of this dossier.
pub fn decision(dossier: &Dossier, plan: &Plan) -> Decision {
    let clauses = judge_constraints(&Prepared::new(dossier).case());
    let mut reason_codes: Vec<_> = clauses.reasons().collect();
    reason_codes.sort_by_key(|reason| reason.name());
    reason_codes.dedup();
    let outcome = match reason_codes.as_slice() {
        [] => Outcome::Allowed,
        [Reason::ApprovalRequired] => Outcome::ApprovalRequired,
        [..] => Outcome::Blocked,
    };
    let identity =
        Identity { kind: "Decision", spec_version: "1", plan_hash: plan.hash(), outcome, reason_codes: &reason_codes };
    // Names and a hash always have a canonical text.
    let id = compute_hash(&identity).unwrap_or_default();
    Decision { outcome, reason_codes, id }
}
