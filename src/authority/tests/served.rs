#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
//! The authority as it is served: SQLite, TLS, tokens. What a caller may ask depends on its token alone.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use m87_authority::artifacts::Artifacts;
use m87_authority::callers::LaneCredentials;
use m87_authority::clock::SystemClock;
use m87_authority::driver::ProcessEngine;
use m87_authority::entropy::{Entropy, SystemEntropy};
use m87_authority::mark::FileMark;
use m87_authority::proto::{Job, RecordRequest, RedeemRequest, ReportRequest, WaitRequest};
use m87_authority::row::{Definition, Ending};
use m87_authority::service::serve;
use m87_authority::store::{FileSystem, Headroom, SqliteStore};
use m87_authority::tls::ServerIdentity;
use m87_authority::world::{CheckpointFiles, EachStart, NoStatus, References, ReferencesUnavailable};
use m87_authority::{
    AttemptOrder, Authority, AuthorityClient, AuthorityError, Credentials, Denial, Driver, DriverOptions, Executor,
    ExecutorError, GrpcClient, Handle, Opened, Options, RunRequest, Service, World,
};
use m87_core::dossier::{ClockSource, Dossier, Named, Pinned, Trust};
use m87_core::evidence::ValidationReport;
use m87_core::fixtures;
use m87_core::json::{compute_hash, to_canonical};
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
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Around {
    orders: Mutex<Vec<AttemptOrder>>,
    instances: Mutex<Vec<String>>,
}

#[async_trait]
impl Executor for Around {
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError> {
        self.orders.lock().unwrap().push(order.clone());
        Ok(Handle(String::new()))
    }
    async fn alive(&self, _: &Handle) -> Result<bool, ExecutorError> {
        Ok(true)
    }
    async fn as_made(&self, _: &Handle) -> Result<Result<(), String>, ExecutorError> {
        Ok(Ok(()))
    }
    async fn verdict(&self, _: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        Ok(None)
    }
    async fn discard(&self, _: &Handle) -> Result<(), ExecutorError> {
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
        Ok(false)
    }
    async fn bound(&self, _: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(true)
    }
}

