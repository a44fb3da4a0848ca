//! Why a command was not carried out, in the words that Zeebe's clients read.

use std::fmt;

/// The class of a rejection; decides the gRPC status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectionKind {
    /// The command can never be carried out as it is written.
    InvalidArgument,
    /// What the command names does not exist (any more).
    NotFound,
    /// What the command would create exists.
    AlreadyExists,
    /// What the command names exists, in a state that forbids it.
    InvalidState,
    /// The engine refused to trust its own step; nothing was changed.
    ProcessingError,
    /// Too much is waiting; try again later.
    ResourceExhausted,
    /// The journal cannot be written, or the engine is stopping; nothing was acknowledged; try again later.
    Unavailable,
}

impl RejectionKind {
    /// The name in Zeebe's protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::InvalidState => "INVALID_STATE",
            Self::ProcessingError => "PROCESSING_ERROR",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// What a command meant to do, as a rejection names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Deploy resources, or create a process instance.
    Create,
    /// Activate jobs.
    Activate,
    /// Complete a job.
    Complete,
    /// Fail a job.
    Fail,
    /// Throw an error for a job.
    ThrowError,
    /// Give a job retries.
    UpdateRetries,
    /// Give a job another deadline.
    UpdateTimeout,
    /// Cancel a process instance.
    Cancel,
    /// Set variables.
    Update,
    /// Resolve an incident.
    Resolve,
}

impl Intent {
    /// The name in Zeebe's protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Activate => "ACTIVATE",
            Self::Complete => "COMPLETE",
            Self::Fail => "FAIL",
            Self::ThrowError => "THROW_ERROR",
            Self::UpdateRetries => "UPDATE_RETRIES",
            Self::UpdateTimeout => "UPDATE_TIMEOUT",
            Self::Cancel => "CANCEL",
            Self::Update => "UPDATE",
            Self::Resolve => "RESOLVE",
        }
    }
}

/// A refused command. Displays as the message that goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// The class.
    pub kind: RejectionKind,
    /// What was meant; `None` if the request was refused before it became a command.
    pub intent: Option<Intent>,
    /// What was wrong.
    pub reason: String,
}

impl Rejection {
    /// A command that was refused.
    pub fn new(kind: RejectionKind, intent: Intent, reason: impl Into<String>) -> Self {
        Self { kind, intent: Some(intent), reason: reason.into() }
    }

    /// A request that did not become a command.
    pub fn request(kind: RejectionKind, reason: impl Into<String>) -> Self {
        Self { kind, intent: None, reason: reason.into() }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.intent {
            Some(intent) => {
                write!(f, "Command '{}' rejected with code '{}': {}", intent.name(), self.kind.name(), self.reason)
            }
            None => f.write_str(&self.reason),
        }
    }
}
