//! Who leads, decided on one's own monotonic clock alone. What other machines believe the time to be is never read.
//!
//! - A holder counts as gone once its lease has not changed for its whole duration *since this process first saw it so*.
//! - A leader stops well before anybody can come to that: it leads until [`Config::renew_deadline`] after it *sent* the last
//!   write that was confirmed. The write was done after it was sent, and seen by others after it was done.
//! - A lease that is not there may have been deleted under a leader that does not know it yet. Whoever creates it anew waits for
//!   it as if it were another's.
//! - Every write is a compare-and-set on the version that was seen, so that of two that are due one is made. A write without
//!   an answer may still be made later; it gives nobody the lead, and all that it does is lengthen a wait.
//!
//! Each taking of the lease raises `leaseTransitions`, and a process that has lost it never leads again: its number is its
//! epoch.

use std::time::Duration;

/// An instant on this machine's own clock, which never stands still and never jumps: the time since it was booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(pub Duration);

impl Monotonic {
    /// This instant and so much more.
    #[must_use]
    pub const fn plus(self, more: Duration) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// How long from now until this; nothing, if it has come.
    #[must_use]
    pub const fn after(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}

/// Who this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Where at most one process of ours runs at one time: a pod's name and uid. Whoever was there before is dead.
    pub place: String,
    /// Drawn anew at each start.
    pub start: String,
}

impl Identity {
    /// As it stands in the lease.
    pub fn name(&self) -> String {
        format!("{}/{}", self.place, self.start)
    }

    fn holds(&self, record: &Record) -> bool {
        record.holder.as_deref() == Some(&self.name())
    }

    fn is_predecessor(&self, record: &Record) -> bool {
        let place = record.holder.as_deref().and_then(|holder| holder.rsplit_once('/')).map(|(place, _)| place);
        place == Some(&self.place) && !self.holds(record)
    }
}

/// Whether somebody has led here before this process: it shows in the high-water mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Nobody: a lease that is not there was never there.
    Nobody,
    /// Somebody: a lease that is not there was deleted, perhaps under a leader that does not know it yet.
    Somebody,
}

/// How long everything takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How long a lease holds for others, unless it says longer itself.
    pub duration: Duration,
    /// How long a leader leads after it sent a write that was confirmed. Well below the duration.
    pub renew_deadline: Duration,
    /// How often a leader writes, and others look.
    pub retry: Duration,
    /// Whether somebody has led here before.
    pub before: Before,
}

impl Config {
    /// With what a lease is created: taken once where that gives the lead, never where it is waited for first.
    pub const fn transitions_when_created(&self) -> i64 {
        match self.before {
            Before::Nobody => 1,
            Before::Somebody => 0,
        }
    }

    /// 15 s, 10 s, 2 s.
    pub const fn usual(before: Before) -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            before,
        }
    }
}

/// The lease as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// For compare-and-set.
    pub version: String,
    /// Who holds it; `None` if it was released.
    pub holder: Option<String>,
    /// How long it holds by its own words.
    pub duration: Duration,
    /// How often it was taken.
    pub transitions: i64,
}

impl Record {
    /// Whether a holder has led with it. If not, it was created anew and is still waited for, whoever holds or released it.
    const fn was_led(&self) -> bool {
        self.transitions > 0
    }
}

/// What was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// Nothing, or nobody knows what has become of it since.
    Unknown,
    /// There was none.
    Absent,
    /// This, first seen so at this instant.
    There(Record, Monotonic),
}

/// What this process has of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Own {
    /// It was never confirmed to have it.
    Never,
    /// It has it: the last confirmed write was sent at this instant.
    Since(Monotonic),
    /// It had it, or wants it no longer.
    Over(Loss),
}

/// Why this process does not lead any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// No write was confirmed in time.
    #[error("the lease could not be renewed in time")]
    Expired,
    /// Another has it.
    #[error("{0} has taken the lease")]
    Taken(String),
    /// Somebody has deleted it.
    #[error("the lease was deleted")]
    Deleted,
    /// It was given back.
    #[error("the lease was released")]
    Released,
}

/// All that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knowledge {
    identity: Identity,
    seen: Seen,
    own: Own,
    stopping: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Read the lease.
    Look,
    /// Create it.
    Create,
    /// Take it in place of this record.
    Acquire(Record),
    /// Write it again, in place of this record.
    Renew(Record),
    /// Give it back, in place of this record.
    Release(Record),
    /// Nothing before this instant.
    Wait(Monotonic),
    /// Stop everything: this process leads no more, and never again.
    Lost(Loss),
}

/// Decides.
pub fn decide(knowledge: &Knowledge, now: Monotonic, config: &Config) -> Decision {
    match &knowledge.own {
        Own::Over(loss) => Decision::Lost(loss.clone()),
        Own::Since(sent) => decide_as_leader(knowledge, *sent, now, config),
        Own::Never => decide_as_candidate(knowledge, now, config),
    }
}

