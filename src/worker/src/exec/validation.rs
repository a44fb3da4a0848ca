//! A validation attempt: fetch the artifact as it is stored, run the check on that copy, report.

use super::persist::persist;
use super::shim::Shim;
use super::workplace::Workplace;
use super::{Attempt, ExecError, ORDER_PATIENCE};
use crate::sandbox::folder;
use crate::shim::link::Go;
use futures::StreamExt;
use m87_authority::AuthorityError;
use m87_authority::proto::{Job, ReportValidationRequest};
use m87_core::contract::ValidationOrder;
use m87_core::evidence::{Ended, ValidationReport};
use m87_core::json::{read_document, to_canonical};
use sha2::{Digest, Sha256};
use std::io::{Seek, Write};
use std::time::Duration;
use tokio::time::Instant;

pub(super) async fn run(attempt: &Attempt<'_>) -> Result<(), ExecError> {
    let place = Workplace::make(attempt.work).map_err(ExecError::system("the work folder"))?;
    let shim = Shim::start().map_err(ExecError::system("cannot start the shim"))?;
    let patience = Instant::now() + ORDER_PATIENCE;
    let reply = persist(patience, || attempt.authority.validation_order()).await;
    let reply = reply.map_err(ExecError::authority("there is nothing to validate"))?;
    let order: Result<ValidationOrder, String> =
        read_document(reply.order.as_bytes()).map_err(|error| format!("the authority's validation order {error}"));
    let limit = order.as_ref().map_or(0, |order| order.validation.limits.seconds);
    let ready = match order {
        Ok(order) => fetch(attempt, &place, &order, patience).await?.map(|()| order),
        Err(why) => Err(why),
    };
    attempt.forget_credentials();
    let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    let until = Instant::now() + limit + attempt.args.report_grace;
    let report = match ready {
        Ok(order) => check(&place, shim, order).await,
        Err(why) => ValidationReport { ended: Ended::NotStarted(why), output: String::new() },
    };
    let json = to_canonical(&report)
        .map_err(|error| ExecError::System { what: "the report".to_owned(), source: std::io::Error::other(error) })?;
    let request = ReportValidationRequest { json };
    let tell = || attempt.authority.report_validation(request.clone());
    persist(until, tell).await.map_err(ExecError::authority("the report was not heard"))
}

/// Makes the read-only copy and the input; the inner error is why there is nothing to check.
async fn fetch(
    attempt: &Attempt<'_>,
    place: &Workplace,
    order: &ValidationOrder,
    until: Instant,
) -> Result<Result<(), String>, ExecError> {
    if let Err(error) = place.write_input(&order.input) {
        return Ok(Err(format!("the input cannot be written: {error}")));
    }
    let path = place.artifact_path();
    let copy = match folder::create_read_only(&path) {
        Ok(copy) => copy,
        Err(error) => return Ok(Err(format!("the artifact cannot be copied: {error}"))),
    };
    match persist(until, || download(attempt, &copy)).await {
        Ok(Ok(sha256)) if sha256 == order.sha256 => Ok(Ok(())),
        Ok(Ok(sha256)) => {
            Ok(Err(format!("the stored artifact has the hash {sha256}, not the declared {}", order.sha256)))
        }
        Ok(Err(error)) => Ok(Err(format!("the artifact cannot be copied: {error}"))),
        Err(AuthorityError::Refused { reason, message }) => Ok(Err(format!("no artifact ({reason}): {message}"))),
        Err(source) => Err(ExecError::Authority { what: "the artifact was not fetched", source }),
    }
}

/// Writes the artifact from its first byte, and says what it hashes to; the inner error is this machine's.
async fn download(attempt: &Attempt<'_>, mut copy: &std::fs::File) -> Result<std::io::Result<String>, AuthorityError> {
    let mut pieces = attempt.authority.get_artifact(Job::default()).await?;
    let mut hash = Sha256::new();
    if let Err(error) = copy.rewind().and_then(|()| copy.set_len(0)) {
        return Ok(Err(error));
    }
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        hash.update(&piece);
        if let Err(error) = copy.write_all(&piece) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(hex::encode(hash.finalize())))
}

async fn check(place: &Workplace, shim: Shim, order: ValidationOrder) -> ValidationReport {
    let go = Go {
        argv: order.validation.argv,
        env: place.validation_env(),
        folder: place.tool_path(),
        limits: order.validation.limits,
    };
    let done = shim.run(&go).await;
    ValidationReport { ended: done.ended, output: done.output }
}
