//! One job: handled, kept alive meanwhile, and reported.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Line, Outcome};
use crate::{
    error::{Error, absent_is_done},
    job::Job,
};

/// How long an aborted handler may take to let go.
const LET_GO: Duration = Duration::from_secs(1);

/// Does a job from beginning to end.
pub(super) async fn work(line: Arc<Line>, job: Job) {
    let (alive_until, deadline) = watch::channel(Instant::now() + line.options.timeout);
    // In a task of its own, so that a panic stays in it.
    let mut handling = tokio::spawn({
        let (handler, job) = (line.handler.clone(), job.clone());
        async move { handler.handle(job).await }
    });
    let outcome = tokio::select! {
        result = &mut handling => result.unwrap_or_else(|error| Outcome::Retry {
            after: line.options.back_off.cap,
            message: format!("the handler broke off: {error}"),
        }),
        () = heartbeat(&line, &job, &alive_until) => {
            tracing::info!(job = %job.key, "the job is gone: letting go of it");
            let_go(handling).await;
            return;
        }
        () = line.abort.cancelled() => {
            let_go(handling).await;
            Outcome::HandBack
        }
    };
    let deadline = *deadline.borrow();
    report(&line, &job, &outcome, deadline).await;
}

/// Gives a job back undone.
pub(super) async fn hand_back(line: Arc<Line>, job: Job) {
    let deadline = Instant::now() + line.options.timeout;
    report(&line, &job, &Outcome::HandBack, deadline).await;
}

async fn let_go(mut handling: JoinHandle<Outcome>) {
    handling.abort();
    // A handler that blocks its thread is left behind.
    drop(timeout(LET_GO, &mut handling).await);
}

/// Keeps the job with this worker; returns when it is gone.
async fn heartbeat(line: &Line, job: &Job, alive_until: &watch::Sender<Instant>) {
    let beat = line.options.timeout / 3;
    loop {
        sleep(beat).await;
        let sent = Instant::now();
        let call = line.client.update_job_timeout(job.key, line.options.timeout);
        match timeout(beat, call).await {
            Ok(Ok(())) => {
                alive_until.send_replace(sent + line.options.timeout);
            }
            Ok(Err(Error::NotFound(_))) => return,
            Ok(Err(error)) if error.is_unimplemented() => {
                tracing::debug!("the gateway knows no heartbeats: the job's timeout stays as it is");
                return std::future::pending().await;
            }
            Ok(Err(error)) => tracing::debug!(job = %job.key, %error, "heartbeat failed"),
            Err(_) => tracing::debug!(job = %job.key, "heartbeat not answered in time"),
        }
    }
}

/// Tells the engine, again and again while there is no answer and the job's time is not up; once the worker has to let go of
/// everything, for as long as the grace was.
async fn report(line: &Line, job: &Job, outcome: &Outcome, mut deadline: Instant) {
    let mut waits = line.options.back_off.start();
    let mut is_last = false;
    loop {
        let error = match absent_is_done(say(line, job, outcome).await) {
            Ok(()) => return,
            Err(error) => error,
        };
        if line.abort.is_cancelled() && !std::mem::replace(&mut is_last, true) {
            deadline = deadline.min(Instant::now() + line.options.grace);
        }
        let pause = waits.failed();
        let again = error.is_unavailable() && Instant::now() + pause < deadline;
        if !again {
            tracing::warn!(job = %job.key, job_type = job.job_type, %error, "not reported: the job will be handed out again");
            return;
        }
        sleep(pause).await;
    }
}

async fn say(line: &Line, job: &Job, outcome: &Outcome) -> Result<(), Error> {
    let client = &line.client;
    match outcome {
        Outcome::Complete(Value::Object(result)) => client.complete_job(job.key, result).await,
        Outcome::Complete(Value::Null) => client.complete_job(job.key, &Map::new()).await,
        Outcome::Complete(_) => {
            let message = "the handler's result is not an object";
            client.fail_job(job.key, job.retries, line.options.back_off.cap, message).await
        }
        Outcome::Retry { after, message } => client.fail_job(job.key, job.retries, *after, message).await,
        Outcome::Throw { code, message } => client.throw_error(job.key, code, message).await,
        Outcome::HandBack => client.fail_job(job.key, job.retries, Duration::ZERO, "handed back").await,
    }
}
