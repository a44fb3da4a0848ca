#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use crate::receipts::caller::is_uid;
use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use m87_authority::artifacts::Artifacts;
use m87_authority::clock::{SystemClock, Wall};
use m87_authority::driver::{Driver, DriverOptions, Opened, ProcessEngine, RunRequest};
use m87_authority::entropy::SystemEntropy;
use m87_authority::mark::FileMark;
use m87_authority::row::{Definition, Row};
use m87_authority::store::{FileSystem, Headroom, Opening, SqliteStore};
use m87_authority::world::{CheckpointFiles, EachStart, NoStatus, References, ReferencesUnavailable};
use m87_authority::{AttemptName, AttemptOrder, Executor, ExecutorError, Handle, Options, World};
use m87_core::dossier::{ClockSource, Dossier, Named, Pinned, Trust};
use m87_core::evidence::ValidationReport;
use m87_core::fixtures;
use m87_core::json::read_document;
use m87_core::log::{Checkpoint, Hash, Log, LogEntry};
use m87_core::policy::PolicySpec;
use m87_core::receipt::verify;
use m87_core::sign::{SigningKey, VerifyingKey};
use m87_core::tool::ManifestSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// There is one policy, `policy`; nothing is ever executed, and the engine starts what nobody works on.
struct Around;

