//! Contracts and the attempts under them: begun, started, redeemed once, reported once.

use super::{ENDED, Step};
use crate::client::Denial;
use crate::clock::Now;
use crate::event::{BeginEvent, RedeemEvent};
use crate::executor::{AttemptKind, Handle};
use crate::row::{Attempt, Checking, Contract, Dispatch, Row, State, StoredArtifact};
use m87_core::evidence::{ContractRecord, Execution, ExecutionReport, Redeemed, Refusal, ValidationReport};

/// How often a tool may be tried to be started before its contract is redeemed.
pub(crate) const TOOL_ATTEMPTS: u32 = 3;

/// How often an artifact may be validated if the validating process dies.
pub(crate) const VALIDATION_ATTEMPTS: u32 = 3;

const NOT_CONTRACTED: Step = Step::Refuse(Denial::ContractVoid, "no contract is in force");

pub(super) fn begin(row: &Row, event: &BeginEvent) -> Step {
    match event.kind {
        AttemptKind::Tool => begin_tool(row, event),
        AttemptKind::Validation => begin_validation(row, event),
    }
}

fn begin_tool(row: &Row, event: &BeginEvent) -> Step {
    let (claim, contract) = match &row.state {
        State::Contracted(claim, contract) => (claim, contract),
        State::Open(_) | State::Claimed(_) => return NOT_CONTRACTED,
        State::Dispatched(..) => return Step::Refuse(Denial::AlreadyDispatched, "the contract was redeemed"),
        State::Closing(_) | State::Sealed(..) => return ENDED,
    };
    let is_first = row.attempt(contract.attempt).is_none();
    let number = contract.attempt.saturating_add(u32::from(!is_first));
    if event.number != number || (is_first && event.contract_id != contract.id) {
        return Step::Refuse(Denial::OutOfOrder, "another attempt was begun meanwhile");
    }
    if number > TOOL_ATTEMPTS {
        return Step::Refuse(Denial::ContractVoid, "the tool was tried to be started as often as it may be");
    }
    // The attempt before is void in the same change, and with it its contract.
    let contract = Contract {
        id: event.contract_id.clone(),
        attempt: number,
        waiting_since: contract.waiting_since.or(Some(event.now.wall)),
    };
    Step::change(row, |row| {
        void_all(row);
        row.attempts.push(attempt(event));
        if !is_first {
            row.evidence.contract = Some(ContractRecord::Issued { id: contract.id.clone(), at: event.now.at });
        }
        row.state = State::Contracted(claim.clone(), contract);
    })
}

fn begin_validation(row: &Row, event: &BeginEvent) -> Step {
    let dispatch = match &row.state {
        State::Dispatched(_, dispatch) => dispatch,
        State::Open(_) | State::Claimed(_) | State::Contracted(..) => {
            return Step::Refuse(Denial::OutOfOrder, "there is nothing to validate yet");
        }
        State::Closing(_) | State::Sealed(..) => return ENDED,
    };
    let next = row.validations.last().map_or(1, |last| last.number.saturating_add(1));
    if row.to_validate().is_none() || event.contract_id != dispatch.contract_id {
        return Step::Refuse(Denial::OutOfOrder, "there is nothing to validate yet");
    }
    if row.validation != Checking::Waiting || event.number != next || next > VALIDATION_ATTEMPTS {
        return Step::Refuse(Denial::OutOfOrder, "validation is over, or another attempt was begun meanwhile");
    }
    Step::change(row, |row| {
        row.validations.iter_mut().for_each(|attempt| attempt.void = true);
        row.validations.push(attempt(event));
    })
}

fn attempt(event: &BeginEvent) -> Attempt {
    Attempt {
        number: event.number,
        contract_id: event.contract_id.clone(),
        token_sha256: event.token_sha256.clone(),
        begun: event.now.wall,
        handle: None,
        void: false,
    }
}

/// No attempt to run the tool holds any longer.
pub(super) fn void_all(row: &mut Row) {
    row.attempts.iter_mut().for_each(|attempt| attempt.void = true);
}

pub(super) fn started(row: &Row, kind: AttemptKind, number: u32, handle: &Handle) -> Step {
    let of = |row: &Row| match kind {
        AttemptKind::Tool => row.attempts.iter().position(|attempt| attempt.number == number),
        AttemptKind::Validation => row.validations.iter().position(|attempt| attempt.number == number),
    };
    let Some(index) = of(row) else {
        return Step::Refuse(Denial::OutOfOrder, "no such attempt was begun");
    };
    let attempts = match kind {
        AttemptKind::Tool => &row.attempts,
        AttemptKind::Validation => &row.validations,
    };
    match attempts.get(index) {
        // Written down even of a void attempt: what was started must be cleared away.
        Some(attempt) if attempt.handle.is_none() => Step::change(row, |row| {
            let attempts = match kind {
                AttemptKind::Tool => &mut row.attempts,
                AttemptKind::Validation => &mut row.validations,
            };
            if let Some(attempt) = attempts.get_mut(index) {
                attempt.handle = Some(handle.clone());
            }
        }),
        Some(_) | None => Step::Unchanged,
    }
}

