//! Memory: takes the verified artifact in.

use super::{read, record, unreadable};
use m87_authority::proto::Job;
use m87_authority::{AuthorityClient, AuthorityError};
use serde_json::{Value, json};

/// Routes the artifact under its hash. The job stays open until the authority has answered; a no completes it, and
/// `record-terminal` finds no acceptance.
pub(super) async fn route(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    let verified: Value = read(&authority.brief(job.clone()).await?)?;
    let sha256 = verified.get("sha256").and_then(Value::as_str).ok_or("it names no artifact");
    record(authority, job, &json!({"artifact": sha256.map_err(unreadable("the brief"))?})).await?;
    Ok(json!({}))
}
