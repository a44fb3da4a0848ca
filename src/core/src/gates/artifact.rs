//! Gate 4: is the artifact there, is it the one that the tool made, and was it found good by someone else than the tool?

use super::{Check, Clauses, Gate, no, yes};
use crate::evidence::{DeclaredArtifact, Ended, Evidence, Execution};
use crate::json::is_sha256_hex;
use crate::reason::Reason;

/// All REJECT_VERIFY clauses.
pub fn judge(evidence: &Evidence) -> Clauses {
    let artifact = match &evidence.execution {
        Some(Execution { report: Some(report), .. }) => report.artifact.as_ref(),
        Some(Execution { report: None, .. }) | None => None,
    };
    let declared = artifact.and_then(|artifact| artifact.sha256.as_deref()).filter(|sha256| is_sha256_hex(sha256));
    let (validation_reason, validation) = validation(evidence);
    Clauses::of(Gate::ArtifactVerified)
        .require("there is an artifact", Reason::ArtifactMissing, present(artifact))
        .require("it was declared with its hash", Reason::HashMissing, has_hash(declared))
        .require("the stored artifact has that hash", Reason::HashMismatch, same_hash(declared, evidence))
        .require("the validation passed", validation_reason, validation)
}

fn present(artifact: Option<&DeclaredArtifact>) -> Check {
    match artifact {
        Some(_) => yes("a regular file"),
        None => no(
            "the tool left none, or something that is not a regular file",
            "a regular file of the declared name in $M87_OUTPUT",
        ),
    }
}

fn has_hash(declared: Option<&str>) -> Check {
    match declared {
        Some(_) => yes("it was"),
        None => no("no SHA-256 was declared", "an artifact that is hashed while it is copied"),
    }
}

fn same_hash(declared: Option<&str>, evidence: &Evidence) -> Check {
    let recomputed = evidence.verified.as_ref().and_then(|verified| verified.recomputed.as_deref());
    match (declared, recomputed) {
        (Some(declared), Some(recomputed)) if declared == recomputed => yes("recomputed by Governance"),
        (_, Some(_)) => no("Governance computed another hash from the store", "the artifact as the tool left it"),
        (_, None) => no(
            "Governance had nothing to compute a hash from",
            "a stored artifact, and Governance's record of its hash",
        ),
    }
}

fn validation(evidence: &Evidence) -> (Reason, Check) {
    let report = evidence.verified.as_ref().and_then(|verified| verified.validation.as_ref());
    let found = match report.map(|report| &report.ended) {
        Some(Ended::Exited(0)) => return (Reason::ValidationFailed, yes("exit code 0")),
        None => {
            return (Reason::ValidationMissing, no("nobody reported on it", "a validation that ends with exit code 0"));
        }
        Some(Ended::Exited(code)) => format!("exit code {code}"),
        Some(Ended::Signalled(signal)) => format!("ended by signal {signal}"),
        Some(Ended::Limit(_)) => "killed at a limit".to_owned(),
        Some(Ended::NotStarted(why)) => format!("it could not be started: {why}"),
    };
    (Reason::ValidationFailed, no(found, "a validation that ends with exit code 0"))
}
