//! What a cluster says of a run while it goes on: suspended, not bound, tampered with, seen to its end.

use crate::scene::{Served, denial, job, redeem};
use bytes::Bytes;
use futures::StreamExt;
use m87_authority::proto::{RecordRequest, ReportRequest, WaitRequest};
use m87_authority::row::Ending;
use m87_authority::{AuthorityClient, Denial, Opened};
use m87_core::evidence::{ContractRecord, Ended, Refusal, ValidationReport};
use m87_core::fixtures;
use m87_core::json::to_canonical;
use m87_core::lane::{JobType, Lane};
use m87_core::reason::{Reason, Terminal};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn open(served: &Served) -> String {
    match served.open("a").await {
        Opened::Run(uid) => uid,
        Opened::AlreadyDone(first) => panic!("{first}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_user_with_a_new_token_is_the_same_actor() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let by = |uid: &str, username: &str, credential: Option<&str>| {
        let mut request = Served::request("a");
        request.uid = Some(uid.to_owned());
        request.actor.username = username.to_owned();
        request.actor.credential_id = credential.map(str::to_owned);
        request
    };
    let first = by("first", "ann", Some("JTI=1"));
    assert_eq!(served.driver.open(&first).await.unwrap(), Opened::Run("first".to_owned()));
    let kept = served.authority.load("first").await.unwrap().run.dossier.actor.credential_id.clone();
    assert_eq!(kept.as_deref(), Some("JTI=1"));
    for credential in [Some("JTI=2"), None] {
        let again = by("again", "ann", credential);
        assert_eq!(served.driver.first(&again).await.unwrap().as_deref(), Some("first"), "{credential:?}");
        let opened = served.driver.open(&again).await.unwrap();
        assert_eq!(opened, Opened::AlreadyDone("first".to_owned()), "{credential:?}");
    }
    // Another user is another actor, whichever token is said to be his.
    let other = by("other", "bob", Some("JTI=1"));
    assert_eq!(served.driver.first(&other).await.unwrap(), None);
    assert_eq!(served.driver.open(&other).await.unwrap(), Opened::Run("other".to_owned()));
    let sealed = served.driver.finished("other").await.unwrap();
    assert_eq!((sealed.terminal, sealed.reason), (Terminal::Halt, Some(Reason::IdempotencyKeyReused)));
}

async fn cause(served: &Served, uid: &str) -> Option<Refusal> {
    match served.authority.load(uid).await.unwrap().run.row.evidence.contract {
        Some(ContractRecord::Refused { cause, .. }) => Some(cause),
        Some(ContractRecord::Issued { .. }) | None => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_run_gets_no_contract() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let uid = open(&served).await;
    served.validated(1).await;
    served.around.suspended.store(true, Ordering::SeqCst);
    let reply = served.lane(Lane::Governance).contract(job(JobType::BuildContract, 1)).await.unwrap();
    assert_eq!((reply.contract_id.as_str(), reply.refused.as_str()), ("", "ContractRefused"));
    // What was refused stays refused.
    served.around.suspended.store(false, Ordering::SeqCst);
    let again = served.lane(Lane::Governance).contract(job(JobType::BuildContract, 1)).await.unwrap();
    assert_eq!(again.refused, "ContractRefused");
    assert_eq!(cause(&served, &uid).await, Some(Refusal::Suspended));
    assert_eq!(served.ended(&uid, 1, "End_Failed").await, (Terminal::Failed, Some(Reason::ContractRefused)));
    assert!(served.around.orders.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_is_not_redeemed_once_its_run_is_suspended() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let uid = open(&served).await;
    let contract = served.contracted(1).await;
    served.around.suspended.store(true, Ordering::SeqCst);
    let (exec, _) = served.exec(0);
    assert_eq!(denial(exec.redeem(redeem(&contract, "n")).await), Denial::ContractVoid);
    served.around.suspended.store(false, Ordering::SeqCst);
    assert_eq!(denial(exec.redeem(redeem(&contract, "n")).await), Denial::ContractVoid);
    assert_eq!(cause(&served, &uid).await, Some(Refusal::Suspended));
    assert!(!served.authority.load(&uid).await.unwrap().run.row.dispatched());
    assert_eq!(served.ended(&uid, 1, "End_Failed").await, (Terminal::Failed, Some(Reason::ContractRefused)));
}

#[tokio::test(flavor = "multi_thread")]
async fn suspending_after_redemption_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    open(&served).await;
    let contract = served.contracted(1).await;
    let (exec, _) = served.exec(0);
    exec.redeem(redeem(&contract, "n")).await.unwrap();
    served.around.suspended.store(true, Ordering::SeqCst);
    *served.around.tampered.lock().unwrap() = Some("changed".to_owned());
    // The same process asks again, because the answer was lost.
    exec.redeem(redeem(&contract, "n")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_is_not_redeemed_by_what_is_no_longer_what_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let uid = open(&served).await;
    let contract = served.contracted(1).await;
    *served.around.tampered.lock().unwrap() = Some("the pod has a container more".to_owned());
    let (exec, _) = served.exec(0);
    let refused = exec.redeem(redeem(&contract, "n")).await.unwrap_err();
    assert!(refused.to_string().contains("a container more"), "{refused}");
    assert_eq!(denial::<()>(Err(refused)), Denial::ContractVoid);
    *served.around.tampered.lock().unwrap() = None;
    assert_eq!(denial(exec.redeem(redeem(&contract, "n")).await), Denial::ContractVoid);
    assert_eq!(cause(&served, &uid).await, Some(Refusal::Tampered));
    assert_eq!(served.ended(&uid, 1, "End_Failed").await, (Terminal::Failed, Some(Reason::ContractRefused)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_is_not_bound_is_halt_with_a_receipt() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    served.around.unbound.store(true, Ordering::SeqCst);
    let uid = open(&served).await;
    assert_eq!(served.sealed(&uid).await, (Terminal::Halt, Some(Reason::TenantNotBound)));
    assert!(served.around.instances.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validation_that_the_executor_sees_to_its_end_needs_no_report() {
    for (ended, terminal, reason) in [
        (Ended::Exited(0), Terminal::Complete, None),
        (Ended::Exited(1), Terminal::RejectVerify, Some(Reason::ValidationFailed)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let served = Served::begin(folder.path()).await;
        let uid = open(&served).await;
        let contract = served.contracted(1).await;
        let (exec, _) = served.exec(0);
        exec.redeem(redeem(&contract, "n")).await.unwrap();
        let bytes = futures::stream::iter([Bytes::from_static(b"{\"total\":3}")]).boxed();
        let stored = exec.put_artifact(contract.clone(), "n".to_owned(), bytes).await.unwrap();
        let json = to_canonical(&fixtures::evidence().execution.unwrap().report.unwrap()).unwrap();
        exec.report(ReportRequest { contract_id: contract, nonce: "n".to_owned(), json }).await.unwrap();
        let wait = |wait_ms| WaitRequest { job: Some(job(JobType::VerifyArtifact, 1)), wait_ms };
        let governance = served.lane(Lane::Governance);
        assert!(!governance.verify(wait(0)).await.unwrap().done, "its process is begun");
        *served.around.verdict.lock().unwrap() = Some(ValidationReport { ended, output: "seen".to_owned() });
        let verified = governance.verify(wait(5000)).await.unwrap();
        assert_eq!((verified.done, verified.validation_passed), (true, terminal == Terminal::Complete));
        let record =
            |job_type, json: serde_json::Value| RecordRequest { job: Some(job(job_type, 1)), json: json.to_string() };
        governance.record(record(JobType::VerifyArtifact, json!({"recomputed": stored.sha256}))).await.unwrap();
        if terminal == Terminal::Complete {
            let artifact = json!({"artifact": stored.sha256});
            served.lane(Lane::Memory).record(record(JobType::RouteMemory, artifact)).await.unwrap();
        }
        assert_eq!(served.ended(&uid, 1, terminal.end_event()).await, (terminal, reason));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_held_does_not_hold_up_who_leads_next() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    open(&served).await;
    served.contracted(1).await;
    let runner = served.lane(Lane::Runner);
    let wait = WaitRequest { job: Some(job(JobType::Execute, 1)), wait_ms: 10_000 };
    let held = tokio::spawn(async move { runner.execute(wait).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!held.is_finished());
    served.stop.cancel();
    tokio::time::timeout(Duration::from_secs(5), served.serving).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_with_its_namespace_is_not_looked_for_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let uid = open(&served).await;
    served.contracted(1).await;
    served.around.stuck.store(true, Ordering::SeqCst);
    served.authority.end(&uid, Ending::Interrupted(Reason::Cancelled)).await.unwrap();
    let left = async || {
        served.driver.clear_leftovers().await.unwrap();
        served.authority.store().leftovers().await.unwrap()
    };
    assert_eq!(left().await, [uid]);
    served.around.gone.store(true, Ordering::SeqCst);
    assert_eq!(left().await, [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_start_without_an_answer_made_is_looked_for_after_the_end_too() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let uid = open(&served).await;
    served.around.silent.store(true, Ordering::SeqCst);
    served.contracted(1).await;
    served.authority.end(&uid, Ending::Interrupted(Reason::Cancelled)).await.unwrap();
    let store = served.authority.store();
    assert_eq!(store.leftovers().await.unwrap(), [uid], "it was made a moment after it was looked for");
    served.driver.clear_leftovers().await.unwrap();
    assert_eq!(store.leftovers().await.unwrap(), [] as [String; 0]);
}
