//! A validation attempt: fetch the artifact as it is stored, run the check on that copy, report.
//!
//! In a pod the fetching ends here: another container, without a token, does the check.

use super::persist::persist;
use super::{Attempt, ExecError, ORDER_PATIENCE};
use crate::sandbox::folder;
use crate::shim::link::{Go, Task};
use crate::shim::{ARTIFACT, ORDER, write_report};
use futures::StreamExt;
use m87_authority::proto::{Job, ReportValidationRequest};
use m87_authority::{AuthorityClient, AuthorityError};
use m87_core::contract::ValidationOrder;
use m87_core::evidence::{Ended, ValidationReport};
use m87_core::json::{read_document, to_canonical};
use sha2::{Digest, Sha256};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

pub(super) async fn run(attempt: &Attempt<'_>) -> Result<(), ExecError> {
    let shim = attempt.shim().await?;
    let patience = Instant::now() + ORDER_PATIENCE;
    let authority = &*attempt.authority;
    let order = order(authority, patience).await?;
    let limit = order.as_ref().map_or(0, |(order, _)| order.validation.limits.seconds);
    let artifact = attempt.work.join(ARTIFACT);
    let ready = match order {
        Ok((order, _)) => fetch(authority, &artifact, &order, patience).await?.map(|()| order),
        Err(why) => Err(why),
    };
    attempt.forget_credentials();
    let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
    let until = Instant::now() + limit + attempt.args.report_grace;
    let report = match ready {
        Ok(ValidationOrder { validation, input, .. }) => {
            let task = Task::Check { artifact };
            let go = Go { argv: validation.argv, input, task, limits: validation.limits };
            let done = shim.run(&go).await.done;
            ValidationReport { ended: done.ended, output: done.output }
        }
        Err(why) => ValidationReport { ended: Ended::NotStarted(why), output: String::new() },
    };
    let json = to_canonical(&report)
        .map_err(|error| ExecError::System { what: "the report".to_owned(), source: std::io::Error::other(error) })?;
    let request = ReportValidationRequest { json };
    let tell = || authority.report_validation(request.clone());
    persist(until, tell).await.map_err(ExecError::authority("the report was not heard"))
}

/// Where the fetching container puts what the checking one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchArgs {
    /// The folder for order and artifact; it exists and is empty.
    pub folder: PathBuf,
    /// Where to say why there is nothing to check, if that is certain.
    pub report: PathBuf,
}

/// Whether there is something to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// Order and artifact are there.
    Ready,
    /// The authority's answer can never be checked; the report says why.
    Nothing,
}

/// Fetches order and artifact for a check by another container. An error means that nobody knows: it may be tried again.
pub async fn fetch_for_check(args: &FetchArgs, authority: &dyn AuthorityClient) -> Result<Fetched, ExecError> {
    let patience = Instant::now() + ORDER_PATIENCE;
    let fetched = match order(authority, patience).await? {
        Ok((order, text)) => {
            let path = args.folder.join(ORDER);
            write_for_all(&path, text.as_bytes()).map_err(ExecError::system(path.display().to_string()))?;
            let artifact = args.folder.join(ARTIFACT);
            let fetched = fetch(authority, &artifact, &order, patience).await?;
            share(&artifact).map_err(ExecError::system(artifact.display().to_string()))?;
            fetched
        }
        Err(why) => Err(why),
    };
    let Err(why) = fetched else { return Ok(Fetched::Ready) };
    let report = ValidationReport { ended: Ended::NotStarted(why), output: String::new() };
    write_report(&args.report, &report)
        .map_err(|error| ExecError::System { what: "the report".to_owned(), source: std::io::Error::other(error) })?;
    Ok(Fetched::Nothing)
}

/// The checking container is another user, and its folder is read-only to it.
fn share(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o444)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn write_for_all(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    folder::write_read_only(path, bytes)?;
    share(path)
}

/// The order, with its text; the inner error is why it cannot be followed.
async fn order(
    authority: &dyn AuthorityClient,
    until: Instant,
) -> Result<Result<(ValidationOrder, String), String>, ExecError> {
    let reply = persist(until, || authority.validation_order()).await;
    let text = reply.map_err(ExecError::authority("there is nothing to validate"))?.order;
    let order = read_document(text.as_bytes()).map_err(|error| format!("the authority's validation order {error}"));
    Ok(order.map(|order| (order, text)))
}

/// Makes the read-only copy; the inner error is why there is nothing to check.
async fn fetch(
    authority: &dyn AuthorityClient,
    path: &Path,
    order: &ValidationOrder,
    until: Instant,
) -> Result<Result<(), String>, ExecError> {
    let copy = match folder::create_read_only(path) {
        Ok(copy) => copy,
        Err(error) => return Ok(Err(format!("the artifact cannot be copied: {error}"))),
    };
    match persist(until, || download(authority, &copy)).await {
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
async fn download(
    authority: &dyn AuthorityClient,
    mut copy: &std::fs::File,
) -> Result<std::io::Result<String>, AuthorityError> {
    let mut pieces = authority.get_artifact(Job::default()).await?;
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