#[async_trait]
impl Executor for Around {
    async fn start(&self, _: &AttemptOrder) -> Result<Handle, ExecutorError> {
        panic!("nothing is executed here")
    }
    async fn alive(&self, _: &Handle) -> Result<bool, ExecutorError> {
        Ok(false)
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

    async fn discard_unheard(&self, _: &AttemptName) -> Result<(), ExecutorError> {
        Ok(())
    }
}

#[async_trait]
impl References for Around {
    async fn policy(&self, _: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok((name == "policy").then(|| fixtures::pinned(name, fixtures::policy())))
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
    async fn id(&self) -> Result<String, m87_zeebe::Error> {
        Ok("engine".to_owned())
    }
    async fn deploy(&self, _: &str, _: &[u8]) -> Result<Definition, m87_zeebe::Error> {
        Ok(Definition { key: 1, version: 1 })
    }
    async fn start(&self, _: Definition, _: &str) -> Result<i64, m87_zeebe::Error> {
        Ok(1)
    }
    async fn cancel(&self, _: i64) -> Result<(), m87_zeebe::Error> {
        Ok(())
    }
}

/// An API server that knows the tokens `viewer` (who may see namespace `default`) and `one` (who may see run `refused` alone).
#[derive(Default)]
struct Fake {
    objects: Mutex<BTreeMap<String, RunObject>>,
    namespace_uid: Mutex<Option<String>>,
    down: bool,
}

#[async_trait]
impl Cluster for Fake {
    async fn who(&self, token: &str) -> Result<Option<User>, Unreachable> {
        if self.down {
            return Err(Unreachable("whose token it is: connection refused".to_owned()));
        }
        let known = ["viewer", "one", "stranger"].contains(&token);
        Ok(known.then(|| User { username: token.to_owned(), ..User::default() }))
    }
    async fn may_get_runs(&self, user: &User, namespace: &str, name: Option<&str>) -> Result<bool, Unreachable> {
        Ok(match user.username.as_str() {
            "viewer" => namespace == "default",
            "one" => namespace == "default" && name == Some("refused"),
            _ => false,
        })
    }
    async fn namespace(&self, name: &str) -> Result<Option<String>, Unreachable> {
        Ok(self.namespace_uid.lock().unwrap().clone().filter(|_| name == "default"))
    }
    async fn run(&self, _: &str, name: &str) -> Result<Option<RunObject>, Unreachable> {
        Ok(self.objects.lock().unwrap().get(name).cloned())
    }
}

struct Place {
    router: Router,
    fake: Arc<Fake>,
    refused: String,
    open: String,
    _folder: tempfile::TempDir,
}

/// A store with a run `refused` (its policy is missing) and a run `open` (nobody works on its process).
async fn place(down: bool) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority(folder.path(), 2).await;
    let options = DriverOptions {
        cluster_uid: "cluster".to_owned(),
        trust: Trust::Cluster,
        clock: ClockSource::System,
        reference_wait: Duration::ZERO,
    };
    let driver = Driver::new(authority.clone(), Arc::new(Around), options, CancellationToken::new());
    let fake = Arc::new(Fake { down, ..Fake::default() });
    *fake.namespace_uid.lock().unwrap() = Some("uid-of-default".to_owned());
    let mut uids = Vec::new();
    for (name, policy) in [("refused", "absent"), ("open", "policy")] {
        let request = RunRequest {
            namespace: Named { name: "default".to_owned(), uid: "uid-of-default".to_owned() },
            name: name.to_owned(),
            uid: None,
            idempotency_key: None,
            actor: fixtures::actor(),
            proposal: fixtures::proposal(),
            policy: policy.to_owned(),
            manifest: "tools".to_owned(),
            deadline_seconds: 60,
        };
        let Opened::Run(uid) = driver.open(&request).await.unwrap() else { panic!("{name} was done before") };
        let object = RunObject {
            uid: uid.clone(),
            idempotency_key: name.to_owned(),
            proposal: serde_json::to_value(fixtures::proposal()).unwrap(),
        };
        fake.objects.lock().unwrap().insert(name.to_owned(), object);
        uids.push(uid);
    }
    driver.finished(&uids[0]).await.unwrap();
    let receipts = Receipts { authority, cluster: fake.clone(), cluster_uid: "cluster".to_owned() };
    let (refused, open) = (uids[0].clone(), uids[1].clone());
    Place { router: router(Arc::new(receipts)), fake, refused, open, _folder: folder }
}

async fn authority(folder: &FilePath, log_page: u64) -> Arc<Authority> {
    let headroom = Headroom { bytes: 1 << 20, reserve_bytes: 1 << 16 };
    let store = SqliteStore::open(&folder.join("store"), "store", &headroom).await.unwrap();
    let world = World {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        references: Arc::new(Around),
        executor: Arc::new(Around),
        mark: Arc::new(FileMark(folder.to_owned())),
        status: Arc::new(NoStatus),
        disk: Arc::new(FileSystem(folder.to_owned())),
        checkpoints: Arc::new(CheckpointFiles(folder.join("checkpoints"))),
    };
    let options = Options { headroom, log_page, ..Options::new(String::new(), folder.join("address")) };
    let artifacts = Artifacts::in_folder(&folder.join("artifacts")).unwrap();
    let key = SigningKey::from_seed(&[7; 32]);
    Arc::new(Authority::open(Arc::new(store), artifacts, world, key, options, &EachStart).await.unwrap())
}

impl Place {
    async fn get(&self, path: &str, token: Option<&str>) -> (StatusCode, Vec<u8>) {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header(TOKEN_HEADER, token);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        (status, to_bytes(response.into_body(), MAX_ANSWER).await.unwrap().to_vec())
    }

    /// The message of a refusal, in the form of the API server's own.
    async fn refusal(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let (code, body) = self.get(path, token).await;
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["kind"], &status["status"]), (&"Status".into(), &"Failure".into()), "{status}");
        assert_eq!(status["code"], code.as_u16());
        (code.as_u16(), status["message"].as_str().unwrap().to_owned())
    }
}

const BUNDLE: &str = "/v1/namespaces/default/runs/refused/bundle";

#[tokio::test]
async fn a_bundle_verifies_with_the_key_that_is_served() {
    let place = place(false).await;
    let (code, pem) = place.get("/v1/keys", None).await;
    assert_eq!(code, StatusCode::OK);
    let key = VerifyingKey::from_pem(std::str::from_utf8(&pem).unwrap()).unwrap();
    for path in [BUNDLE.to_owned(), format!("/v1/namespaces/default/runs/{}/bundle", place.refused)] {
        let (code, bundle) = place.get(&path, Some("viewer")).await;
        assert_eq!(code, StatusCode::OK, "{path}");
        let verification = verify(&bundle, Some(&key));
        assert!(verification.passed() && verification.key_pinned, "{:?}", verification.checks);
    }
}

