//! The pure core of m87: what a proposal, a plan, a decision, a gate and a receipt are.
//!
//! Nothing here reads a clock, draws a random number, opens a file or knows Kubernetes. Every judgement is a function of
//! its arguments, so that anyone who holds the same inputs reaches the same verdict, years later and without a server.

pub mod actor;
pub mod budget;
pub mod case;
pub mod contract;
pub mod decide;
pub mod decision;
pub mod dossier;
pub mod effects;
pub mod evidence;
pub mod explain;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod gates;
mod globs;
pub mod json;
pub mod lane;
pub mod log;
pub mod plan;
pub mod policy;
pub mod proposal;
pub mod reason;
pub mod receipt;
pub mod resolve;
pub mod risk;
pub mod sign;
pub mod strict;
pub mod target;
pub mod time;
pub mod tool;
