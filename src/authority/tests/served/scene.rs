//! The authority on SQLite behind TLS, with a world that does as it is told.

use async_trait::async_trait;
use m87_authority::artifacts::Artifacts;
use m87_authority::callers::LaneCredentials;
use m87_authority::clock::SystemClock;
use m87_authority::driver::ProcessEngine;
use m87_authority::entropy::{Entropy, SystemEntropy};
use m87_authority::mark::FileMark;
use m87_authority::proto::{Job, RecordRequest, RedeemRequest, WaitRequest};
use m87_authority::row::Definition;
use m87_authority::service::serve;
use m87_authority::store::{FileSystem, Headroom, SqliteStore};
use m87_authority::tls::ServerIdentity;
use m87_authority::world::{CheckpointFiles, Checkpoints, EachStart, NoStatus, References, ReferencesUnavailable};
use m87_authority::{
    AttemptName, AttemptOrder, Authority, AuthorityClient, AuthorityError, Credentials, Denial, Driver, DriverOptions,
    Executor, ExecutorError, GrpcClient, Handle, Opened, Options, RunRequest, Service, World,
};
use m87_core::dossier::{ClockSource, Dossier, Named, Pinned, Trust};
use m87_core::evidence::ValidationReport;
use m87_core::fixtures;
use m87_core::json::compute_hash;
use m87_core::lane::{JobType, Lane};
use m87_core::policy::PolicySpec;
use m87_core::reason::{Reason, Terminal};
use m87_core::receipt::verify;
use m87_core::sign::SigningKey;
use m87_core::tool::ManifestSpec;
use m87_zeebe::{DefinitionKey, ElementKey, Error, InstanceKey, JobKey, Outcome};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub struct Around {
    pub orders: Mutex<Vec<AttemptOrder>>,
    pub instances: Mutex<Vec<String>>,
    /// How often a process was deployed.
    pub deployed: AtomicU32,
    /// Which engine it is.
    pub engine: AtomicU32,
    /// Whether runs are suspended.
    pub suspended: AtomicBool,
    /// Whether tools may not run in the namespace.
    pub unbound: AtomicBool,
    /// Whether it is not known what became of a start.
    pub silent: AtomicBool,
    /// Whether nothing can be cleared away.
    pub stuck: AtomicBool,
    /// Whether the namespace is gone.
    pub gone: AtomicBool,
    /// What the executor finds changed in what it made.
    pub tampered: Mutex<Option<String>>,
    /// How the executor sees a validation end.
    pub verdict: Mutex<Option<ValidationReport>>,
}

#[async_trait]
impl Executor for Around {
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError> {
        self.orders.lock().unwrap().push(order.clone());
        match self.silent.load(Ordering::SeqCst) {
            true => Err(ExecutorError("no answer".to_owned())),
            false => Ok(Handle(String::new())),
        }
    }
    async fn alive(&self, _: &Handle) -> Result<bool, ExecutorError> {
        Ok(true)
    }
    async fn as_made(&self, _: &Handle) -> Result<Result<(), String>, ExecutorError> {
        Ok(self.tampered.lock().unwrap().clone().map_or(Ok(()), Err))
    }
    async fn verdict(&self, _: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        Ok(self.verdict.lock().unwrap().clone())
    }
    async fn discard(&self, _: &Handle) -> Result<(), ExecutorError> {
        match self.stuck.load(Ordering::SeqCst) {
            true => Err(ExecutorError("it cannot be reached".to_owned())),
            false => Ok(()),
        }
    }

    async fn discard_unheard(&self, _: &AttemptName) -> Result<(), ExecutorError> {
        Ok(())
    }
}

