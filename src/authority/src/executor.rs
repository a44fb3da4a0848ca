//! Where attempts run: a trait, so that a cluster's pods and a local child process are the same to the authority.

use crate::client::Credentials;
use async_trait::async_trait;
use m87_core::dossier::Named;
use m87_core::evidence::ValidationReport;
use m87_core::tool::CommandLimits;
use serde::{Deserialize, Serialize};

/// Starts and watches the processes that may redeem a contract or validate an artifact.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Starts the process of an attempt. It runs `m87 exec` (or the validating process) with the order's credentials,
    /// and must outlive the authority. Called at most once for each attempt, after the attempt is durable.
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError>;

    /// Whether that process still lives. An error means that nobody knows.
    async fn alive(&self, handle: &Handle) -> Result<bool, ExecutorError>;

    /// Whether what was started is still exactly what [`Executor::start`] made; asked, uncached, before a redemption is
    /// answered. `Ok(Err(why))` refuses the contract for good.
    async fn as_made(&self, handle: &Handle) -> Result<Result<(), String>, ExecutorError>;

    /// How a validating process ended, where the executor sees that itself; `None` while it runs, and always where the
    /// process reports under its own token.
    async fn verdict(&self, handle: &Handle) -> Result<Option<ValidationReport>, ExecutorError>;

    /// Ends what an attempt started and clears up after it. Only called for attempts that are void or over; safe to
    /// repeat, and no error if nothing is left.
    async fn discard(&self, handle: &Handle) -> Result<(), ExecutorError>;

    /// The same for an attempt whose start was not answered, or not heard of: what it may have made is found by its name.
    async fn discard_unheard(&self, attempt: &AttemptName) -> Result<(), ExecutorError>;
}

/// What an attempt's process or pod is named by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptName {
    /// The tenant in whose namespace it runs.
    pub namespace: Named,
    /// The run's uid.
    pub run_uid: String,
    /// What it does.
    pub kind: AttemptKind,
    /// Which one of its kind, from 1.
    pub attempt: u32,
}

/// One attempt to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOrder {
    /// The tenant in whose namespace the attempt runs.
    pub namespace: Named,
    /// The run's name.
    pub run_name: String,
    /// The run's uid.
    pub run_uid: String,
    /// The contract under which the attempt runs.
    pub contract_id: String,
    /// Which attempt of its kind, from 1; with the run's uid and the kind it names the process or pod.
    pub attempt: u32,
    /// What the process does.
    pub kind: AttemptKind,
    /// The process's own way to the authority.
    pub credentials: Credentials,
    /// The tool's image, where tools run in images; `None` for the platform's own.
    pub image: Option<String>,
    /// What the command in it may use at most.
    pub limits: CommandLimits,
}

impl AttemptOrder {
    /// What its process or pod is named by.
    pub fn name(&self) -> AttemptName {
        let Self { namespace, run_uid, kind, attempt, .. } = self;
        AttemptName { namespace: namespace.clone(), run_uid: run_uid.clone(), kind: *kind, attempt: *attempt }
    }
}

/// What the process of an attempt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttemptKind {
    /// Redeems the contract and runs the tool.
    Tool,
    /// Validates the artifact.
    Validation,
}

impl AttemptKind {
    /// The name as used in names of processes, folders and rows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Validation => "validation",
        }
    }
}

/// What the executor needs to find a process again, also after a restart; its own business (a pid with its start time,
/// a pod's uid).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle(pub String);

/// The executor could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExecutorError(pub String);
