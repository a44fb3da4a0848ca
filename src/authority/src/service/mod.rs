//! What may be asked of the authority, each call for a principal. gRPC and the in-process client come in here alike.

mod exec;
mod held;
mod lanes;
mod server;
mod validation;

pub use server::{ServeError, serve, serve_by};

use crate::artifacts::{ArtifactError, Incoming, Outgoing};
use crate::authority::{Authority, unavailable};
use crate::callers::{Principal, token_sha256};
use crate::client::{AuthorityError, Denial};
use crate::executor::AttemptKind;
use crate::proto::{
    BriefReply, ContractReply, ExecuteReply, Job, PutArtifactReply, RecordReply, RecordRequest, RedeemReply,
    RedeemRequest, ReportRequest, ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest,
};
use crate::row::{Ending, Sealed};
use crate::store::{Loaded, TokenOwner};
use m87_core::json::{JsonError, to_canonical};
use m87_core::lane::JobType;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The authority's calls.
#[derive(Clone)]
pub struct Service {
    pub(crate) authority: Arc<Authority>,
}

/// The largest record or report.
const MAX_JSON: usize = 256 * 1024;

impl Service {
    /// The calls of this authority.
    pub const fn new(authority: Arc<Authority>) -> Self {
        Self { authority }
    }

    /// Ends a run, also if whoever asked hangs up meanwhile: then nobody would tell of the receipt.
    pub(crate) async fn end(&self, uid: &str, ending: Ending) -> Result<Sealed, AuthorityError> {
        let (authority, uid) = (self.authority.clone(), uid.to_owned());
        tokio::spawn(async move { authority.end(&uid, ending).await }).await.map_err(unavailable)?
    }

    /// The process that has that token, if it is an attempt's.
    pub async fn attempt(&self, token: &str) -> Result<Option<Principal>, AuthorityError> {
        let owner = self.authority.store.by_token(&token_sha256(token)).await.map_err(unavailable)?;
        Ok(owner.map(|TokenOwner { run_uid, kind, number: attempt }| match kind {
            AttemptKind::Tool => Principal::Exec { run_uid, attempt },
            AttemptKind::Validation => Principal::Validator { run_uid, attempt },
        }))
    }

    /// What a lane may know for its job.
    pub async fn brief(&self, who: &Principal, job: Job) -> Result<BriefReply, AuthorityError> {
        lanes::brief(self, who, &job).await
    }

    /// A lane's evidence.
    pub async fn record(&self, who: &Principal, request: RecordRequest) -> Result<RecordReply, AuthorityError> {
        let job = request.job.unwrap_or_default();
        lanes::record(self, who, &job, &request.json).await
    }

    /// Judges the run once more and issues its contract, or refuses it for good.
    pub async fn contract(&self, who: &Principal, job: Job) -> Result<ContractReply, AuthorityError> {
        lanes::contract(self, who, &job).await
    }

    /// Makes sure that the tool was started; waits for its report.
    pub async fn execute(&self, who: &Principal, request: WaitRequest) -> Result<ExecuteReply, AuthorityError> {
        exec::execute(self, who, &request).await
    }

    /// Makes sure that the validating process was started; waits for its report.
    pub async fn verify(&self, who: &Principal, request: WaitRequest) -> Result<VerifyReply, AuthorityError> {
        validation::verify(self, who, &request).await
    }

    /// Redeems a contract.
    pub async fn redeem(&self, who: &Principal, request: RedeemRequest) -> Result<RedeemReply, AuthorityError> {
        exec::redeem(self, who, &request).await
    }

    /// Stores the artifact of an attempt.
    pub async fn put_artifact(
        &self,
        who: &Principal,
        contract_id: &str,
        nonce: &str,
        data: Incoming,
    ) -> Result<PutArtifactReply, AuthorityError> {
        exec::put_artifact(self, who, contract_id, nonce, data).await
    }

    /// Takes `exec`'s report.
    pub async fn report(&self, who: &Principal, request: ReportRequest) -> Result<(), AuthorityError> {
        exec::report(self, who, &request).await
    }

    /// Reads the artifact of a run, for Governance and for the validating process.
    pub async fn get_artifact(&self, who: &Principal, job: &Job) -> Result<Outgoing, AuthorityError> {
        validation::get_artifact(self, who, job).await
    }

    /// What the validating process has to do.
    pub async fn validation_order(&self, who: &Principal) -> Result<ValidationOrderReply, AuthorityError> {
        validation::order(self, who).await
    }

    /// Takes the validating process's report.
    pub async fn report_validation(
        &self,
        who: &Principal,
        request: ReportValidationRequest,
    ) -> Result<(), AuthorityError> {
        validation::report(self, who, &request).await
    }

    /// The run that a lane's job belongs to: found by the job's instance alone, and only for the lane whose job it is.
    async fn run_of(&self, who: &Principal, job: &Job, types: &[JobType]) -> Result<(JobType, Loaded), AuthorityError> {
        let job_type = JobType::parse(&job.job_type).filter(|job_type| types.contains(job_type)).ok_or_else(|| {
            AuthorityError::refused(Denial::Malformed, format!("{:?} is no job for this call", job.job_type))
        })?;
        match who {
            Principal::Lane(lane) if job_type.lane() == Some(*lane) => {}
            Principal::Lane(_) | Principal::Exec { .. } | Principal::Validator { .. } | Principal::Operator => {
                return Err(not_yours(who, job_type.name()));
            }
        }
        let engine = self
            .authority
            .engine()
            .ok_or_else(|| AuthorityError::Unavailable("no engine has answered yet".to_owned()))?;
        let uid = self.authority.store.by_instance(&engine, job.instance_key).await.map_err(unavailable)?;
        let uid = uid.ok_or_else(|| {
            let message = format!("no run is bound to instance {} of engine {engine}", job.instance_key);
            AuthorityError::refused(Denial::UnknownRun, message)
        })?;
        Ok((job_type, self.authority.load(&uid).await?))
    }
}

fn not_yours(who: &Principal, what: &str) -> AuthorityError {
    AuthorityError::refused(Denial::NotYours, format!("{what} is not for {who}"))
}

fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, AuthorityError> {
    let malformed =
        |message: &dyn std::fmt::Display| AuthorityError::refused(Denial::Malformed, format!("{what}: {message}"));
    if text.len() > MAX_JSON {
        return Err(malformed(&format_args!("{} bytes, at most {MAX_JSON} are taken", text.len())));
    }
    serde_json::from_str(text).map_err(|error| malformed(&error))
}

fn write(value: &impl Serialize) -> Result<String, AuthorityError> {
    to_canonical(value).map_err(|error: JsonError| AuthorityError::refused(Denial::Malformed, error.to_string()))
}

impl From<ArtifactError> for AuthorityError {
    fn from(error: ArtifactError) -> Self {
        match &error {
            ArtifactError::TooLarge { .. } => Self::refused(Denial::TooLarge, error.to_string()),
            ArtifactError::Missing(_) => Self::refused(Denial::NoArtifact, error.to_string()),
            ArtifactError::BrokenOff(_) | ArtifactError::Store(_) | ArtifactError::Folder { .. } => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}
