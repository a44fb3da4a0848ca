//! One invocation's whole: the authority over an out folder, an engine, the lanes, and the driver that moves runs along.

use crate::args::{Lanes, RunArguments};
use crate::local::folder::{Folder, Held};
use crate::local::ground::Ground;
use crate::local::names::Names;
use crate::say::tell;
use anyhow::Context;
use async_trait::async_trait;
use m87_api::local::Objects;
use m87_authority::callers::{Callers, LaneCredentials, Principal};
use m87_authority::driver::{Driver, DriverOptions};
use m87_authority::entropy::Entropy;
use m87_authority::publish::Publisher;
use m87_authority::service::{Service, serve};
use m87_authority::world::StatusSink;
use m87_authority::{Authority, AuthorityError, InProcess};
use m87_core::dossier::Trust;
use m87_core::lane::Lane;
use m87_engine::gateway::Caller;
use m87_engine::{Engine, EngineOptions, Workers};
use m87_worker::executor::LocalExecutor;
use m87_worker::lanes::run_lane;
use m87_zeebe::{Client, Tls, connect};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the checkpoints of what was sealed last may take to be written.
pub(crate) const PUBLISH: Duration = Duration::from_secs(10);

/// Everything that runs while an invocation does.
pub(crate) struct Session {
    /// Moves runs along.
    pub(crate) driver: Driver,
    /// Uids of what is in the files.
    pub(crate) names: Names,
    executor: LocalExecutor,
    engine: Option<Engine>,
    publisher: Publisher,
    tasks: TaskTracker,
    stop: CancellationToken,
    _held: Held,
}

impl Session {
    /// Takes the folder and starts everything. `stop` ends it in good order.
    pub(crate) async fn open(
        folder: &Folder,
        arguments: &RunArguments,
        objects: Arc<Objects>,
        status: Arc<dyn StatusSink>,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let held = folder.hold()?;
        let times = arguments.times();
        let ground = Ground::open(folder, arguments.key.as_deref(), arguments.clock, times, objects, status).await?;
        let Ground { authority, executor, entropy, tls, names, clock } = ground;
        if let Some(why) = authority.restored() {
            tell!("warning: {why}");
        }

        clear_up(&authority, &executor).await?;
        let publisher = Publisher::start(authority.clone(), authority.store().id(), None);

        let tasks = TaskTracker::new();
        let service = Service::new(authority.clone());
        let callers: Arc<dyn Callers> = match arguments.lanes {
            Lanes::Embedded => Arc::new(NoLanes),
            Lanes::External => {
                std::fs::create_dir_all(folder.credentials())?;
                Arc::new(LaneCredentials::open(&folder.credentials(), &tls.ca_pem, folder.address(), &*entropy)?)
            }
        };
        if let Some(file) = &arguments.engine_ca_file {
            std::fs::read(file).with_context(|| format!("--engine-ca-file {}", file.display()))?;
        }
        let listen = arguments.authority_listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listener = TcpListener::bind(listen).await.with_context(|| format!("--authority-listen {listen}"))?;
        publish(&folder.address(), listener.local_addr()?)?;
        let (calls, until) = (service.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = serve(calls, callers, &tls, listener, until).await {
                tracing::error!(%error, "tools cannot reach the authority any more");
            }
        });

        let engine = match &arguments.engine {
            Some(_) => None,
            None => Some(embedded(folder, arguments, &*entropy).await?),
        };
        let client = |caller: Caller| match (&engine, &arguments.engine) {
            (Some(engine), _) => Ok(Client::new(engine.channel(caller))),
            (None, address) => connect(address.as_deref().unwrap_or_default(), of_gateway(arguments)).map(Client::new),
        };
        let options = DriverOptions {
            cluster_uid: authority.store().id().to_owned(),
            trust: Trust::Local,
            clock,
            // Nothing but these files can make a reference exist.
            reference_wait: Duration::ZERO,
        };
        let operator = client(Caller::Operator)?;
        if let (Some(address), Err(error)) = (&arguments.engine, operator.topology().await) {
            tell!("waiting for the engine at {address}: {error}");
        }
        let driver = Driver::new(authority.clone(), Arc::new(operator.clone()), options, stop.clone());
        let moving = driver.clone();
        let options = arguments.jobs.options("m87-operator");
        tasks.spawn(async move { moving.run(operator, options).await });
        if arguments.lanes == Lanes::Embedded {
            for lane in Lane::ALL {
                let authority = Arc::new(InProcess::new(service.clone(), Principal::Lane(lane)));
                let options = arguments.jobs.options(&format!("m87-{}", lane.name()));
                tasks.spawn(run_lane(lane, client(Caller::Lane(lane))?, authority, options, stop.clone()));
            }
        }
        if let Some(engine) = &engine {
            tasks.spawn(report_incidents(engine.clone(), driver.clone(), stop.clone()));
        }
        Ok(Self { driver, names, executor, engine, publisher, tasks, stop, _held: held })
    }

    /// Stops everything in good order: jobs are finished or handed back, what is known is on the disk.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.publisher.close(PUBLISH).await;
        if let Some(engine) = &self.engine {
            engine.stop().await;
        }
        if let Err(error) = clear_up(self.driver.authority(), &self.executor).await {
            tracing::warn!(%error, "what is left of attempts could not be cleared away");
        }
    }
}

/// How a gateway that is not the embedded one is spoken to.
fn of_gateway(arguments: &RunArguments) -> Tls {
    arguments.engine_ca_file.clone().map_or(Tls::Plain, |path| Tls::CaFile { path, name: None })
}

/// Clears away what attempts have left of runs that are over: an authority that was killed had not come to it.
async fn clear_up(authority: &Authority, executor: &LocalExecutor) -> anyhow::Result<()> {
    let open = authority.store().unsealed().await?.into_iter().collect();
    Ok(executor.sweep(&open)?)
}

async fn embedded(folder: &Folder, arguments: &RunArguments, entropy: &dyn Entropy) -> anyhow::Result<Engine> {
    let (id, clock) = match arguments.clock {
        Some(instant) => (Some(entropy.id(&["engine"])), m87_engine::Clock::Frozen(instant)),
        None => (None, m87_engine::Clock::System),
    };
    // Nothing else can reach it.
    let workers = Workers::WithinThisProcess;
    Ok(Engine::open(EngineOptions { data: Some(folder.engine()), id, clock, workers }).await?)
}

/// Tells whoever has credentials where the authority listens now; the old address or the new one, never half of it.
fn publish(file: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let draft = file.with_extension("new");
    std::fs::write(&draft, format!("{address}\n")).with_context(|| draft.display().to_string())?;
    std::fs::rename(&draft, file).with_context(|| file.display().to_string())
}

/// An instance with which the engine cannot go on ends its run, instead of leaving it to its deadline.
async fn report_incidents(engine: Engine, driver: Driver, stop: CancellationToken) {
    let mut notices = engine.notices();
    loop {
        for incident in engine.incidents() {
            if let Err(error) = driver.incident(incident.instance, &incident.message).await {
                tracing::warn!(%error, "an incident could not be reported");
            }
        }
        tokio::select! {
            // Whatever it tells of, and also if some of it was missed: the list above is what counts.
            notice = notices.recv() => if matches!(notice, Err(tokio::sync::broadcast::error::RecvError::Closed)) {
                return;
            },
            () = stop.cancelled() => return,
        }
    }
}

/// The lanes are in this process: nobody else may call as one.
struct NoLanes;

#[async_trait]
impl Callers for NoLanes {
    async fn principal(&self, _token: &str) -> Result<Option<Principal>, AuthorityError> {
        Ok(None)
    }
}
