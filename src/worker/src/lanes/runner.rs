//! The Runner: asks that the tool be run, and says what the authority says of it. It judges nothing and records nothing
//! of its own.

use super::{HOLD_MS, read, record};
use m87_authority::proto::{Job, WaitRequest};
use m87_authority::{AuthorityClient, AuthorityError};
use serde_json::{Value, json};

/// Waits for the tool's report; heartbeats keep the job meanwhile.
pub(super) async fn execute(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    loop {
        let reply = authority.execute(WaitRequest { job: Some(job.clone()), wait_ms: HOLD_MS }).await?;
        if reply.done {
            return Ok(json!({"budget_exceeded": reply.budget_exceeded}));
        }
    }
}

/// Confirms the artifact that `exec` declared, if there is one.
pub(super) async fn emit_artifact(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    let declared: Value = read(&authority.brief(job.clone()).await?)?;
    if let Some(sha256) = declared.get("sha256").and_then(Value::as_str) {
        record(authority, job, &json!({"sha256": sha256})).await?;
    }
    Ok(json!({}))
}
