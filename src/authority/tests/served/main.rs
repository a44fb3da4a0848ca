#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]
//! The authority as it is served: SQLite, TLS, tokens. What a caller may ask depends on its token alone.

mod borders;
mod callers;
mod deploying;
mod publishing;
mod restored;
mod scene;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use m87_authority::proto::{Job, RecordRequest, ReportRequest, ReportValidationRequest, WaitRequest};
use m87_authority::row::{Ending, State};
use m87_authority::{AuthorityClient, AuthorityError, Denial, Opened};
use m87_core::fixtures;
use m87_core::json::to_canonical;
use m87_core::lane::{JobType, Lane};
use m87_core::reason::{Reason, Terminal};
use m87_core::receipt::verify;
use m87_zeebe::Outcome;
use scene::{Served, denial, end, job, redeem};
use serde_json::json;
use std::time::Duration;

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
    validator.report_validation(ReportValidationRequest { json }).await.unwrap();
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
    assert_eq!(served.open("a").await, Opened::AlreadyDone(uid));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_while_a_run_ends_leaves_none_half_ended() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin_with(folder.path(), Duration::ZERO).await;
    let lane = served.lane(Lane::Proposer);
    let mut uids = Vec::new();
    for at in 1..=30 {
        let Opened::Run(uid) = served.open(&format!("run-{at}")).await else { panic!() };
        served.operators(JobType::ClaimRun, at, "Propose").await;
        let asking = async { while lane.brief(job(JobType::Propose, at)).await.is_ok() {} };
        let _ = tokio::time::timeout(Duration::from_micros(500 * at as u64), asking).await;
        uids.push(uid);
    }
    let begun = std::time::Instant::now();
    loop {
        let mut half_ended = Vec::new();
        for uid in &uids {
            if matches!(served.authority.load(uid).await.unwrap().run.row.state, State::Closing(_)) {
                half_ended.push(uid);
            }
        }
        if half_ended.is_empty() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{half_ended:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end(served).await;
}
