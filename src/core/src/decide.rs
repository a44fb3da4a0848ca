//! The verdict: from a dossier and the recorded evidence to exactly one terminal.
//!
//! The gates are applied in their order, each with what the process must have recorded by then; the first clause that refuses
//! is the reason. Nothing is judged by a clock: what depends on time was recorded by the authority when it happened, so that
//! judging again gives the same answer for ever.

use crate::case::Prepared;
use crate::dossier::Dossier;
use crate::evidence::{Evidence, Interrupted};
use crate::gates::{self, Check, Clause, Clauses, Gate, no, yes};
use crate::json::compute_hash;
use crate::reason::{FailureClass, Reason, Terminal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run ends, why, and everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The end.
    pub terminal: Terminal,
    /// The first clause that refused; `None` exactly when COMPLETE.
    pub reason: Option<Reason>,
    /// The reason's class.
    pub failure_class: Option<FailureClass>,
    /// The reason for people: what was found, and what would have passed.
    pub message: String,
    /// What each gate said; `None` where it was not reached.
    pub gates: GateResults,
    /// Whether the tool may have touched anything.
    pub effect: Effect,
    /// Every clause, in the order in which they were judged.
    pub trace: Vec<Clause>,
}

/// The four gates by the names of the process's variables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateResults {
    /// `constraints_ok`.
    pub constraints_ok: Option<bool>,
    /// `tool_in_manifest`.
    pub tool_in_manifest: Option<bool>,
    /// `budget_exceeded`: true refuses.
    pub budget_exceeded: Option<bool>,
    /// `artifact_verified`.
    pub artifact_verified: Option<bool>,
}

/// Whether the tool may have touched anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Nothing ran.
    None,
    /// The tool ran, and was reported on.
    Dispatched,
    /// The contract was redeemed and nobody knows what came of it.
    Unknown,
}

/// Whether the contract had been redeemed: from there on there may be an effect, and the run can no longer be a HALT.
pub const fn dispatched(evidence: &Evidence) -> bool {
    evidence.redeemed.is_some()
}

/// How this run ends.
pub fn decide(dossier: &Dossier, evidence: &Evidence) -> Verdict {
    let walk = walk(dossier, evidence);
    let refusal = walk.trace.iter().find(|clause| !clause.passed);
    let reason = refusal.map(|clause| clause.reason);
    Verdict {
        terminal: reason.map_or(Terminal::Complete, |reason| ends(reason, evidence)),
        reason,
        failure_class: reason.map(Reason::class),
        message: refusal.map_or_else(|| "done, and proved".to_owned(), message),
        gates: walk.gates,
        effect: effect(evidence),
        trace: walk.trace,
    }
}

/// The terminal of a refusal. HALT means that nothing happened, so an interruption is HALT before dispatch and FAILED after it;
/// FAILED too where nobody knows whether there was a dispatch.
const fn ends(reason: Reason, evidence: &Evidence) -> Terminal {
    match (&evidence.interrupted, dispatched(evidence)) {
        (None, dispatched) => reason.terminal(dispatched),
        (Some(interrupted), false) if !is_unknown(interrupted) => Terminal::Halt,
        (Some(_), _) => Terminal::Failed,
    }
}

/// Whether the run was interrupted because nobody knows what became of it.
const fn is_unknown(interrupted: &Interrupted) -> bool {
    matches!(interrupted.reason, Reason::OutcomeUnknown)
}

fn message(clause: &Clause) -> String {
    format!("{}; would pass: {}", clause.detail, clause.would_pass)
}

const fn effect(evidence: &Evidence) -> Effect {
    match (&evidence.redeemed, &evidence.execution) {
        (None, _) => match &evidence.interrupted {
            Some(interrupted) if is_unknown(interrupted) => Effect::Unknown,
            Some(_) | None => Effect::None,
        },
        (Some(_), Some(execution)) => match &execution.report {
            Some(report) => report.effect(),
            None => Effect::Unknown,
        },
        (Some(_), None) => Effect::Unknown,
    }
}

#[derive(Default)]
struct Walk {
    gates: GateResults,
    trace: Vec<Clause>,
}

impl Walk {
    /// Takes a gate's clauses into the trace and says whether the run goes on.
    fn passes(&mut self, clauses: Clauses) -> bool {
        let passed = clauses.passed();
        self.trace.extend(clauses);
        passed
    }
}