#[tokio::test]
async fn an_answer_has_its_place_until_it_is_sent() {
    let place = place(false).await;
    let ask = async || {
        let request = Request::get("/v1/keys").body(Body::empty()).unwrap();
        place.router.clone().oneshot(request).await.unwrap()
    };
    let mut unread = Vec::new();
    for _ in 0..AT_ONCE {
        unread.push(ask().await);
    }
    assert!(unread.iter().all(|answer| answer.status() == StatusCode::OK));
    assert_eq!(ask().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let read = to_bytes(unread.pop().unwrap().into_body(), MAX_ANSWER).await.unwrap();
    assert!(!read.is_empty());
    assert_eq!(ask().await.status(), StatusCode::OK);
}

const LOG: &str = "/v1/namespaces/default/log";

impl Place {
    async fn log_page(&self, query: &str) -> LogPage {
        let (code, bytes) = self.get(&format!("{LOG}{query}"), Some("viewer")).await;
        assert_eq!(code, StatusCode::OK, "{query}");
        read_document(&bytes).unwrap()
    }
}

fn opened(page: &LogPage) -> Checkpoint {
    Checkpoint::open(page.checkpoint.as_ref().unwrap(), &VerifyingKey::from_hex(&page.public_key).unwrap()).unwrap()
}

/// The root of these entries.
fn root(entries: &[LogEntry]) -> Hash {
    let mut log = Log::default();
    for entry in entries {
        log.append(entry.leaf().unwrap());
    }
    log.root()
}

#[tokio::test]
async fn the_log_has_every_run_under_its_checkpoint_page_by_page() {
    let place = place(false).await;
    let first = place.log_page("").await;
    assert_eq!((first.from, first.entries.len(), opened(&first).size), (0, 2, 3), "opened, sealed, opened");
    let second = place.log_page("?from=2&size=3").await;
    assert_eq!((second.from, second.entries.len()), (2, 1));
    let whole = [first.entries.clone(), second.entries.clone()].concat();
    assert_eq!(root(&whole), opened(&first).root);

    let (code, bytes) = place.get("/v1/namespaces/default/checkpoint", Some("viewer")).await;
    assert_eq!(code, StatusCode::OK);
    let envelope = m87_core::json::from_canonical(&bytes).unwrap();
    let checkpoint = Checkpoint::open(&envelope, &VerifyingKey::from_hex(&first.public_key).unwrap()).unwrap();
    assert_eq!((checkpoint.size, checkpoint.root, checkpoint.cluster_uid.as_str()), (3, root(&whole), "cluster"));
    // A log that grows meanwhile still has its earlier whole.
    let earlier = place.log_page("?from=1&size=2").await;
    assert_eq!(earlier.entries.as_slice(), &whole[1..2]);
}

#[tokio::test]
async fn nobody_gets_a_log_signed_without_its_last_entries() {
    let place = place(false).await;
    for query in ["?size=2", "?size=0", "?from=2&size=2", "?size=3"] {
        assert_eq!(place.log_page(query).await.checkpoint, None, "{query}");
    }
    assert_eq!(opened(&place.log_page("?from=2").await).size, 3);
}

#[tokio::test]
async fn a_page_that_there_cannot_be_is_refused() {
    let place = place(false).await;
    for query in
        ["?from=4", "?size=4", "?from=3&size=2", &format!("?from={}", u64::MAX), &format!("?size={}", u64::MAX)]
    {
        let (code, message) = place.refusal(&format!("{LOG}{query}"), Some("viewer")).await;
        assert!(code == 400 && message.contains("the log has 3 entries"), "{query}: {message}");
    }
    for query in ["?from=-1", "?from", "?from=1&from=2", "?limit=1", "?size=x", "?from=18446744073709551616"] {
        let (code, message) = place.refusal(&format!("{LOG}{query}"), Some("viewer")).await;
        assert!(code == 400 && message.contains("?from=ENTRY&size=SIZE"), "{query}: {message}");
    }
}

/// Opens so many runs in another namespace, `long`.
async fn long_log(authority: &Arc<Authority>, count: usize) {
    let mut dossier = fixtures::dossier();
    dossier.namespace.uid = "long".to_owned();
    let epoch = authority.epoch();
    let runs = (0..count).map(|at| {
        let mut dossier = dossier.clone();
        dossier.run.uid = format!("run-{at}");
        dossier.run.name.clone_from(&dossier.run.uid);
        dossier.run.idempotency_key.clone_from(&dossier.run.uid);
        async move {
            let entry = LogEntry::opened(&dossier.run.uid, "p");
            let run = Run { dossier: Arc::new(dossier), row: Row::open(Wall(0)) };
            let opening = Opening { epoch, run: &run, proposal_hash: "p", actor_hash: "a", entry: &entry };
            authority.store().open_run(&opening).await.unwrap();
        }
    });
    futures::stream::iter(runs).buffer_unordered(512).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_more_than_a_page_of_the_usual_size_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let usual = Options::new(String::new(), FilePath::new("").into()).log_page;
    let count = usual + 3;
    let entries = async |authority: &Arc<Authority>| {
        let (mut entries, mut checkpoint) = (Vec::new(), None);
        for (from, size, length) in [(0, None, usual), (usual, Some(count), 3)] {
            let page = authority.page("cluster", "long", from, size).await.unwrap();
            assert_eq!(page.entries.len() as u64, length);
            let bytes = LogPage::new(from, page.entries.clone(), page.checkpoint.clone(), &authority.verifying_key());
            assert!(bytes.to_bytes().unwrap().len() < MAX_ANSWER / 8);
            entries.extend(page.entries);
            checkpoint = page.checkpoint.or(checkpoint);
        }
        let checkpoint = Checkpoint::open(&checkpoint.unwrap(), &authority.verifying_key()).unwrap();
        assert_eq!((checkpoint.size, checkpoint.root), (count, root(&entries)));
        entries
    };
    let authority = authority(folder.path(), usual).await;
    long_log(&authority, count as usize).await;
    let whole = entries(&authority).await;
    assert_eq!(authority.closure("cluster", "long").await.unwrap().entries, whole);
}

#[tokio::test]
async fn a_run_is_explained_before_and_after_its_end() {
    let place = place(false).await;
    let of = async |name: &str| -> Value {
        let (code, bytes) = place.get(&format!("/v1/namespaces/default/runs/{name}/explain"), Some("viewer")).await;
        assert_eq!(code, StatusCode::OK, "{name}");
        serde_json::from_slice(&bytes).unwrap()
    };
    let refused = of("refused").await;
    assert_eq!((&refused["sealed"], &refused["terminal"]), (&true.into(), &"HALT".into()));
    assert_eq!(refused["reason"], "PolicyMissing");
    assert!(refused["text"].as_str().unwrap().contains("would pass:"), "{refused}");
    let open = of("open").await;
    assert_eq!((&open["sealed"], &open["terminal"]), (&false.into(), &Value::Null));
    assert!(open["text"].as_str().unwrap().contains("tool_in_manifest"), "{open}");
}

#[tokio::test]
async fn who_is_not_known_or_not_allowed_sees_nothing() {
    let place = place(false).await;
    let (code, message) = place.refusal(BUNDLE, None).await;
    assert!(code == 401 && message.contains("kubectl create token") && message.contains("--token"), "{message}");
    for token in ["nobody", "", &"a".repeat(20_000)] {
        assert_eq!(place.refusal(BUNDLE, Some(token)).await.0, 401);
    }
    let (code, message) = place.refusal(BUNDLE, Some("stranger")).await;
    assert!(code == 403 && message.contains("\"stranger\"") && message.contains("m87-viewer"), "{message}");
    assert_eq!(place.refusal("/v1/namespaces/other/log", Some("viewer")).await.0, 403);
}

#[tokio::test]
async fn a_right_to_one_run_shows_that_run_alone() {
    let place = place(false).await;
    assert_eq!(place.get(BUNDLE, Some("one")).await.0, StatusCode::OK);
    let by_uid = format!("/v1/namespaces/default/runs/{}/bundle", place.refused);
    for path in [by_uid.as_str(), "/v1/namespaces/default/runs/open/bundle", "/v1/namespaces/default/log"] {
        assert_eq!(place.refusal(path, Some("one")).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn a_namespace_that_was_made_again_shows_nothing_of_the_one_before() {
    let place = place(false).await;
    *place.fake.namespace_uid.lock().unwrap() = Some("uid-of-another-default".to_owned());
    place.fake.objects.lock().unwrap().clear();
    for run in ["refused", place.refused.as_str()] {
        let path = format!("/v1/namespaces/default/runs/{run}/bundle");
        assert_eq!(place.refusal(&path, Some("viewer")).await.0, 404, "{run}");
    }
    assert!(place.log_page("").await.entries.is_empty());
    *place.fake.namespace_uid.lock().unwrap() = None;
    assert_eq!(place.refusal("/v1/namespaces/default/log", Some("viewer")).await.0, 404);
}

#[tokio::test]
async fn a_run_that_was_asked_for_again_shows_the_receipt_of_the_first() {
    let place = place(false).await;
    let first = place.fake.objects.lock().unwrap()["refused"].clone();
    let again = RunObject { uid: "11111111-2222-3333-4444-555555555555".to_owned(), ..first.clone() };
    place.fake.objects.lock().unwrap().insert("again".to_owned(), again.clone());
    let (code, bundle) = place.get("/v1/namespaces/default/runs/again/bundle", Some("viewer")).await;
    assert_eq!(code, StatusCode::OK);
    let receipt = verify(&bundle, None).receipt.unwrap();
    assert_eq!(receipt.run.uid, place.refused);
    // Another proposal under the same key is another action, and shows nothing of the first one.
    let mut other = again;
    other.proposal["target"] = "reports/other.json".into();
    place.fake.objects.lock().unwrap().insert("other".to_owned(), other);
    assert_eq!(place.refusal("/v1/namespaces/default/runs/other/bundle", Some("viewer")).await.0, 404);
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let place = place(false).await;
    let (code, message) = place.refusal("/v1/namespaces/default/runs/nobody/bundle", Some("viewer")).await;
    assert!(code == 404 && message.contains("\"nobody\"") && message.contains("uid"), "{message}");
    let (code, message) = place.refusal("/v1/namespaces/default/runs/open/bundle", Some("viewer")).await;
    assert!(code == 404 && message.contains("no receipt yet") && message.contains(&place.open), "{message}");
    for path in ["/", "/v1/namespaces", "/v1/namespaces/default/runs/refused/artifact"] {
        assert_eq!(place.refusal(path, Some("viewer")).await.0, 404, "{path}");
    }
    for path in ["/v1/namespaces/De/log", "/v1/namespaces/default/runs/A_B/bundle"] {
        assert_eq!(place.refusal(path, Some("viewer")).await.0, 400, "{path}");
    }
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_a_request_to_try_again() {
    let place = place(true).await;
    let (code, message) = place.refusal(BUNDLE, Some("viewer")).await;
    assert!(code == 503 && message.contains("try again"), "{message}");
    assert_eq!(place.get("/v1/keys", None).await.0, StatusCode::OK);
}

#[test]
fn a_uid_is_told_from_a_name() {
    assert!(is_uid("0f6c2a0e-93a4-4b5e-8f0a-3f8d6f1b9c11"));
    for name in ["refund-7", "0f6c2a0e-93a4-4b5e-8f0a", "0f6c2a0e-93a4-4b5e-8f0a-3f8d6f1b9c1z", ""] {
        assert!(!is_uid(name), "{name}");
    }
}
