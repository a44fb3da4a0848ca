//! What a caller of the handle can rely on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Duration;

use m87_core::time::Timestamp;
use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use crate::fixture::{activate, create, document, end, flow, mappings, model, one_task, resource, start, task_with};
use crate::machine::{ActivateRequest, Command, CreateRequest};
use crate::{Clock, Document, Ending, Engine, EngineOptions, Notice, RejectionKind, StreamRequest, Target, Workers};

const SOON: Duration = Duration::from_millis(150);
const LATER: Duration = Duration::from_secs(10);

async fn engine() -> Engine {
    let engine = Engine::open(EngineOptions::default()).await.unwrap();
    engine.deploy(vec![resource("p.bpmn", &one_task("p"))]).await.unwrap();
    engine
}

fn latest() -> CreateRequest {
    match create("p", json!({})) {
        Command::Create(request) => request,
        _ => panic!(),
    }
}

fn stream(worker: &str, timeout: i64) -> StreamRequest {
    StreamRequest { job_type: "work".into(), worker: worker.into(), timeout, fetch: Vec::new() }
}

#[tokio::test]
async fn a_new_job_is_pushed_and_the_backlog_is_left_to_polling() {
    let engine = engine().await;
    let old = engine.create_instance(latest()).await.unwrap();
    let mut jobs = engine.subscribe(stream("w", 5_000));
    let new = engine.create_instance(latest()).await.unwrap();
    let job = tokio::time::timeout(LATER, jobs.next_job()).await.unwrap().unwrap();
    assert_eq!((job.instance, job.worker.as_str()), (new.instance, "w"));
    assert!(tokio::time::timeout(SOON, jobs.next_job()).await.is_err());
    assert_eq!(engine.activate(activate("work", 5)).await.unwrap()[0].instance, old.instance);
    engine.complete_job(job.key, Document::default()).await.unwrap();
    assert!(engine.instance(new.instance).is_none() && engine.instance(old.instance).is_some());
}

#[tokio::test]
async fn equal_streams_take_turns_and_a_closed_one_is_passed_over() {
    let engine = engine().await;
    let (mut a, mut b) = (engine.subscribe(stream("a", 5_000)), engine.subscribe(stream("b", 5_000)));
    for _ in 0..4 {
        engine.create_instance(latest()).await.unwrap();
    }
    for _ in 0..2 {
        a.next_job().await.unwrap();
        b.next_job().await.unwrap();
    }
    drop(a);
    for _ in 0..3 {
        engine.create_instance(latest()).await.unwrap();
        b.next_job().await.unwrap();
    }
}

#[tokio::test]
async fn a_job_pushed_and_not_finished_in_time_is_pushed_again() {
    let engine = engine().await;
    let mut jobs = engine.subscribe(stream("w", 50));
    engine.create_instance(latest()).await.unwrap();
    let first = jobs.next_job().await.unwrap();
    let again = tokio::time::timeout(LATER, jobs.next_job()).await.unwrap().unwrap();
    assert_eq!((again.key, again.retries), (first.key, first.retries));
    assert!(again.deadline > first.deadline);
}

#[tokio::test]
async fn dropping_a_stream_hands_back_what_was_not_taken_from_it() {
    let engine = engine().await;
    let jobs = engine.subscribe(stream("w", 1_000_000));
    for _ in 0..3 {
        engine.create_instance(latest()).await.unwrap();
    }
    assert!(engine.activate(activate("work", 5)).await.unwrap().is_empty());
    drop(jobs);
    let mut found = 0;
    while found < 3 {
        let jobs = engine.poll(activate("work", 5), LATER).await.unwrap();
        assert!(!jobs.is_empty());
        found += jobs.len();
    }
}

#[tokio::test]
async fn a_stream_that_is_full_leaves_jobs_to_polling() {
    let engine = engine().await;
    let mut jobs = engine.subscribe(stream("w", 1_000_000));
    for _ in 0..70 {
        engine.create_instance(latest()).await.unwrap();
    }
    assert_eq!(engine.activate(activate("work", 100)).await.unwrap().len(), 70 - 64);
    for _ in 0..64 {
        jobs.next_job().await.unwrap();
    }
}

