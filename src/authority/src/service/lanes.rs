//! The lanes' calls: briefs, records, and the contract.

use super::{Service, read, write};
use crate::authority::Failed;
use crate::callers::Principal;
use crate::client::{AuthorityError, Denial};
use crate::contract::{contract_id, gates_pass, refusal};
use crate::event::{ContractEvent, Event};
use crate::proto::{BriefReply, ContractReply, Job, RecordReply};
use crate::row::{Ending, Row, Run};
use crate::step::lanes::next_attempt;
use crate::store::Loaded;
use crate::world::drifted;
use m87_core::decide::decide;
use m87_core::evidence::{ContractRecord, Promoted, Proposed, Validated};
use m87_core::json::compute_hash;
use m87_core::lane::JobType;
use m87_core::reason::Reason;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const BRIEFED: [JobType; 6] = [
    JobType::Propose,
    JobType::Validate,
    JobType::VerifyArtifact,
    JobType::FailureReceipt,
    JobType::EmitArtifact,
    JobType::RouteMemory,
];

pub(super) async fn brief(service: &Service, who: &Principal, job: &Job) -> Result<BriefReply, AuthorityError> {
    let (job_type, loaded) = service.run_of(who, job, &BRIEFED).await?;
    let uid = &loaded.run.dossier.run.uid;
    if loaded.run.row.sealed().is_none() && service.authority.is_abandoned(uid, job_type) {
        service.end(uid, Ending::Interrupted(Reason::JobAbandoned)).await?;
        let message = format!("{} was handed out three times without a result", job_type.name());
        return Err(AuthorityError::refused(Denial::JobAbandoned, message));
    }
    let Run { dossier, row } = &loaded.run;
    let json = match job_type {
        JobType::Propose => write(&dossier.proposal)?,
        JobType::Validate => write(dossier.as_ref())?,
        JobType::VerifyArtifact => write(&json!({"stored": row.artifact.is_some()}))?,
        JobType::FailureReceipt => write(&Failure::of(&loaded))?,
        JobType::EmitArtifact => write(&row.artifact)?,
        JobType::RouteMemory => {
            let sha256 = row.artifact.as_ref().map(|artifact| &artifact.sha256);
            write(&json!({"sha256": sha256, "target": dossier.proposal.target}))?
        }
        JobType::ClaimRun | JobType::BuildContract | JobType::Execute | JobType::RecordTerminal => {
            return Err(AuthorityError::refused(Denial::Malformed, "no brief is given for this job"));
        }
    };
    Ok(BriefReply { json })
}

/// Why a run fails, as FailReceipt is told; its hash is in the receipt.
#[derive(Serialize)]
struct Failure {
    reason: Option<Reason>,
    message: String,
}

