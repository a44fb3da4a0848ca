//! `record-terminal`: the process has reached an end event. The run is sealed by what is recorded, and only then the end
//! event may go on.

use super::Driver;
use crate::authority::unavailable;
use crate::client::{AuthorityError, Denial};
use crate::row::{Ending, Sealed};
use async_trait::async_trait;
use m87_zeebe::{Handler, Job, Outcome};
use serde_json::json;
use std::time::Duration;

pub(super) struct RecordTerminal(pub(super) Driver);

/// Between two tries while the store or the engine does not answer.
const AGAIN: Duration = Duration::from_millis(500);

#[async_trait]
impl Handler for RecordTerminal {
    async fn handle(&self, job: Job) -> Outcome {
        match self.seal(&job).await {
            Ok(_) => Outcome::Complete(json!({})),
            Err(AuthorityError::Unavailable(message)) => Outcome::Retry { after: AGAIN, message },
            Err(AuthorityError::Refused { reason, message }) => {
                tracing::info!(instance = job.instance.0, %reason, message, "an instance that is no run's is ended");
                self.0.dismiss(&job).await
            }
        }
    }
}

impl RecordTerminal {
    async fn seal(&self, job: &Job) -> Result<Sealed, AuthorityError> {
        let authority = &self.0.inner.authority;
        let engine = self.0.engine_id().await?;
        let uid = authority.store.by_instance(&engine, job.instance.0).await.map_err(unavailable)?;
        let uid = uid.ok_or_else(|| AuthorityError::refused(Denial::UnknownRun, "no run is bound to that instance"))?;
        authority.end(&uid, Ending::Process(job.element_id.clone())).await
    }
}
