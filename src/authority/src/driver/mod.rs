//! The run driver: snapshot, open, start, claim, seal; and what is looked after meanwhile.
//!
//! It can be killed at any point and started again: everything it does is written in the row before or checked by it
//! afterwards.

mod claim;
mod engine;
mod open;
mod process;
mod start;
mod terminal;
mod watch;

pub use engine::ProcessEngine;
pub use open::{Opened, RunRequest};
pub use process::{pin as pin_process, proof as prove_process};
pub use start::Deployed;

use crate::authority::{Authority, unavailable};
use crate::client::AuthorityError;
use crate::row::Sealed;
use crate::store::StoreError;
use crate::world::ReferencesUnavailable;
use m87_core::dossier::{ClockSource, Trust};
use m87_core::json::JsonError;
use m87_core::lane::JobType;
use m87_zeebe::{Client, Handler, JobWorker, WorkerOptions};
use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a driver is told once.
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// The uid of the cluster (locally: of the out folder's authority).
    pub cluster_uid: String,
    /// How far the surroundings can be trusted.
    pub trust: Trust,
    /// Where instants come from.
    pub clock: ClockSource,
    /// How long references that do not exist are waited for.
    pub reference_wait: Duration,
}

/// Drives runs from their opening to their receipt. Cheap to clone.
#[derive(Clone)]
pub struct Driver {
    inner: Arc<Inner>,
}

struct Inner {
    authority: Arc<Authority>,
    engine: Arc<dyn ProcessEngine>,
    options: DriverOptions,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The runs whose instances this process has started, or is starting.
    in_hand: Mutex<HashSet<String>>,
}

/// A run cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The proposal has no canonical form.
    #[error("run {run:?}: the proposal {error}")]
    Proposal {
        /// The run's name.
        run: String,
        /// Why.
        error: JsonError,
    },
    /// The references cannot be read.
    #[error(transparent)]
    References(#[from] ReferencesUnavailable),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// It was stopped meanwhile.
    #[error("stopped")]
    Stopped,
}

impl Driver {
    /// A driver that does nothing yet. `stop` ends its tasks; runs stay as they are, to be resumed.
    pub fn new(
        authority: Arc<Authority>,
        engine: Arc<dyn ProcessEngine>,
        options: DriverOptions,
        stop: CancellationToken,
    ) -> Self {
        let tasks = TaskTracker::new();
        Self { inner: Arc::new(Inner { authority, engine, options, tasks, stop, in_hand: Mutex::default() }) }
    }

    /// The authority that it drives.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.inner.authority
    }

    /// The operator's two jobs, `claim-run` and `record-terminal`.
    pub fn handlers(&self) -> Vec<(JobType, Arc<dyn Handler>)> {
        vec![
            (JobType::ClaimRun, Arc::new(claim::ClaimRun(self.clone()))),
            (JobType::RecordTerminal, Arc::new(terminal::RecordTerminal(self.clone()))),
        ]
    }

    /// Does the operator's jobs and looks after every run until stopped.
    pub async fn run(&self, client: Client, options: WorkerOptions) {
        let worker = self
            .handlers()
            .into_iter()
            .fold(JobWorker::new(client, options), |worker, (job, handler)| worker.handle(job.name(), handler));
        tokio::join!(worker.run(self.inner.stop.clone()), self.watch());
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Waits for a run's receipt.
    pub async fn finished(&self, uid: &str) -> Result<Sealed, DriverError> {
        let authority = &self.inner.authority;
        let live = authority.live(uid);
        loop {
            let mut changed = pin!(live.changed.notified());
            changed.as_mut().enable();
            if let Some(sealed) = authority.store.load(uid).await?.and_then(|loaded| loaded.run.row.sealed().cloned()) {
                authority.forget(uid);
                return Ok(sealed);
            }
            tokio::select! {
                () = changed => {}
                () = self.inner.stop.cancelled() => return Err(DriverError::Stopped),
            }
        }
    }

    /// Asks the engine who it is.
    async fn engine_id(&self) -> Result<String, AuthorityError> {
        let id = self.inner.engine.id().await.map_err(unavailable)?;
        self.inner.authority.set_engine(&id);
        Ok(id)
    }

    /// Waits before the next try; false once stopped.
    async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.inner.stop.cancelled() => false,
        }
    }
}