impl Failure {
    fn of(loaded: &Loaded) -> Self {
        let verdict = decide(&loaded.run.dossier, &loaded.run.row.evidence);
        Self { reason: verdict.reason, message: verdict.message }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProposedRecord {
    proposal_hash: String,
    trace_hash: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ValidatedRecord {
    constraints_ok: bool,
    tool_in_manifest: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifiedRecord {
    recomputed: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FailureRecord {
    reason_hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmittedRecord {
    sha256: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromotedRecord {
    artifact: String,
}

pub(super) async fn record(
    service: &Service,
    who: &Principal,
    job: &Job,
    json: &str,
) -> Result<RecordReply, AuthorityError> {
    let (job_type, loaded) = service.run_of(who, job, &BRIEFED).await?;
    let stored = match job_type {
        JobType::Propose => propose(service, &loaded, read("the Proposer's record", json)?).await?,
        JobType::Validate => validate(service, &loaded, read("the record of Validate", json)?).await?,
        JobType::VerifyArtifact => verify(service, &loaded, read("the record of Verify", json)?).await?,
        JobType::FailureReceipt => failure(&loaded, &read("the record of FailReceipt", json)?)?,
        JobType::EmitArtifact => emit(&loaded.run.row, &read("the record of Artifact", json)?)?,
        JobType::RouteMemory => promote(service, &loaded, read("Memory's record", json)?).await?,
        JobType::ClaimRun | JobType::BuildContract | JobType::Execute | JobType::RecordTerminal => {
            return Err(AuthorityError::refused(Denial::Malformed, "nothing is recorded for this job"));
        }
    };
    Ok(RecordReply { json: write(&stored)? })
}

fn not_stored() -> AuthorityError {
    AuthorityError::Unavailable("the record was not stored".to_owned())
}

async fn propose(service: &Service, loaded: &Loaded, record: ProposedRecord) -> Result<Value, AuthorityError> {
    let at = service.authority.now().at;
    let ProposedRecord { proposal_hash, trace_hash } = record;
    let event = Event::Proposed(Proposed { proposal_hash, trace_hash, at });
    let after = service.authority.apply(&loaded.run.dossier.run.uid, |_| event.clone()).await?;
    let stored = after.run.row.evidence.proposed.ok_or_else(not_stored)?;
    Ok(json!({"proposalHash": stored.proposal_hash, "traceHash": stored.trace_hash}))
}

/// The record of Validate, and whether what is pinned has drifted by now: then the constraints do not hold, whatever was
/// judged of the snapshot.
async fn validate(service: &Service, loaded: &Loaded, record: ValidatedRecord) -> Result<Value, AuthorityError> {
    let authority = &service.authority;
    let drifted = match &loaded.run.row.evidence.validated {
        Some(before) => before.drifted,
        None => {
            drifted(&*authority.world.references, &loaded.run.dossier).await.map_err(crate::authority::unavailable)?
        }
    };
    let ValidatedRecord { constraints_ok, tool_in_manifest } = record;
    let validated = Validated { constraints_ok, tool_in_manifest, drifted, at: authority.now().at };
    let event = Event::Validated(validated);
    let after = authority.apply(&loaded.run.dossier.run.uid, |_| event.clone()).await?;
    let stored = after.run.row.evidence.validated.ok_or_else(not_stored)?;
    Ok(json!({
        "constraintsOk": stored.constraints_ok,
        "drifted": stored.drifted,
        "toolInManifest": stored.tool_in_manifest,
    }))
}

/// The hash that Governance recomputed from the store.
async fn verify(service: &Service, loaded: &Loaded, record: VerifiedRecord) -> Result<Value, AuthorityError> {
    let event = Event::Verified(record.recomputed, service.authority.now());
    let after = service.authority.apply(&loaded.run.dossier.run.uid, |_| event.clone()).await?;
    let stored = after.run.row.evidence.verified.ok_or_else(not_stored)?;
    Ok(json!({"recomputed": stored.recomputed}))
}

/// FailReceipt proves that it was told the same reason that the receipt will give; it changes nothing.
fn failure(loaded: &Loaded, record: &FailureRecord) -> Result<Value, AuthorityError> {
    if compute_hash(&Failure::of(loaded)).as_ref() == Ok(&record.reason_hash) {
        Ok(json!({"reasonHash": record.reason_hash}))
    } else {
        Err(AuthorityError::refused(Denial::Malformed, "that is not the hash of this run's reason"))
    }
}

/// Artifact confirms what Execute has stored.
fn emit(row: &Row, record: &EmittedRecord) -> Result<Value, AuthorityError> {
    match &row.artifact {
        Some(artifact) if artifact.sha256 == record.sha256 => Ok(json!({"sha256": artifact.sha256})),
        Some(_) => Err(AuthorityError::refused(Denial::Malformed, "that is not the hash of the stored artifact")),
        None => Err(AuthorityError::refused(Denial::NoArtifact, "no artifact was stored")),
    }
}

/// Memory asks for the artifact to be promoted. It is, if everything before holds and the store still has those bytes; if
/// not, the run ends here.
async fn promote(service: &Service, loaded: &Loaded, record: PromotedRecord) -> Result<Value, AuthorityError> {
    let authority = &service.authority;
    let Run { dossier, row } = &loaded.run;
    let uid = &dossier.run.uid;
    let at = authority.now().at;
    if row.evidence.promoted.is_none() {
        let mut evidence = row.evidence.clone();
        evidence.promoted = Some(Promoted { accepted: true, at });
        if decide(dossier, &evidence).reason.is_some() {
            service.end(uid, Ending::Interrupted(Reason::EngineDisagreement)).await?;
            let message = "the process came to Memory, and the recorded evidence does not";
            return Err(AuthorityError::refused(Denial::OutOfOrder, message));
        }
        let holds = match &row.artifact {
            Some(artifact) if artifact.sha256 == record.artifact => authority.artifacts.holds(&artifact.sha256).await?,
            Some(_) | None => false,
        };
        let event = Event::Promoted(Promoted { accepted: holds, at });
        authority.apply_to(loaded, &event).await.map_err(|failed: Failed| AuthorityError::from(failed))?;
        if !holds {
            service.end(uid, Ending::Interrupted(Reason::PromotionRefused)).await?;
        }
    }
    let after = authority.load(uid).await?;
    match &after.run.row.evidence.promoted {
        Some(promoted) if promoted.accepted => Ok(json!({"accepted": true, "artifact": record.artifact})),
        Some(_) | None => Err(AuthorityError::refused(
            Denial::OutOfOrder,
            "the artifact was not taken into memory; the run has ended",
        )),
    }
}

pub(super) async fn contract(service: &Service, who: &Principal, job: &Job) -> Result<ContractReply, AuthorityError> {
    let (_, loaded) = service.run_of(who, job, &[JobType::BuildContract]).await?;
    let authority = &service.authority;
    let uid = loaded.run.dossier.run.uid.clone();
    let after = match &loaded.run.row.evidence.contract {
        Some(_) => loaded,
        None => {
            let facts = match gates_pass(&loaded.run) {
                true => Some(authority.facts(&loaded).await?),
                false => None,
            };
            let now = authority.now();
            authority
                .apply(&uid, |loaded| {
                    let id = contract_id(&loaded.run.dossier, next_attempt(&loaded.run.row)).unwrap_or_default();
                    Event::Contract(ContractEvent { id, refusal: refusal(&loaded.run, facts), now })
                })
                .await?
        }
    };
    match after.run.row.evidence.contract {
        Some(ContractRecord::Issued { id, .. }) => Ok(ContractReply { contract_id: id, refused: String::new() }),
        Some(ContractRecord::Refused { .. }) => {
            let verdict = decide(&after.run.dossier, &after.run.row.evidence);
            let reason = verdict.reason.unwrap_or(Reason::ContractRefused);
            Ok(ContractReply { contract_id: String::new(), refused: reason.name().to_owned() })
        }
        None => Err(not_stored()),
    }
}
