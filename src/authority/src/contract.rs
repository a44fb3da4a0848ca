//! What the authority judges at Contract, and what it hands out for a contract. Pure.

use crate::executor::AttemptKind;
use crate::row::{Run, State};
use m87_core::budget::{AutonomyBudget, Dimension, Limit};
use m87_core::contract::{ValidationOrder, WorkOrder};
use m87_core::decide::decide;
use m87_core::dossier::{ClockSource, Dossier};
use m87_core::evidence::Refusal;
use m87_core::gates::{evaluate_constraints, tool_in_manifest};
use m87_core::json::{Document, compute_hash};
use m87_core::plan::plan;
use m87_core::policy::effective;
use m87_core::resolve::resolve;
use m87_core::tool::{CommandLimits, Run as ToolRun, ToolEntry};
use serde::Serialize;
use std::time::Duration;

/// What the authority has looked up to judge whether a contract may be issued or redeemed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// What is pinned is no longer what the references say.
    pub drifted: bool,
    /// There is room to seal what already runs, and this.
    pub has_headroom: bool,
    /// The effect's identity is this run's.
    pub owns_effect: bool,
    /// The store is behind its mark, or the run came with a restored copy.
    pub restored: bool,
    /// The run or its policy is suspended.
    pub suspended: bool,
}

/// Whether the gates before the contract pass: exactly if judging reaches what comes after it.
pub(crate) fn gates_pass(run: &Run) -> bool {
    decide(&run.dossier, &run.row.evidence).gates.budget_exceeded.is_some() && plan(&run.dossier).is_some()
}

/// Why no contract is issued for this run; `None` if one is. Where the gates refuse, nothing need be looked up.
pub(crate) fn refusal(run: &Run, facts: Option<Facts>) -> Option<Refusal> {
    match facts.filter(|_| gates_pass(run)) {
        Some(facts) => standing(facts),
        None => Some(Refusal::GatesRefuse),
    }
}

/// Why a contract that was issued is not redeemed; `None` if it may be.
pub(crate) const fn standing(facts: Facts) -> Option<Refusal> {
    if facts.restored {
        return Some(Refusal::StoreRestored);
    }
    if !facts.owns_effect {
        return Some(Refusal::EffectSpent);
    }
    if facts.suspended {
        return Some(Refusal::Suspended);
    }
    if facts.drifted {
        return Some(Refusal::Drifted);
    }
    if !facts.has_headroom {
        return Some(Refusal::HeadroomExhausted);
    }
    None
}

/// Whether a run that is not dispatched here may have been dispatched in a history that its store does not know. Only what
/// follows from the snapshot alone held it up there too: drift or a refusal may have been found since, in the copy.
pub(crate) fn may_have_gone_on(run: &Run) -> bool {
    let Run { dossier, row } = run;
    let is_over = match &row.state {
        State::Open(_) | State::Claimed(_) | State::Contracted(..) => false,
        State::Dispatched(..) | State::Closing(_) | State::Sealed(..) => true,
    };
    !is_over && evaluate_constraints(dossier).passed() && tool_in_manifest(dossier).passed()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContractIdentity<'a> {
    kind: &'static str,
    spec_version: &'static str,
    run_uid: &'a str,
    plan_hash: &'a str,
    attempt: u32,
}

/// The id of a run's contract for that attempt; `None` if the run has no plan.
pub(crate) fn contract_id(dossier: &Dossier, attempt: u32) -> Option<String> {
    let plan = plan(dossier)?;
    let identity = ContractIdentity {
        kind: "Contract",
        spec_version: "1",
        run_uid: &dossier.run.uid,
        plan_hash: plan.hash(),
        attempt,
    };
    compute_hash(&identity).ok()
}

/// What `exec` gets for a redeemed contract; `None` if the run has no plan.
pub(crate) fn work_order(dossier: &Dossier, contract_id: &str) -> Option<WorkOrder> {
    let plan = plan(dossier)?;
    let tool = resolve(dossier).ok()?;
    let ToolRun::Command(command) = &tool.run;
    let mut command = command.clone();
    command.limits = within_budget(command.limits, &budget(dossier)?);
    Some(WorkOrder {
        kind: WorkOrder::KIND.to_owned(),
        spec_version: WorkOrder::SPEC_VERSION.to_owned(),
        contract_id: contract_id.to_owned(),
        plan_hash: plan.hash().to_owned(),
        run: ToolRun::Command(command),
        input: plan.input,
        injected_clock: dossier.clock == ClockSource::Injected,
    })
}

/// What the validating process gets for an artifact; `None` if the run has no plan.
pub(crate) fn validation_order(dossier: &Dossier, sha256: &str) -> Option<ValidationOrder> {
    let plan = plan(dossier)?;
    Some(ValidationOrder {
        kind: ValidationOrder::KIND.to_owned(),
        spec_version: ValidationOrder::SPEC_VERSION.to_owned(),
        validation: resolve(dossier).ok()?.validation.clone(),
        input: plan.input,
        sha256: sha256.to_owned(),
    })
}

/// In which image an attempt of that kind runs, and what it may use there; `None` if the run has no plan. An artifact is
/// checked in the image that made it.
pub(crate) fn surroundings(dossier: &Dossier, kind: AttemptKind) -> Option<(Option<String>, CommandLimits)> {
    let tool: &ToolEntry = resolve(dossier).ok()?;
    let ToolRun::Command(command) = &tool.run;
    let limits = match kind {
        AttemptKind::Tool => within_budget(command.limits, &budget(dossier)?),
        AttemptKind::Validation => tool.validation.limits,
    };
    Some((command.image.clone(), limits))
}

