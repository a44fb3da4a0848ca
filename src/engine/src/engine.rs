//! The handle of a running engine. Cloned freely; every clone speaks to the one task that owns the journal.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Clocks};
use crate::document::Document;
use crate::journal::{Journal, OpenError, draw_id};
use crate::machine::{
    ActivateRequest, ActivatedJob, Activation, Answer, Command, CreateRequest, Created, Deployment, Reach, Resource,
    State, StreamRequest,
};
use crate::rejection::{Intent, Rejection, RejectionKind};
use crate::shell::{Pollers, Request, Streams, Task};
use crate::view::{IncidentView, InstanceView, JobView, Load, Notice};

/// How often a long poll looks again although nobody woke it.
const PROBE: Duration = Duration::from_secs(2);

/// Commands that may wait for the engine; who comes later waits to hand his over.
const QUEUED: usize = 4096;

/// Notices that a listener may lag behind.
const NOTICES: usize = 65_536;

/// How an engine is opened.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// The folder of the journal, made if absent; `None` keeps nothing.
    pub data: Option<PathBuf>,
    /// The engine's id at its first start; drawn at random if `None`. A journal keeps the id it began with, and refuses another.
    pub id: Option<String>,
    /// What processes take the time to be.
    pub clock: Clock,
    /// Where those work who do its jobs.
    pub workers: Workers,
}

/// Where those work who do an engine's jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Workers {
    /// Anywhere: they may outlive the engine, so what they hold when it stops stays theirs until its deadline.
    #[default]
    Anywhere,
    /// In the engine's own process and nowhere else: whoever held a job before this opening is no more, so every such job
    /// is on offer again at once, its retries unchanged.
    WithinThisProcess,
}

