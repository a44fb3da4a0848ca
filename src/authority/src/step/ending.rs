//! How a run ends: one settling of the terminal, one receipt. Whoever comes second finds what is stored.

use super::Step;
use crate::client::Denial;
use crate::clock::Now;
use crate::row::{Closing, Ending, Row, Run, Sealed, State};
use m87_core::decide::decide;
use m87_core::evidence::Interrupted;
use m87_core::reason::{Reason, Terminal};

/// Settles how the run ends. The end event that the process reached must be the one that the recorded evidence decides.
pub(super) fn close(run: &Run, ending: &Ending, now: Now) -> Step {
    let row = &run.row;
    match &row.state {
        State::Closing(_) | State::Sealed(..) => return Step::Unchanged,
        State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) => {}
    }
    let interruption = match ending {
        Ending::Interrupted(reason) => Some(*reason),
        Ending::Alone => None,
        Ending::Process(end_event) => {
            if row.claim().is_none() {
                return Step::Refuse(Denial::OutOfOrder, "no instance is bound to this run");
            }
            let decided = decide(&run.dossier, &row.evidence).terminal;
            (Terminal::of_end_event(end_event) != Some(decided)).then_some(Reason::EngineDisagreement)
        }
    };
    let closing = Closing { claim: row.claim().cloned(), ending: ending.clone(), at: now.at };
    Step::change(row, |row| {
        super::attempts::void_all(row);
        row.validations.iter_mut().for_each(|attempt| attempt.void = true);
        row.evidence.interrupted = interruption.map(|reason| Interrupted { reason, at: now.at });
        row.state = State::Closing(closing);
    })
}

pub(super) fn seal(row: &Row, sealed: &Sealed) -> Step {
    match &row.state {
        State::Closing(closing) => Step::change(row, |row| row.state = State::Sealed(closing.clone(), sealed.clone())),
        State::Sealed(..) => Step::Unchanged,
        State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) => {
            Step::Refuse(Denial::OutOfOrder, "it is not settled how the run ends")
        }
    }
}
