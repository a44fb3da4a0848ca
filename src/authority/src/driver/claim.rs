//! `claim-run`: binds the run to the one instance that begins with its start nonce. Any other instance is ended.

use super::Driver;
use crate::client::{AuthorityError, Denial};
use crate::event::{ClaimEvent, Event};
use async_trait::async_trait;
use m87_zeebe::{Handler, Job, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) struct ClaimRun(pub(super) Driver);

/// Between two tries while the store or the engine does not answer.
const AGAIN: Duration = Duration::from_millis(500);

#[async_trait]
impl Handler for ClaimRun {
    async fn handle(&self, job: Job) -> Outcome {
        match self.claim(&job).await {
            Ok(()) => Outcome::Complete(json!({})),
            Err(AuthorityError::Unavailable(message)) => Outcome::Retry { after: AGAIN, message },
            Err(AuthorityError::Refused { reason, message }) => {
                tracing::info!(instance = job.instance.0, %reason, message, "an instance that is no run's is ended");
                self.0.dismiss(&job).await
            }
        }
    }
}

impl ClaimRun {
    async fn claim(&self, job: &Job) -> Result<(), AuthorityError> {
        let (uid, nonce) = reference(job)
            .ok_or_else(|| AuthorityError::refused(Denial::Malformed, "the variable run is not a run's reference"))?;
        let event = Event::Claim(ClaimEvent {
            engine_id: self.0.engine_id().await?,
            instance_key: job.instance.0,
            definition_key: job.definition.0,
            element_id: job.element_id.clone(),
            nonce,
        });
        self.0.inner.authority.apply(&uid, |_| event.clone()).await.map(drop)
    }
}

/// `<uid>.<nonce>` in the variable `run`.
fn reference(job: &Job) -> Option<(String, String)> {
    let variables = job.variables().ok()?;
    let (uid, nonce) = variables.get("run").and_then(Value::as_str)?.rsplit_once('.')?;
    Some((uid.to_owned(), nonce.to_owned()))
}

impl Driver {
    /// Ends the instance of a job that belongs to no run.
    pub(super) async fn dismiss(&self, job: &Job) -> Outcome {
        match self.inner.engine.cancel(job.instance.0).await {
            Ok(()) => Outcome::HandBack,
            Err(error) => Outcome::Retry { after: AGAIN, message: error.to_string() },
        }
    }
}
