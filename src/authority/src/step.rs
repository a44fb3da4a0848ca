//! The run's state machine: facts in, decision out. The service, the driver, the simulator and the property tests all
//! call this one function; whoever calls stores the result by compare-and-set.

pub(crate) mod attempts;
mod ending;
pub(crate) mod lanes;

#[cfg(test)]
mod tests;

use crate::client::Denial;
use crate::event::{ClaimEvent, Event};
use crate::row::{Claim, Row, Run, Start, State};

/// What follows from an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The row becomes this one.
    To(Box<Row>),
    /// It had happened already: what is stored stands.
    Unchanged,
    /// No, and why.
    Refuse(Denial, &'static str),
}

impl Step {
    /// The row, changed in one way.
    fn change(row: &Row, change: impl FnOnce(&mut Row)) -> Self {
        let mut row = row.clone();
        change(&mut row);
        Self::To(Box::new(row))
    }
}

/// The element at which a run is claimed: the first task of the process.
const CLAIMED_AT: &str = "Propose";

/// What happens to a run's row on `event`. Pure.
pub fn step(run: &Run, event: &Event) -> Step {
    let row = &run.row;
    match event {
        Event::Start(start) => self::start(row, start),
        Event::Claim(claim) => self::claim(row, claim),
        Event::Engine(id) => engine(row, id),
        Event::Proposed(record) => lanes::proposed(run, record),
        Event::Validated(record) => lanes::validated(row, record),
        Event::Contract(contract) => lanes::contract(row, contract),
        Event::Verified(recomputed, now) => lanes::verified(row, recomputed.as_deref(), *now),
        Event::Promoted(record) => lanes::promoted(row, record),
        Event::Begin(begin) => attempts::begin(row, begin),
        Event::Started(kind, number, handle) => attempts::started(row, *kind, *number, handle),
        Event::TakeBack(cause, now) => attempts::take_back(row, *cause, *now),
        Event::Redeem(redeem) => attempts::redeem(row, redeem),
        Event::Stored(nonce, artifact) => attempts::stored(row, nonce, artifact),
        Event::Report(nonce, report, now) => attempts::report(row, nonce, report, *now),
        Event::Lost(now) => attempts::lost(row, *now),
        Event::Validation(number, report) => attempts::validation(row, *number, report),
        Event::GiveUpValidation => attempts::give_up_validation(row),
        Event::Close(ending, now) => self::ending::close(run, ending, *now),
        Event::Seal(sealed) => self::ending::seal(row, sealed),
    }
}

const ENDED: Step = Step::Refuse(Denial::Sealed, "the run has ended");

fn start(row: &Row, start: &Start) -> Step {
    match &row.state {
        // Asked again because no answer came: with the same nonce, whichever instance claims first is the run's.
        State::Open(Some(before)) if before == start => Step::Unchanged,
        State::Open(_) => Step::change(row, |row| row.state = State::Open(Some(start.clone()))),
        State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) => {
            Step::Refuse(Denial::OutOfOrder, "the run has its instance already")
        }
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

fn claim(row: &Row, event: &ClaimEvent) -> Step {
    let is_ours = |claim: &Claim| claim.engine_id == event.engine_id && claim.instance_key == event.instance_key;
    match &row.state {
        State::Open(Some(start)) => {
            if event.engine_id != start.engine_id
                || event.nonce != start.nonce
                || event.definition_key != start.definition.key
                || event.element_id != CLAIMED_AT
            {
                return Step::Refuse(
                    Denial::OtherInstance,
                    "engine, definition, first element and start nonce must be those of the start that is recorded",
                );
            }
            let claim = Claim {
                engine_id: event.engine_id.clone(),
                instance_key: event.instance_key,
                definition: start.definition,
            };
            Step::change(row, |row| row.state = State::Claimed(claim))
        }
        State::Open(None) => Step::Refuse(Denial::OtherInstance, "no instance was started for this run"),
        State::Claimed(claim) | State::Contracted(claim, _) | State::Dispatched(claim, _) if is_ours(claim) => {
            Step::Unchanged
        }
        State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) => {
            Step::Refuse(Denial::OtherInstance, "the run is bound to another instance")
        }
        State::Closing(_) | State::Sealed(..) => ENDED,
    }
}

/// Another engine answers than the one that a run is bound to: that instance is gone. What was not dispatched is
/// released, its contract void, and is started again; what was dispatched is only observed.
fn engine(row: &Row, id: &str) -> Step {
    match &row.state {
        State::Open(Some(start)) if start.engine_id != id => Step::change(row, |row| row.state = State::Open(None)),
        State::Claimed(claim) | State::Contracted(claim, _) if claim.engine_id != id => Step::change(row, |row| {
            if matches!(row.state, State::Contracted(..)) {
                row.evidence.contract = None;
            }
            attempts::void_all(row);
            row.state = State::Open(None);
        }),
        State::Open(_)
        | State::Claimed(_)
        | State::Contracted(..)
        | State::Dispatched(..)
        | State::Closing(_)
        | State::Sealed(..) => Step::Unchanged,
    }
}