#[tokio::test]
async fn a_long_poll_wakes_for_a_new_job_and_ends_empty_in_time() {
    let engine = engine().await;
    let began = std::time::Instant::now();
    assert!(engine.poll(activate("work", 1), SOON).await.unwrap().is_empty());
    assert!(began.elapsed() >= SOON && began.elapsed() < LATER);

    let poll = tokio::spawn({
        let engine = engine.clone();
        async move { engine.poll(activate("work", 1), LATER).await.unwrap() }
    });
    tokio::time::sleep(SOON).await;
    engine.create_instance(latest()).await.unwrap();
    let began = std::time::Instant::now();
    assert_eq!(poll.await.unwrap().len(), 1);
    assert!(began.elapsed() < Duration::from_secs(1), "it was woken, not found by looking again");
}

#[tokio::test]
async fn a_poll_that_is_given_up_loses_no_job() {
    let engine = engine().await;
    engine.create_instance(latest()).await.unwrap();
    let request = ActivateRequest { timeout: 1_000_000, ..activate("work", 1) };
    for _ in 0..20 {
        // Given up at any moment: before it is taken, while it is carried out, or when the answer is there.
        let _ = tokio::time::timeout(Duration::from_micros(30), engine.activate(request.clone())).await.map(|jobs| {
            let jobs = jobs.unwrap();
            let engine = engine.clone();
            tokio::spawn(async move { engine.hand_back(jobs.iter().map(|job| job.activation()).collect()).await })
        });
    }
    assert_eq!(engine.poll(request, LATER).await.unwrap().len(), 1);
}

#[tokio::test]
async fn endings_and_incidents_are_told() {
    let engine = engine().await;
    let mut notices = engine.notices();
    let created = engine.create_instance(latest()).await.unwrap();
    let job = engine.activate(activate("work", 1)).await.unwrap().remove(0);
    engine.fail_job(job.key, 0, 0, "broken".into(), Document::default()).await.unwrap();
    let Notice::Raised(incident) = notices.recv().await.unwrap() else { panic!() };
    assert_eq!((incident.instance, incident.message.as_str()), (created.instance, "broken"));
    assert_eq!(engine.incidents(), std::slice::from_ref(&incident));
    engine.update_retries(job.key, 1).await.unwrap();
    engine.resolve_incident(incident.key).await.unwrap();
    let resolved = Notice::Resolved { incident: incident.key, instance: created.instance };
    assert_eq!(notices.recv().await.unwrap(), resolved);
    engine.complete_job(job.key, Document::default()).await.unwrap();
    let ended = |ending| Notice::Ended { instance: created.instance, ending };
    assert_eq!(notices.recv().await.unwrap(), ended(Ending::Completed));
}

#[tokio::test]
async fn a_stopped_engine_refuses_and_another_one_goes_on_from_its_journal() {
    let folder = TempDir::new().unwrap();
    let options = EngineOptions { data: Some(folder.path().to_owned()), ..EngineOptions::default() };
    let first = Engine::open(options.clone()).await.unwrap();
    first.deploy(vec![resource("p.bpmn", &one_task("p"))]).await.unwrap();
    let created = first.create_instance(latest()).await.unwrap();
    let mut jobs = first.subscribe(stream("w", 5_000));
    let mut notices = first.notices();
    let poll = tokio::spawn({
        let engine = first.clone();
        async move { engine.poll(activate("other", 1), LATER).await }
    });
    tokio::time::sleep(SOON).await;
    first.stop().await;
    assert!(jobs.next_job().await.is_none());
    assert!(poll.await.unwrap().unwrap_or_default().is_empty());
    let rejection = first.create_instance(latest()).await.unwrap_err();
    assert_eq!(rejection.kind, RejectionKind::Unavailable);
    assert!(first.subscribe(stream("w", 5_000)).next_job().await.is_none());
    assert!(first.notices().recv().await.is_err() && notices.recv().await.is_err());

    let second = Engine::open(options).await.unwrap();
    assert_eq!((second.id(), second.committed()), (first.id(), first.committed()));
    let job = second.activate(activate("work", 1)).await.unwrap().remove(0);
    assert_eq!(job.instance, created.instance);
    second.complete_job(job.key, Document::default()).await.unwrap();
    second.stop().await;
}

