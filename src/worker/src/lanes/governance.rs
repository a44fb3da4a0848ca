//! Governance: judges the first two gates, asks for the contract, verifies the artifact, hashes why a run failed.

use super::{HOLD_MS, read, record, unreadable};
use futures::StreamExt;
use m87_authority::proto::{Job, VerifyReply, WaitRequest};
use m87_authority::{AuthorityClient, AuthorityError, Denial};
use m87_core::dossier::Dossier;
use m87_core::gates::{evaluate_constraints, tool_in_manifest};
use m87_core::json::{compute_hash, is_sha256_hex, read_document};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Judges the dossier by core's gates. What is recorded first stands, and what was changed since the snapshot is no
/// longer what was judged.
pub(super) async fn validate(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    let brief = authority.brief(job.clone()).await?;
    let dossier: Dossier = read_document(brief.json.as_bytes()).map_err(unreadable("the dossier"))?;
    let found = json!({
        "constraintsOk": evaluate_constraints(&dossier).passed(),
        "toolInManifest": tool_in_manifest(&dossier).passed(),
    });
    let stored = record(authority, job, &found).await?;
    let says = |field: &str, expected: bool| stored.get(field) == Some(&Value::Bool(expected));
    Ok(json!({
        "constraints_ok": says("constraintsOk", true) && says("drifted", false),
        "tool_in_manifest": says("toolInManifest", true),
    }))
}

/// Asks for the contract. A refusal is recorded by the authority, and decides when the run is executed: without a
/// contract there is nothing to redeem.
pub(super) async fn build_contract(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    let instance = job.instance_key;
    let reply = authority.contract(job).await?;
    if reply.contract_id.is_empty() {
        tracing::info!(instance, cause = reply.refused, "no contract");
    }
    Ok(json!({}))
}

/// Waits for the validation, and recomputes the artifact's hash from what is stored.
pub(super) async fn verify_artifact(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    // Asked first, since by its brief the authority counts how often a job was handed out in vain, and ends that.
    authority.brief(job.clone()).await?;
    let report = loop {
        let reply = authority.verify(WaitRequest { job: Some(job.clone()), wait_ms: HOLD_MS }).await?;
        if reply.done {
            break reply;
        }
    };
    let recomputed = if report.artifact_stored { recompute(authority, job.clone()).await? } else { None };
    let stored = record(authority, job, &json!({"recomputed": recomputed})).await?;
    let recomputed = stored.get("recomputed").and_then(Value::as_str);
    Ok(json!({"artifact_verified": is_verified(&report, recomputed)}))
}

/// Whether what was declared is what is stored, and was found good.
fn is_verified(report: &VerifyReply, recomputed: Option<&str>) -> bool {
    is_sha256_hex(&report.declared_sha256)
        && recomputed == Some(report.declared_sha256.as_str())
        && report.validation_passed
}

/// The stored artifact's SHA-256; `None` if there is none after all.
async fn recompute(authority: &dyn AuthorityClient, job: Job) -> Result<Option<String>, AuthorityError> {
    let mut pieces = match authority.get_artifact(job).await {
        Ok(pieces) => pieces,
        Err(AuthorityError::Refused { reason: Denial::NoArtifact, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut hash = Sha256::new();
    while let Some(piece) = pieces.next().await {
        hash.update(&piece?);
    }
    Ok(Some(hex::encode(hash.finalize())))
}

/// Hashes the reason for which the run failed, as the authority states it.
pub(super) async fn failure_receipt(authority: &dyn AuthorityClient, job: Job) -> Result<Value, AuthorityError> {
    let reason: Value = read(&authority.brief(job.clone()).await?)?;
    let hash = compute_hash(&reason).map_err(unreadable("the reason"))?;
    record(authority, job, &json!({"reasonHash": hash})).await?;
    Ok(json!({}))
}
