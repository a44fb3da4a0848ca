//! The shell around the machine: one task that owns the journal, takes commands in batches, makes each batch durable in one
//! write, and only then answers, pushes jobs and tells who waits.

mod pollers;
mod round;
mod streams;
mod task;
#[cfg(test)]
mod tests;

use tokio::sync::oneshot;

pub(crate) use pollers::Pollers;
pub(crate) use streams::Streams;
pub(crate) use task::Task;

use crate::machine::{Answer, Command};
use crate::rejection::Rejection;

/// A command and who waits for its answer.
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<Answer, Rejection>>,
}
