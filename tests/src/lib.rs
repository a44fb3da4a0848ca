//! What the tests of the whole share: a scene with files, the built binary, and a reader of what came of it.
//!
//! The invariants are checked from outside: effects are lines in a file that tools append to, terminals are what the
//! receipts' own bytes say. Nothing of m87's library judges m87 here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

pub mod external;
pub mod processes;
pub mod random;
pub mod scene;

pub use random::Random;
pub use scene::{Outcome, Scene};

/// How often a random moment is tried: three times, twenty with `tests/all --long`.
pub fn moments() -> u64 {
    if std::env::var_os("M87_LONG").is_some() { 20 } else { 3 }
}
