//! Verify, and what the validating process asks under the token of its attempt.

use super::held::Held;
use super::{Service, not_yours, read, write};
use crate::artifacts::Outgoing;
use crate::callers::Principal;
use crate::client::{AuthorityError, Denial};
use crate::contract::validation_order;
use crate::event::Event;
use crate::proto::{Job, ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest};
use crate::row::{Checking, Row, State};
use crate::store::Loaded;
use m87_core::evidence::{Ended, ValidationReport};
use m87_core::lane::JobType;

/// Holds the call until the artifact was validated, or cannot be.
pub(super) async fn verify(
    service: &Service,
    who: &Principal,
    request: &WaitRequest,
) -> Result<VerifyReply, AuthorityError> {
    let job = request.job.clone().unwrap_or_default();
    let (_, loaded) = service.run_of(who, &job, &[JobType::VerifyArtifact]).await?;
    let authority = &service.authority;
    let uid = loaded.run.dossier.run.uid.clone();
    let held = Held::of(authority, &uid, request.wait_ms);
    loop {
        let change = held.change();
        let loaded = authority.tend_validation(&uid).await?;
        if let Some(reply) = verified(&loaded.run.row)? {
            return Ok(reply);
        }
        if !held.wait(change).await {
            return Ok(VerifyReply::default());
        }
    }
}

fn verified(row: &Row) -> Result<Option<VerifyReply>, AuthorityError> {
    match &row.state {
        State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) => {}
        State::Closing(_) | State::Sealed(..) => {
            return Err(AuthorityError::refused(Denial::Sealed, "the run has ended"));
        }
    }
    let (validation_passed, detail) = match (&row.validation, row.to_validate()) {
        (Checking::Reported(report), _) => (report.ended == Ended::Exited(0), ended(report)),
        (Checking::GivenUp, _) => (false, "nobody reported on the validation".to_owned()),
        (Checking::Waiting, Some(_)) => return Ok(None),
        (Checking::Waiting, None) => (false, "there is no artifact with the declared hash to validate".to_owned()),
    };
    Ok(Some(VerifyReply {
        done: true,
        validation_passed,
        detail,
        artifact_stored: row.artifact.is_some(),
        declared_sha256: row.declared_sha256().unwrap_or_default().to_owned(),
    }))
}

fn ended(report: &ValidationReport) -> String {
    match &report.ended {
        Ended::Exited(code) => format!("exit code {code}"),
        Ended::Signalled(signal) => format!("ended by signal {signal}"),
        Ended::Limit(_) => "killed at a limit".to_owned(),
        Ended::NotStarted(why) => format!("could not be started: {why}"),
    }
}

/// The run of a validating process whose attempt still holds.
async fn own(service: &Service, who: &Principal) -> Result<(Loaded, u32), AuthorityError> {
    match who {
        Principal::Validator { run_uid, attempt } => {
            let loaded = service.authority.load(run_uid).await?;
            let row = &loaded.run.row;
            if row.validations.iter().any(|own| own.number == *attempt && !own.void) {
                Ok((loaded, *attempt))
            } else {
                Err(AuthorityError::refused(Denial::ContractVoid, "another attempt validates, or validation is over"))
            }
        }
        Principal::Lane(_) | Principal::Exec { .. } | Principal::Operator => Err(not_yours(who, "a validation")),
    }
}

pub(super) async fn order(service: &Service, who: &Principal) -> Result<ValidationOrderReply, AuthorityError> {
    let (loaded, _) = own(service, who).await?;
    let nothing = || AuthorityError::refused(Denial::NoArtifact, "there is nothing to validate");
    let artifact = loaded.run.row.to_validate().ok_or_else(nothing)?;
    let order = validation_order(&loaded.run.dossier, &artifact.sha256).ok_or_else(nothing)?;
    Ok(ValidationOrderReply { order: write(&order)? })
}

pub(super) async fn report(
    service: &Service,
    who: &Principal,
    request: &ReportValidationRequest,
) -> Result<(), AuthorityError> {
    let report: ValidationReport = read("the validation report", &request.json)?;
    let Principal::Validator { run_uid, attempt } = who else {
        return Err(not_yours(who, "a validation"));
    };
    let event = Event::Validation(*attempt, report);
    service.authority.apply(run_uid, |_| event.clone()).await.map(drop)
}

/// The artifact's bytes: for Governance, which recomputes the hash itself, and for the validating process.
pub(super) async fn get_artifact(service: &Service, who: &Principal, job: &Job) -> Result<Outgoing, AuthorityError> {
    let loaded = match who {
        Principal::Lane(_) => service.run_of(who, job, &[JobType::VerifyArtifact]).await?.1,
        Principal::Validator { .. } => own(service, who).await?.0,
        Principal::Exec { .. } | Principal::Operator => return Err(not_yours(who, "an artifact")),
    };
    let artifact = loaded
        .run
        .row
        .artifact
        .as_ref()
        .ok_or_else(|| AuthorityError::refused(Denial::NoArtifact, "no artifact was stored"))?;
    Ok(service.authority.artifacts.get(&artifact.sha256).await?)
}
