//! What to do about a run: facts in, one decision out. Nothing is looked up here, and there is no other place that decides.

use crate::reconcile::view::Tracked;
use m87_core::reason::Reason;
use m87_core::time::Timestamp;
use std::time::Duration;

/// How long references that do not exist are waited for, from when the run was first seen.
pub const REFERENCE_WAIT: Duration = Duration::from_secs(60);

/// Everything that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// Whether its spec can be read.
    pub readable: bool,
    /// `spec.cancel`.
    pub cancel: bool,
    /// `spec.suspend`.
    pub suspend: bool,
    /// Whether its policy, or the baseline, is suspended.
    pub policy_suspended: bool,
    /// How far the authority has it.
    pub stand: Stand,
    /// Whether the authority would know of it, had anything been done for it.
    pub history: History,
    /// Whether its status says that it is over.
    pub shown_over: bool,
    /// What it refers to.
    pub references: References,
    /// Whether the tenant may have one more open run.
    pub capacity: Capacity,
    /// How long the object of a sealed run is kept; `None` for ever.
    pub keep: Option<Duration>,
    /// Whether a GitOps tool would make it again.
    pub tracked: Tracked,
    /// Whether its status says what the authority has.
    pub shown: bool,
    /// What time it is.
    pub now: Timestamp,
}

/// How far the authority has a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// It knows nothing of it.
    Unknown,
    /// It is going on.
    Going,
    /// It is settled how it ends.
    Closing,
    /// There is its receipt.
    Sealed {
        /// Since when.
        at: Timestamp,
    },
    /// Another run has asked for the same before; this one executes nothing.
    AlreadyDone {
        /// When that one was sealed; `None` if it is not over.
        at: Option<Timestamp>,
    },
}

/// Whether what the authority does not know has not happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// It has not.
    Whole,
    /// Its store is older than its high-water mark, and nobody has accepted that.
    Refusing,
    /// Such a store was accepted after the object was made: whatever became of it is lost.
    Lost,
}

/// Whether the policy and the manifest of a run exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    /// Both.
    There,
    /// One does not, and has been waited for so long.
    Missing(Duration),
}

/// Whether a tenant may have one more open run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// Yes.
    Free,
    /// Not before one of its runs is over.
    Full,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it goes its way, or there is nothing to be done.
    Leave,
    /// Say that it cannot be read.
    Refuse,
    /// Not yet.
    Wait(Waiting),
    /// Open it.
    Open,
    /// Open it as one that is over, for this reason: it leaves a receipt.
    OpenEnded(Reason),
    /// End it.
    End(Reason),
    /// Delete the object: its time is over.
    Expire,
    /// Look again when its time is over.
    ExpireLater(Duration),
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// That somebody accepts the store, which is older than its high-water mark.
    StoreRestored,
    /// That it is no longer suspended.
    Suspended,
    /// That its policy, and the baseline, are no longer suspended.
    PolicySuspended,
    /// That one of the tenant's runs is over.
    Capacity,
    /// That its policy and manifest exist, so much longer.
    References(Duration),
}

/// Decides. What ends a run goes before what holds it up, so that a suspended run can be cancelled.
pub fn decide(facts: &Facts) -> Decision {
    match facts.stand {
        Stand::Unknown => unopened(facts),
        Stand::Going if facts.deleting => Decision::End(Reason::Deleted),
        Stand::Going if facts.cancel => Decision::End(Reason::Cancelled),
        // The authority itself reads whether it is suspended, before each step that matters.
        Stand::Going | Stand::Closing | Stand::AlreadyDone { at: None } => Decision::Leave,
        Stand::Sealed { at } | Stand::AlreadyDone { at: Some(at) } => over(facts, at),
    }
}

/// Whether it has to be read what would be opened, and who has done the same before: only for a run that is opened now, or of
/// which more may be to be said because another has done the same.
pub fn needs_request(facts: &Facts) -> bool {
    if facts.deleting || !facts.readable {
        return false;
    }
    let is_held = facts.suspend || facts.policy_suspended || facts.capacity == Capacity::Full;
    match facts.history {
        History::Whole => !is_held || facts.cancel || facts.shown_over,
        History::Refusing => false,
        History::Lost => true,
    }
}

