//! How lanes, `exec` and the validating process ask the authority: one trait, over gRPC or within one process.
//!
//! Every call is safe to repeat. `Unavailable` means "ask again"; `Refused` is a definite no.

mod credentials;
pub(crate) mod grpc;
mod in_process;
mod reach;

pub use credentials::{Credentials, CredentialsError};
pub use grpc::{GrpcClient, SERVER_NAME};
pub use in_process::InProcess;
pub use reach::{Address, CaSource, Reach, TokenSource};

use crate::proto::{
    BriefReply, ContractReply, ExecuteReply, Job, PutArtifactReply, RecordReply, RecordRequest, RedeemReply,
    RedeemRequest, ReportRequest, ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

/// What the authority answers; see `proto/authority.proto` for what each call means.
///
/// Who calls is known from the implementation's own credentials, never from an argument.
#[async_trait]
pub trait AuthorityClient: Send + Sync {
    /// What a lane may know for its job.
    async fn brief(&self, job: Job) -> Result<BriefReply, AuthorityError>;
    /// Evidence of one lane for one job type, write-once; answered with what is stored.
    async fn record(&self, request: RecordRequest) -> Result<RecordReply, AuthorityError>;
    /// Asks for the run's contract.
    async fn contract(&self, job: Job) -> Result<ContractReply, AuthorityError>;
    /// Makes sure that the tool was started, and waits for its report.
    async fn execute(&self, request: WaitRequest) -> Result<ExecuteReply, AuthorityError>;
    /// Makes sure that the validating process was started, and waits for its report.
    async fn verify(&self, request: WaitRequest) -> Result<VerifyReply, AuthorityError>;
    /// Redeems the contract of the caller's attempt: "go", at most once.
    async fn redeem(&self, request: RedeemRequest) -> Result<RedeemReply, AuthorityError>;
    /// Stores the artifact. Should the stream end early, what is stored has not the declared hash, and is refused by it.
    async fn put_artifact(
        &self,
        contract_id: String,
        nonce: String,
        data: BoxStream<'static, Bytes>,
    ) -> Result<PutArtifactReply, AuthorityError>;
    /// Reports what became of the tool, write-once.
    async fn report(&self, request: ReportRequest) -> Result<(), AuthorityError>;
    /// Reads the artifact as it is stored. For the validating process, `job` is left at its default.
    async fn get_artifact(&self, job: Job)
    -> Result<BoxStream<'static, Result<Bytes, AuthorityError>>, AuthorityError>;
    /// What the validating process has to do.
    async fn validation_order(&self) -> Result<ValidationOrderReply, AuthorityError>;
    /// Reports on the validation, write-once.
    async fn report_validation(&self, request: ReportValidationRequest) -> Result<(), AuthorityError>;
}

/// Why a call has no answer, by what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// Nobody knows: ask again, with back-off.
    #[error("the authority gave no answer: {0}")]
    Unavailable(String),
    /// A definite no.
    #[error("the authority refuses ({reason}): {message}")]
    Refused {
        /// Why, for programs.
        reason: Denial,
        /// Why, for people.
        message: String,
    },
}

impl AuthorityError {
    /// A definite no.
    pub fn refused(reason: Denial, message: impl Into<String>) -> Self {
        Self::Refused { reason, message: message.into() }
    }
}

macro_rules! denials {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why the authority refuses a call: a closed set.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Denial { $($(#[$doc])* $name,)* }

        impl Denial {
            /// Every denial.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name, as sent beside the status of gRPC.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

denials! {
    /// No token, or one that nobody knows.
    Unauthenticated,
    /// The caller is known and this is not theirs to ask.
    NotYours,
    /// No run is bound to that instance, contract or attempt.
    UnknownRun,
    /// The request does not say what it must.
    Malformed,
    /// The run has ended; its receipt stands.
    Sealed,
    /// The run is not where this could happen.
    OutOfOrder,
    /// Not the process instance that the run is bound to.
    OtherInstance,
    /// The contract was redeemed by another process.
    AlreadyDispatched,
    /// The contract is void: another attempt holds, or the time to start is over.
    ContractVoid,
    /// What is pinned is no longer what the references say.
    Drifted,
    /// The store is older than its high-water mark.
    StoreRestored,
    /// Not enough room on the disk.
    HeadroomExhausted,
    /// Larger than the budget allows.
    TooLarge,
    /// There is no artifact.
    NoArtifact,
    /// The job was handed out three times without a result.
    JobAbandoned,
}

impl Denial {
    /// The denial of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|denial| denial.name() == name)
    }
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
