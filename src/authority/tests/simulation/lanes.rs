//! The lanes, in brief, and the process that hands them their jobs. Some jobs are done twice, some are done by nobody, and now
//! and then somebody who may not completes one with what he likes.

use crate::random::Random;
use bytes::Bytes;
use futures::TryStreamExt;
use m87_authority::proto::{Job, RecordRequest, WaitRequest};
use m87_authority::{AuthorityClient, AuthorityError, InProcess, Principal, Service};
use m87_core::dossier::Dossier;
use m87_core::gates::{evaluate_constraints, tool_in_manifest};
use m87_core::json::{compute_hash, read_document, sha256_hex};
use m87_core::lane::JobType;
use m87_core::proposal::Proposal;
use serde_json::{Value, json};

/// Where an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Claim,
    Job(JobType),
    End(&'static str),
    Gone,
}

/// What a job came to.
pub enum Done {
    /// Completed, with the gate's value where it sets one.
    Gate(bool),
    Plain,
    /// Not now.
    Again,
}

/// The next place after a job, by the drawn process.
pub fn after(job: JobType, passes: bool) -> At {
    match job {
        JobType::ClaimRun => At::Job(JobType::Propose),
        JobType::Propose => At::Job(JobType::Validate),
        // Both gates are read here; which of them refuses is in `Validate`'s own answer.
        JobType::Validate if passes => At::Job(JobType::BuildContract),
        JobType::Validate => At::End("End_Halt"),
        JobType::BuildContract => At::Job(JobType::Execute),
        JobType::Execute if passes => At::Job(JobType::EmitArtifact),
        JobType::Execute => At::Job(JobType::FailureReceipt),
        JobType::FailureReceipt => At::End("End_Failed"),
        JobType::EmitArtifact => At::Job(JobType::VerifyArtifact),
        JobType::VerifyArtifact if passes => At::Job(JobType::RouteMemory),
        JobType::VerifyArtifact => At::End("End_RejVerify"),
        JobType::RouteMemory => At::End("End_Complete"),
        JobType::RecordTerminal => At::Gone,
    }
}

/// Does one job as its lane would.
pub async fn perform(service: &Service, job_type: JobType, job: Job) -> (Done, Option<&'static str>) {
    let lane = InProcess::new(service.clone(), Principal::Lane(job_type.lane().unwrap()));
    match work(&lane, job_type, job).await {
        Ok(done) => done,
        Err(AuthorityError::Unavailable(_)) => (Done::Again, None),
        Err(AuthorityError::Refused { .. }) => match job_type {
            JobType::Validate | JobType::Execute | JobType::VerifyArtifact => (Done::Gate(false), None),
            _ => (Done::Plain, None),
        },
    }
}

async fn work(lane: &InProcess, job_type: JobType, job: Job) -> Result<(Done, Option<&'static str>), AuthorityError> {
    let record = |value: Value| {
        let request = RecordRequest { job: Some(job.clone()), json: value.to_string() };
        async move { Ok::<Value, AuthorityError>(serde_json::from_str(&lane.record(request).await?.json).unwrap()) }
    };
    let wait = || WaitRequest { job: Some(job.clone()), wait_ms: 0 };
    Ok(match job_type {
        JobType::Propose => {
            let proposal: Proposal = serde_json::from_str(&lane.brief(job.clone()).await?.json).unwrap();
            let trace = compute_hash(&proposal.reasoning_trace).unwrap();
            record(json!({"proposalHash": compute_hash(&proposal).unwrap(), "traceHash": trace})).await?;
            (Done::Plain, None)
        }
        JobType::Validate => {
            let dossier: Dossier = read_document(lane.brief(job.clone()).await?.json.as_bytes()).unwrap();
            let (constraints, manifest) =
                (evaluate_constraints(&dossier).passed(), tool_in_manifest(&dossier).passed());
            let stored = record(json!({"constraintsOk": constraints, "toolInManifest": manifest})).await?;
            let first = stored["constraintsOk"] == true && stored["drifted"] == false;
            let second = stored["toolInManifest"] == true;
            (Done::Gate(first && second), (first && !second).then_some("End_RejManifest"))
        }
        JobType::BuildContract => {
            lane.contract(job.clone()).await?;
            (Done::Plain, None)
        }
        JobType::Execute => {
            let reply = lane.execute(wait()).await?;
            (if reply.done { Done::Gate(!reply.budget_exceeded) } else { Done::Again }, None)
        }
        JobType::EmitArtifact => {
            let declared: Value = serde_json::from_str(&lane.brief(job.clone()).await?.json).unwrap();
            if let Some(sha256) = declared["sha256"].as_str() {
                record(json!({"sha256": sha256})).await?;
            }
            (Done::Plain, None)
        }
        JobType::VerifyArtifact => {
            let reply = lane.verify(wait()).await?;
            if !reply.done {
                return Ok((Done::Again, None));
            }
            let recomputed = match reply.artifact_stored {
                true => {
                    let pieces: Vec<Bytes> = lane.get_artifact(job.clone()).await?.try_collect().await?;
                    Some(sha256_hex(&pieces.concat()))
                }
                false => None,
            };
            let stored = record(json!({"recomputed": recomputed})).await?;
            let same = stored["recomputed"] == json!(reply.declared_sha256) && !reply.declared_sha256.is_empty();
            (Done::Gate(same && reply.validation_passed), None)
        }
        JobType::FailureReceipt => {
            let reason: Value = serde_json::from_str(&lane.brief(job.clone()).await?.json).unwrap();
            record(json!({"reasonHash": compute_hash(&reason).unwrap()})).await?;
            (Done::Plain, None)
        }
        JobType::RouteMemory => {
            let routed: Value = serde_json::from_str(&lane.brief(job.clone()).await?.json).unwrap();
            record(json!({"artifact": routed["sha256"].as_str().unwrap_or_default()})).await?;
            (Done::Plain, None)
        }
        JobType::ClaimRun | JobType::RecordTerminal => unreachable!("the operator's own"),
    })
}

/// Somebody who may complete jobs, and lies.
pub fn lie(random: &mut Random) -> bool {
    random.one_in(60)
}
