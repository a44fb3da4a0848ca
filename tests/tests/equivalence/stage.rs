//! The engine, the authority, the driver and the four lanes as `m87 run` puts them together, in one process. Only the tools
//! are played, and where a test asks for it, a worker or the client that starts the instance.

use crate::play::{Player, Script};
use crate::world::{Files, Roomy, Unmarked};
use async_trait::async_trait;
use m87_authority::artifacts::Artifacts;
use m87_authority::clock::SystemClock;
use m87_authority::driver::ProcessEngine;
use m87_authority::entropy::SystemEntropy;
use m87_authority::row::{Closing, Definition, Ending, Row, Sealed, State};
use m87_authority::store::SqliteStore;
use m87_authority::world::{CheckpointFiles, EachStart, NoStatus};
use m87_authority::{
    Authority, AuthorityClient, Driver, DriverOptions, InProcess, Opened, Options, Principal, RunRequest, Service,
    World,
};
use m87_core::dossier::{ClockSource, Dossier, Trust};
use m87_core::lane::Lane;
use m87_core::sign::SigningKey;
use m87_engine::gateway::Caller;
use m87_engine::{Engine, EngineOptions};
use m87_worker::lanes::handlers;
use m87_zeebe::{Client, DefinitionKey, Error, Handler, Job, JobWorker, Outcome, WorkerOptions, client};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Nothing here takes longer, whatever else the machine does.
const LONG: Duration = Duration::from_secs(120);

/// A gate variable with which a job is completed, whatever the lane found: `None` completes without it.
#[derive(Debug, Clone)]
pub struct Lie {
    pub variable: &'static str,
    pub answer: Option<Value>,
}

/// What is particular of one run, by its uid.
#[derive(Debug, Clone, Default)]
pub struct Part {
    pub script: Script,
    /// Variables with which its instance is started, beside `run`.
    pub seeds: Map<String, Value>,
    pub lie: Option<Lie>,
}

pub type Parts = Arc<Mutex<HashMap<String, Part>>>;

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub dossier: Arc<Dossier>,
    pub row: Row,
    pub sealed: Sealed,
    /// The end event that the engine reached; `None` if the run was ended before it reached one.
    pub end_event: Option<String>,
}

pub struct Stage {
    parts: Parts,
    engine: Engine,
    authority: Arc<Authority>,
    driver: Driver,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Stage {
    pub async fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::default();
        let player = Arc::new(Player::new(parts.clone()));
        let options = Options {
            look: Duration::from_millis(20),
            ..Options::new("no certificate".to_owned(), folder.path().join("address"))
        };
        let store = SqliteStore::open(&folder.path().join("store"), "store", &options.headroom).await.unwrap();
        let world = World {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            references: Arc::new(Files::default()),
            executor: player.clone(),
            mark: Arc::new(Unmarked),
            status: Arc::new(NoStatus),
            disk: Arc::new(Roomy),
            checkpoints: Arc::new(CheckpointFiles(folder.path().join("checkpoints"))),
        };
        let artifacts = Artifacts::in_folder(&folder.path().join("artifacts")).unwrap();
        let key = SigningKey::from_seed(&[7; 32]);
        let authority =
            Arc::new(Authority::open(Arc::new(store), artifacts, world, key, options, &EachStart).await.unwrap());
        let service = Service::new(authority.clone());
        player.service.set(service.clone()).ok().unwrap();

        let engine = Engine::open(EngineOptions::default()).await.unwrap();
        let stop = CancellationToken::new();
        let options = DriverOptions {
            cluster_uid: "cluster".to_owned(),
            trust: Trust::Local,
            clock: ClockSource::System,
            reference_wait: Duration::ZERO,
        };
        let operator = Client::new(engine.channel(Caller::Operator));
        let starting = Arc::new(Seeding { client: operator.clone(), parts: parts.clone() });
        let driver = Driver::new(authority.clone(), starting, options, stop.clone());
        let moving = driver.clone();
        tokio::spawn(async move { moving.run(operator, WorkerOptions::new("operator")).await });
        for lane in Lane::ALL {
            let authority: Arc<dyn AuthorityClient> = Arc::new(InProcess::new(service.clone(), Principal::Lane(lane)));
            let client = Client::new(engine.channel(Caller::Lane(lane)));
            let told = |honest| Arc::new(Told { honest, parts: parts.clone() });
            let worker = handlers(lane, &authority, &stop)
                .into_iter()
                .fold(JobWorker::new(client, WorkerOptions::new(lane.name())), |worker, (job, honest)| {
                    worker.handle(job.name(), told(honest))
                });
            tokio::spawn(worker.run(stop.clone()));
        }
        Self { parts, engine, authority, driver, stop, _folder: folder }
    }

