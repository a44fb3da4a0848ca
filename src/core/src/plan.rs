//! The plan: the frozen, hashed statement of what would happen. Pure: the same inputs give the same hash.

use crate::budget::AutonomyBudget;
use crate::case::Prepared;
use crate::dossier::{Dossier, Pinned};
use crate::effects::EffectSignature;
use crate::json::compute_hash;
use crate::risk::Risk;
use crate::tool::Reversibility;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What would happen, to what, by which tool, under which rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// `Plan`.
    pub kind: &'static str,
    /// Raised when the meaning or the fields change.
    pub spec_version: &'static str,
    /// `compute_hash` of the proposal.
    pub proposal_hash: String,
    /// The policy's pinned hash.
    pub policy_sha256: String,
    /// The baseline's pinned hash; `null` without a baseline.
    pub baseline_sha256: Option<String>,
    /// The tool.
    pub tool: PlannedTool,
    /// The input, `null` if the proposal has none.
    pub input: Value,
    /// What the tool would touch, derived from the input.
    pub target: String,
    /// The risk that counts: the higher of declared and the tool's.
    pub risk: Risk,
    /// Whether it can be undone.
    pub reversibility: Reversibility,
    /// What the tool would do to the world, sorted.
    pub effects: Vec<EffectSignature>,
    /// What it may use up.
    pub budget: AutonomyBudget,
    #[serde(skip)]
    hash: String,
}

/// The tool of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `compute_hash` of its manifest entry.
    pub sha256: String,
}

/// The plan of a dossier; `None` where it cannot be said what would happen: no policy, no tool, no known risk, no target in the
/// input, or an input that is too large.
pub fn plan(dossier: &Dossier) -> Option<Plan> {
    let prepared = Prepared::new(dossier);
    let case = prepared.case();
    let planned = case.planned()?;
    let entry = planned.tool.entry;
    let mut effects = entry.effects.clone();
    effects.sort();
    let mut plan = Plan {
        kind: "Plan",
        spec_version: "1",
        proposal_hash: compute_hash(&dossier.proposal).ok()?,
        policy_sha256: dossier.policy.as_ref()?.sha256.clone(),
        baseline_sha256: dossier.baseline.as_ref().map(|Pinned { sha256, .. }| sha256.clone()),
        tool: PlannedTool {
            name: entry.name.clone(),
            version: entry.version.clone(),
            sha256: compute_hash(entry).ok()?,
        },
        input: case.input().clone(),
        target: planned.target.to_owned(),
        risk: planned.risk,
        reversibility: entry.reversibility,
        effects,
        budget: case.rules?.effective.autonomy_budget.clone(),
        hash: String::new(),
    };
    plan.hash = compute_hash(&plan).ok()?;
    Some(plan)
}

impl Plan {
    /// `compute_hash` of the plan.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}
