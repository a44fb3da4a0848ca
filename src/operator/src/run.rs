//! The operator as a whole: what is started, in which order, and how it ends.
//!
//! Nothing is written before this process leads, and everything ends when it leads no more. A part that is not there yet is waited
//! for, and `/readyz` says which; the process ends only by a signal, by a lost lease, or by what only a restart can help.

mod authority;
mod engine;
mod evidence;
mod schemas;
mod start;
mod watching;

use crate::config::Config;
use crate::events::{Events, events};
use crate::health::{self, Health, Part, PartState};
use crate::lease::{Keeper, Leadership, decide, decide::Identity};
use crate::metrics::Metrics;
use crate::world::mark::ClusterMark;
use crate::world::references::ClusterReferences;
use anyhow::Context;
use authority::Ground;
use futures::future::BoxFuture;
use kube::Client;
use m87_authority::AuthorityClient;
use m87_authority::entropy::{Entropy, SystemEntropy};
use m87_core::lane::Lane;
use m87_zeebe::WorkerOptions;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long everything may take to come to rest, within the grace that Kubernetes gives.
const REST: Duration = Duration::from_secs(25);

/// How long checkpoints may take to be published after that.
const PUBLISH: Duration = Duration::from_secs(5);

/// How an operator ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, and has given the lease back.
    Stopped,
    /// Another leads, or nobody knows: whoever starts it again finds out.
    LostLead,
    /// Only a restart can help.
    Broken,
}

/// What somebody needs who does the jobs of one lane.
pub struct LaneJobs {
    /// Which lane.
    pub lane: Lane,
    /// Its way to the engine, as that lane.
    pub client: m87_zeebe::Client,
    /// Its way to the authority, as that lane.
    pub authority: Arc<dyn AuthorityClient>,
    /// How it holds its jobs.
    pub options: WorkerOptions,
    /// When to end.
    pub stop: CancellationToken,
}

/// Does the jobs of a lane in this process. Given from outside, since the crates of operator and lanes know nothing of each other.
pub type LaneRunner = Arc<dyn Fn(LaneJobs) -> BoxFuture<'static, ()> + Send + Sync>;

/// What every part is given.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) client: Client,
    pub(crate) references: ClusterReferences,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Events,
    pub(crate) tasks: TaskTracker,
    pub(crate) lane_runner: LaneRunner,
    /// Ends everything but the lease.
    pub(crate) stop: CancellationToken,
}

/// Runs an operator until `stop`, or until it has to end.
pub async fn run(config: Config, lane_runner: LaneRunner, stop: CancellationToken) -> anyhow::Result<Ended> {
    let (client, metrics) = (client().await?, Arc::default());
    let (events, recording) = events(client.clone(), &config.pod_name, Arc::clone(&metrics));
    let references = ClusterReferences::new(client.clone(), &config.namespace);
    let shared = Shared {
        config: Arc::new(config),
        client,
        references,
        health: Arc::default(),
        metrics,
        events,
        tasks: TaskTracker::new(),
        lane_runner,
        stop: CancellationToken::new(),
    };
    shared.tasks.spawn(recording.run(shared.stop.clone()));
    serve_health(&shared).await?;
    lead(&shared, &stop).await
}

async fn client() -> anyhow::Result<Client> {
    let config = kube::Config::infer().await.context("there is neither a kubeconfig nor a ServiceAccount")?;
    Ok(Client::try_from(config)?)
}

async fn serve_health(shared: &Shared) -> anyhow::Result<()> {
    let listener = listen(shared.config.http_listen).await?;
    let (health, metrics) = (shared.health.clone(), shared.metrics.clone());
    // It answers until the very end.
    tokio::spawn(async move {
        if let Err(error) = health::serve(listener, health, metrics, CancellationToken::new()).await {
            tracing::error!(%error, "health and figures are not served any more");
        }
    });
    Ok(())
}

pub(crate) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen at {address}"))
}

/// Waits for the lead, and does everything while it lasts.
async fn lead(shared: &Shared, stop: &CancellationToken) -> anyhow::Result<Ended> {
    if !start::crds(shared, stop).await {
        return Ok(Ended::Stopped);
    }
    shared.tasks.spawn(schemas::watch(shared.clone()));
    let Some(leadership) = take_lease(shared, stop).await? else { return Ok(Ended::Stopped) };
    shared.metrics.leads(true);
    let ended = while_leading(shared, &leadership, stop).await.unwrap_or_else(|error| {
        shared.health.die(format!("{error:#}"));
        Ended::Broken
    });
    rest(shared).await;
    shared.metrics.leads(false);
    // Last: whoever leads next finds everything at rest.
    leadership.release().await;
    Ok(ended)
}

