#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod busy;
mod fake;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fake::Fake;
use serde_json::json;
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::*;
use crate::client::Client;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Quick in everything.
fn options() -> WorkerOptions {
    WorkerOptions {
        timeout: ms(300),
        hold: ms(200),
        sweep: ms(50),
        back_off: BackOff { first: ms(5), cap: ms(40) },
        grace: ms(300),
        ..WorkerOptions::new("tester")
    }
}

struct Running {
    stop: CancellationToken,
    worker: JoinHandle<()>,
}

impl Running {
    fn start(client: &Client, options: WorkerOptions, handler: impl Handler) -> Self {
        let stop = CancellationToken::new();
        let worker = JobWorker::new(client.clone(), options).handle("work", Arc::new(handler));
        Self { worker: tokio::spawn(worker.run(stop.clone())), stop }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.worker).await.expect("it stops").unwrap();
    }
}

/// Answers each job by a function of (job, how often this job was handled before).
struct Answer<F>(F, Mutex<HashMap<i64, u32>>);

fn answer<F, A>(with: F) -> Answer<F>
where
    F: Fn(Job, u32) -> A,
{
    Answer(with, Mutex::default())
}

#[async_trait]
impl<F, A> Handler for Answer<F>
where
    F: Fn(Job, u32) -> A + Send + Sync + 'static,
    A: Future<Output = Outcome> + Send,
{
    async fn handle(&self, job: Job) -> Outcome {
        let before = {
            let mut seen = self.1.lock().unwrap();
            let count = seen.entry(job.key.0).or_default();
            *count += 1;
            *count - 1
        };
        (self.0)(job, before).await
    }
}

fn done() -> Outcome {
    Outcome::Complete(json!({ "ok": true }))
}

