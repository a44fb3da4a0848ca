//! Execute, and what `exec` asks under the token of its attempt: redeem, upload, report.

use super::held::Held;
use super::{Service, not_yours, read, write};
use crate::artifacts::Incoming;
use crate::authority::unavailable;
use crate::callers::Principal;
use crate::client::{AuthorityError, Denial};
use crate::contract::{artifact_limit, standing, work_order};
use crate::event::{Event, RedeemEvent};
use crate::proto::{ExecuteReply, PutArtifactReply, RedeemReply, RedeemRequest, ReportRequest, WaitRequest};
use crate::row::{Run, State};
use crate::store::Loaded;
use m87_core::evidence::{ExecutionReport, Refusal};
use m87_core::gates::budget_exceeded_or_error;
use m87_core::json::to_canonical;
use m87_core::lane::JobType;
use serde_json::Value;

/// Holds the call until the tool was reported on, or cannot be any more.
pub(super) async fn execute(
    service: &Service,
    who: &Principal,
    request: &WaitRequest,
) -> Result<ExecuteReply, AuthorityError> {
    let job = request.job.clone().unwrap_or_default();
    let (_, loaded) = service.run_of(who, &job, &[JobType::Execute]).await?;
    let authority = &service.authority;
    let uid = loaded.run.dossier.run.uid.clone();
    let held = Held::of(authority, &uid, request.wait_ms);
    loop {
        let change = held.change();
        let loaded = authority.tend_tool(&uid, crate::attempts::MayBegin::Allowed).await?;
        if let Some(reply) = executed(&loaded)? {
            return Ok(reply);
        }
        if !held.wait(change).await {
            return Ok(ExecuteReply::default());
        }
    }
}

/// What Execute is answered, once there is something to say.
fn executed(loaded: &Loaded) -> Result<Option<ExecuteReply>, AuthorityError> {
    let Run { dossier, row } = &loaded.run;
    match &row.state {
        State::Contracted(..) => return Ok(None),
        State::Dispatched(..) if row.evidence.execution.is_none() => return Ok(None),
        // Without a contract the gate refuses, which is a definite answer.
        State::Open(_) | State::Claimed(_) | State::Dispatched(..) => {}
        State::Closing(_) | State::Sealed(..) => {
            return Err(AuthorityError::refused(Denial::Sealed, "the run has ended"));
        }
    }
    let clauses = budget_exceeded_or_error(dossier, &row.evidence);
    let reason = clauses.refusal().map(|clause| clause.reason.name().to_owned()).unwrap_or_default();
    Ok(Some(ExecuteReply { done: true, budget_exceeded: !clauses.passed(), reason }))
}

/// The run and attempt of an `exec`, which may only speak for its own contract.
async fn own(service: &Service, who: &Principal, contract_id: &str) -> Result<(Loaded, u32), AuthorityError> {
    match who {
        Principal::Exec { run_uid, attempt } => {
            let loaded = service.authority.load(run_uid).await?;
            match loaded.run.row.attempt(*attempt) {
                Some(own) if own.contract_id == contract_id => Ok((loaded, *attempt)),
                Some(_) | None => Err(not_yours(who, "that contract")),
            }
        }
        Principal::Lane(_) | Principal::Validator { .. } | Principal::Operator => Err(not_yours(who, "a contract")),
    }
}

/// Redeems. What is pinned is read once more, uncached; `Dispatched` and the high-water mark are on the disk before the
/// answer is given.
pub(super) async fn redeem(
    service: &Service,
    who: &Principal,
    request: &RedeemRequest,
) -> Result<RedeemReply, AuthorityError> {
    if request.nonce.is_empty() || request.nonce.len() > 128 {
        return Err(AuthorityError::refused(Denial::Malformed, "a nonce has 1 to 128 characters"));
    }
    let authority = &service.authority;
    let (loaded, attempt) = own(service, who, &request.contract_id).await?;
    let event = |now| {
        Event::Redeem(RedeemEvent {
            attempt,
            contract_id: request.contract_id.clone(),
            nonce: request.nonce.clone(),
            start_limit: authority.options.start_limit,
            now,
        })
    };
    if let State::Contracted(_, contract) = &loaded.run.row.state
        && contract.id == request.contract_id
        && let Some((cause, error)) = withheld(service, &loaded, attempt).await?
    {
        authority.apply_to(&loaded, &authority.take_back(&loaded, cause, authority.now())).await?;
        return Err(error);
    }
    // Exactly the row that was judged: whatever came in between is judged anew by the next try.
    let after = authority.apply_to(&loaded, &event(authority.now())).await?;
    authority.write_mark().await?;
    if authority.restored().is_some() {
        return Err(refused(Refusal::StoreRestored));
    }
    let order = work_order(&after.run.dossier, &request.contract_id)
        .ok_or_else(|| AuthorityError::refused(Denial::OutOfOrder, "the run has no plan"))?;
    Ok(RedeemReply { order: write(&order)? })
}