fn unopened(facts: &Facts) -> Decision {
    if facts.deleting {
        return Decision::Leave;
    }
    match facts.history {
        History::Whole => {}
        // Its end was sealed in the history that is lost. What is said of it stays, and is never done again.
        History::Refusing | History::Lost if facts.shown_over => return Decision::Leave,
        History::Refusing => return Decision::Wait(Waiting::StoreRestored),
        History::Lost if facts.readable => return Decision::OpenEnded(Reason::OutcomeUnknown),
        History::Lost => {}
    }
    if !facts.readable {
        return Decision::Refuse;
    }
    if facts.cancel {
        return Decision::OpenEnded(Reason::Cancelled);
    }
    if facts.suspend {
        return Decision::Wait(Waiting::Suspended);
    }
    if facts.policy_suspended {
        return Decision::Wait(Waiting::PolicySuspended);
    }
    match (facts.references, facts.capacity) {
        (References::Missing(waited), _) if waited < REFERENCE_WAIT => {
            Decision::Wait(Waiting::References(REFERENCE_WAIT.saturating_sub(waited)))
        }
        (References::There | References::Missing(_), Capacity::Full) => Decision::Wait(Waiting::Capacity),
        (References::There | References::Missing(_), Capacity::Free) => Decision::Open,
    }
}