/// How long the tool, and its validation, may run.
pub(crate) fn time_limits(dossier: &Dossier) -> Option<(Duration, Duration)> {
    let tool: &ToolEntry = resolve(dossier).ok()?;
    let ToolRun::Command(command) = &tool.run;
    let run = within_budget(command.limits, &budget(dossier)?);
    Some((seconds(run.seconds), seconds(tool.validation.limits.seconds)))
}

/// How many bytes of artifact are taken in: past the budget there is no use for one, however much a tool may write.
pub(crate) fn artifact_limit(dossier: &Dossier) -> Option<u64> {
    let ToolRun::Command(command) = &resolve(dossier).ok()?.run;
    let limit = match budget(dossier)?.limit(Dimension::ArtifactBytes) {
        Some(Limit::Limit(bytes)) => bytes.min(command.limits.output_bytes),
        Some(Limit::Unlimited(_)) => command.limits.output_bytes,
        None => 0,
    };
    u64::try_from(limit).ok()
}

fn budget(dossier: &Dossier) -> Option<AutonomyBudget> {
    let baseline = dossier.baseline.as_ref().map(|pinned| &pinned.spec);
    Some(effective(&dossier.policy.as_ref()?.spec, baseline).autonomy_budget)
}

/// A tool is killed at the budget's seconds, if those are fewer than its own.
fn within_budget(mut limits: CommandLimits, budget: &AutonomyBudget) -> CommandLimits {
    if let Some(Limit::Limit(seconds)) = budget.limit(Dimension::Seconds) {
        limits.seconds = limits.seconds.min(seconds.max(1));
    }
    limits
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::row::Row;
    use m87_core::evidence::ContractRecord;
    use m87_core::fixtures;
    use std::sync::Arc;

    fn run() -> Run {
        let mut row = Row::open(crate::clock::Wall(3_600_000));
        let evidence = fixtures::evidence();
        (row.evidence.proposed, row.evidence.validated) = (evidence.proposed, evidence.validated);
        Run { dossier: Arc::new(fixtures::dossier()), row }
    }

    const GOOD: Facts =
        Facts { drifted: false, has_headroom: true, owns_effect: true, suspended: false, restored: false };

    #[test]
    fn a_contract_needs_every_fact() {
        assert_eq!(refusal(&run(), Some(GOOD)), None);
        assert_eq!(refusal(&run(), None), Some(Refusal::GatesRefuse), "what was not looked up allows nothing");
        let cases = [
            (Facts { restored: true, ..GOOD }, Refusal::StoreRestored),
            (Facts { owns_effect: false, ..GOOD }, Refusal::EffectSpent),
            (Facts { suspended: true, ..GOOD }, Refusal::Suspended),
            (Facts { drifted: true, ..GOOD }, Refusal::Drifted),
            (Facts { has_headroom: false, ..GOOD }, Refusal::HeadroomExhausted),
        ];
        for (facts, cause) in cases {
            assert_eq!(refusal(&run(), Some(facts)), Some(cause));
            assert_eq!(standing(facts), Some(cause));
        }
    }

    #[test]
    fn no_contract_without_both_gates_and_their_records() {
        let mut without_trace = run();
        Arc::make_mut(&mut without_trace.dossier).proposal.reasoning_trace = None;
        let mut without_tool = run();
        Arc::make_mut(&mut without_tool.dossier).manifest = None;
        let mut without_record = run();
        without_record.row.evidence.validated = None;
        for run in [without_trace, without_tool, without_record] {
            assert_eq!(refusal(&run, Some(GOOD)), Some(Refusal::GatesRefuse));
        }
    }

    #[test]
    fn only_what_its_snapshot_holds_up_or_what_is_over_has_certainly_not_gone_on() {
        let mut drifted = run();
        drifted.row.evidence.validated.as_mut().unwrap().drifted = true;
        let mut refused = run();
        let at = m87_core::fixtures::at(1);
        refused.row.evidence.contract = Some(ContractRecord::Refused { cause: Refusal::NeverStarted, at });
        for unsure in [run(), drifted, refused] {
            assert!(may_have_gone_on(&unsure));
        }
        let mut without_trace = run();
        Arc::make_mut(&mut without_trace.dossier).proposal.reasoning_trace = None;
        assert!(!may_have_gone_on(&without_trace));
    }

    #[test]
    fn a_contracts_id_follows_from_run_plan_and_attempt() {
        let dossier = fixtures::dossier();
        assert_eq!(contract_id(&dossier, 1), contract_id(&dossier, 1));
        assert_ne!(contract_id(&dossier, 1), contract_id(&dossier, 2));
        let mut other = dossier.clone();
        other.run.uid = "other".to_owned();
        assert_ne!(contract_id(&dossier, 1), contract_id(&other, 1));
    }

    #[test]
    fn the_order_carries_the_lower_limit() {
        let mut dossier = fixtures::dossier();
        assert_eq!(work_order(&dossier, "c").unwrap().limits().seconds, 10);
        dossier.policy.as_mut().unwrap().spec.autonomy_budget.seconds = Some(Limit::Limit(3));
        assert_eq!(work_order(&dossier, "c").unwrap().limits().seconds, 3);
        assert_eq!(time_limits(&dossier).unwrap(), (Duration::from_secs(3), Duration::from_secs(10)));
    }
}
