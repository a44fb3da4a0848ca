//! The four gates. A gate is a function, and the process gateway of the same name is the same function.
//!
//! A gate looks at each of its clauses and returns them all; whether it passes is a projection of them, and so is the
//! explanation. It never reads a clock and never fails otherwise than by refusing: what is missing or unknown refuses.

mod artifact;
mod budget;
mod clause;
mod constraints;
mod manifest;

pub use artifact::judge as judge_artifact;
pub use budget::{judge as judge_budget, usage};
pub(crate) use clause::{Check, Found, no, yes};
pub use clause::{Clause, Clauses, Gate};
pub use constraints::{approval, judge as judge_constraints};
pub use manifest::judge as judge_manifest;

use crate::case::Prepared;
use crate::dossier::Dossier;
use crate::evidence::Evidence;

/// Passes if the policy lets anybody make this proposal, and this actor at all. (`Gw_Constraints`; refuses to HALT.)
pub fn evaluate_constraints(dossier: &Dossier) -> Clauses {
    constraints::judge(&Prepared::new(dossier).case())
}

/// Passes if the manifest has the tool, and the tool may do exactly this to exactly that. (`Gw_Manifest`; refuses to
/// REJECT_MANIFEST.)
pub fn tool_in_manifest(dossier: &Dossier) -> Clauses {
    manifest::judge(&Prepared::new(dossier).case())
}

/// Passes if the contract was redeemed and the tool ended well within its budget. (`Gw_Budget`; the process variable is true
/// where this refuses. Refuses to FAILED.)
pub fn budget_exceeded_or_error(dossier: &Dossier, evidence: &Evidence) -> Clauses {
    let prepared = Prepared::new(dossier);
    let case = prepared.case();
    budget::judge(case.rules.map(|rules| &rules.effective.autonomy_budget), case.limits(), evidence)
}

/// Passes if the artifact is there, is the one that the tool made, and was found good by someone else. (`Gw_Verify`; refuses
/// to REJECT_VERIFY.) Only evidence counts here, whatever the dossier wished for.
pub fn artifact_verified(_dossier: &Dossier, evidence: &Evidence) -> Clauses {
    artifact::judge(evidence)
}
