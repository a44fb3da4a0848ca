//! What the machine promises, by table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod definitions;
mod flows;
mod governed;
mod jobs;
mod listeners;
mod properties;
mod variables;