fn decide_as_leader(knowledge: &Knowledge, sent: Monotonic, now: Monotonic, config: &Config) -> Decision {
    if now >= sent.plus(config.renew_deadline) {
        return Decision::Lost(Loss::Expired);
    }
    let next = sent.plus(config.retry);
    match &knowledge.seen {
        Seen::Unknown => Decision::Look,
        Seen::Absent => Decision::Lost(Loss::Deleted),
        Seen::There(record, _) if !knowledge.identity.holds(record) => {
            Decision::Lost(Loss::Taken(record.holder.clone().unwrap_or_else(|| "nobody".to_owned())))
        }
        Seen::There(record, _) if knowledge.stopping => Decision::Release(record.clone()),
        Seen::There(record, _) if now >= next => Decision::Renew(record.clone()),
        Seen::There(..) => Decision::Wait(next),
    }
}

fn decide_as_candidate(knowledge: &Knowledge, now: Monotonic, config: &Config) -> Decision {
    let identity = &knowledge.identity;
    let once = |free: Monotonic, then: Decision| if now >= free { then } else { Decision::Wait(free) };
    match &knowledge.seen {
        // Its own write went through without an answer.
        Seen::There(record, _) if knowledge.stopping && identity.holds(record) => Decision::Release(record.clone()),
        Seen::Unknown | Seen::Absent | Seen::There(..) if knowledge.stopping => Decision::Lost(Loss::Released),
        Seen::Unknown => Decision::Look,
        Seen::Absent => Decision::Create,
        Seen::There(record, _) if record.was_led() && (record.holder.is_none() || identity.is_predecessor(record)) => {
            Decision::Acquire(record.clone())
        }
        // Its own too, where that gives no lead: it may stand where another's was deleted.
        Seen::There(record, since) => {
            let longest = config.duration.saturating_mul(10);
            let duration = record.duration.clamp(config.duration, longest);
            once(since.plus(duration), Decision::Acquire(record.clone()))
        }
    }
}

impl Knowledge {
    /// Nothing is known.
    pub const fn new(identity: Identity) -> Self {
        Self { identity, seen: Seen::Unknown, own: Own::Never, stopping: false }
    }

    /// Who this process is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The lease was read; the answer came at this instant.
    pub fn saw(&mut self, record: Option<Record>, came: Monotonic) {
        self.seen = match (record, &self.seen) {
            (Some(record), Seen::There(before, since)) if before.version == record.version => {
                Seen::There(record, *since)
            }
            (Some(record), Seen::Unknown | Seen::Absent | Seen::There(..)) => Seen::There(record, came),
            (None, Seen::Unknown | Seen::Absent | Seen::There(..)) => Seen::Absent,
        };
    }

    /// The lease was created by this process: sent at this instant, confirmed at that one with this record. Where somebody has
    /// led before, that is no lead yet: it is waited for like another's, and then taken.
    pub fn created(&mut self, record: Record, sent: Monotonic, came: Monotonic, config: &Config) {
        match config.before {
            Before::Nobody => self.wrote(record, sent, came),
            Before::Somebody => self.saw(Some(record), came),
        }
    }

    /// The lease was replaced by this process: sent at this instant, confirmed at that one with this record.
    pub fn wrote(&mut self, record: Record, sent: Monotonic, came: Monotonic) {
        if self.identity.holds(&record) {
            self.seen = Seen::There(record, came);
            self.own = Own::Since(sent);
        } else {
            self.own = Own::Over(Loss::Released);
        }
    }

    /// Somebody has written in between, or nobody knows what has become of a write: what was seen counts no more.
    pub fn must_look(&mut self) {
        self.seen = Seen::Unknown;
    }

    /// This process leads no more and is about to end: what it has is given back.
    pub const fn stop(&mut self) {
        self.stopping = true;
    }

    /// Until when this process leads, if nothing more is confirmed; `None` if it does not.
    pub fn leads_until(&self, config: &Config) -> Option<Monotonic> {
        if self.stopping { None } else { self.holds_until(config) }
    }

    /// Until when nobody else can have the lease, if nothing more is confirmed; `None` if nobody knows.
    pub fn holds_until(&self, config: &Config) -> Option<Monotonic> {
        match (&self.own, &self.seen) {
            (Own::Since(_), Seen::There(record, _)) if !self.identity.holds(record) => None,
            (Own::Since(_), Seen::Absent) => None,
            (Own::Since(sent), Seen::Unknown | Seen::There(..)) => Some(sent.plus(config.renew_deadline)),
            (Own::Never | Own::Over(_), _) => None,
        }
    }

    /// What it has to stand with as long as it leads: how often the lease was taken, this time included.
    pub const fn transitions(&self) -> Option<i64> {
        match (&self.own, &self.seen) {
            (Own::Since(_), Seen::There(record, _)) => Some(record.transitions),
            (Own::Since(_), Seen::Unknown | Seen::Absent) | (Own::Never | Own::Over(_), _) => None,
        }
    }

    /// Who holds it by what was seen last, if that is another.
    pub fn other_holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::There(record, _) if !self.identity.holds(record) => record.holder.as_deref(),
            Seen::There(..) | Seen::Unknown | Seen::Absent => None,
        }
    }
}