#[async_trait]
impl References for Around {
    async fn policy(&self, _: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(Some(fixtures::pinned(name, fixtures::policy())))
    }
    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(None)
    }
    async fn manifest(&self, _: &Named, name: &str) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        Ok(Some(fixtures::pinned(name, ManifestSpec { tools: vec![fixtures::tool()] })))
    }
    async fn suspended(&self, _: &Dossier) -> Result<bool, ReferencesUnavailable> {
        Ok(self.suspended.load(Ordering::SeqCst))
    }
    async fn bound(&self, _: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(!self.unbound.load(Ordering::SeqCst))
    }
    async fn is_gone(&self, _: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(self.gone.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl ProcessEngine for Around {
    async fn id(&self) -> Result<String, Error> {
        Ok(format!("engine-{}", self.engine.load(Ordering::SeqCst)))
    }
    async fn deploy(&self, _: &str, _: &[u8]) -> Result<Definition, Error> {
        self.deployed.fetch_add(1, Ordering::SeqCst);
        Ok(Definition { key: 1, version: 1 })
    }
    async fn start(&self, _: Definition, run: &str) -> Result<i64, Error> {
        let mut instances = self.instances.lock().unwrap();
        instances.push(run.to_owned());
        Ok(instances.len() as i64)
    }
    async fn cancel(&self, _: i64) -> Result<(), Error> {
        Ok(())
    }
}

pub struct Served {
    pub around: Arc<Around>,
    pub authority: Arc<Authority>,
    pub driver: Driver,
    pub stop: CancellationToken,
    pub serving: tokio::task::JoinHandle<()>,
    pub folder: std::path::PathBuf,
}

impl Served {
    pub async fn begin(folder: &Path) -> Self {
        Self::begin_with(folder, Duration::from_secs(30)).await
    }

    pub async fn begin_with(folder: &Path, lease: Duration) -> Self {
        Self::begin_over(folder, lease, Arc::new(CheckpointFiles(folder.join("checkpoints")))).await
    }

    pub async fn begin_over(folder: &Path, lease: Duration, checkpoints: Arc<dyn Checkpoints>) -> Self {
        let around = Arc::new(Around::default());
        let headroom = Headroom { bytes: 1 << 20, reserve_bytes: 1 << 16 };
        let store = SqliteStore::open(&folder.join("store"), &SystemEntropy.id(&["store"]), &headroom).await.unwrap();
        let identity = ServerIdentity::open(&folder.join("tls.json")).unwrap();
        let address_file = folder.join("address");
        let world = World {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            references: around.clone(),
            executor: around.clone(),
            mark: Arc::new(FileMark(folder.to_owned())),
            status: Arc::new(NoStatus),
            disk: Arc::new(FileSystem(folder.to_owned())),
            checkpoints,
        };
        let options = Options { headroom, lease, ..Options::new(identity.ca_pem.clone(), address_file.clone()) };
        let artifacts = Artifacts::in_folder(&folder.join("artifacts")).unwrap();
        let key = SigningKey::from_seed(&[7; 32]);
        let authority =
            Arc::new(Authority::open(Arc::new(store), artifacts, world, key, options, &EachStart).await.unwrap());
        let stop = CancellationToken::new();
        let options = DriverOptions {
            cluster_uid: "cluster".to_owned(),
            trust: Trust::Local,
            clock: ClockSource::System,
            reference_wait: Duration::ZERO,
        };
        let driver = Driver::new(authority.clone(), around.clone(), options, stop.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        std::fs::write(&address_file, format!("{}\n", listener.local_addr().unwrap())).unwrap();
        let callers = LaneCredentials::open(folder, &identity.ca_pem, address_file, &SystemEntropy).unwrap();
        let (service, stopped) = (Service::new(authority.clone()), stop.clone());
        let serving = async move { serve(service, Arc::new(callers), &identity, listener, stopped).await.unwrap() };
        let serving = tokio::spawn(serving);
        Self { around, authority, driver, stop, serving, folder: folder.to_owned() }
    }

    pub fn lane(&self, lane: Lane) -> GrpcClient {
        GrpcClient::new(Credentials::read(&LaneCredentials::file(&self.folder, lane)).unwrap())
    }

    pub fn exec(&self, index: usize) -> (GrpcClient, String) {
        let order = self.around.orders.lock().unwrap()[index].clone();
        (GrpcClient::new(order.credentials), order.contract_id)
    }

    pub fn request(name: &str) -> RunRequest {
        RunRequest {
            namespace: Named { name: "default".to_owned(), uid: "uid-of-default".to_owned() },
            name: name.to_owned(),
            uid: None,
            idempotency_key: None,
            actor: fixtures::actor(),
            proposal: fixtures::proposal(),
            policy: "policy".to_owned(),
            manifest: "tools".to_owned(),
            deadline_seconds: 60,
        }
    }

    pub async fn open(&self, name: &str) -> Opened {
        self.driver.open(&Self::request(name)).await.unwrap()
    }

    pub async fn operators(&self, job_type: JobType, instance: i64, element: &str) -> Outcome {
        while self.around.instances.lock().unwrap().len() < instance as usize {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let run = self.around.instances.lock().unwrap()[instance as usize - 1].clone();
        let job = m87_zeebe::Job {
            key: JobKey(1),
            job_type: job_type.name().to_owned(),
            instance: InstanceKey(instance),
            definition: DefinitionKey(1),
            process_id: String::new(),
            version: 1,
            element_id: element.to_owned(),
            element: ElementKey(1),
            headers: String::new(),
            retries: 3,
            deadline_ms: 0,
            variables: json!({"run": run}).to_string(),
        };
        let handlers = self.driver.handlers();
        handlers.into_iter().find(|(of, _)| *of == job_type).unwrap().1.handle(job).await
    }

    /// Takes a run to the point where its contract is asked for.
    pub async fn validated(&self, instance: i64) {
        assert_eq!(self.operators(JobType::ClaimRun, instance, "Propose").await, Outcome::Complete(json!({})));
        let proposal = fixtures::proposal();
        let hashes = json!({
            "proposalHash": compute_hash(&proposal).unwrap(),
            "traceHash": compute_hash(&proposal.reasoning_trace).unwrap(),
        });
        let record = |job_type, json: serde_json::Value| RecordRequest {
            job: Some(job(job_type, instance)),
            json: json.to_string(),
        };
        self.lane(Lane::Proposer).record(record(JobType::Propose, hashes)).await.unwrap();
        let found = json!({"constraintsOk": true, "toolInManifest": true});
        self.lane(Lane::Governance).record(record(JobType::Validate, found)).await.unwrap();
    }

    /// Takes a run to the point where its attempt waits to redeem.
    pub async fn contracted(&self, instance: i64) -> String {
        self.validated(instance).await;
        let contract = self.lane(Lane::Governance).contract(job(JobType::BuildContract, instance)).await.unwrap();
        assert_eq!(contract.refused, "");
        let wait = WaitRequest { job: Some(job(JobType::Execute, instance)), wait_ms: 0 };
        assert!(!self.lane(Lane::Runner).execute(wait).await.unwrap().done);
        contract.contract_id
    }

    /// Ends the process at that event, and gives the terminal and reason that were sealed.
    pub async fn ended(&self, uid: &str, instance: i64, event: &str) -> (Terminal, Option<Reason>) {
        assert_eq!(self.operators(JobType::RecordTerminal, instance, event).await, Outcome::Complete(json!({})));
        self.sealed(uid).await
    }

    /// The terminal and reason of a run, once it has a receipt that verifies.
    pub async fn sealed(&self, uid: &str) -> (Terminal, Option<Reason>) {
        let sealed = self.driver.finished(uid).await.unwrap();
        let bundle = self.authority.bundle(uid).await.unwrap().to_bytes().unwrap();
        let verification = verify(&bundle, Some(&self.authority.verifying_key()));
        assert!(verification.passed(), "{:?}", verification.checks);
        assert_eq!(verification.receipt.unwrap().hash().unwrap(), sealed.receipt_hash);
        (sealed.terminal, sealed.reason)
    }
}

pub fn job(job_type: JobType, instance: i64) -> Job {
    Job {
        job_key: 1,
        job_type: job_type.name().to_owned(),
        instance_key: instance,
        definition_key: 1,
        element_id: "Task".to_owned(),
    }
}

pub fn denial<T: std::fmt::Debug>(result: Result<T, AuthorityError>) -> Denial {
    match result {
        Err(AuthorityError::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

pub fn redeem(contract_id: &str, nonce: &str) -> RedeemRequest {
    RedeemRequest { contract_id: contract_id.to_owned(), nonce: nonce.to_owned() }
}

/// Names, sizes and times of a folder's files.
fn state_of(folder: &Path) -> BTreeMap<OsString, (u64, SystemTime)> {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let state = files.filter_map(|file| {
        let facts = file.metadata().ok()?;
        Some((file.file_name(), (facts.len(), facts.modified().unwrap())))
    });
    state.collect()
}

/// Ends an authority, and waits until its store is at rest.
pub async fn end(served: Served) {
    served.stop.cancel();
    let store = served.folder.join("store");
    drop(served);
    // The server's tasks let go of the store when they have stopped.
    while SqliteStore::open(&store, "x", &Headroom { bytes: 0, reserve_bytes: 0 }).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Connections close behind its back: a copy is made of files that have come to rest.
    let mut before = state_of(&store);
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = state_of(&store);
        if now == before {
            return;
        }
        before = now;
    }
}
