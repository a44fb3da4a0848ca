//! The authority over the volume, with a world of API objects; the servers through which it is reached; the driver, and whoever
//! does the lanes' jobs.

use super::watching::Kinds;
use super::{LaneJobs, Shared, engine, evidence, listen, watching};
use crate::config::{Config, Lanes};
use crate::executor::{CurrentCa, PodExecutor, PodSettings};
use crate::gateway::{self, LaneCallers};
use crate::health::{Part, PartState};
use crate::lanes;
use crate::lease::Leadership;
use crate::receipts;
use crate::reconcile::run::{Memory, RunSink};
use crate::world::call::call;
use crate::world::callers::ClusterCallers;
use crate::world::checkpoints::ClusterCheckpoints;
use crate::world::keys::signing_key;
use crate::world::mark::ClusterMark;
use crate::world::tls::ClusterTls;
use anyhow::Context;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use m87_authority::artifacts::Artifacts;
use m87_authority::callers::Principal;
use m87_authority::clock::{Clock, SystemClock};
use m87_authority::driver::{Driver, DriverOptions};
use m87_authority::entropy::{Entropy, SystemEntropy};
use m87_authority::publish::Publisher;
use m87_authority::service::{Service, serve_by};
use m87_authority::store::{FileSystem, SqliteStore, Store};
use m87_authority::{Authority, InProcess, Options, World};
use m87_core::dossier::{ClockSource, Trust};
use m87_core::lane::Lane;
use m87_core::time::Timestamp;
use m87_engine::Engine;
use m87_engine::gateway::Caller;
use m87_zeebe::secure::HTTP1;
use m87_zeebe::{Client, WorkerOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long a tenant that has not let m87 in is waited for.
const TENANT_WAIT: Duration = Duration::from_secs(60);

/// The operator's Service.
const SERVICE: &str = "m87";

/// What a leader stands on.
pub(super) struct Ground {
    pub(super) engine: Option<Engine>,
    authority: Arc<Authority>,
    tls: Arc<ClusterTls>,
    kinds: Kinds,
    mark: Arc<ClusterMark>,
    cluster_uid: String,
    accepted_at: Option<Timestamp>,
    history: Memory,
}

impl Ground {
    /// Opens everything that is durable. What cannot be opened is an error for people, and a restart tries again.
    pub(super) async fn open(shared: &Shared, leadership: &Leadership) -> anyhow::Result<Self> {
        let Shared { config, client, .. } = shared;
        let namespace = &config.namespace;
        std::fs::create_dir_all(&config.data).with_context(|| config.data.display().to_string())?;
        let cluster_uid = cluster_uid(client).await?;
        let key = signing_key(client.clone(), namespace).await?;
        let tls = Arc::new(ClusterTls::open(client.clone(), namespace, SystemClock.now().at).await?);
        let options = Options {
            lease: config.job_timeout,
            start_limit: config.start_limit,
            ..Options::new(tls.ca_pem(), "".into())
        };
        let fresh_id = SystemEntropy.id(&["store"]);
        let store = SqliteStore::open(&config.data.join("store"), &fresh_id, &options.headroom).await?;
        let store_id = store.id().to_owned();
        let kinds = Kinds::new(config.max_open_runs);
        let mark = Arc::new(ClusterMark::new(client.clone(), namespace)?);
        let sink = RunSink { queue: kinds.queue.clone(), open: kinds.open.clone(), metrics: shared.metrics.clone() };
        let world = World {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            references: Arc::new(shared.references.clone()),
            executor: Arc::new(pods(shared, &tls)?),
            mark: mark.clone(),
            status: Arc::new(sink),
            disk: Arc::new(FileSystem(config.data.clone())),
            checkpoints: Arc::new(ClusterCheckpoints::new(client.clone(), namespace)),
        };
        let artifacts = Artifacts::in_folder(&config.data.join("artifacts"))?;
        let epoch = leadership.epoch();
        let authority = Authority::open(Arc::new(store), artifacts, world, key, options, &epoch).await?;
        let authority = Arc::new(authority);
        if authority.restored().is_some() && mark.is_accepted(&store_id).await? {
            // Before it counts as accepted, so that an interruption between the two leaves it refusing.
            mark.remember_acceptance(SystemClock.now().at).await?;
            authority.accept().await?;
            tracing::warn!("the restored store was accepted: its present runs are barred from contracts for ever");
        }
        let accepted_at = mark.accepted_at().await?;
        let history = match (authority.restored(), accepted_at) {
            (Some(_), _) => Memory::Refusing,
            (None, Some(at)) => Memory::Since(at),
            (None, None) => Memory::Whole,
        };
        shared.health.set(
            Part::Store,
            match authority.restored() {
                None => PartState::Well,
                Some(why) => PartState::Degraded(why),
            },
        );
        Ok(Self { engine: engine::open(shared).await?, authority, tls, kinds, mark, cluster_uid, accepted_at, history })
    }

    /// Publishes checkpoints from here on, and tells of those that cannot be.
    pub(super) fn publisher(&self, shared: &Shared) -> Publisher {
        let Shared { health, metrics, stop, tasks, .. } = shared;
        let publisher = Publisher::start(self.authority.clone(), &self.cluster_uid, self.accepted_at);
        tasks.spawn(evidence::tell(
            health.clone(),
            metrics.clone(),
            publisher.unpublished(),
            self.mark.length(),
            stop.clone(),
        ));
        publisher
    }

    /// Starts everything that goes on from here. What comes back says why only a restart can help, should it come to that.
    pub(super) async fn work(self, shared: &Shared) -> anyhow::Result<impl Future<Output = String>> {
        let Shared { config, health, stop, tasks, .. } = shared;
        let (broke, broken) = watch::channel(String::new());
        self.serve(shared, &broke).await?;
        let zeebe = engine::zeebe(shared)?;
        let engine_client = |caller| engine::client(self.engine.as_ref(), zeebe.as_ref(), caller);
        let operator = engine_client(Caller::Operator)?;
        let options = DriverOptions {
            cluster_uid: self.cluster_uid.clone(),
            trust: Trust::Cluster,
            clock: ClockSource::System,
            reference_wait: TENANT_WAIT,
        };
        let driver = Driver::new(self.authority.clone(), Arc::new(operator.clone()), options, stop.clone());
        let (moving, jobs) = (driver.clone(), worker(config, "m87-operator"));
        let mover = operator.clone();
        tasks.spawn(async move { moving.run(mover, jobs).await });
        tasks.spawn(engine::look(operator, zeebe.is_some(), health.clone(), stop.clone()));
        if let Some(engine) = &self.engine {
            tasks.spawn(engine::report_incidents(engine.clone(), driver.clone(), stop.clone()));
        }
        let (tls, until) = (self.tls.clone(), stop.clone());
        tasks.spawn(async move { tls.run(|| SystemClock.now().at, until).await });
        match config.lanes {
            Lanes::Embedded => self.embedded_lanes(shared, engine_client)?,
            Lanes::Deployments => self.lane_deployments(shared, zeebe).await?,
        }
        watching::start(shared, self.kinds, driver, self.history).await?;
        let mut broken = broken;
        Ok(async move {
            // Held, so that it never looks as if nobody could break any more.
            let _broke = broke;
            match broken.changed().await {
                Ok(()) => broken.borrow().clone(),
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// The doors: the authority, the engine's gateway, receipts.
    async fn serve(&self, shared: &Shared, broke: &watch::Sender<String>) -> anyhow::Result<()> {
        let Shared { config, client, stop, tasks, .. } = shared;
        let (namespace, leaf) = (&config.namespace, self.tls.leaf());
        let door = |name: &'static str| (name, broke.clone());

        let service = Service::new(self.authority.clone());
        let callers = Arc::new(ClusterCallers::new(client.clone(), namespace, self.authority.clone()));
        let listener = listen(config.authority_listen).await?;
        let ((name, broke_authority), until, own) = (door("the authority"), stop.clone(), leaf.clone());
        tasks.spawn(async move {
            if let Err(error) = serve_by(service, callers, &own, listener, until).await {
                broke_authority.send_replace(format!("{name} cannot be reached any more: {error}"));
            }
        });

        if let Some(engine) = &self.engine {
            let callers = LaneCallers::new(client.clone(), namespace);
            let listener = listen(config.gateway_listen).await?;
            let ((name, broke), until, own, engine) = (door("the gateway"), stop.clone(), leaf.clone(), engine.clone());
            tasks.spawn(async move {
                if let Err(error) = gateway::serve(&engine, listener, own, callers, until).await {
                    broke.send_replace(format!("{name} cannot be reached any more: {error}"));
                }
            });
        }

        let receipts = receipts::Receipts {
            authority: self.authority.clone(),
            cluster: Arc::new(receipts::ApiServer::new(client.clone())),
            cluster_uid: self.cluster_uid.clone(),
        };
        let (keep, tls) = watch::channel(leaf.server(&[HTTP1])?);
        let listener = listen(config.receipts_listen).await?;
        let until = stop.clone();
        tasks.spawn(async move {
            receipts::serve(listener, tls, receipts::router(Arc::new(receipts)), until).await;
            drop(keep);
        });
        shared.health.set(Part::Servers, PartState::Well);
        Ok(())
    }

    fn embedded_lanes(&self, shared: &Shared, client: impl Fn(Caller) -> anyhow::Result<Client>) -> anyhow::Result<()> {
        let service = Service::new(self.authority.clone());
        for lane in Lane::ALL {
            let authority = Arc::new(InProcess::new(service.clone(), Principal::Lane(lane)));
            let options = worker(&shared.config, &format!("m87-{}", lane.name()));
            let jobs =
                LaneJobs { lane, client: client(Caller::Lane(lane))?, authority, options, stop: shared.stop.clone() };
            shared.tasks.spawn((shared.lane_runner)(jobs));
        }
        shared.health.set(Part::Lanes, PartState::Well);
        Ok(())
    }

    async fn lane_deployments(&self, shared: &Shared, zeebe: Option<lanes::Zeebe>) -> anyhow::Result<()> {
        let Config { namespace, lane_replicas, .. } = &*shared.config;
        let settings = lanes::Settings {
            namespace: namespace.clone(),
            owner: owner(shared).await?,
            image: image(&shared.config)?,
            pull_policy: shared.config.image_pull_policy.clone(),
            pull_secrets: shared.config.image_pull_secrets.clone(),
            service: SERVICE.to_owned(),
            replicas: *lane_replicas,
            resources: shared.config.lane_resources.clone(),
            job_timeout: Some(shared.config.job_timeout),
            zeebe,
        };
        let loads = match &self.engine {
            Some(engine) => lanes::Loads::Embedded(engine.clone()),
            None => lanes::Loads::Unknown,
        };
        let (reports, seen) = watch::channel(lanes::Reports::new());
        shared.tasks.spawn(lanes::run(shared.client.clone(), settings, loads, reports, shared.stop.clone()));
        shared.tasks.spawn(watching::lanes(shared.clone(), seen));
        Ok(())
    }
}

/// Tool pods, which reach the authority by the operator's Service.
fn pods(shared: &Shared, tls: &Arc<ClusterTls>) -> anyhow::Result<PodExecutor> {
    let Config { namespace, tool_image, image_pull_policy, .. } = &*shared.config;
    let authority = format!("{SERVICE}.{namespace}.svc:{}", shared.config.authority_listen.port());
    let mut settings = PodSettings::new(image(&shared.config)?, tool_image.clone(), authority);
    if let Some(policy) = image_pull_policy {
        settings.image_pull_policy.clone_from(policy);
    }
    let tls = tls.clone();
    let ca: CurrentCa = Arc::new(move || tls.ca_pem());
    Ok(PodExecutor::new(shared.client.clone(), settings, ca).telling(shared.events.clone()))
}

fn image(config: &Config) -> anyhow::Result<String> {
    config.image.clone().context("--image (M87_IMAGE) is needed: the image of this program, for lanes and tool pods")
}

fn worker(config: &Config, name: &str) -> WorkerOptions {
    WorkerOptions { timeout: config.job_timeout, ..WorkerOptions::new(name) }
}

/// A cluster is known by the uid of its oldest namespace.
async fn cluster_uid(client: &kube::Client) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let oldest = call("reading namespace kube-system", namespaces.get_metadata("kube-system")).await?;
    oldest.metadata.uid.context("namespace kube-system has no uid")
}

/// The StatefulSet that this process belongs to, so that the lanes go with it.
async fn owner(shared: &Shared) -> anyhow::Result<lanes::Owner> {
    let sets: Api<StatefulSet> = Api::namespaced(shared.client.clone(), &shared.config.namespace);
    let set = call("reading StatefulSet m87, to which the lanes belong", sets.get_metadata(SERVICE)).await?;
    Ok(lanes::Owner { name: SERVICE.to_owned(), uid: set.metadata.uid.unwrap_or_default() })
}
