//! What a call came to, classed by what the caller does next.

use tonic::{Code, Status};

/// Why a call brought no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No definite answer: the engine is not reachable, too busy, or did not answer in time. The call may or may not
    /// have taken effect; wait, and ask again.
    #[error("the engine gave no answer ({status:?}): {message}")]
    Unavailable {
        /// As it came over the wire.
        status: Code,
        /// The engine's or the transport's words.
        message: String,
    },
    /// What the call is about does not exist, or no longer.
    #[error("the engine does not have it: {0}")]
    NotFound(String),
    /// A definite no.
    #[error("the engine refused ({status:?}): {message}")]
    Refused {
        /// As it came over the wire.
        status: Code,
        /// The engine's words.
        message: String,
    },
    /// The engine's answer is not what the protocol promises.
    #[error("the engine answered outside its protocol: {0}")]
    Malformed(String),
}

impl Error {
    /// True if asking again, later, may bring an answer.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// True if the no is to who asks, whatever the question: no token, one that is not known, or not theirs to ask.
    pub const fn is_about_the_caller(&self) -> bool {
        matches!(self, Self::Refused { status: Code::Unauthenticated | Code::PermissionDenied, .. })
    }

    /// True if the gateway does not have this call.
    pub const fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Refused { status: Code::Unimplemented, .. })
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let (code, message) = (status.code(), status.message().to_owned());
        match code {
            Code::NotFound => Self::NotFound(message),
            Code::InvalidArgument
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated => Self::Refused { status: code, message },
            // Not a no: the transport broke, time ran out, or the engine is overloaded.
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => Self::Unavailable { status: code, message },
        }
    }
}

/// For calls that end something (complete, cancel, resolve): when repeated, "not found" means that it is done.
///
/// # Errors
/// Every other error, unchanged.
pub fn absent_is_done(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::NotFound(_)) => Ok(()),
        other => other,
    }
}

/// For calls that make something: when repeated, "already exists" means that it is done.
///
/// # Errors
/// Every other error, unchanged.
pub fn exists_is_done(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Refused { status: Code::AlreadyExists, .. }) => Ok(()),
        other => other,
    }
}