/// A running engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) id: String,
    pub(crate) requests: mpsc::Sender<Request>,
    /// The state as of the last commit.
    pub(crate) committed: Arc<RwLock<State>>,
    /// Held by the task, so that receivers learn of its end.
    pub(crate) notices: broadcast::WeakSender<Notice>,
    pub(crate) streams: Streams,
    pub(crate) pollers: Pollers,
    pub(crate) stop: CancellationToken,
    pub(crate) stopped: CancellationToken,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Engine {
    /// Opens an engine, recovering what its journal holds, and starts it.
    ///
    /// # Errors
    /// The folder is in use, cannot be read, belongs to another engine, or holds what this build cannot trust.
    pub async fn open(options: EngineOptions) -> Result<Self, OpenError> {
        let (journal, state, id) = match &options.data {
            Some(folder) => {
                let (journal, state) = Journal::open(folder, options.id.as_deref()).await?;
                let id = journal.engine().to_owned();
                (Some(journal), state, id)
            }
            None => (None, State::default(), options.id.map_or_else(draw_id, Ok)?),
        };
        let orphaned = match options.workers {
            Workers::Anywhere => Vec::new(),
            Workers::WithinThisProcess => state.activations(),
        };
        let (requests, taken) = mpsc::channel(QUEUED);
        let notices = broadcast::Sender::new(NOTICES);
        let inner = Inner {
            id,
            requests,
            committed: Arc::new(RwLock::new(state.clone())),
            notices: notices.downgrade(),
            streams: Streams::default(),
            pollers: Pollers::default(),
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
            runtime: tokio::runtime::Handle::current(),
        };
        let task = Task {
            journal,
            state,
            clocks: Clocks::new(options.clock),
            requests: taken,
            committed: Arc::clone(&inner.committed),
            notices,
            streams: inner.streams.clone(),
            pollers: inner.pollers.clone(),
            stop: inner.stop.clone(),
            stopped: inner.stopped.clone(),
            queue: VecDeque::new(),
            returned: orphaned,
            in_doubt: false,
            snapshot: None,
        };
        tokio::spawn(task.run());
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The engine's id: another one means another history.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Deploys resources: all or none. Unchanged ones keep their version and key.
    pub async fn deploy(&self, resources: Vec<Resource>) -> Result<Deployment, Rejection> {
        match self.send(Command::Deploy(resources)).await? {
            Answer::Deployed(deployment) => Ok(deployment),
            other => Err(unexpected(Intent::Create, &other)),
        }
    }

    /// Creates a process instance.
    pub async fn create_instance(&self, request: CreateRequest) -> Result<Created, Rejection> {
        match self.send(Command::Create(request)).await? {
            Answer::Created(created) => Ok(created),
            other => Err(unexpected(Intent::Create, &other)),
        }
    }

    /// Hands out jobs that wait now, perhaps none. Dropping the future hands them back.
    pub async fn activate(&self, request: ActivateRequest) -> Result<Vec<ActivatedJob>, Rejection> {
        match self.send(Command::Activate(request)).await? {
            Answer::Activated(jobs) => Ok(jobs),
            other => Err(unexpected(Intent::Activate, &other)),
        }
    }

    /// Hands out at least one job, or none when `wait` is over (a long poll). Dropping the future hands the jobs back.
    pub async fn poll(&self, request: ActivateRequest, wait: Duration) -> Result<Vec<ActivatedJob>, Rejection> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let woken = self.inner.pollers.wait(&request.job_type);
            tokio::pin!(woken);
            // Registered before looking, so that a job made in between is not missed.
            woken.as_mut().enable();
            let jobs = self.activate(request.clone()).await?;
            let now = tokio::time::Instant::now();
            if !jobs.is_empty() || now >= deadline || self.inner.stop.is_cancelled() {
                return Ok(jobs);
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(deadline.min(now + PROBE)) => {}
                () = self.inner.stop.cancelled() => return Ok(Vec::new()),
            }
        }
    }

    /// Opens a stream of jobs as they become activatable; what waits already is left to polling. Dropping the stream hands
    /// back the jobs that were not taken from it. It ends when the engine stops.
    pub fn subscribe(&self, request: StreamRequest) -> JobStream {
        JobStream { jobs: self.inner.streams.open(request), engine: self.clone() }
    }

    /// Takes jobs back that did not reach their worker; retries are unchanged.
    pub async fn hand_back(&self, jobs: Vec<Activation>) -> Result<(), Rejection> {
        self.send(Command::HandBack(jobs)).await.map(drop)
    }

    /// Completes a job.
    pub async fn complete_job(&self, job: i64, variables: Document) -> Result<(), Rejection> {
        self.send(Command::Complete { job, variables }).await.map(drop)
    }

    /// Fails a job; without retries left an incident is raised. `back_off` is in milliseconds.
    pub async fn fail_job(
        &self,
        job: i64,
        retries: i32,
        back_off: i64,
        message: String,
        variables: Document,
    ) -> Result<(), Rejection> {
        self.send(Command::Fail { job, retries, back_off, message, variables }).await.map(drop)
    }

    /// Throws a BPMN error for a job.
    pub async fn throw_error(
        &self,
        job: i64,
        code: String,
        message: String,
        variables: Document,
    ) -> Result<(), Rejection> {
        self.send(Command::ThrowError { job, code, message, variables }).await.map(drop)
    }

    /// Gives a job retries.
    pub async fn update_retries(&self, job: i64, retries: i32) -> Result<(), Rejection> {
        self.send(Command::UpdateRetries { job, retries }).await.map(drop)
    }

    /// Gives an activated job `timeout` milliseconds from now.
    pub async fn update_timeout(&self, job: i64, timeout: i64) -> Result<(), Rejection> {
        self.send(Command::UpdateTimeout { job, timeout }).await.map(drop)
    }

    /// Ends an instance.
    pub async fn cancel_instance(&self, instance: i64) -> Result<(), Rejection> {
        self.send(Command::Cancel { instance }).await.map(drop)
    }

    /// Sets variables in the scope of an element instance; answers the key of the change.
    pub async fn set_variables(&self, scope: i64, variables: Document, reach: Reach) -> Result<i64, Rejection> {
        match self.send(Command::SetVariables { scope, variables, reach }).await? {
            Answer::Key(key) => Ok(key),
            other => Err(unexpected(Intent::Update, &other)),
        }
    }

    /// Resolves an incident: what was stuck is tried again.
    pub async fn resolve_incident(&self, incident: i64) -> Result<(), Rejection> {
        self.send(Command::Resolve { incident }).await.map(drop)
    }

    /// A job that is not done yet.
    pub fn job(&self, key: i64) -> Option<JobView> {
        self.committed().job_view(key)
    }

    /// A running process instance.
    pub fn instance(&self, key: i64) -> Option<InstanceView> {
        self.committed().instance_view(key)
    }

    /// The open incidents, oldest first.
    pub fn incidents(&self) -> Vec<IncidentView> {
        self.committed().incidents()
    }

    /// How much there is to do, by type of job.
    pub fn load(&self) -> BTreeMap<String, Load> {
        self.committed().load()
    }

    /// The committed state, as of now.
    pub fn committed(&self) -> State {
        self.inner.committed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What ends, gets stuck or is freed from now on, until the engine stops. Who lags far behind misses notices and is told so; then read
    /// [`Engine::instance`] and [`Engine::incidents`] again.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        let sender = self.inner.notices.upgrade().unwrap_or_else(|| broadcast::Sender::new(1));
        sender.subscribe()
    }

    /// Stops after the commands that were taken; what comes later is refused as unavailable. Returns once the journal is
    /// closed and its folder unlocked.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.stopped.cancelled().await;
    }

    async fn send(&self, command: Command) -> Result<Answer, Rejection> {
        let stopped =
            || Rejection::request(RejectionKind::Unavailable, "the engine has stopped or is stopping; try again later");
        let (reply, answer) = oneshot::channel();
        self.inner.requests.send(Request { command, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

fn unexpected(intent: Intent, answer: &Answer) -> Rejection {
    Rejection::new(
        RejectionKind::ProcessingError,
        intent,
        format!("the engine gave an answer of another kind: {answer:?}"),
    )
}

/// Jobs pushed to one subscriber.
pub struct JobStream {
    jobs: mpsc::Receiver<ActivatedJob>,
    engine: Engine,
}

impl JobStream {
    /// The next job; `None` when the engine stops.
    pub async fn next_job(&mut self) -> Option<ActivatedJob> {
        self.jobs.recv().await
    }
}

impl Stream for JobStream {
    type Item = ActivatedJob;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ActivatedJob>> {
        self.jobs.poll_recv(context)
    }
}

impl Drop for JobStream {
    fn drop(&mut self) {
        let (_, none) = mpsc::channel(1);
        let mut jobs = std::mem::replace(&mut self.jobs, none);
        jobs.close();
        let engine = self.engine.clone();
        // A job may be on its way: the channel ends only when the engine has let go of its other end.
        self.engine.inner.runtime.spawn(async move {
            let mut left = Vec::new();
            while let Some(job) = jobs.recv().await {
                left.push(job.activation());
            }
            if !left.is_empty()
                && let Err(error) = engine.hand_back(left).await
            {
                tracing::warn!(%error, "jobs of a closed stream were not handed back; they time out");
            }
        });
    }
}
