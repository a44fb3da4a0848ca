//! The Proposer: says which proposal this is, and cannot change it.

use super::{read, record, unreadable};
use m87_authority::proto::Job;
use m87_authority::{AuthorityClient, AuthorityError};
use m87_core::json::compute_hash;
use m87_core::proposal::Proposal;
use serde_json::{Value, json};

/// Hashes the proposal and its reasoning trace (`null` if it has none).
pub(super) async fn propose(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    let proposal: Proposal = read(&authority.brief(job.clone()).await?)?;
    let found = json!({
        "proposalHash": compute_hash(&proposal).map_err(unreadable("the proposal"))?,
        "traceHash": compute_hash(&proposal.reasoning_trace).map_err(unreadable("the reasoning trace"))?,
    });
    record(authority, job, &found).await?;
    Ok(json!({}))
}
