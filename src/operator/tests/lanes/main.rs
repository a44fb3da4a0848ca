//! Lanes on a real API server: who is taken for one, and what their Deployments do.
//!
//! `tests/cluster/cluster up && tests/cluster/cluster exec cargo test -p m87-operator --test lanes -- --ignored`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod backlog;
mod callers;
mod deployments;
mod place;