/// Why a contract that was issued is taken back instead of redeemed, if it is.
async fn withheld(
    service: &Service,
    loaded: &Loaded,
    attempt: u32,
) -> Result<Option<(Refusal, AuthorityError)>, AuthorityError> {
    if let Some(cause) = standing(service.authority.facts(loaded).await?) {
        return Ok(Some((cause, refused(cause))));
    }
    // Where it matters what was made, a caller is not known before the executor has said so.
    let Some(handle) = loaded.run.row.attempt(attempt).and_then(|attempt| attempt.handle.as_ref()) else {
        return Ok(None);
    };
    let made = service.authority.world.executor.as_made(handle).await.map_err(unavailable)?;
    Ok(made.err().map(|why| (Refusal::Tampered, AuthorityError::refused(Denial::ContractVoid, why))))
}

fn refused(cause: Refusal) -> AuthorityError {
    let (denial, message) = match cause {
        Refusal::StoreRestored => (Denial::StoreRestored, "the store is older than its high-water mark"),
        Refusal::Drifted => (Denial::Drifted, "what is pinned is no longer what the references say"),
        Refusal::HeadroomExhausted => (Denial::HeadroomExhausted, "there is not enough room on the disk"),
        Refusal::Suspended => (Denial::ContractVoid, "the run or its policy is suspended"),
        Refusal::EffectSpent => (Denial::ContractVoid, "the effect's identity is another run's"),
        Refusal::GatesRefuse | Refusal::NeverStarted | Refusal::ExecutorFailed | Refusal::Tampered => {
            (Denial::ContractVoid, "the contract was taken back")
        }
    };
    AuthorityError::refused(denial, message)
}

pub(super) async fn put_artifact(
    service: &Service,
    who: &Principal,
    contract_id: &str,
    nonce: &str,
    data: Incoming,
) -> Result<PutArtifactReply, AuthorityError> {
    let authority = &service.authority;
    let (loaded, attempt) = own(service, who, contract_id).await?;
    let Run { dossier, row } = &loaded.run;
    match &row.state {
        State::Dispatched(_, dispatch) if dispatch.attempt == attempt && dispatch.nonce == nonce => {}
        State::Dispatched(..) | State::Open(_) | State::Claimed(_) | State::Contracted(..) => {
            return Err(AuthorityError::refused(Denial::OutOfOrder, "this process has not redeemed the contract"));
        }
        State::Closing(_) | State::Sealed(..) => {
            return Err(AuthorityError::refused(Denial::Sealed, "the run has ended"));
        }
    }
    let limit = artifact_limit(dossier).unwrap_or(0);
    let name = authority.world.entropy.secret().map_err(unavailable)?;
    let artifact = authority.artifacts.put(&name, limit, data).await?;
    let after = authority.apply(&dossier.run.uid, |_| Event::Stored(nonce.to_owned(), artifact.clone())).await?;
    let stored = after.run.row.artifact.ok_or_else(|| {
        AuthorityError::refused(Denial::OutOfOrder, "the tool was reported on before its artifact was stored")
    })?;
    Ok(PutArtifactReply { sha256: stored.sha256, size: stored.size })
}

pub(super) async fn report(service: &Service, who: &Principal, request: &ReportRequest) -> Result<(), AuthorityError> {
    let authority = &service.authority;
    let mut report: ExecutionReport = read("the execution report", &request.json)?;
    // What a tool reports may be any JSON. A number that has no canonical form must not keep the run from being sealed; as
    // text it is refused by the gate.
    if let Some(reported) = report.reported.take() {
        let writable = to_canonical(&reported).is_ok();
        report.reported = Some(if writable { reported } else { Value::String(reported.to_string()) });
    }
    let (loaded, _) = own(service, who, &request.contract_id).await?;
    let now = authority.now();
    let event = Event::Report(request.nonce.clone(), Box::new(report), now);
    authority.apply(&loaded.run.dossier.run.uid, |_| event.clone()).await.map(drop)
}
