//! The loop of a job worker: take jobs, do them, report.
//!
//! Jobs come by push where the gateway can, and always by polling too, since a stream never brings what waited before it
//! was opened. A job stays with the worker by heartbeats for as long as its handler runs. What cannot be said to the
//! engine now is said again until the job's time is up; after that the engine hands the job out anew, so a handler must
//! bear being run twice for one job.

mod source;
mod task;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{back_off::BackOff, client::Activation, client::Client, error::Error, job::Job};

/// Does the jobs of one type.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does one job. Dropped if the job is gone (finished by another, cancelled) or the worker must stop.
    async fn handle(&self, job: Job) -> Outcome;
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done; the result is an object, or null for none.
    Complete(Value),
    /// It could not be done now, which is nobody's fault: to be tried again, with as many retries as before.
    Retry {
        /// Not before this.
        after: Duration,
        /// Why, for people.
        message: String,
    },
    /// It ended in an error that the process knows.
    Throw {
        /// By which the process catches it.
        code: String,
        /// Why, for people.
        message: String,
    },
    /// Another worker should do it, at once.
    HandBack,
}

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Who it is, for people who look for a job.
    pub name: String,
    /// How long a job stays with it between heartbeats, which come three to a timeout.
    pub timeout: Duration,
    /// How many jobs of one type it does at a time.
    pub max_jobs: u32,
    /// How long a poll is held when nothing is pushed.
    pub hold: Duration,
    /// How often to poll while jobs are pushed.
    pub sweep: Duration,
    /// Whether to have jobs pushed where the gateway can.
    pub push: bool,
    /// The waits after failures.
    pub back_off: BackOff,
    /// How long jobs may go on after the worker was told to stop; then they are handed back.
    pub grace: Duration,
    /// The variables to ask for; `None` for all.
    pub variables: Option<Vec<String>>,
    /// Who is told what the gateway says.
    pub listener: Option<Listener>,
}

/// Is told after each poll, by job type, whether the gateway gave an answer.
#[derive(Clone)]
pub struct Listener(Arc<Heard>);

type Heard = dyn Fn(&str, Result<(), &Error>) + Send + Sync;

impl Listener {
    /// Calls this; it must not block.
    pub fn new(heard: impl Fn(&str, Result<(), &Error>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(heard))
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

impl WorkerOptions {
    /// The usual: jobs for 30 s, 32 at a time, pushed, 10 s to finish.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            timeout: Duration::from_secs(30),
            max_jobs: 32,
            hold: Duration::from_secs(10),
            sweep: Duration::from_secs(5),
            push: true,
            back_off: BackOff::default(),
            grace: Duration::from_secs(10),
            variables: None,
            listener: None,
        }
    }
}

/// A worker for one or more job types.
pub struct JobWorker {
    client: Client,
    options: WorkerOptions,
    handlers: Vec<(String, Arc<dyn Handler>)>,
}

impl JobWorker {
    /// A worker that does nothing yet.
    pub const fn new(client: Client, options: WorkerOptions) -> Self {
        Self { client, options, handlers: Vec::new() }
    }

    /// Does the jobs of this type (without the prefix) by this handler.
    #[must_use]
    pub fn handle(mut self, job_type: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        self.handlers.push((job_type.into(), handler));
        self
    }

    /// Works until `stop`; then takes nothing more, lets what runs finish within the grace, hands the rest back, and
    /// returns. If this future is dropped instead, what runs is handed back.
    pub async fn run(self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let abort = CancellationToken::new();
        let _hand_back_when_dropped = abort.clone().drop_guard();
        let options = Arc::new(self.options);
        let types = self.handlers.into_iter().map(|(job_type, handler)| Line {
            ask: Activation {
                job_type,
                worker: options.name.clone(),
                timeout: options.timeout,
                variables: options.variables.clone(),
            },
            client: self.client.clone(),
            options: options.clone(),
            handler,
            slots: Arc::new(Semaphore::new(options.max_jobs.max(1) as usize)),
            tasks: tasks.clone(),
            stop: stop.clone(),
            abort: abort.clone(),
        });
        futures::future::join_all(types.map(source::take_jobs)).await;
        stop.cancelled().await;
        tasks.close();
        if tokio::time::timeout(options.grace, tasks.wait()).await.is_err() {
            abort.cancel();
            // Each task now only hands its job back, which may take as long again while the engine does not answer.
            tasks.wait().await;
        }
    }
}

/// What the work on one job type shares.
struct Line {
    ask: Activation,
    client: Client,
    options: Arc<WorkerOptions>,
    handler: Arc<dyn Handler>,
    /// One slot a job in flight.
    slots: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Take nothing more.
    stop: CancellationToken,
    /// Let go of everything.
    abort: CancellationToken,
}
