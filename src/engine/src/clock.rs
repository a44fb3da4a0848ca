//! The shell's two clocks. The one that processes see may be frozen; the one that job deadlines run on never is.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use m87_core::time::Timestamp;

use crate::machine::Now;

/// What processes take the time to be (`now()` in an expression).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The machine's.
    #[default]
    System,
    /// Stopped at an instant, so that the same commands give the same journal.
    Frozen(Timestamp),
}

/// Reads both clocks. Deadlines advance with the monotonic clock from the wall time at start, so that setting the wall
/// clock neither expires jobs nor keeps them for ever.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    seen: Clock,
    started: Instant,
    started_millis: i64,
}

impl Clocks {
    pub(crate) fn new(seen: Clock) -> Self {
        Self { seen, started: Instant::now(), started_millis: wall_millis() }
    }

    pub(crate) fn now(&self) -> Now {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let seen = match self.seen {
            Clock::System => Timestamp::from_millis(wall_millis()),
            Clock::Frozen(instant) => instant,
        };
        Now { seen, millis: self.started_millis.saturating_add(elapsed) }
    }
}

fn wall_millis() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