/// Goes through the gates as the process does, and stops where the process stops.
fn walk(dossier: &Dossier, evidence: &Evidence) -> Walk {
    let mut walk = Walk::default();
    let prepared = Prepared::new(dossier);
    let case = prepared.case();
    let (constraints, manifest) = (gates::judge_constraints(&case), gates::judge_manifest(&case));
    let constraints = constraints.require("what is pinned still held", Reason::Drifted, not_drifted(evidence));
    // An interrupted run is judged as far as it came, for the record; why it ended is the interruption.
    let cut = |came_further: bool| evidence.interrupted.is_some() && !came_further;

    if let Some(interrupted) = &evidence.interrupted {
        walk.passes(Clauses::of(Gate::Process).require(
            "the run was not interrupted",
            interrupted.reason,
            interruption(interrupted),
        ));
    }
    if cut(evidence.validated.is_some()) {
        return walk;
    }
    if dispatched(evidence) && !(constraints.passed() && manifest.passed()) {
        // HALT and REJECT_MANIFEST would say that nothing happened, and the records say that something may have.
        walk.passes(Clauses::of(Gate::Process).require(
            "no contract was redeemed past a refusing gate",
            Reason::EngineDisagreement,
            past_refusal(),
        ));
    }
    let passed = walk.passes(constraints);
    walk.gates.constraints_ok = Some(passed);
    if !passed {
        return walk;
    }
    let passed = walk.passes(manifest);
    walk.gates.tool_in_manifest = Some(passed);
    if !passed || !walk.passes(recorded(dossier, evidence)) || cut(evidence.contract.is_some()) {
        return walk;
    }
    let budget = case.rules.map(|rules| &rules.effective.autonomy_budget);
    let passed = walk.passes(gates::judge_budget(budget, case.limits(), evidence));
    walk.gates.budget_exceeded = Some(!passed);
    if !passed || cut(evidence.verified.is_some()) {
        return walk;
    }
    let passed = walk.passes(gates::judge_artifact(evidence));
    walk.gates.artifact_verified = Some(passed);
    if passed && !cut(evidence.promoted.is_some()) {
        walk.passes(Clauses::of(Gate::Promotion).require(
            "Memory took the artifact",
            Reason::PromotionRefused,
            promoted(evidence),
        ));
    }
    walk
}

fn interruption(interrupted: &Interrupted) -> Check {
    #[allow(clippy::wildcard_enum_match_arm)]
    let would_pass = match interrupted.reason {
        Reason::IdempotencyKeyReused => "an idempotencyKey that no other proposal or actor has used",
        Reason::OutcomeUnknown => "a store that knows what became of the run; it came with an older copy",
        Reason::TenantNotBound => "a namespace whose admin has applied what `m87 tenant NAMESPACE` prints",
        _ => "a run that is left to end by itself",
    };
    no(format!("{} at {}", interrupted.reason.name(), interrupted.at), would_pass)
}

fn past_refusal() -> Check {
    no("one was, although a gate below refuses", "records that agree with the gates")
}

/// Drift matters up to Validate; absence of the record is refused below, where it belongs.
fn not_drifted(evidence: &Evidence) -> Check {
    match &evidence.validated {
        Some(validated) if validated.drifted => no(
            "the policy, the baseline or the tool's entry changed between snapshot and Validate",
            "a new run under the changed rules",
        ),
        Some(_) | None => yes("it did"),
    }
}

/// What Proposer and Governance must have recorded before a contract: without it, the run did not come here by its process.
fn recorded(dossier: &Dossier, evidence: &Evidence) -> Clauses {
    let reason = Reason::EngineDisagreement;
    Clauses::of(Gate::Process)
        .require("the Proposer recorded this proposal", reason, proposed(dossier, evidence))
        .require("Governance recorded the same of both gates", reason, validated(evidence))
}

fn proposed(dossier: &Dossier, evidence: &Evidence) -> Check {
    let would_pass = "the hashes of the pinned proposal, recorded at Propose";
    let Some(proposed) = &evidence.proposed else {
        return no("nothing is recorded of Propose", would_pass);
    };
    let proposal = compute_hash(&dossier.proposal);
    let trace = compute_hash(&dossier.proposal.reasoning_trace);
    if proposal.as_ref() == Ok(&proposed.proposal_hash) && trace.as_ref() == Ok(&proposed.trace_hash) {
        return yes("by its hash");
    }
    no("the hashes that the Proposer recorded are not this proposal's", would_pass)
}

fn validated(evidence: &Evidence) -> Check {
    let would_pass = "Governance's own yes at both gates, recorded at Validate";
    match &evidence.validated {
        Some(validated) if validated.constraints_ok && validated.tool_in_manifest => yes("both gates pass"),
        Some(_) => no("Governance recorded a refusal where the gates pass", would_pass),
        None => no("nothing is recorded of Validate", would_pass),
    }
}

fn promoted(evidence: &Evidence) -> Check {
    match &evidence.promoted {
        Some(promoted) if promoted.accepted => yes("accepted"),
        Some(_) => no("it was refused", "an accepted promotion"),
        None => no("nothing is recorded of it", "an accepted promotion, recorded at Memory"),
    }
}

#[cfg(test)]
mod tests;
