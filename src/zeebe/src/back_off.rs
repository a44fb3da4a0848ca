//! How long to wait before asking again.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

/// Waits that double from `first` up to `cap`. Each is shortened by a random part, up to half, so that many clients that
/// lost the same server do not come back in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// The first wait, before it is shortened.
    pub first: Duration,
    /// No wait is longer.
    pub cap: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), cap: Duration::from_secs(10) }
    }
}

impl BackOff {
    /// A fresh series of waits.
    pub const fn start(self) -> Waits {
        Waits { policy: self, failures: 0 }
    }
}

/// One series of waits: from the first failure to the next success.
#[derive(Debug, Clone)]
pub struct Waits {
    policy: BackOff,
    failures: u32,
}

impl Waits {
    /// The wait after one more failure.
    pub fn failed(&mut self) -> Duration {
        let BackOff { first, cap } = self.policy;
        let full = first.saturating_mul(1_u32 << self.failures.min(20)).min(cap);
        self.failures = self.failures.saturating_add(1);
        full - full.mul_f64(0.5 * fraction())
    }

    /// True if the last thing that happened was a failure.
    pub const fn failing(&self) -> bool {
        self.failures > 0
    }

    /// It worked: the next failure waits for the first wait again.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// From 0 up to 1; unpredictable enough for jitter, without a generator to carry around.
fn fraction() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_start_anew_after_a_success() {
        let policy = BackOff { first: Duration::from_millis(100), cap: Duration::from_secs(1) };
        let mut waits = policy.start();
        for full in [100, 200, 400, 800, 1000, 1000] {
            let wait = waits.failed();
            assert!(wait <= Duration::from_millis(full), "{wait:?} of {full}");
            assert!(wait >= Duration::from_millis(full / 2), "{wait:?} of {full}");
        }
        waits.succeeded();
        assert!(waits.failed() <= Duration::from_millis(100));
    }

    #[test]
    fn two_clients_do_not_wait_in_step() {
        let mut waits: Vec<_> = (0..20).map(|_| BackOff::default().start().failed()).collect();
        waits.dedup();
        assert!(waits.len() > 10, "{waits:?}");
    }
}
