//! How many pods a lane should have: more while jobs wait, fewer after a quiet time. Pure; the caller has the clock.

use m87_engine::Load;
use std::time::Duration;

/// Jobs that one pod holds before more of them have to wait.
const PER_POD: usize = 32;
/// Jobs that may wait: a job on its way to a worker waits for a moment too.
const WAITING: usize = 8;
/// Looks in a row that must find jobs waiting.
const LOOKS: u32 = 2;
/// How long fewer pods must have been enough before one goes.
const QUIET: Duration = Duration::from_secs(300);

/// The fewest and the most pods of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The fewest; at least 1 counts.
    pub min: u32,
    /// The most; at least the fewest counts.
    pub max: u32,
}

impl Bounds {
    fn clamp(self, pods: u32) -> u32 {
        let min = self.min.max(1);
        pods.clamp(min, self.max.max(min))
    }
}

/// What is seen of a lane at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// What there is to do; `None` where nobody knows (a real Zeebe does not say).
    pub load: Option<Load>,
    /// Pods that do jobs.
    pub ready: u32,
}

/// What is remembered of a lane from look to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// The pods it should have.
    pub wanted: u32,
    /// Looks in a row that found jobs waiting.
    pressed: u32,
    /// Since when fewer pods would have been enough, on the caller's clock.
    quiet_since: Option<Duration>,
}

impl Track {
    /// A lane that has, or should have, so many pods.
    pub const fn of(wanted: u32) -> Self {
        Self { wanted, pressed: 0, quiet_since: None }
    }
}

/// The lane after a look at `now`, on a clock that only goes forward.
///
/// Up: at once by what waits, at most to double, and not again before the pods of the last step do jobs. Down: one pod after
/// each quiet time, only if those that stay can hold what is held.
pub fn step(track: Track, seen: Seen, bounds: Bounds, now: Duration) -> Track {
    let Some(load) = seen.load else { return Track::of(bounds.clamp(bounds.min)) };
    let wanted = bounds.clamp(track.wanted);
    let pressed = if load.waiting > WAITING { track.pressed.saturating_add(1) } else { 0 };
    if pressed >= LOOKS && seen.ready >= wanted {
        let more = u32::try_from(load.waiting.div_ceil(PER_POD)).unwrap_or(u32::MAX);
        return Track::of(bounds.clamp(wanted.saturating_add(more.min(wanted))));
    }
    if !fewer_would_do(load, wanted) || bounds.clamp(wanted - 1) == wanted {
        return Track { wanted, pressed, quiet_since: None };
    }
    let since = track.quiet_since.unwrap_or(now);
    if now.saturating_sub(since) >= QUIET {
        return Track { wanted: wanted - 1, pressed: 0, quiet_since: Some(now) };
    }
    Track { wanted, pressed, quiet_since: Some(since) }
}

/// Whether one pod less could hold what is held, with a quarter to spare.
const fn fewer_would_do(load: Load, wanted: u32) -> bool {
    let room = (wanted.saturating_sub(1) as usize).saturating_mul(PER_POD) / 4 * 3;
    load.waiting == 0 && load.held <= room
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { min: 1, max: 8 };

    const fn seen(waiting: usize, held: usize, ready: u32) -> Seen {
        Seen { load: Some(Load { waiting, held }), ready }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The pods wanted after each look, five seconds apart.
    fn after(mut track: Track, looks: &[Seen]) -> Vec<u32> {
        let step = |(index, look): (usize, &Seen)| {
            track = super::step(track, *look, BOUNDS, at(5 * index as u64));
            track.wanted
        };
        looks.iter().enumerate().map(step).collect()
    }

    #[test]
    fn a_lane_grows_by_what_waits_and_at_most_doubles_at_a_time() {
        assert_eq!(after(Track::of(1), &[seen(9, 32, 1); 2]), [1, 2]);
        assert_eq!(after(Track::of(1), &[seen(500, 32, 1), seen(500, 32, 1)]), [1, 2]);
        assert_eq!(after(Track::of(2), &[seen(500, 64, 2), seen(500, 64, 2)]), [2, 4]);
        assert_eq!(after(Track::of(6), &[seen(500, 192, 6), seen(500, 192, 6)]), [6, 8]);
    }

    #[test]
    fn a_moments_backlog_or_pods_that_still_start_make_no_more_pods() {
        assert_eq!(after(Track::of(1), &[seen(9, 32, 1), seen(0, 20, 1), seen(9, 32, 1)]), [1, 1, 1]);
        assert_eq!(after(Track::of(1), &[seen(8, 32, 1); 4]), [1; 4]);
        assert_eq!(after(Track::of(2), &[seen(90, 32, 1); 4]), [2; 4]);
    }

    #[test]
    fn a_lane_shrinks_one_pod_after_each_quiet_time() {
        let mut track = Track::of(3);
        let mut wanted = Vec::new();
        for minute in 0..=11 {
            track = step(track, seen(0, 0, track.wanted), BOUNDS, at(60 * minute));
            wanted.push(track.wanted);
        }
        assert_eq!(wanted, [3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn work_begins_the_quiet_time_anew_and_what_is_held_keeps_its_pods() {
        let mut track = Track::of(2);
        for (minute, load) in [(0, seen(0, 0, 2)), (4, seen(1, 0, 2)), (5, seen(0, 0, 2)), (9, seen(0, 0, 2))] {
            track = step(track, load, BOUNDS, at(60 * minute));
            assert_eq!(track.wanted, 2, "minute {minute}");
        }
        for minute in 0..100 {
            track = step(track, seen(0, 25, 2), BOUNDS, at(60 * minute));
        }
        assert_eq!(track.wanted, 2);
    }

    #[test]
    fn without_figures_the_count_is_fixed() {
        let blind = Seen { load: None, ready: 5 };
        assert_eq!(step(Track::of(5), blind, Bounds { min: 2, max: 8 }, at(0)).wanted, 2);
    }

    proptest! {
        #[test]
        fn a_lane_stays_within_its_bounds_and_one_steady_load_settles(
            start in 0u32..100, min in 0u32..10, max in 0u32..20, waiting in 0usize..1000, held in 0usize..1000,
        ) {
            let bounds = Bounds { min, max };
            let mut track = Track::of(start);
            let mut wanted = Vec::new();
            for look in 0..2_000u64 {
                track = step(track, seen(waiting, held, track.wanted), bounds, at(5 * look));
                prop_assert!(track.wanted >= min.max(1) && track.wanted <= max.max(min.max(1)));
                wanted.push(track.wanted);
            }
            let only = |ahead: fn(&u32, &u32) -> bool| wanted.windows(2).all(|pair| ahead(&pair[0], &pair[1]));
            prop_assert!(only(|one, next| one <= next) || only(|one, next| one >= next), "{wanted:?}");
            prop_assert_eq!(wanted[1_500], wanted[1_999]);
        }
    }
}
