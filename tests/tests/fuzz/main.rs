//! Whatever comes in, nothing panics, nothing hangs, and nothing is taken for what it is not.
//!
//! Each target runs for a second, or for a minute with `tests/all --long` (`M87_FUZZ_SECONDS` says otherwise). Its seeds
//! follow one another from one that it prints: `M87_FUZZ_FROM=SEED` begins there again, and `M87_SEED=SEED` repeats one case.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod gateway;
mod mutate;
mod process;
mod readers;
mod receipts;
mod targets;

use mutate::Random;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// No case may take longer.
const PATIENCE: Duration = Duration::from_secs(30);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether the long tests were asked for.
pub fn is_long() -> bool {
    std::env::var_os("M87_LONG").is_some()
}

/// How long a target is tried.
pub fn budget() -> Duration {
    Duration::from_secs(number("M87_FUZZ_SECONDS").unwrap_or(if is_long() { 60 } else { 1 }))
}

/// Says something although tests are quiet.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "-- fuzz {line}");
}

/// Tries a target until its time is over.
pub fn fuzz(target: &str, mut case: impl FnMut(&mut Random)) {
    if let Some(seed) = number("M87_SEED") {
        return case(&mut Random::new(seed));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = number("M87_FUZZ_FROM").unwrap_or(since.as_millis() as u64);
    let (begun, budget) = (Instant::now(), budget());
    let mut seed = first;
    say(&format!("{target}: from seed {first}"));
    while begun.elapsed() < budget {
        let case_begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| case(&mut Random::new(seed))));
        let took = case_begun.elapsed();
        if outcome.is_err() || took > PATIENCE {
            say(&format!(
                "{target}: M87_SEED={seed} cargo test -p m87-tests --test fuzz {target} fails after {took:?}"
            ));
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
        assert!(took <= PATIENCE, "{target}: seed {seed} takes {took:?}");
        seed = seed.wrapping_add(1);
    }
    say(&format!("{target}: {} cases", seed.wrapping_sub(first)));
}
