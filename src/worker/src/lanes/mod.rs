//! What each lane does with its jobs.
//!
//! A lane learns what its job is about from the authority, by the job itself, never from a variable; it records what it
//! found there, and completes the job with the boolean that the next gateway reads, if any. No answer is tried again;
//! a definite no completes the job with the boolean that refuses, so that the process goes on to an end.

mod governance;
mod memory;
mod proposer;
mod runner;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use m87_authority::proto::{BriefReply, Job, RecordRequest};
use m87_authority::{AuthorityClient, AuthorityError, Denial};
use m87_core::json::{from_canonical, to_canonical};
use m87_core::lane::{JobType, Lane};
use m87_zeebe::back_off::{BackOff, Waits};
use m87_zeebe::{Client, Handler, JobWorker, Outcome, WorkerOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two tries while the authority does not answer.
const BACK_OFF: BackOff = BackOff { first: Duration::from_millis(100), cap: Duration::from_secs(5) };

/// Between two tries while the engine does not answer: it is back soon, and its jobs wait for those who do them.
const ENGINE_BACK_OFF: BackOff = BackOff { first: Duration::from_millis(100), cap: Duration::from_secs(2) };

/// How long the authority may hold a question whose answer is not there yet; it allows ten seconds.
const HOLD_MS: i64 = 10_000;

/// What a lane asks for of an instance's variables. An empty list would mean all of them, and in the run's reference there is
/// the start nonce, which is the operator's.
const NO_VARIABLE: &str = "none";

/// Does a lane's jobs until `stop`.
pub async fn run_lane(
    lane: Lane,
    client: Client,
    authority: Arc<dyn AuthorityClient>,
    options: WorkerOptions,
    stop: CancellationToken,
) {
    let variables = Some(vec![NO_VARIABLE.to_owned()]);
    let worker = JobWorker::new(client, WorkerOptions { variables, back_off: ENGINE_BACK_OFF, ..options });
    let handlers = handlers(lane, &authority, &stop);
    handlers.into_iter().fold(worker, |worker, (job, handler)| worker.handle(job.name(), handler)).run(stop).await;
}

/// A lane's handlers, by the type of job. From `stop` on they wait for nothing that somebody else does.
pub fn handlers(
    lane: Lane,
    authority: &Arc<dyn AuthorityClient>,
    stop: &CancellationToken,
) -> Vec<(JobType, Arc<dyn Handler>)> {
    let handler = |job| Arc::new(LaneHandler::new(job, Arc::clone(authority), stop.clone())) as Arc<dyn Handler>;
    lane.jobs().map(|job| (job, handler(job))).collect()
}

/// Does the jobs of one type.
struct LaneHandler {
    job: JobType,
    authority: Arc<dyn AuthorityClient>,
    /// Shared by all jobs of the type: who does not answer one of them does not answer the others.
    waits: Mutex<Waits>,
    stop: CancellationToken,
}

impl LaneHandler {
    fn new(job: JobType, authority: Arc<dyn AuthorityClient>, stop: CancellationToken) -> Self {
        Self { job, authority, waits: Mutex::new(BACK_OFF.start()), stop }
    }

    /// The lane has to stop, and this job may wait for others for longer than it has: whoever comes next waits from now on.
    async fn has_to_let_go(&self) {
        match self.job {
            JobType::Execute | JobType::VerifyArtifact => self.stop.cancelled().await,
            // What the lane does itself is soon done.
            JobType::Propose
            | JobType::Validate
            | JobType::BuildContract
            | JobType::EmitArtifact
            | JobType::FailureReceipt
            | JobType::RouteMemory
            | JobType::ClaimRun
            | JobType::RecordTerminal => std::future::pending().await,
        }
    }

    async fn perform(&self, job: Job) -> Result<Value, AuthorityError> {
        let authority = self.authority.as_ref();
        match self.job {
            JobType::Propose => proposer::propose(authority, job).await,
            JobType::Validate => governance::validate(authority, job).await,
            JobType::BuildContract => governance::build_contract(authority, job).await,
            JobType::VerifyArtifact => governance::verify_artifact(authority, job).await,
            JobType::FailureReceipt => governance::failure_receipt(authority, job).await,
            JobType::Execute => runner::execute(authority, job).await,
            JobType::EmitArtifact => runner::emit_artifact(authority, job).await,
            JobType::RouteMemory => memory::route(authority, job).await,
            JobType::ClaimRun | JobType::RecordTerminal => {
                Err(AuthorityError::refused(Denial::NotYours, "the operator's own job"))
            }
        }
    }

    fn retry(&self, message: String) -> Outcome {
        let after = self.waits.lock().unwrap_or_else(PoisonError::into_inner).failed();
        Outcome::Retry { after, message }
    }
}

#[async_trait]
impl Handler for LaneHandler {
    async fn handle(&self, job: m87_zeebe::Job) -> Outcome {
        let (element, instance) = (job.element_id.clone(), job.instance);
        let answer = tokio::select! {
            answer = self.perform(to_wire(job)) => answer,
            () = self.has_to_let_go() => return Outcome::HandBack,
        };
        match answer {
            Ok(variables) => {
                self.waits.lock().unwrap_or_else(PoisonError::into_inner).succeeded();
                Outcome::Complete(variables)
            }
            Err(AuthorityError::Unavailable(message)) => self.retry(message),
            Err(AuthorityError::Refused { reason, message }) if is_about_the_caller(reason) => {
                tracing::error!(%element, %instance, %reason, message, "this lane's credentials are not accepted");
                self.retry(format!("{reason}: {message}"))
            }
            Err(AuthorityError::Refused { reason, message }) => {
                tracing::info!(%element, %instance, %reason, message, "refused");
                Outcome::Complete(refusing(self.job))
            }
        }
    }
}

/// A no to this worker, whatever the run: no reason to end the run.
const fn is_about_the_caller(reason: Denial) -> bool {
    matches!(reason, Denial::Unauthenticated | Denial::NotYours)
}

/// The result that makes the next gateway refuse, where the job sets a gate's variable.
fn refusing(job: JobType) -> Value {
    match job {
        JobType::Validate => json!({"constraints_ok": false, "tool_in_manifest": false}),
        JobType::Execute => json!({"budget_exceeded": true}),
        JobType::VerifyArtifact => json!({"artifact_verified": false}),
        JobType::ClaimRun
        | JobType::Propose
        | JobType::BuildContract
        | JobType::EmitArtifact
        | JobType::FailureReceipt
        | JobType::RouteMemory
        | JobType::RecordTerminal => json!({}),
    }
}

fn to_wire(job: m87_zeebe::Job) -> Job {
    Job {
        job_key: job.key.0,
        job_type: job.job_type,
        instance_key: job.instance.0,
        definition_key: job.definition.0,
        element_id: job.element_id,
    }
}

/// Records what a lane found; answers with what is stored, which is the first that was recorded.
async fn record(authority: &dyn AuthorityClient, job: Job, found: &impl Serialize) -> Result<Value, AuthorityError> {
    let json = to_canonical(found).map_err(unreadable("what would be recorded"))?;
    let reply = authority.record(RecordRequest { job: Some(job), json }).await?;
    serde_json::from_str(&reply.json).map_err(unreadable("the record"))
}

/// What the authority says of the job. It writes canonical JSON, so that nothing in it is overlooked or read twice.
fn read<T: Serialize + DeserializeOwned>(brief: &BriefReply) -> Result<T, AuthorityError> {
    from_canonical(brief.json.as_bytes()).map_err(unreadable("the brief"))
}

/// What cannot be read is no permission: it refuses.
fn unreadable<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> AuthorityError {
    move |error| AuthorityError::refused(Denial::Malformed, format!("{what} cannot be read: {error}"))
}
