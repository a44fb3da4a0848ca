//! Attempts with real processes: `exec`, the shim and tools that behave badly, against an authority that is a folder.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod artifacts;
mod deaths;
mod executor;
mod limits;
mod pods;
mod support;
mod surroundings;
mod validations;