pub(super) fn take_back(row: &Row, cause: Refusal, now: Now) -> Step {
    match &row.state {
        State::Contracted(claim, _) => Step::change(row, |row| {
            void_all(row);
            row.evidence.contract = Some(ContractRecord::Refused { cause, at: now.at });
            row.state = State::Claimed(claim.clone());
        }),
        State::Open(_) | State::Claimed(_) => Step::Unchanged,
        State::Dispatched(..) => Step::Refuse(Denial::AlreadyDispatched, "the contract was redeemed"),
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

pub(super) fn redeem(row: &Row, event: &RedeemEvent) -> Step {
    match &row.state {
        State::Contracted(claim, contract) => {
            let holds = row.attempt(event.attempt).is_some_and(|attempt| !attempt.void);
            if !holds || event.attempt != contract.attempt || event.contract_id != contract.id {
                return Step::Refuse(Denial::ContractVoid, "another attempt holds the contract");
            }
            let waited = contract.waiting_since.map(|since| event.now.wall.since(since));
            if waited.is_none_or(|waited| waited > event.start_limit) {
                return Step::Refuse(Denial::ContractVoid, "the time to start is over");
            }
            let dispatch = Dispatch {
                contract_id: event.contract_id.clone(),
                attempt: event.attempt,
                nonce: event.nonce.clone(),
                wall: event.now.wall,
            };
            Step::change(row, |row| {
                row.evidence.redeemed = Some(Redeemed { attempt: event.attempt, at: event.now.at });
                row.state = State::Dispatched(claim.clone(), dispatch);
            })
        }
        // The answer was lost: the same process asks again, before it has started the tool.
        State::Dispatched(_, dispatch)
            if dispatch.attempt == event.attempt
                && dispatch.contract_id == event.contract_id
                && dispatch.nonce == event.nonce
                && row.evidence.execution.is_none() =>
        {
            Step::Unchanged
        }
        State::Dispatched(..) => {
            Step::Refuse(Denial::AlreadyDispatched, "the contract was redeemed by another process")
        }
        State::Open(_) | State::Claimed(_) => NOT_CONTRACTED,
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

pub(super) fn stored(row: &Row, nonce: &str, artifact: &StoredArtifact) -> Step {
    by_redeemer(row, nonce, row.artifact.is_some() || row.evidence.execution.is_some(), |row| {
        row.artifact = Some(artifact.clone());
    })
}

pub(super) fn report(row: &Row, nonce: &str, report: &ExecutionReport, now: Now) -> Step {
    by_redeemer(row, nonce, row.evidence.execution.is_some(), |row| {
        row.evidence.execution = Some(Execution { report: Some(report.clone()), at: now.at });
    })
}

fn by_redeemer(row: &Row, nonce: &str, is_there: bool, change: impl FnOnce(&mut Row)) -> Step {
    match &row.state {
        State::Dispatched(_, dispatch) if dispatch.nonce != nonce => {
            Step::Refuse(Denial::AlreadyDispatched, "the contract was redeemed by another process")
        }
        State::Dispatched(..) if is_there => Step::Unchanged,
        State::Dispatched(..) => Step::change(row, change),
        State::Open(_) | State::Claimed(_) | State::Contracted(..) => {
            Step::Refuse(Denial::OutOfOrder, "the contract was not redeemed")
        }
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

pub(super) fn lost(row: &Row, now: Now) -> Step {
    match &row.state {
        State::Dispatched(..) if row.evidence.execution.is_none() => Step::change(row, |row| {
            row.evidence.execution = Some(Execution { report: None, at: now.at });
        }),
        State::Dispatched(..) => Step::Unchanged,
        State::Open(_) | State::Claimed(_) | State::Contracted(..) => {
            Step::Refuse(Denial::OutOfOrder, "the contract was not redeemed")
        }
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

pub(super) fn validation(row: &Row, number: u32, report: &ValidationReport) -> Step {
    match (&row.state, &row.validation) {
        (State::Closing(_) | State::Sealed(..), _) => ENDED,
        (
            State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..),
            Checking::Reported(_) | Checking::GivenUp,
        ) => Step::Unchanged,
        (State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..), Checking::Waiting) => {
            let holds = row.validations.iter().any(|attempt| attempt.number == number && !attempt.void);
            if holds {
                Step::change(row, |row| row.validation = Checking::Reported(report.clone()))
            } else {
                Step::Refuse(Denial::ContractVoid, "another attempt validates")
            }
        }
    }
}

pub(super) fn give_up_validation(row: &Row) -> Step {
    match (&row.state, &row.validation) {
        (State::Dispatched(..), Checking::Waiting) => Step::change(row, |row| {
            row.validations.iter_mut().for_each(|attempt| attempt.void = true);
            row.validation = Checking::GivenUp;
        }),
        (State::Dispatched(..), Checking::Reported(_) | Checking::GivenUp) => Step::Unchanged,
        (State::Open(_) | State::Claimed(_) | State::Contracted(..), _) => {
            Step::Refuse(Denial::OutOfOrder, "there is nothing to validate yet")
        }
        (State::Closing(_) | State::Sealed(..), _) => ENDED,
    }
}