#[tokio::test]
async fn jobs_held_by_workers_that_died_with_the_engine_are_on_offer_again_when_it_opens() {
    let folder = TempDir::new().unwrap();
    let anywhere = EngineOptions { data: Some(folder.path().to_owned()), ..EngineOptions::default() };
    let within = EngineOptions { workers: Workers::WithinThisProcess, ..anywhere.clone() };
    let first = Engine::open(within.clone()).await.unwrap();
    first.deploy(vec![resource("p.bpmn", &one_task("p"))]).await.unwrap();
    for _ in 0..3 {
        first.create_instance(latest()).await.unwrap();
    }
    let hour = ActivateRequest { timeout: 3_600_000, ..activate("work", 2) };
    let held = first.activate(hour.clone()).await.unwrap();
    let waiting = first.activate(activate("work", 1)).await.unwrap().remove(0);
    first.fail_job(waiting.key, 2, 3_600_000, "later".into(), Document::default()).await.unwrap();
    first.stop().await;

    // Workers elsewhere keep what they hold.
    let second = Engine::open(anywhere.clone()).await.unwrap();
    assert!(second.poll(hour.clone(), SOON).await.unwrap().is_empty());
    second.stop().await;

    let third = Engine::open(within).await.unwrap();
    let mut again = third.activate(ActivateRequest { max_jobs: 5, ..hour }).await.unwrap();
    again.sort_by_key(|job| job.key);
    let told = |jobs: &[crate::ActivatedJob]| jobs.iter().map(|job| (job.key, job.retries)).collect::<Vec<_>>();
    assert_eq!(told(&again), told(&held), "these and no others, with the retries they had");
    assert!(third.job(waiting.key).is_some(), "what backs off goes on backing off");
    let state = third.committed();
    third.stop().await;
    // It is written in the journal, like any other change.
    let fourth = Engine::open(anywhere).await.unwrap();
    assert_eq!(fourth.committed(), state);
    fourth.stop().await;
}

#[tokio::test]
async fn a_frozen_clock_stops_time_for_processes_but_not_for_deadlines() {
    let clock = Clock::Frozen(Timestamp::from_millis(0));
    let engine = Engine::open(EngineOptions { clock, ..EngineOptions::default() }).await.unwrap();
    let more = mappings(&[("in", "= string(now())", "at")]);
    let xml = model("p", &[start("s"), task_with("t", "work", "3", &more), end("e"), flow("s", "t"), flow("t", "e")]);
    engine.deploy(vec![resource("p.bpmn", &xml)]).await.unwrap();
    engine.create_instance(latest()).await.unwrap();
    let request = ActivateRequest { timeout: 50, ..activate("work", 1) };
    let job = engine.activate(request.clone()).await.unwrap().remove(0);
    assert!(job.variables.map()["at"].as_str().unwrap().starts_with("1970-01-01T00:00:00"));
    let again = engine.poll(request, LATER).await.unwrap();
    assert_eq!(again.len(), 1);
}

#[tokio::test]
async fn many_callers_at_once_share_commits_and_get_each_their_own_answer() {
    let folder = TempDir::new().unwrap();
    let options = EngineOptions { data: Some(folder.path().to_owned()), ..EngineOptions::default() };
    let engine = Engine::open(options.clone()).await.unwrap();
    engine.deploy(vec![resource("p.bpmn", &one_task("p"))]).await.unwrap();
    let mut calls = Vec::new();
    for at in 0..500 {
        let engine = engine.clone();
        calls.push(tokio::spawn(async move {
            let target = Target::Latest(if at % 5 == 0 { "missing" } else { "p" }.to_owned());
            let request = CreateRequest { target, variables: document(json!({"at": at})), start_at: Vec::new() };
            engine.create_instance(request).await.map(|created| (at, created.instance))
        }));
    }
    let mut created = Vec::new();
    for (at, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(pair) => created.push(pair),
            Err(rejection) => assert_eq!((at % 5, rejection.kind), (0, RejectionKind::NotFound)),
        }
    }
    assert_eq!(created.len(), 400);
    engine.stop().await;
    // A row is a commit, and a commit a sync.
    let journal = SqliteConnectOptions::new().filename(folder.path().join("journal.db"));
    let mut journal = journal.connect().await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM journal").fetch_one(&mut journal).await.unwrap();
    journal.close().await.unwrap();
    assert!((1..=40).contains(&rows), "{rows} commits of 400 commands");
    let engine = Engine::open(options).await.unwrap();
    let state = engine.committed();
    for (at, instance) in created {
        assert_eq!(json!(state.visible(instance, &[])), json!({"at": at}));
    }
    engine.stop().await;
}