#[tokio::test]
async fn a_waiting_job_is_polled_and_completed_with_its_result() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("completed", |s| s.completed == [(key, r#"{"ok":true}"#.to_owned())]).await;
    running.stop().await;
}

#[tokio::test]
async fn without_push_polls_are_held_and_with_push_they_only_sweep() {
    let (fake, client) = Fake::serve(false);
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("held polls", |s| s.polls.iter().filter(|poll| **poll == (32, 200)).count() >= 2).await;
    running.stop().await;

    let (fake, client) = Fake::serve(true);
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("sweeps", |s| s.polls.len() >= 3).await;
    assert!(fake.state().polls.iter().all(|poll| *poll == (32, -1)), "{:?}", fake.state().polls);
    running.stop().await;
}

#[tokio::test]
async fn a_pushed_job_is_done_at_once_and_the_backlog_too() {
    let (fake, client) = Fake::serve(true);
    let backlog = fake.create(3);
    let slow_sweep = WorkerOptions { sweep: Duration::from_secs(60), ..options() };
    let running = Running::start(&client, slow_sweep, answer(|_, _| async { done() }));
    fake.until("backlog", |s| s.completed.iter().any(|(key, _)| *key == backlog)).await;
    fake.until("stream", |s| s.streams_opened == 1).await;
    let pushed = fake.create(3);
    fake.until("pushed", |s| s.completed.iter().any(|(key, _)| *key == pushed)).await;
    running.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_is_opened_again_and_what_came_meanwhile_is_done() {
    let (fake, client) = Fake::serve(true);
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("stream", |s| s.streams_opened == 1).await;
    fake.cut_stream();
    let missed = fake.create(3);
    fake.until("opened again", |s| s.streams_opened == 2).await;
    fake.until("done", |s| s.completed.iter().any(|(key, _)| *key == missed)).await;
    running.stop().await;
}

#[tokio::test]
async fn a_held_poll_keeps_no_slot_from_what_a_stream_brings_that_is_open_again() {
    let (fake, client) = Fake::serve(true);
    let (hold, timeout) = (Duration::from_secs(60), Duration::from_secs(60));
    let patient = WorkerOptions { hold, timeout, back_off: BackOff { first: ms(200), cap: ms(200) }, ..options() };
    let running = Running::start(&client, patient, answer(|_, _| async { done() }));
    fake.until("stream", |s| s.streams_opened == 1).await;
    fake.cut_stream();
    fake.until("held poll", |s| s.polls.contains(&(32, 60_000))).await;
    fake.until("stream again", |s| s.streams_opened == 2).await;
    let pushed = fake.create(3);
    fake.until("pushed", |s| s.completed.iter().any(|(key, _)| *key == pushed)).await;
    running.stop().await;
}

#[tokio::test]
async fn retry_keeps_the_retries_and_passes_the_wait_on() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(2);
    let handler = answer(|_, before| async move {
        if before == 0 { Outcome::Retry { after: ms(70), message: "authority unreachable".into() } } else { done() }
    });
    let running = Running::start(&client, options(), handler);
    fake.until("completed", |s| s.completed.len() == 1).await;
    assert_eq!(fake.state().failed, [(key, 2, 70, "authority unreachable".to_owned())]);
    running.stop().await;
}

#[tokio::test]
async fn an_error_is_thrown_by_its_code() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    let throw = || Outcome::Throw { code: "NO_FUNDS".into(), message: "empty".into() };
    let running = Running::start(&client, options(), answer(move |_, _| async move { throw() }));
    fake.until("thrown", |s| s.thrown == [(key, "NO_FUNDS".to_owned())]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_panic_in_a_handler_costs_neither_the_worker_nor_a_retry() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    let handler = answer(|_, before| async move {
        assert!(before > 0, "a panic on purpose");
        done()
    });
    let running = Running::start(&client, options(), handler);
    fake.until("completed", |s| s.completed.len() == 1).await;
    {
        let state = fake.state();
        let (failed, retries, _, message) = &state.failed[0];
        assert_eq!((*failed, *retries), (key, 3));
        assert!(message.contains("panic"), "{message}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_result_that_is_not_an_object_is_a_failure_with_a_reason() {
    let (fake, client) = Fake::serve(false);
    fake.create(3);
    let running = Running::start(&client, options(), answer(|_, _| async { Outcome::Complete(json!([1])) }));
    fake.until("failed", |s| !s.failed.is_empty()).await;
    assert!(fake.state().failed[0].3.contains("not an object"));
    running.stop().await;
}

#[tokio::test]
async fn heartbeats_keep_a_long_job_so_that_it_is_handed_out_once() {
    let (fake, client) = Fake::serve(false);
    fake.create(3);
    let handled = Arc::new(AtomicU32::new(0));
    let count = handled.clone();
    let handler = answer(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            sleep(ms(2500)).await;
            done()
        }
    });
    let running = Running::start(&client, WorkerOptions { timeout: ms(900), ..options() }, handler);
    fake.until("completed", |s| s.completed.len() == 1).await;
    assert!(fake.state().heartbeats >= 5, "{}", fake.state().heartbeats);
    assert_eq!(handled.load(Ordering::SeqCst), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_job_that_timed_out_elsewhere_is_redelivered() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    let ask = crate::Activation {
        job_type: "work".into(),
        worker: "one that dies".into(),
        timeout: ms(100),
        variables: None,
    };
    assert_eq!(client.activate_jobs(&ask, 1, Duration::ZERO).await.unwrap().len(), 1);
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("completed", |s| s.completed.iter().any(|(done, _)| *done == key)).await;
    running.stop().await;
}

#[tokio::test]
async fn a_job_finished_by_somebody_else_is_let_go_without_a_report() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    let dropped = CancellationToken::new();
    let guard = dropped.clone();
    let handler = answer(move |_, _| {
        let guard = guard.clone().drop_guard();
        async move {
            sleep(Duration::from_secs(60)).await;
            drop(guard);
            done()
        }
    });
    let running = Running::start(&client, options(), handler);
    fake.until("taken", |s| s.heartbeats > 0).await;
    fake.finish_elsewhere(key);
    tokio::time::timeout(Duration::from_secs(2), dropped.cancelled()).await.expect("the handler is dropped");
    assert!(fake.state().completed.is_empty() && fake.state().failed.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_completion_that_is_not_found_is_fine() {
    let (fake, client) = Fake::serve(false);
    fake.create(3);
    fake.state().refuse_reports.push_back(Status::not_found("finished by another"));
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("answered", |s| s.refuse_reports.is_empty()).await;
    sleep(ms(50)).await;
    assert!(fake.state().failed.is_empty(), "nothing more is reported");
    running.stop().await;
}

#[tokio::test]
async fn a_completion_is_repeated_while_the_engine_is_unavailable_or_busy() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    for status in [Status::unavailable("restarting"), Status::resource_exhausted("busy"), Status::unavailable("still")]
    {
        fake.state().refuse_reports.push_back(status);
    }
    let handled = Arc::new(AtomicU32::new(0));
    let count = handled.clone();
    let handler = answer(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { done() }
    });
    let running = Running::start(&client, options(), handler);
    fake.until("completed", |s| s.completed.iter().any(|(done, _)| *done == key)).await;
    assert_eq!(handled.load(Ordering::SeqCst), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_completion_is_given_up_when_the_jobs_time_is_up() {
    let (fake, client) = Fake::serve(false);
    let key = fake.create(3);
    for _ in 0..200 {
        fake.state().refuse_reports.push_back(Status::unavailable("gone"));
    }
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    sleep(ms(600)).await;
    fake.state().refuse_reports.clear();
    fake.until("handed out again, and completed", |s| s.completed.iter().any(|(done, _)| *done == key)).await;
    running.stop().await;
}

#[tokio::test]
async fn an_exhausted_gateway_is_asked_less_and_less_often() {
    let (fake, client) = Fake::serve(false);
    for _ in 0..5 {
        fake.state().refuse_polls.push_back(Status::resource_exhausted("too many requests"));
    }
    let key = fake.create(3);
    let started = std::time::Instant::now();
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("completed", |s| s.completed.iter().any(|(done, _)| *done == key)).await;
    // 5 + 10 + 20 + 40 + 40 ms, each shortened by half at most.
    assert!(started.elapsed() >= ms(57), "{:?}", started.elapsed());
    running.stop().await;
}

#[tokio::test]
async fn no_more_jobs_are_taken_than_may_be_in_flight() {
    for push in [false, true] {
        let (fake, client) = Fake::serve(push);
        let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (now_in, most_in) = (now.clone(), most.clone());
        let handler = answer(move |_, _| {
            let (now, most) = (now_in.clone(), most_in.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(ms(20)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                done()
            }
        });
        let running = Running::start(&client, WorkerOptions { max_jobs: 3, ..options() }, handler);
        if push {
            fake.until("stream", |s| s.streams_opened == 1).await;
        }
        for _ in 0..20 {
            fake.create(3);
        }
        fake.until("all completed", |s| s.completed.len() == 20).await;
        assert_eq!(most.load(Ordering::SeqCst), 3, "push: {push}");
        running.stop().await;
    }
}

#[tokio::test]
async fn pushed_jobs_that_find_no_slot_in_time_are_handed_back() {
    let (fake, client) = Fake::serve(true);
    let handler = answer(|job: Job, _| async move {
        if job.key.0 == 1 {
            sleep(ms(500)).await;
        }
        done()
    });
    let running = Running::start(&client, WorkerOptions { max_jobs: 1, ..options() }, handler);
    fake.until("stream", |s| s.streams_opened == 1).await;
    fake.create(3);
    let second = fake.create(3);
    fake.until("handed back", |s| s.failed.contains(&(second, 3, 0, "handed back".to_owned()))).await;
    fake.until("both completed", |s| s.completed.len() == 2).await;
    running.stop().await;
}

#[tokio::test]
async fn draining_finishes_what_is_quick_and_hands_the_rest_back() {
    let (fake, client) = Fake::serve(true);
    let (quick, slow) = (fake.create(3), fake.create(2));
    let started = Arc::new(AtomicU32::new(0));
    let count = started.clone();
    let handler = answer(move |job: Job, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            sleep(if job.key.0 == quick { ms(100) } else { Duration::from_secs(60) }).await;
            done()
        }
    });
    let running = Running::start(&client, options(), handler);
    fake.until("both started", |_| started.load(Ordering::SeqCst) == 2).await;
    running.stop().await;
    let state = fake.state();
    assert_eq!(state.completed, [(quick, r#"{"ok":true}"#.to_owned())]);
    assert_eq!(state.failed, [(slow, 2, 0, "handed back".to_owned())]);
}

#[tokio::test]
async fn a_job_is_handed_back_also_if_the_engine_is_away_for_a_moment() {
    let (fake, client) = Fake::serve(true);
    let key = fake.create(3);
    let started = CancellationToken::new();
    let begun = started.clone();
    let handler = answer(move |_, _| {
        begun.cancel();
        async {
            sleep(Duration::from_secs(60)).await;
            done()
        }
    });
    let running = Running::start(&client, WorkerOptions { timeout: Duration::from_secs(30), ..options() }, handler);
    started.cancelled().await;
    for _ in 0..3 {
        fake.state().refuse_reports.push_back(Status::unavailable("restarting"));
    }
    running.stop().await;
    assert_eq!(fake.state().failed, [(key, 3, 0, "handed back".to_owned())]);
}

#[tokio::test]
async fn a_stopped_worker_takes_nothing_more() {
    let (fake, client) = Fake::serve(true);
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    fake.until("stream", |s| s.streams_opened == 1).await;
    running.stop().await;
    let polls = fake.state().polls.len();
    fake.create(3);
    sleep(ms(200)).await;
    assert!(fake.state().completed.is_empty());
    assert_eq!(fake.state().polls.len(), polls);
}

#[tokio::test]
async fn a_gateway_that_is_not_there_yet_is_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let client = Client::new(crate::connect(&address, crate::Tls::Plain).unwrap());
    let running = Running::start(&client, options(), answer(|_, _| async { done() }));
    sleep(ms(150)).await;
    let fake = Fake::default();
    fake.create(3);
    let service = crate::proto::gateway_server::GatewayServer::new(fake.clone());
    let server = tonic::transport::Server::builder().add_service(service).serve(address.parse().unwrap());
    let server = tokio::spawn(server);
    fake.until("completed", |s| s.completed.len() == 1).await;
    running.stop().await;
    server.abort();
}
