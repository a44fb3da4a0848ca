//! One command: from a state to the events that carry it out, or to a rejection that leaves no trace.
//!
//! A [`Walk`] is the step under way. It applies each event to its own copy of the state the moment it is decided, so that the
//! next decision sees it; a rejection simply drops the copy.

use std::collections::VecDeque;

use super::Now;
use super::apply::Misfit;
use super::command::{Answer, Command};
use super::event::Event;
use super::state::{Stage, State};
use crate::rejection::{Intent, Rejection, RejectionKind};

/// An accepted command.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The state after it.
    pub state: State,
    /// What happened, in order. `state` is the state before with these applied.
    pub events: Vec<Event>,
    /// What the caller is told.
    pub answer: Answer,
}

/// Carries out a command. Pure: the same state, command and present give the same step.
///
/// # Errors
/// The command cannot be carried out; the state is as it was.
pub fn process(state: &State, command: Command, now: Now) -> Result<Step, Rejection> {
    let intent = intent(&command);
    let mut walk = Walk { state: state.clone(), events: Vec::new(), now, todo: VecDeque::new(), moves: 0 };
    let answer = walk.carry_out(command).and_then(|answer| walk.run().map(|()| answer));
    match answer {
        Ok(answer) => Ok(Step { state: walk.state, events: walk.events, answer }),
        Err(Stop::Rejected(kind, reason)) => Err(Rejection::new(kind, intent, reason)),
        Err(Stop::Misfit(misfit)) => Err(Rejection::new(RejectionKind::ProcessingError, intent, misfit.to_string())),
    }
}

const fn intent(command: &Command) -> Intent {
    match command {
        Command::Deploy(_) | Command::Create(_) => Intent::Create,
        Command::Activate(_) | Command::Push { .. } | Command::HandBack(_) | Command::Tick => Intent::Activate,
        Command::Complete { .. } => Intent::Complete,
        Command::Fail { .. } => Intent::Fail,
        Command::ThrowError { .. } => Intent::ThrowError,
        Command::UpdateRetries { .. } => Intent::UpdateRetries,
        Command::UpdateTimeout { .. } => Intent::UpdateTimeout,
        Command::Cancel { .. } => Intent::Cancel,
        Command::SetVariables { .. } => Intent::Update,
        Command::Resolve { .. } => Intent::Resolve,
    }
}

/// Why a walk was given up.
pub(super) enum Stop {
    /// The command cannot be carried out.
    Rejected(RejectionKind, String),
    /// The machine contradicts itself; never seen outside, and refused rather than trusted.
    Misfit(Misfit),
}

impl From<Misfit> for Stop {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

pub(super) fn reject<T>(kind: RejectionKind, reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Rejected(kind, reason.into()))
}

/// A command being carried out.
pub(super) struct Walk {
    pub(super) state: State,
    pub(super) events: Vec<Event>,
    pub(super) now: Now,
    /// Element instances that can go on, and from where.
    pub(super) todo: VecDeque<(i64, Stage)>,
    /// How many of them went on so far.
    pub(super) moves: usize,
}

impl Walk {
    /// Makes something happen.
    pub(super) fn emit(&mut self, event: Event) -> Result<(), Stop> {
        self.state.apply(&event)?;
        self.events.push(event);
        Ok(())
    }

    /// The key for the next event that carries a new one.
    pub(super) const fn new_key(&self) -> i64 {
        self.state.key_ahead(0)
    }

    fn carry_out(&mut self, command: Command) -> Result<Answer, Stop> {
        match command {
            Command::Deploy(resources) => self.deploy(&resources),
            Command::Create(request) => self.create(&request),
            Command::Activate(request) => self.activate(&request),
            Command::Push { job, stream } => self.push(job, &stream),
            Command::HandBack(jobs) => self.hand_back(&jobs),
            Command::Complete { job, variables } => self.complete(job, variables),
            Command::Fail { job, retries, back_off, message, variables } => {
                self.fail(job, retries, back_off, &message, variables)
            }
            Command::ThrowError { job, code, message, variables } => {
                self.throw_for_job(job, &code, &message, variables)
            }
            Command::UpdateRetries { job, retries } => self.update_retries(job, retries),
            Command::UpdateTimeout { job, timeout } => self.update_timeout(job, timeout),
            Command::Cancel { instance } => self.cancel(instance),
            Command::SetVariables { scope, variables, reach } => self.set_variables(scope, variables, reach),
            Command::Resolve { incident } => self.resolve(incident),
            Command::Tick => self.tick(),
        }
    }
}
