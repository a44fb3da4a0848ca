#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use m87_authority::proto::{
    ContractReply, ExecuteReply, PutArtifactReply, RecordReply, RedeemReply, RedeemRequest, ReportRequest,
    ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest,
};
use m87_core::dossier::Dossier;
use m87_core::json::{compute_hash, sha256_hex, to_canonical};
use m87_engine::gateway::Caller;
use m87_engine::{Engine, EngineOptions};
use m87_zeebe::{DefinitionKey, ElementKey, InstanceKey, JobKey};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What the fake authority answers, and what it was told.
struct Fake {
    brief: String,
    /// Put over what is recorded, as if it had been there before.
    stored: Value,
    artifact: Vec<u8>,
    execute: Mutex<VecDeque<ExecuteReply>>,
    executing: AtomicUsize,
    verify: Mutex<VecDeque<VerifyReply>>,
    /// Every call answers this instead.
    down: Option<AuthorityError>,
    recorded: Mutex<Vec<Value>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            brief: "null".to_owned(),
            stored: json!({}),
            artifact: b"artifact".to_vec(),
            execute: Mutex::default(),
            executing: AtomicUsize::new(0),
            verify: Mutex::default(),
            down: None,
            recorded: Mutex::default(),
        }
    }
}

impl Fake {
    fn up(&self) -> Result<(), AuthorityError> {
        self.down.clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl AuthorityClient for Fake {
    async fn brief(&self, _: Job) -> Result<BriefReply, AuthorityError> {
        self.up()?;
        Ok(BriefReply { json: self.brief.clone() })
    }

    async fn record(&self, request: RecordRequest) -> Result<RecordReply, AuthorityError> {
        self.up()?;
        let mut stored: Value = serde_json::from_str(&request.json).unwrap();
        self.recorded.lock().unwrap().push(stored.clone());
        for (name, value) in self.stored.as_object().unwrap() {
            stored[name] = value.clone();
        }
        Ok(RecordReply { json: stored.to_string() })
    }

    async fn contract(&self, _: Job) -> Result<ContractReply, AuthorityError> {
        self.up()?;
        Ok(ContractReply::default())
    }

    async fn execute(&self, request: WaitRequest) -> Result<ExecuteReply, AuthorityError> {
        self.up()?;
        assert!((1..=10_000).contains(&request.wait_ms));
        self.executing.fetch_add(1, Ordering::SeqCst);
        let reply = self.execute.lock().unwrap().pop_front();
        match reply {
            Some(reply) => Ok(reply),
            // Held, as while the tool runs.
            None => std::future::pending().await,
        }
    }

    async fn verify(&self, _: WaitRequest) -> Result<VerifyReply, AuthorityError> {
        self.up()?;
        Ok(self.verify.lock().unwrap().pop_front().unwrap())
    }

    async fn get_artifact(&self, _: Job) -> Result<BoxStream<'static, Result<Bytes, AuthorityError>>, AuthorityError> {
        self.up()?;
        let pieces: Vec<_> = self.artifact.chunks(3).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Ok(futures::stream::iter(pieces).boxed())
    }

    async fn redeem(&self, _: RedeemRequest) -> Result<RedeemReply, AuthorityError> {
        panic!("no lane redeems")
    }
    async fn put_artifact(
        &self,
        _: String,
        _: String,
        _: BoxStream<'static, Bytes>,
    ) -> Result<PutArtifactReply, AuthorityError> {
        panic!("no lane stores artifacts")
    }
    async fn report(&self, _: ReportRequest) -> Result<(), AuthorityError> {
        panic!("no lane reports")
    }
    async fn validation_order(&self) -> Result<ValidationOrderReply, AuthorityError> {
        panic!("no lane validates")
    }
    async fn report_validation(&self, _: ReportValidationRequest) -> Result<(), AuthorityError> {
        panic!("no lane validates")
    }
}

fn job(job: JobType) -> m87_zeebe::Job {
    m87_zeebe::Job {
        key: JobKey(1),
        job_type: job.name().to_owned(),
        instance: InstanceKey(2),
        definition: DefinitionKey(3),
        process_id: "m87-governed-loop".to_owned(),
        version: 1,
        element_id: "Element".to_owned(),
        element: ElementKey(4),
        headers: "{}".to_owned(),
        retries: 3,
        deadline_ms: 0,
        // What a client seeds is never looked at.
        variables: json!({"constraints_ok": true, "tool_in_manifest": true, "artifact_verified": true}).to_string(),
    }
}

/// What came of one job, and what was recorded.
async fn done(fake: Fake, kind: JobType) -> (Outcome, Vec<Value>) {
    let fake = Arc::new(fake);
    let authority: Arc<dyn AuthorityClient> = fake.clone();
    let outcome = LaneHandler::new(kind, authority, CancellationToken::new()).handle(job(kind)).await;
    let recorded = fake.recorded.lock().unwrap().clone();
    (outcome, recorded)
}

fn complete(variables: Value) -> Outcome {
    Outcome::Complete(variables)
}

#[test]
fn every_lane_has_a_handler_for_each_of_its_jobs_and_for_no_other() {
    let authority: Arc<dyn AuthorityClient> = Arc::new(Fake::default());
    for lane in Lane::ALL {
        let jobs: Vec<JobType> =
            handlers(lane, &authority, &CancellationToken::new()).into_iter().map(|(job, _)| job).collect();
        assert_eq!(jobs, lane.jobs().collect::<Vec<_>>());
        assert!(!jobs.contains(&JobType::RecordTerminal) && !jobs.contains(&JobType::ClaimRun));
    }
}

#[tokio::test]
async fn the_proposer_hashes_what_it_was_given() {
    let proposal = json!({"tool": "t", "reasoningTrace": "because"});
    let fake = Fake { brief: proposal.to_string(), ..Fake::default() };
    let (outcome, recorded) = done(fake, JobType::Propose).await;
    assert_eq!(outcome, complete(json!({})));
    let expected = json!({
        "proposalHash": compute_hash(&proposal).unwrap(),
        "traceHash": compute_hash(&json!("because")).unwrap(),
    });
    assert_eq!(recorded, [expected]);
    let (_, recorded) = done(Fake { brief: "{}".to_owned(), ..Fake::default() }, JobType::Propose).await;
    assert_eq!(recorded[0]["traceHash"], compute_hash(&Value::Null).unwrap());
}

/// A dossier that passes both gates, as core's own fixtures make it.
fn dossier() -> Dossier {
    m87_core::fixtures::dossier()
}

#[tokio::test]
async fn governance_records_what_cores_gates_say() {
    let stored = json!({"drifted": false});
    let fake =
        |dossier: &Dossier| Fake { brief: to_canonical(dossier).unwrap(), stored: stored.clone(), ..Fake::default() };
    let (outcome, recorded) = done(fake(&dossier()), JobType::Validate).await;
    assert_eq!(recorded, [json!({"constraintsOk": true, "toolInManifest": true})]);
    assert_eq!(outcome, complete(json!({"constraints_ok": true, "tool_in_manifest": true})));

    let mut blank = dossier();
    blank.proposal.reasoning_trace = None;
    let (outcome, recorded) = done(fake(&blank), JobType::Validate).await;
    assert_eq!(recorded, [json!({"constraintsOk": false, "toolInManifest": true})]);
    assert_eq!(outcome, complete(json!({"constraints_ok": false, "tool_in_manifest": true})));

    let mut unknown = dossier();
    unknown.manifest = None;
    let (outcome, _) = done(fake(&unknown), JobType::Validate).await;
    assert_eq!(outcome, complete(json!({"constraints_ok": true, "tool_in_manifest": false})));
}

#[tokio::test]
async fn what_was_recorded_first_stands_and_drift_is_no_permission() {
    for stored in [json!({"drifted": true}), json!({"constraintsOk": false, "drifted": false}), json!({})] {
        let fake = Fake { brief: to_canonical(&dossier()).unwrap(), stored, ..Fake::default() };
        let (outcome, _) = done(fake, JobType::Validate).await;
        assert_eq!(outcome, complete(json!({"constraints_ok": false, "tool_in_manifest": true})));
    }
}

#[tokio::test]
async fn execute_waits_for_the_report_and_passes_on_what_the_authority_says() {
    for budget_exceeded in [true, false] {
        let reply = |done| ExecuteReply { done, budget_exceeded, reason: String::new() };
        let fake = Fake { execute: Mutex::new([reply(false), reply(false), reply(true)].into()), ..Fake::default() };
        let (outcome, recorded) = done(fake, JobType::Execute).await;
        assert_eq!(outcome, complete(json!({"budget_exceeded": budget_exceeded})));
        assert!(recorded.is_empty());
    }
}

fn verified() -> VerifyReply {
    VerifyReply {
        done: true,
        validation_passed: true,
        detail: String::new(),
        artifact_stored: true,
        declared_sha256: sha256_hex(b"artifact"),
    }
}

async fn verify(reply: VerifyReply, stored: Value) -> (Outcome, Vec<Value>) {
    let waiting = VerifyReply { done: false, ..VerifyReply::default() };
    done(Fake { verify: Mutex::new([waiting, reply].into()), stored, ..Fake::default() }, JobType::VerifyArtifact).await
}

#[tokio::test]
async fn an_artifact_is_verified_only_if_stored_declared_recomputed_and_validated() {
    let good = sha256_hex(b"artifact");
    let (outcome, recorded) = verify(verified(), json!({})).await;
    assert_eq!(recorded, [json!({"recomputed": good})]);
    assert_eq!(outcome, complete(json!({"artifact_verified": true})));

    let refused = complete(json!({"artifact_verified": false}));
    for reply in [
        VerifyReply { validation_passed: false, ..verified() },
        VerifyReply { declared_sha256: sha256_hex(b"other"), ..verified() },
        VerifyReply { declared_sha256: String::new(), ..verified() },
        VerifyReply { declared_sha256: "x".to_owned(), ..verified() },
        VerifyReply { artifact_stored: false, ..verified() },
        VerifyReply { artifact_stored: false, declared_sha256: String::new(), ..verified() },
    ] {
        assert_eq!(verify(reply.clone(), json!({})).await.0, refused, "{reply:?}");
    }
    let earlier = json!({"recomputed": sha256_hex(b"what was there before")});
    assert_eq!(verify(verified(), earlier).await.0, refused);
    let (_, recorded) = verify(VerifyReply { artifact_stored: false, ..verified() }, json!({})).await;
    assert_eq!(recorded, [json!({"recomputed": null})]);
}

#[tokio::test]
async fn the_other_jobs_record_what_their_brief_says() {
    let sha256 = sha256_hex(b"artifact");
    let brief = |value: Value| Fake { brief: value.to_string(), ..Fake::default() };
    let (outcome, recorded) = done(brief(json!({"sha256": sha256, "size": 8})), JobType::EmitArtifact).await;
    assert_eq!((outcome, recorded), (complete(json!({})), vec![json!({"sha256": sha256})]));
    let (outcome, recorded) = done(brief(Value::Null), JobType::EmitArtifact).await;
    assert_eq!((outcome, recorded), (complete(json!({})), vec![]));
    let reason = json!({"reason": "ToolFailed", "message": "exit code 3"});
    let (outcome, recorded) = done(brief(reason.clone()), JobType::FailureReceipt).await;
    let hash = compute_hash(&reason).unwrap();
    assert_eq!((outcome, recorded), (complete(json!({})), vec![json!({"reasonHash": hash})]));
    let (outcome, recorded) = done(brief(json!({"sha256": sha256, "target": "a/b"})), JobType::RouteMemory).await;
    assert_eq!((outcome, recorded), (complete(json!({})), vec![json!({"artifact": sha256})]));
    assert_eq!(done(Fake::default(), JobType::BuildContract).await.0, complete(json!({})));
}

/// Every job that some lane does.
fn lane_jobs() -> impl Iterator<Item = JobType> {
    JobType::ALL.into_iter().filter(|job| job.lane().is_some())
}

#[tokio::test]
async fn no_answer_is_tried_again_with_growing_pauses() {
    for kind in lane_jobs() {
        let down = Some(AuthorityError::Unavailable("away".to_owned()));
        let authority = Arc::new(Fake { down, ..Fake::default() });
        let handler = LaneHandler::new(kind, authority, CancellationToken::new());
        let mut pauses = Vec::new();
        for _ in 0..5 {
            match handler.handle(job(kind)).await {
                Outcome::Retry { after, .. } => pauses.push(after),
                other => panic!("{kind:?}: {other:?}"),
            }
        }
        assert!(pauses[4] > pauses[0] && pauses[4] <= BACK_OFF.cap, "{pauses:?}");
    }
}

#[tokio::test]
async fn a_definite_no_completes_every_job_with_what_refuses() {
    for kind in lane_jobs() {
        for reason in [Denial::UnknownRun, Denial::OutOfOrder, Denial::Sealed, Denial::JobAbandoned, Denial::Malformed]
        {
            let down = Some(AuthorityError::refused(reason, "no"));
            let (outcome, _) = done(Fake { down, ..Fake::default() }, kind).await;
            assert_eq!(outcome, complete(refusing(kind)), "{kind:?}");
        }
    }
    assert_eq!(refusing(JobType::Validate), json!({"constraints_ok": false, "tool_in_manifest": false}));
    assert_eq!(refusing(JobType::Execute), json!({"budget_exceeded": true}));
    assert_eq!(refusing(JobType::VerifyArtifact), json!({"artifact_verified": false}));
}

#[tokio::test]
async fn a_lane_that_is_not_accepted_does_not_end_runs() {
    for kind in lane_jobs() {
        for reason in [Denial::Unauthenticated, Denial::NotYours] {
            let down = Some(AuthorityError::refused(reason, "who?"));
            let (outcome, _) = done(Fake { down, ..Fake::default() }, kind).await;
            assert!(matches!(outcome, Outcome::Retry { .. }), "{kind:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_brief_that_cannot_be_read_refuses() {
    for brief in ["", "[]", "{", "{\"kind\":\"Dossier\"}", "7"] {
        for kind in [JobType::Propose, JobType::Validate, JobType::RouteMemory] {
            let (outcome, recorded) = done(Fake { brief: brief.to_owned(), ..Fake::default() }, kind).await;
            assert_eq!(outcome, complete(refusing(kind)), "{kind:?} {brief}");
            assert!(recorded.is_empty());
        }
    }
}

const ONE_TASK: &str = r#"<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d" targetNamespace="test">
  <process id="one" isExecutable="true">
    <startEvent id="start"/>
    <sequenceFlow id="f1" sourceRef="start" targetRef="task"/>
    <serviceTask id="task"><extensionElements><zeebe:taskDefinition type="TYPE"/></extensionElements></serviceTask>
    <sequenceFlow id="f2" sourceRef="task" targetRef="end"/>
    <endEvent id="end"/>
  </process>
</definitions>"#;

/// As when a lane's pod is replaced by another: nobody waits for the grace of the one or for the time-out of its job.
#[tokio::test]
async fn a_lane_that_stops_gives_back_what_it_only_waits_for_and_another_takes_it_at_once() {
    let engine = Engine::open(EngineOptions::default()).await.unwrap();
    let fake = Arc::new(Fake::default());
    let until = async |executing| {
        while fake.executing.load(Ordering::SeqCst) < executing {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let start = |stop: &CancellationToken| {
        let client = Client::new(engine.channel(Caller::Lane(Lane::Runner)));
        let (authority, stop) = (fake.clone(), stop.clone());
        tokio::spawn(run_lane(Lane::Runner, client, authority, WorkerOptions::new("runner"), stop))
    };
    let (old, new) = (CancellationToken::new(), CancellationToken::new());
    let replaced = start(&old);
    let operator = Client::new(engine.channel(Caller::Operator));
    let bpmn = ONE_TASK.replace("TYPE", JobType::Execute.name());
    operator.deploy(&[("one.bpmn", bpmn.as_bytes())]).await.unwrap();
    operator.create_instance(&m87_zeebe::Definition::Latest("one".to_owned()), &serde_json::Map::new()).await.unwrap();
    until(1).await;
    let started = start(&new);
    let asked = Instant::now();
    old.cancel();
    tokio::time::timeout(Duration::from_secs(20), until(2)).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    replaced.await.unwrap();
    new.cancel();
    started.await.unwrap();
    engine.stop().await;
}
