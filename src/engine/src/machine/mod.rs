//! The pure engine: commands in, events out.
//!
//! [`process`] reads a state and a command and answers with events; [`State::apply`] is the only way a state changes.
//! Neither reads a clock, draws a number or touches a disk, so a journal of events *is* the state, and recovery is replay.

mod apply;
mod command;
mod compile;
mod deploy;
mod event;
mod expression;
mod graph;
mod incidents;
mod jobs;
mod lifecycle;
mod mapping;
mod process;
mod state;
#[cfg(test)]
mod tests;
mod variables;
mod views;

use m87_core::time::Timestamp;

pub use apply::Misfit;
pub use command::{
    ActivateRequest, ActivatedJob, Activation, Answer, Command, CreateRequest, Created, DeployedProcess, Deployment,
    JobKind, Reach, Resource, StreamRequest, Target,
};
pub use event::{DeployedResource, EVENT_VERSION, Event};
pub use process::{Step, process};
pub use state::{Definition, Element, Incident, Job, JobState, Shared, Stage, State, Wait};

/// The present, as the shell tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// What expressions see.
    pub seen: Timestamp,
    /// What job deadlines run on: milliseconds since the Unix epoch, never going back.
    pub millis: i64,
}
