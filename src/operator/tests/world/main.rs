//! What the authority stands on, kept by a real API server: references, mark, checkpoints, keys, TLS, lease.
//!
//! `tests/cluster/cluster up && tests/cluster/cluster exec cargo test -p m87-operator --test world -- --ignored`, on a cluster
//! without the chart: the resources' definitions here let everything through, as those of another version would.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod kept;
mod lease;
mod place;
mod references;
