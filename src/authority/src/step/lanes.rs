//! What the lanes record, each once: the first record wins, a repeat leaves it standing.

use super::{ENDED, Step};
use crate::client::Denial;
use crate::clock::Now;
use crate::event::ContractEvent;
use crate::row::{Checking, Contract, Row, Run, State};
use m87_core::evidence::{ContractRecord, Promoted, Proposed, Refusal, Validated, Verified};
use m87_core::json::compute_hash;

pub(super) fn proposed(run: &Run, record: &Proposed) -> Step {
    if run.row.evidence.proposed.is_some() {
        return Step::Unchanged;
    }
    let proposal = &run.dossier.proposal;
    if compute_hash(proposal).ok().as_deref() != Some(&record.proposal_hash)
        || compute_hash(&proposal.reasoning_trace).ok().as_deref() != Some(&record.trace_hash)
    {
        return Step::Refuse(Denial::Malformed, "the hashes are not those of the proposal and its reasoning trace");
    }
    in_claimed(&run.row, true, |row| row.evidence.proposed = Some(record.clone()))
}

pub(super) fn validated(row: &Row, record: &Validated) -> Step {
    if row.evidence.validated.is_some() {
        return Step::Unchanged;
    }
    in_claimed(row, row.evidence.proposed.is_some(), |row| row.evidence.validated = Some(record.clone()))
}

pub(super) fn contract(row: &Row, event: &ContractEvent) -> Step {
    if row.evidence.contract.is_some() {
        return Step::Unchanged;
    }
    // A run that has not been validated is refused, not made to wait: only a process that goes astray asks so early.
    let refusal = match row.evidence.validated {
        Some(_) => event.refusal,
        None => Some(Refusal::GatesRefuse),
    };
    in_claimed(row, true, |row| match refusal {
        Some(cause) => row.evidence.contract = Some(ContractRecord::Refused { cause, at: event.now.at }),
        None => {
            row.evidence.contract = Some(ContractRecord::Issued { id: event.id.clone(), at: event.now.at });
            if let State::Claimed(claim) = &row.state {
                let contract = Contract { id: event.id.clone(), attempt: next_attempt(row), waiting_since: None };
                row.state = State::Contracted(claim.clone(), contract);
            }
        }
    })
}

/// The number of the attempt that the next contract is for.
pub(crate) fn next_attempt(row: &Row) -> u32 {
    row.attempts.last().map_or(1, |attempt| attempt.number.saturating_add(1))
}

pub(super) fn verified(row: &Row, recomputed: Option<&str>, now: Now) -> Step {
    if row.evidence.verified.is_some() {
        return Step::Unchanged;
    }
    let validation = match (&row.validation, row.to_validate()) {
        (Checking::Reported(report), _) => Some(report.clone()),
        (Checking::GivenUp, _) | (Checking::Waiting, None) => None,
        (Checking::Waiting, Some(_)) => {
            return Step::Refuse(Denial::OutOfOrder, "validation is not over: ask Verify first");
        }
    };
    let verified = Verified { recomputed: recomputed.map(str::to_owned), validation, at: now.at };
    in_dispatched(row, row.evidence.execution.is_some(), |row| row.evidence.verified = Some(verified))
}

pub(super) fn promoted(row: &Row, record: &Promoted) -> Step {
    if row.evidence.promoted.is_some() {
        return Step::Unchanged;
    }
    in_dispatched(row, row.evidence.verified.is_some(), |row| row.evidence.promoted = Some(record.clone()))
}

const TOO_EARLY: Step = Step::Refuse(Denial::OutOfOrder, "what comes before it in the process is not recorded");

fn in_claimed(row: &Row, ready: bool, change: impl FnOnce(&mut Row)) -> Step {
    match &row.state {
        State::Claimed(_) if ready => Step::change(row, change),
        State::Claimed(_) | State::Open(_) => TOO_EARLY,
        State::Contracted(..) | State::Dispatched(..) => {
            Step::Refuse(Denial::OutOfOrder, "the run is past the point where this is recorded")
        }
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

fn in_dispatched(row: &Row, ready: bool, change: impl FnOnce(&mut Row)) -> Step {
    match &row.state {
        State::Dispatched(..) if ready => Step::change(row, change),
        State::Dispatched(..) | State::Open(_) | State::Claimed(_) | State::Contracted(..) => TOO_EARLY,
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}