#[async_trait]
impl ProcessEngine for Around {
    async fn id(&self) -> Result<String, Error> {
        Ok("engine".to_owned())
    }
    async fn deploy(&self, _: &str, _: &[u8]) -> Result<Definition, Error> {
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

struct Served {
    around: Arc<Around>,
    authority: Arc<Authority>,
    driver: Driver,
    stop: CancellationToken,
    folder: std::path::PathBuf,
}

impl Served {
    async fn begin(folder: &Path) -> Self {
        Self::begin_with(folder, Duration::from_secs(30)).await
    }

    async fn begin_with(folder: &Path, lease: Duration) -> Self {
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
            checkpoints: Arc::new(CheckpointFiles(folder.join("checkpoints"))),
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
        tokio::spawn(async move { serve(service, Arc::new(callers), &identity, listener, stopped).await.unwrap() });
        Self { around, authority, driver, stop, folder: folder.to_owned() }
    }

    fn lane(&self, lane: Lane) -> GrpcClient {
        GrpcClient::new(Credentials::read(&LaneCredentials::file(&self.folder, lane)).unwrap())
    }

    fn exec(&self, index: usize) -> (GrpcClient, String) {
        let order = self.around.orders.lock().unwrap()[index].clone();
        (GrpcClient::new(order.credentials), order.contract_id)
    }

    async fn open(&self, name: &str) -> Opened {
        let request = RunRequest {
            namespace: Named { name: "default".to_owned(), uid: "uid-of-default".to_owned() },
            name: name.to_owned(),
            uid: None,
            idempotency_key: None,
            actor: fixtures::actor(),
            proposal: fixtures::proposal(),
            policy: "policy".to_owned(),
            manifest: "tools".to_owned(),
            deadline_seconds: 60,
        };
        self.driver.open(&request).await.unwrap()
    }

    async fn operators(&self, job_type: JobType, instance: i64, element: &str) -> Outcome {
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

    /// Takes a run to the point where its attempt waits to redeem.
    async fn contracted(&self, instance: i64) -> String {
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
        let governance = self.lane(Lane::Governance);
        let found = json!({"constraintsOk": true, "toolInManifest": true});
        governance.record(record(JobType::Validate, found)).await.unwrap();
        let contract = governance.contract(job(JobType::BuildContract, instance)).await.unwrap();
        assert_eq!(contract.refused, "");
        let wait = WaitRequest { job: Some(job(JobType::Execute, instance)), wait_ms: 0 };
        assert!(!self.lane(Lane::Runner).execute(wait).await.unwrap().done);
        contract.contract_id
    }
}

fn job(job_type: JobType, instance: i64) -> Job {
    Job {
        job_key: 1,
        job_type: job_type.name().to_owned(),
        instance_key: instance,
        definition_key: 1,
        element_id: "Task".to_owned(),
    }
}

fn denial<T: std::fmt::Debug>(result: Result<T, AuthorityError>) -> Denial {
    match result {
        Err(AuthorityError::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn redeem(contract_id: &str, nonce: &str) -> RedeemRequest {
    RedeemRequest { contract_id: contract_id.to_owned(), nonce: nonce.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_from_its_opening_to_a_receipt_that_anyone_can_verify() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let Opened::Run(uid) = served.open("a").await else { panic!() };
    let contract = served.contracted(1).await;

    let (exec, own) = served.exec(0);
    assert_eq!(own, contract);
    assert!(exec.redeem(redeem(&contract, "n")).await.unwrap().order.contains("WorkOrder"));
    exec.redeem(redeem(&contract, "n")).await.unwrap();
    assert_eq!(denial(exec.redeem(redeem(&contract, "another")).await), Denial::AlreadyDispatched);
    let bytes = futures::stream::iter([Bytes::from_static(b"{\"total\""), Bytes::from_static(b":3}")]).boxed();
    let stored = exec.put_artifact(contract.clone(), "n".to_owned(), bytes).await.unwrap();
    let report = fixtures::evidence().execution.unwrap().report.unwrap();
    let json = to_canonical(&report).unwrap();
    exec.report(ReportRequest { contract_id: contract, nonce: "n".to_owned(), json }).await.unwrap();

    let wait = |job_type| WaitRequest { job: Some(job(job_type, 1)), wait_ms: 5000 };
    let executed = served.lane(Lane::Runner).execute(wait(JobType::Execute)).await.unwrap();
    assert!(executed.done && !executed.budget_exceeded, "{executed:?}");
    let governance = served.lane(Lane::Governance);
    let waiting = tokio::spawn(async move { governance.verify(wait(JobType::VerifyArtifact)).await.unwrap() });
    while served.around.orders.lock().unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (validator, _) = served.exec(1);
    let order = validator.validation_order().await.unwrap().order;
    assert!(order.contains(&stored.sha256));
    let copy: Vec<Bytes> = validator.get_artifact(Job::default()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(copy.concat(), b"{\"total\":3}");
    let json = to_canonical(&fixtures::evidence().verified.unwrap().validation.unwrap()).unwrap();
    validator.report_validation(m87_authority::proto::ReportValidationRequest { json }).await.unwrap();
    let verified = waiting.await.unwrap();
    assert!(verified.done && verified.validation_passed && verified.declared_sha256 == stored.sha256);

    let record =
        |job_type, json: serde_json::Value| RecordRequest { job: Some(job(job_type, 1)), json: json.to_string() };
    let recomputed = json!({"recomputed": stored.sha256});
    served.lane(Lane::Governance).record(record(JobType::VerifyArtifact, recomputed)).await.unwrap();
    let artifact = json!({"artifact": stored.sha256});
    served.lane(Lane::Memory).record(record(JobType::RouteMemory, artifact)).await.unwrap();
    assert_eq!(served.operators(JobType::RecordTerminal, 1, "End_Complete").await, Outcome::Complete(json!({})));

    let sealed = served.driver.finished(&uid).await.unwrap();
    assert_eq!((sealed.terminal, sealed.reason), (Terminal::Complete, None));
    let bundle = served.authority.bundle(&uid).await.unwrap().to_bytes().unwrap();
    let verification = verify(&bundle, Some(&served.authority.verifying_key()));
    assert!(verification.passed(), "{:?}", verification.checks);
    assert_eq!(served.authority.store().memory("uid-of-default", "reports/january.json").await.unwrap().len(), 1);
    assert_eq!(served.open("a").await, Opened::AlreadyDone(uid));
    assert!(folder.path().join("checkpoints/uid-of-default.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_caller_may_ask_only_what_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    served.open("a").await;
    served.open("b").await;
    let (first, second) = (served.contracted(1).await, served.contracted(2).await);
    let stranger = Credentials {
        token: "0".repeat(64),
        ..Credentials::read(&LaneCredentials::file(folder.path(), Lane::Runner)).unwrap()
    };
    assert_eq!(denial(GrpcClient::new(stranger).brief(job(JobType::Propose, 1)).await), Denial::Unauthenticated);
    for lane in Lane::ALL {
        let client = served.lane(lane);
        for job_type in JobType::ALL.into_iter().filter(|job| job.lane() != Some(lane)) {
            let denied = denial(client.brief(job(job_type, 1)).await);
            assert!(matches!(denied, Denial::NotYours | Denial::Malformed), "{lane:?} {job_type:?}: {denied}");
        }
        assert_eq!(denial(client.redeem(redeem(&first, "n")).await), Denial::NotYours);
        assert_eq!(denial(client.validation_order().await), Denial::NotYours);
    }
    let (exec, _) = served.exec(0);
    assert_eq!(denial(exec.redeem(redeem(&second, "n")).await), Denial::NotYours);
    assert_eq!(denial(exec.brief(job(JobType::Propose, 1)).await), Denial::NotYours);
    assert_eq!(denial(served.lane(Lane::Proposer).brief(job(JobType::Propose, 9)).await), Denial::UnknownRun);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reconnects_to_wherever_the_authority_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let first = Served::begin(folder.path()).await;
    let Opened::Run(uid) = first.open("a").await else { panic!() };
    let contract = first.contracted(1).await;
    let (exec, _) = first.exec(0);
    first.stop.cancel();
    let Served { authority, driver, .. } = first;
    drop((authority, driver));
    assert!(matches!(exec.redeem(redeem(&contract, "n")).await, Err(AuthorityError::Unavailable(_))));
    let second = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let free = SqliteStore::open(&folder.path().join("store"), "x", &Headroom { bytes: 0, reserve_bytes: 0 }).await;
        if free.is_ok() {
            drop(free);
            break Served::begin(folder.path()).await;
        }
    };
    let order = loop {
        match exec.redeem(redeem(&contract, "n")).await {
            Ok(order) => break order,
            Err(AuthorityError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(order.order.contains(&contract));
    assert!(second.authority.load(&uid).await.unwrap().run.row.dispatched());
}

/// Copies a store that nobody holds.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
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

async fn end(served: Served) {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_store_restored_from_an_older_copy_refuses_says_why_and_never_executes_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (store, kept) = (folder.path().join("store"), folder.path().join("kept"));
    let served = Served::begin(folder.path()).await;
    served.open("a").await;
    let contract = served.contracted(1).await;
    let (exec, _) = served.exec(0);
    end(served).await;
    copy(&store, &kept);

    let served = Served::begin(folder.path()).await;
    served.driver.look_around().await.unwrap();
    exec_redeem(&exec, &contract).await.unwrap();
    end(served).await;
    std::fs::remove_dir_all(&store).unwrap();
    copy(&kept, &store);

    let served = Served::begin(folder.path()).await;
    let why = served.authority.restored().unwrap();
    assert!(why.contains("m87 store accept --out DIR") && why.contains("redemptions"), "{why}");
    served.driver.look_around().await.unwrap();
    assert_eq!(denial(exec_redeem(&exec, &contract).await), Denial::StoreRestored);

    served.authority.accept().await.unwrap();
    assert_eq!(served.authority.restored(), None);
    assert!(matches!(exec_redeem(&exec, &contract).await, Err(AuthorityError::Refused { .. })));
    let loaded = served.authority.store().runs(None).await.unwrap().remove(0);
    assert!(!loaded.run.row.dispatched() && loaded.barred);
    end(served).await;
    assert_eq!(Served::begin(folder.path()).await.authority.restored(), None);
}

async fn exec_redeem(exec: &GrpcClient, contract: &str) -> Result<(), AuthorityError> {
    loop {
        match exec.redeem(redeem(contract, "n")).await {
            Ok(_) => return Ok(()),
            Err(AuthorityError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_handed_out_three_times_without_a_result_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (patient, hasty) = (Duration::from_secs(30), Duration::ZERO);
    let served = Served::begin_with(folder.path(), patient).await;
    let Opened::Run(uid) = served.open("a").await else { panic!() };
    served.operators(JobType::ClaimRun, 1, "Propose").await;
    // Within its lease a lane may ask as often as it likes.
    for _ in 0..20 {
        served.lane(Lane::Proposer).brief(job(JobType::Propose, 1)).await.unwrap();
    }
    end(served).await;

    let served = Served::begin_with(folder.path(), hasty).await;
    served.driver.look_around().await.unwrap();
    let lane = served.lane(Lane::Proposer);
    while let Err(AuthorityError::Unavailable(_)) = lane.brief(job(JobType::Propose, 1)).await {}
    let refused = loop {
        match lane.brief(job(JobType::Propose, 1)).await {
            Ok(_) => {}
            Err(error) => break denial::<()>(Err(error)),
        }
    };
    assert_eq!(refused, Denial::JobAbandoned);
    let sealed = served.driver.finished(&uid).await.unwrap();
    assert_eq!((sealed.terminal, sealed.reason), (Terminal::Halt, Some(Reason::JobAbandoned)));
    // Whoever comes second gets what is stored.
    let again = served.authority.end(&uid, Ending::Interrupted(Reason::Interrupted)).await.unwrap();
    assert_eq!(again, sealed);
}
