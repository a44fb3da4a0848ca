//! A Zeebe client that reaches the engine and does what it should not. It can hinder a run; it can never make one COMPLETE,
//! seal one early, or cause a second effect.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_core::time::Timestamp;
use m87_tests::Scene;
use m87_tests::external::External;
use m87_zeebe::proto::gateway_client::GatewayClient;
use m87_zeebe::proto::{
    ActivateJobsRequest, ActivatedJob, CompleteJobRequest, CreateProcessInstanceRequest,
    ProcessInstanceCreationStartInstruction, SetVariablesRequest, StreamActivatedJobsRequest,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

const LIMIT: Duration = Duration::from_secs(120);

/// A stranger with the engine's address and nothing else.
struct Attacker {
    runtime: tokio::runtime::Runtime,
    gateway: GatewayClient<Channel>,
}

impl Attacker {
    fn of(external: &External<'_>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let gateway = runtime.block_on(GatewayClient::connect(format!("http://{}", external.address()))).unwrap();
        Self { runtime, gateway }
    }

    /// Jobs of that type, waited for at most so many milliseconds.
    fn activate(&mut self, job_type: &str, wait: i64) -> Vec<ActivatedJob> {
        let request = ActivateJobsRequest {
            r#type: job_type.to_owned(),
            worker: "attacker".to_owned(),
            timeout: 60_000,
            max_jobs_to_activate: 1,
            request_timeout: wait,
            ..Default::default()
        };
        self.runtime.block_on(async {
            let mut stream = self.gateway.activate_jobs(request).await.unwrap().into_inner();
            let mut jobs = Vec::new();
            while let Some(batch) = stream.message().await.unwrap() {
                jobs.extend(batch.jobs);
            }
            jobs
        })
    }

    /// The next job of that type, waited for as long as it takes.
    fn take(&mut self, job_type: &str) -> ActivatedJob {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < LIMIT, "no {job_type} to be had");
            if let Some(job) = self.activate(job_type, 1000).into_iter().next() {
                return job;
            }
        }
    }

    fn complete(&mut self, job: &ActivatedJob, variables: &str) {
        let request = CompleteJobRequest { job_key: job.key, variables: variables.to_owned(), ..Default::default() };
        self.runtime.block_on(self.gateway.complete_job(request)).unwrap();
    }

    fn set(&mut self, element: i64, variables: &str) {
        let request = SetVariablesRequest {
            element_instance_key: element,
            variables: variables.to_owned(),
            local: false,
            ..Default::default()
        };
        self.runtime.block_on(self.gateway.set_variables(request)).unwrap();
    }

    fn create(&mut self, variables: &str, element: Option<&str>) -> i64 {
        let start_instructions = element
            .map(|id| ProcessInstanceCreationStartInstruction { element_id: id.to_owned() })
            .into_iter()
            .collect();
        let request = CreateProcessInstanceRequest {
            bpmn_process_id: "m87-governed-loop".to_owned(),
            version: -1,
            variables: variables.to_owned(),
            start_instructions,
            ..Default::default()
        };
        let begun = Instant::now();
        loop {
            match self.runtime.block_on(self.gateway.create_process_instance(request.clone())) {
                Ok(created) => return created.into_inner().process_instance_key,
                // The process may not be deployed yet.
                Err(status) => assert!(begun.elapsed() < LIMIT, "{status}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn wait_for_effect(scene: &Scene) {
    let begun = Instant::now();
    while scene.effects().is_empty() {
        assert!(begun.elapsed() < LIMIT, "no effect\n{}", scene.logs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

const ALL_TRUE: &str =
    r#"{"constraints_ok":true,"tool_in_manifest":true,"budget_exceeded":false,"artifact_verified":true}"#;

#[test]
fn complete_is_proven_when_a_stranger_completes_verify_artifact() {
    let scene = Scene::new();
    // Validation would refuse this artifact: the stranger says otherwise.
    scene.appending("1.5").runs(1);
    let manifest = std::fs::read_to_string(scene.files().join("tools.yaml")).unwrap();
    scene.write("tools.yaml", &manifest.replace(r#"grep -q . "$M87_ARTIFACT""#, "exit 1"));
    let mut external = External::start(&scene);
    wait_for_effect(&scene);
    external.stop_lane("governance");
    let mut attacker = Attacker::of(&external);
    let job = attacker.take("verify-artifact");
    attacker.complete(&job, ALL_TRUE);
    external.restart_lane("governance");
    external.finish(LIMIT);
    scene.assert_invariants(1);
    let outcome = &scene.outcomes()[0];
    assert_eq!(outcome.terminal, "FAILED", "{outcome:?}");
    assert_ne!(outcome.reason, None, "{outcome:?}");
}

#[test]
fn no_effect_without_contract_when_a_stranger_starts_at_a_later_element() {
    let scene = Scene::new();
    scene.appending("0.2").runs(1);
    let mut external = External::start(&scene);
    let mut attacker = Attacker::of(&external);
    for element in ["Execute", "Memory", "End_Complete", "Verify"] {
        attacker.create(ALL_TRUE, Some(element));
    }
    external.finish(LIMIT);
    scene.assert_invariants(1);
    assert_eq!(scene.outcomes()[0].terminal, "COMPLETE", "the run itself is not hindered");
    assert_eq!(scene.effects().values().sum::<usize>(), 1, "only the governed run had an effect");
}

#[test]
fn no_effect_without_contract_when_a_stranger_claims_first() {
    let scene = Scene::new();
    scene.appending("0.2").runs(3);
    shorten_deadlines(&scene);
    let mut external = External::engine(&scene);
    let claimed = greedy(&external, "claim-run");
    external.begin();
    external.finish(LIMIT);
    scene.assert_invariants(3);
    // Without a claim no lane is told which run it is: nothing happens until the deadline.
    assert_ended_at_the_deadline(&scene, &claimed, ("HALT", "none"));
}

#[test]
fn halt_means_no_effect_when_a_stranger_seeds_variables() {
    let scene = Scene::new();
    scene.appending("0.2");
    scene.write("runs.yaml", &m87_tests::scene::run("run-1").replace("risk: low", "risk: critical"));
    let mut external = External::start(&scene);
    external.stop_lane("governance");
    let mut attacker = Attacker::of(&external);
    // The gate variables, set on the whole instance while Validate waits, and then claimed to be Validate's own result.
    let job = attacker.take("validate");
    attacker.set(job.process_instance_key, ALL_TRUE);
    attacker.set(job.element_instance_key, ALL_TRUE);
    attacker.complete(&job, ALL_TRUE);
    external.restart_lane("governance");
    external.finish(LIMIT);
    scene.assert_invariants(1);
    assert_eq!(scene.outcomes()[0].terminal, "HALT", "{:?}", scene.outcomes());
    assert!(scene.effects().is_empty());
}

#[test]
fn terminal_iff_receipt_when_a_stranger_completes_record_terminal() {
    let scene = Scene::new();
    scene.appending("0.2").runs(3);
    shorten_deadlines(&scene);
    let mut external = External::engine(&scene);
    let completed = greedy(&external, "record-terminal");
    external.begin();
    external.finish(LIMIT);
    scene.assert_invariants(3);
    // All was done; but only the operator seals, and it was never asked.
    assert_ended_at_the_deadline(&scene, &completed, ("FAILED", "dispatched"));
}

/// Long enough for a run that nobody hinders, and for a deadline that a test can wait for.
const DEADLINE_SECONDS: i64 = 15;

/// A run that nobody finishes ends at its deadline.
fn shorten_deadlines(scene: &Scene) {
    let runs = std::fs::read_to_string(scene.files().join("runs.yaml")).unwrap();
    scene.write("runs.yaml", &runs.replace("spec:\n", &format!("spec:\n  deadlineSeconds: {DEADLINE_SECONDS}\n")));
}

/// Every run with a job that a stranger completed ended so, for no other reason than its deadline and not before it; and there
/// is such a run.
fn assert_ended_at_the_deadline(scene: &Scene, hijacked: &Hijacked, (terminal, effect): (&str, &str)) {
    let (hijacked, outcomes) = (hijacked.lock().unwrap(), scene.outcomes());
    assert!(!hijacked.is_empty(), "the stranger was first at least once\n{}", scene.logs());
    for uid in hijacked.iter() {
        let outcome = outcomes.iter().find(|outcome| outcome.uid == *uid);
        let outcome = outcome.unwrap_or_else(|| panic!("{uid} has no receipt: {outcomes:?}"));
        assert_eq!((outcome.terminal.as_str(), outcome.effect.as_str()), (terminal, effect), "{outcome:?}");
        assert_eq!(outcome.reason.as_deref(), Some("DeadlineExceeded"), "{outcome:?}");
        let took = seconds_until_sealed(scene, &outcome.run);
        assert!((DEADLINE_SECONDS..DEADLINE_SECONDS + 30).contains(&took), "sealed after {took} s: {outcome:?}");
    }
}

/// Whole seconds from the snapshot of a run to its receipt, by what both say.
fn seconds_until_sealed(scene: &Scene, run: &str) -> i64 {
    let bundle = std::fs::read(scene.out().join(format!("receipts/default/{run}.json"))).unwrap();
    let bundle: Value = serde_json::from_slice(&bundle).unwrap();
    let instant = |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap().millis();
    (instant(&scene.receipt(run)["timestamp"]) - instant(&bundle["dossier"]["openedAt"])) / 1000
}

/// The uids of runs that had a job completed by a stranger.
type Hijacked = Arc<Mutex<BTreeSet<String>>>;

/// A stranger that has every job of that type pushed to it and completes each at once, until the test ends.
fn greedy(external: &External<'_>, job_type: &str) -> Hijacked {
    let (address, hijacked) = (format!("http://{}", external.address()), Hijacked::default());
    let (seen, job_type) = (hijacked.clone(), job_type.to_owned());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut gateway = GatewayClient::connect(address).await.unwrap();
            let request = StreamActivatedJobsRequest {
                r#type: job_type,
                worker: "attacker".to_owned(),
                timeout: 60_000,
                ..Default::default()
            };
            let mut stream = gateway.stream_activated_jobs(request).await.unwrap().into_inner();
            while let Ok(Some(job)) = stream.message().await {
                let request =
                    CompleteJobRequest { job_key: job.key, variables: ALL_TRUE.to_owned(), ..Default::default() };
                if gateway.complete_job(request).await.is_ok() {
                    let variables: Value = serde_json::from_str(&job.variables).unwrap();
                    let (uid, _) = variables["run"].as_str().unwrap().rsplit_once('.').unwrap();
                    seen.lock().unwrap().insert(uid.to_owned());
                }
            }
        });
    });
    // The stream must be there before the run is.
    std::thread::sleep(Duration::from_millis(500));
    hijacked
}