/// Brings everything to rest: nothing new is taken, what is begun is finished.
async fn rest(shared: &Shared) {
    shared.stop.cancel();
    shared.tasks.close();
    if tokio::time::timeout(REST, shared.tasks.wait()).await.is_err() {
        tracing::warn!("some tasks did not end in time; whatever they did is durable or is repeated");
    }
}

async fn take_lease(shared: &Shared, stop: &CancellationToken) -> anyhow::Result<Option<Leadership>> {
    let Config { namespace, .. } = &*shared.config;
    let mark = ClusterMark::new(shared.client.clone(), namespace)?;
    let before = loop {
        match mark.exists().await {
            Ok(true) => break decide::Before::Somebody,
            Ok(false) => break decide::Before::Nobody,
            Err(error) => {
                shared.health.set(Part::Lease, PartState::Waiting(error.to_string()));
                if stop.run_until_cancelled(tokio::time::sleep(Duration::from_secs(2))).await.is_none() {
                    return Ok(None);
                }
            }
        }
    };
    let start: String = SystemEntropy.secret()?.chars().take(16).collect();
    let identity = Identity { place: place(&shared.config, &start), start };
    let keeper = Keeper::new(shared.client.clone(), namespace, identity, decide::Config::usual(before));
    let (health, mut tenure) = (shared.health.clone(), keeper.tenure());
    tokio::spawn(async move {
        loop {
            let now = tenure.borrow_and_update().clone();
            health.set(Part::Lease, start::of_lease(now));
            if tenure.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(keeper.lead(stop).await)
}

/// Where at most one process of ours runs at one time: a pod, by name and uid, since a pod of the same name may be made while the
/// one before still runs on a node that nobody hears. Outside of a pod nothing makes it so, and every start is a place of its own.
fn place(config: &Config, start: &str) -> String {
    let within = config.pod_uid.as_deref().unwrap_or(start);
    format!("{}/{within}", config.pod_name)
}

/// Everything that only a leader does. Returns when it has to end.
async fn while_leading(shared: &Shared, leadership: &Leadership, stop: &CancellationToken) -> anyhow::Result<Ended> {
    let (mut engine, mut publisher) = (None, None);
    let work = async {
        let ground = Ground::open(shared, leadership).await?;
        engine.clone_from(&ground.engine);
        publisher = Some(ground.publisher(shared));
        let why = ground.work(shared).await?.await;
        shared.health.die(why);
        Ok(Ended::Broken)
    };
    let ended = until_over(leadership.lost(), stop, work).await;
    rest(shared).await;
    if let Some(publisher) = publisher {
        // Nothing is sealed any more.
        publisher.close(PUBLISH).await;
    }
    if let Some(engine) = engine {
        engine.stop().await;
    }
    ended
}

/// Works until that ends by itself, or until this process has to end: whatever is waited for then is waited for no longer.
async fn until_over(
    lost: &CancellationToken,
    stop: &CancellationToken,
    work: impl Future<Output = anyhow::Result<Ended>>,
) -> anyhow::Result<Ended> {
    tokio::select! {
        biased;
        () = lost.cancelled() => Ok(Ended::LostLead),
        () = stop.cancelled() => Ok(Ended::Stopped),
        ended = work => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    /// Whichever of its steps it is that hangs: they are one thing here.
    #[tokio::test]
    async fn a_lost_lease_and_a_stop_end_work_that_hangs() {
        for (is_lost, expected) in [(true, Ended::LostLead), (false, Ended::Stopped)] {
            let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
            let work = async {
                if is_lost {
                    lost.cancel()
                } else {
                    stop.cancel()
                }
                std::future::pending().await
            };
            assert_eq!(until_over(&lost, &stop, work).await.ok(), Some(expected));
        }
        let never = CancellationToken::new();
        let broken = until_over(&never, &never, async { Ok(Ended::Broken) }).await;
        assert_eq!(broken.ok(), Some(Ended::Broken));
        assert!(until_over(&never, &never, async { anyhow::bail!("it cannot be opened") }).await.is_err());
    }

    fn place_of(uid: Option<&str>, start: &str) -> String {
        let settings = Settings { pod_uid: uid.map(str::to_owned), ..Settings::default() };
        place(&settings.resolve(), start)
    }

    #[test]
    fn only_the_same_pod_is_the_same_place() {
        assert_eq!(place_of(Some("a"), "1"), place_of(Some("a"), "2"));
        assert_ne!(place_of(Some("a"), "1"), place_of(Some("b"), "1"), "a pod of the same name is another one");
        assert_ne!(place_of(None, "1"), place_of(None, "2"), "nothing says that the process before is dead");
        assert_ne!(place_of(Some(""), "1"), place_of(Some(""), "2"), "an empty uid is none");
    }
}