fn over(facts: &Facts, at: Timestamp) -> Decision {
    let Some(keep) = facts.keep else { return Decision::Leave };
    if facts.deleting || facts.tracked == Tracked::Yes || !facts.shown {
        return Decision::Leave;
    }
    let age = facts.now.millis().saturating_sub(at.millis());
    match keep.checked_sub(Duration::from_millis(u64::try_from(age).unwrap_or(0))) {
        Some(left) if !left.is_zero() => Decision::ExpireLater(left),
        Some(_) | None => Decision::Expire,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn facts(stand: Stand) -> Facts {
        Facts {
            deleting: false,
            readable: true,
            cancel: false,
            suspend: false,
            policy_suspended: false,
            stand,
            history: History::Whole,
            shown_over: false,
            references: References::There,
            capacity: Capacity::Free,
            keep: None,
            tracked: Tracked::No,
            shown: true,
            now: Timestamp::from_millis(100_000),
        }
    }

    fn epoch() -> Timestamp {
        Timestamp::from_millis(0)
    }

    /// Rows: what is asked of it. Columns: unknown, going, closing, sealed, already done (first one open, first one over).
    #[test]
    fn suspend_resume_cancel_and_delete_in_each_phase() {
        use Decision::{End, Leave, Open, OpenEnded, Wait};
        let phases = [
            Stand::Unknown,
            Stand::Going,
            Stand::Closing,
            Stand::Sealed { at: epoch() },
            Stand::AlreadyDone { at: None },
            Stand::AlreadyDone { at: Some(epoch()) },
        ];
        type Asked = fn(&mut Facts);
        let cancelled = OpenEnded(Reason::Cancelled);
        let suspended = Wait(Waiting::Suspended);
        let table: [(&str, Asked, [Decision; 2]); 9] = [
            ("nothing", |_| {}, [Open, Leave]),
            ("suspend", |f| f.suspend = true, [suspended, Leave]),
            ("resume", |f| f.suspend = false, [Open, Leave]),
            ("cancel", |f| f.cancel = true, [cancelled, End(Reason::Cancelled)]),
            ("delete", |f| f.deleting = true, [Leave, End(Reason::Deleted)]),
            ("cancel while suspended", |f| (f.cancel, f.suspend) = (true, true), [cancelled, End(Reason::Cancelled)]),
            ("delete while suspended", |f| (f.deleting, f.suspend) = (true, true), [Leave, End(Reason::Deleted)]),
            ("delete after cancel", |f| (f.deleting, f.cancel) = (true, true), [Leave, End(Reason::Deleted)]),
            ("policy suspended", |f| f.policy_suspended = true, [Wait(Waiting::PolicySuspended), Leave]),
        ];
        for (name, ask, [unknown, going]) in table {
            for (stand, expected) in phases.into_iter().zip([unknown, going, Leave, Leave, Leave, Leave]) {
                let mut facts = facts(stand);
                ask(&mut facts);
                assert_eq!(decide(&facts), expected, "{name} at {stand:?}");
            }
        }
    }

    #[test]
    fn an_unreadable_object_is_refused_only_while_nothing_is_known_of_it() {
        for (stand, expected) in [(Stand::Unknown, Decision::Refuse), (Stand::Going, Decision::Leave)] {
            assert_eq!(decide(&Facts { readable: false, ..facts(stand) }), expected);
        }
    }

    #[test]
    fn what_a_lost_history_may_have_done_is_never_done_again() {
        use Decision::{Leave, OpenEnded, Wait};
        let lost = |history, change: fn(&mut Facts)| {
            let mut facts = Facts { history, ..facts(Stand::Unknown) };
            change(&mut facts);
            decide(&facts)
        };
        let (waits, unknown) = (Wait(Waiting::StoreRestored), OpenEnded(Reason::OutcomeUnknown));
        for (history, expected) in [(History::Refusing, waits), (History::Lost, unknown)] {
            assert_eq!(lost(history, |_| {}), expected);
            assert_eq!(lost(history, |f| f.cancel = true), expected, "not HALT: there may have been an effect");
            assert_eq!(lost(history, |f| f.suspend = true), expected);
            assert_eq!(lost(history, |f| f.shown_over = true), Leave);
            assert_eq!(lost(history, |f| f.deleting = true), Leave);
        }
        assert_eq!(lost(History::Lost, |f| f.readable = false), Decision::Refuse);
        let going = Facts { history: History::Lost, cancel: true, ..facts(Stand::Going) };
        assert_eq!(decide(&going), Decision::End(Reason::Cancelled), "the authority knows of it");
    }

    /// Of every way in which an unknown run can be.
    #[test]
    fn what_is_opened_was_read_and_what_only_waits_was_not() {
        let mut waits = 0;
        for bits in 0..128_u32 {
            let is = |at: u32| bits >> at & 1 == 1;
            for history in [History::Whole, History::Refusing, History::Lost] {
                let facts = Facts {
                    deleting: is(0),
                    readable: !is(1),
                    cancel: is(2),
                    suspend: is(3),
                    policy_suspended: is(4),
                    shown_over: is(5),
                    capacity: if is(6) { Capacity::Full } else { Capacity::Free },
                    history,
                    ..facts(Stand::Unknown)
                };
                match decide(&facts) {
                    Decision::Open | Decision::OpenEnded(_) => assert!(needs_request(&facts), "{facts:?}"),
                    Decision::Wait(_) if !facts.shown_over => {
                        waits += 1;
                        assert!(!needs_request(&facts), "{facts:?}");
                    }
                    Decision::Refuse => assert!(!needs_request(&facts), "{facts:?}"),
                    Decision::Leave
                    | Decision::Wait(_)
                    | Decision::End(_)
                    | Decision::Expire
                    | Decision::ExpireLater(_) => {}
                }
            }
        }
        assert!(waits > 0);
        let over = Facts { suspend: true, shown_over: true, ..facts(Stand::Unknown) };
        assert!(needs_request(&over), "it may show what another has done");
    }

    #[test]
    fn references_are_waited_for_and_then_refused_with_a_receipt() {
        let missing = |waited| decide(&Facts { references: References::Missing(waited), ..facts(Stand::Unknown) });
        assert_eq!(missing(Duration::ZERO), Decision::Wait(Waiting::References(REFERENCE_WAIT)));
        assert_eq!(
            missing(REFERENCE_WAIT - Duration::from_secs(1)),
            Decision::Wait(Waiting::References(Duration::from_secs(1)))
        );
        assert_eq!(missing(REFERENCE_WAIT), Decision::Open);
    }

    #[test]
    fn a_tenant_at_its_cap_waits_but_can_still_cancel() {
        let full = Facts { capacity: Capacity::Full, ..facts(Stand::Unknown) };
        assert_eq!(decide(&full), Decision::Wait(Waiting::Capacity));
        assert_eq!(decide(&Facts { cancel: true, ..full }), Decision::OpenEnded(Reason::Cancelled));
    }

    #[test]
    fn an_object_expires_only_sealed_shown_untracked_and_never_by_default() {
        let old = |change: fn(&mut Facts)| {
            let mut facts = Facts { keep: Some(Duration::from_secs(60)), ..facts(Stand::Sealed { at: epoch() }) };
            change(&mut facts);
            decide(&facts)
        };
        assert_eq!(old(|_| {}), Decision::Expire);
        assert_eq!(old(|f| f.keep = None), Decision::Leave);
        assert_eq!(old(|f| f.tracked = Tracked::Yes), Decision::Leave);
        assert_eq!(old(|f| f.shown = false), Decision::Leave);
        assert_eq!(old(|f| f.deleting = true), Decision::Leave);
        assert_eq!(old(|f| f.stand = Stand::Going), Decision::Leave);
        assert_eq!(old(|f| f.keep = Some(Duration::from_secs(101))), Decision::ExpireLater(Duration::from_secs(1)));
        assert_eq!(old(|f| f.keep = Some(Duration::from_secs(100))), Decision::Expire);
        assert_eq!(old(|f| f.now = Timestamp::from_millis(-5)), Decision::ExpireLater(Duration::from_secs(60)));
    }
}
