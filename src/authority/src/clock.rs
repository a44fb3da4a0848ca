//! What time it is, twice: as it is recorded, and as limits are measured.
//!
//! With an injected clock what is recorded stands still, so that receipts come out byte for byte; limits always use real
//! time.

use m87_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An instant on the machine's own clock, in milliseconds since the Unix epoch: for limits, never for evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(pub i64);

impl Wall {
    /// This instant and so much more.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to this; nothing, if it is not later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// One reading of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// What evidence and receipts say.
    pub at: Timestamp,
    /// What limits are measured by.
    pub wall: Wall,
}

/// Where instants come from.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now(&self) -> Now;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let wall = wall();
        Now { at: Timestamp::from_millis(wall.0), wall }
    }
}

/// An instant given from outside: what is recorded never moves.
#[derive(Debug, Clone, Copy)]
pub struct FrozenClock(pub Timestamp);

impl Clock for FrozenClock {
    fn now(&self) -> Now {
        Now { at: self.0, wall: wall() }
    }
}

fn wall() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_records_one_instant_and_measures_real_time() {
        let clock = FrozenClock(Timestamp::from_millis(1_000));
        let (first, second) = (clock.now(), clock.now());
        assert_eq!(first.at, second.at);
        assert!(first.wall.0 > 1_000_000_000_000);
        assert_eq!(Wall(5).since(Wall(9)), Duration::ZERO);
        assert_eq!(Wall(9).since(Wall(5)), Duration::from_millis(4));
    }
}
