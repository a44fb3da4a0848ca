//! The pure engine: commands in, events out.
//!
//! [`process`] reads a state and a command and answers with events; [`State::apply`] is the only way a state changes.
//! Neither reads a clock, draws a number or touches a disk, so a journal of events *is* the state, and recovery is replay.

mod command;
mod compile;
mod expression;
mod graph;
mod state;

use m87_core::time::Timestamp;

pub use command::{
    ActivateRequest, ActivatedJob, Activation, Answer, Command, CreateRequest, Created, DeployedProcess, Deployment,
    JobKind, Reach, Resource, StreamRequest, Target,
};
pub use state::State;

/// The present, as the shell tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// What expressions see.
    pub seen: Timestamp,
    /// What job deadlines run on: milliseconds since the Unix epoch, never going back.
    pub millis: i64,
}