    /// Takes a run to its end, in the authority and in the engine.
    pub async fn run(&self, request: &RunRequest, part: Part) -> Ended {
        let uid = request.uid.clone().unwrap();
        self.parts.lock().unwrap().insert(uid.clone(), part);
        let opened = self.driver.open(request).await.unwrap();
        assert_eq!(opened, Opened::Run(uid.clone()), "every run here is another effect");
        let finished = tokio::time::timeout(LONG, self.driver.finished(&uid));
        let sealed = finished.await.unwrap_or_else(|_| panic!("{uid} does not end")).unwrap();
        let run = self.authority.load(&uid).await.unwrap().run;
        let State::Sealed(Closing { claim, ending, .. }, _) = &run.row.state else { panic!("{uid} is not sealed") };
        if let Some(claim) = claim {
            self.ended(&uid, claim.instance_key).await;
        }
        let end_event = match ending {
            Ending::Process(end_event) => Some(end_event.clone()),
            Ending::Interrupted(_) | Ending::Alone => None,
        };
        Ended { dossier: run.dossier, row: run.row, sealed, end_event }
    }

    /// Waits for the instance's end. An incident would keep it.
    async fn ended(&self, uid: &str, instance: i64) {
        let gone = async {
            while self.engine.instance(instance).is_some() {
                assert_eq!(self.engine.incidents(), [], "{uid}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, gone).await.unwrap_or_else(|_| panic!("{uid}: its instance does not end"));
        assert_eq!(self.engine.incidents(), [], "{uid}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A lane's own handler, and after it what the run's part says to complete with instead.
struct Told {
    honest: Arc<dyn Handler>,
    parts: Parts,
}

#[async_trait]
impl Handler for Told {
    async fn handle(&self, job: Job) -> Outcome {
        let run = job.variables().unwrap()["run"].as_str().unwrap().to_owned();
        let lie = self.parts.lock().unwrap()[uid(&run)].lie.clone();
        match (self.honest.handle(job).await, lie) {
            (Outcome::Complete(Value::Object(mut results)), Some(lie)) if results.contains_key(lie.variable) => {
                match lie.answer {
                    Some(answer) => results.insert(lie.variable.to_owned(), answer),
                    None => results.remove(lie.variable),
                };
                Outcome::Complete(Value::Object(results))
            }
            (outcome, _) => outcome,
        }
    }
}

/// The uid in a run's reference, `<uid>.<nonce>`.
fn uid(run: &str) -> &str {
    run.rsplit_once('.').unwrap().0
}

/// Starts instances with more variables than `run`.
struct Seeding {
    client: Client,
    parts: Parts,
}

#[async_trait]
impl ProcessEngine for Seeding {
    async fn id(&self) -> Result<String, Error> {
        ProcessEngine::id(&self.client).await
    }

    async fn deploy(&self, name: &str, bpmn: &[u8]) -> Result<Definition, Error> {
        ProcessEngine::deploy(&self.client, name, bpmn).await
    }

    async fn start(&self, definition: Definition, run: &str) -> Result<i64, Error> {
        let mut variables = self.parts.lock().unwrap()[uid(run)].seeds.clone();
        variables.insert("run".to_owned(), run.into());
        let definition = client::Definition::Key(DefinitionKey(definition.key));
        Ok(self.client.create_instance(&definition, &variables).await?.key.0)
    }

    async fn cancel(&self, instance_key: i64) -> Result<(), Error> {
        ProcessEngine::cancel(&self.client, instance_key).await
    }
}
