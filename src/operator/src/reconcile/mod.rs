//! The reconcilers. Each reconcile reads facts, decides by them in a pure function, does what was decided, and says of the object
//! what there is to say; none of them sleeps. What has to be looked at is in one queue, and a few workers take it from there.

pub mod book;
pub mod index;
pub mod manifest;
pub mod policy;
pub mod queue;
pub mod retention;
pub mod run;
pub mod view;
pub mod watch;
pub mod write;

#[cfg(test)]
mod tests;

use crate::metrics::Metrics;
use crate::world::call::CallError;
use book::BookError;
use index::{Index, Key};
use manifest::Manifests;
use policy::Policies;
use queue::{Next, Queue};
use run::Runs;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use view::{ManifestView, RunView};
use watch::Listener;

/// How many things are reconciled at one time.
const WORKERS: usize = 16;
/// How often everything that nobody would tell of is looked at.
const ROUND: Duration = Duration::from_secs(60);

/// Something to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Work {
    /// A run.
    Run(Key),
    /// A run's object that is gone, by its uid.
    RunGone(Key, String),
    /// A policy.
    Policy(Key),
    /// A manifest.
    Manifest(Key),
}

impl Work {
    /// The kind, for figures.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) | Self::RunGone(..) => "GovernedRun",
            Self::Policy(_) => "GovernancePolicy",
            Self::Manifest(_) => "ToolManifest",
        }
    }

    const fn key(&self) -> &Key {
        match self {
            Self::Run(key) | Self::RunGone(key, _) | Self::Policy(key) | Self::Manifest(key) => key,
        }
    }
}

/// A reconcile was not finished; it is repeated after a while.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The API server.
    #[error(transparent)]
    Api(#[from] CallError),
    /// The authority.
    #[error(transparent)]
    Book(#[from] BookError),
    /// A status that has no canonical form.
    #[error("a status cannot be written: {0}")]
    Unwritable(String),
}

/// Everything that reconciles.
pub struct Reconcilers {
    /// Runs.
    pub runs: Runs,
    /// Policies.
    pub policies: Policies,
    /// Manifests.
    pub manifests: Manifests,
    /// What is to be looked at.
    pub queue: Arc<Queue<Work>>,
    /// Figures.
    pub metrics: Arc<Metrics>,
}

impl Reconcilers {
    /// Works until stopped; then finishes what it has begun.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let own = self.clone();
            workers.spawn(async move {
                while let Some(work) = own.queue.take().await {
                    let next = own.look_at(&work).await;
                    own.queue.done(&work, next);
                }
            });
        }
        let rounds = async {
            let mut round = tokio::time::interval(ROUND);
            loop {
                round.tick().await;
                self.look_around().await;
            }
        };
        tokio::select! {
            () = rounds => {}
            () = stop.cancelled() => {}
        }
        self.queue.close();
        while workers.join_next().await.is_some() {}
    }

    /// Looks at one thing.
    pub async fn look_at(&self, work: &Work) -> Next {
        let key = work.key();
        let outcome = match work {
            Work::Run(_) => {
                let uid = self.runs.index.get(key).map(|view| view.meta.uid.clone()).unwrap_or_default();
                self.runs.reconcile(key).instrument(span(work, &uid)).await
            }
            Work::RunGone(_, uid) => self.runs.reconcile_gone(key, uid).instrument(span(work, uid)).await,
            Work::Policy(_) => self.policies.reconcile(key).instrument(span(work, "")).await,
            Work::Manifest(_) => self.manifests.reconcile(key).instrument(span(work, "")).await,
        };
        outcome.unwrap_or_else(|error| {
            self.metrics.failed(work.kind());
            tracing::warn!(kind = work.kind(), %key, %error, "not finished; it is tried again");
            Next::Retry
        })
    }

    /// Looks for what nobody would tell of: objects that went unseen, an engine that lost what was deployed.
    pub async fn look_around(&self) {
        if let Err(error) = self.runs.look_for_gone().await {
            tracing::warn!(%error, "runs without objects could not be looked for");
        }
        self.policies.index.keys().into_iter().for_each(|key| self.queue.add(Work::Policy(key)));
    }
}

/// What every line of a log says of a run: which, whose, and by which trace. The trace's id is the run's uid without its dashes,
/// so that whoever has one has the other.
fn span(work: &Work, uid: &str) -> tracing::Span {
    let key = work.key();
    match work {
        Work::Run(_) | Work::RunGone(..) => tracing::info_span!(
            "run", run = %uid, tenant = %key.namespace, object = %key.name, trace = %uid.replace('-', "")
        ),
        Work::Policy(_) => tracing::info_span!("policy", tenant = %key.namespace, object = %key.name),
        Work::Manifest(_) => tracing::info_span!("manifest", tenant = %key.namespace, object = %key.name),
    }
}

/// Puts runs that a watch has seen into the queue.
pub struct RunsSeen {
    /// The queue.
    pub queue: Arc<Queue<Work>>,
    /// Set at each full list, so that what went unseen is looked for.
    pub synced: Arc<tokio::sync::Notify>,
}

impl Listener<RunView> for RunsSeen {
    fn applied(&self, key: Key) {
        self.queue.add(Work::Run(key));
    }

    fn gone(&self, key: Key, uid: String) {
        self.queue.add(Work::RunGone(key, uid));
    }

    fn synced(&self) {
        self.synced.notify_one();
    }
}

/// Puts what a watch has seen into the queue, and with it the runs that may have waited for it.
pub struct ReferencesSeen {
    /// The queue.
    pub queue: Arc<Queue<Work>>,
    /// The runs.
    pub runs: Arc<Index<RunView>>,
    /// What a run is to refer to so that it is looked at again.
    pub referred: fn(&m87_api::GovernedRunSpec) -> &str,
    /// What every run refers to, wherever it is.
    pub by_all: Option<Key>,
    /// What an object of this kind is.
    pub work: fn(Key) -> Work,
}

impl ReferencesSeen {
    fn wake(&self, key: &Key) {
        let by_all = self.by_all.as_ref() == Some(key);
        let waits = |run: &RunView| {
            let spec = run.spec.as_ref().and_then(|spec| spec.as_ref().ok());
            let refers = |spec| run.meta.key.namespace == key.namespace && (self.referred)(spec) == key.name;
            spec.is_some_and(|spec| by_all || refers(spec))
        };
        self.runs.matching(waits).into_iter().for_each(|run| self.queue.add(Work::Run(run)));
    }
}

impl Listener<ManifestView> for ReferencesSeen {
    fn applied(&self, key: Key) {
        self.wake(&key);
        self.queue.add((self.work)(key));
    }

    fn gone(&self, key: Key, _uid: String) {
        self.wake(&key);
    }

    fn synced(&self) {}
}
