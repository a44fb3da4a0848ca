//! What the run reconciler asks of the authority. The driver answers it; so does a book in memory, for whoever wants to see what
//! reconciling does without a store and an engine.

use async_trait::async_trait;
use m87_authority::client::AuthorityError;
use m87_authority::driver::{Driver, DriverError, Opened, RunRequest};
use m87_authority::row::{Ending, Run};
use m87_core::reason::Reason;

/// The authority's runs.
#[async_trait]
pub trait Book: Send + Sync {
    /// The run of that uid.
    async fn load(&self, uid: &str) -> Result<Option<Run>, BookError>;

    /// Where that run's receipt is in the log.
    async fn log_index(&self, uid: &str) -> Result<Option<u64>, BookError>;

    /// The run that has asked for the same effect before.
    async fn first(&self, request: &RunRequest) -> Result<Option<String>, BookError>;

    /// Opens a run, to go its way, or as one that is over for that reason.
    async fn open(&self, request: &RunRequest, ended: Option<Reason>) -> Result<Opened, BookError>;

    /// Ends a run, unless it has ended.
    async fn end(&self, uid: &str, reason: Reason) -> Result<(), BookError>;

    /// Runs without a receipt.
    async fn unsealed(&self) -> Result<Vec<String>, BookError>;
}

/// The authority did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// What is asked for can never be a run.
    #[error("{0}")]
    Unusable(String),
    /// Ask again.
    #[error("{0}")]
    Unavailable(String),
}

impl From<DriverError> for BookError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Proposal { .. } => Self::Unusable(error.to_string()),
            DriverError::References(_) | DriverError::Store(_) | DriverError::Authority(_) | DriverError::Stopped => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> BookError {
    BookError::Unavailable(error.to_string())
}

#[async_trait]
impl Book for Driver {
    async fn load(&self, uid: &str) -> Result<Option<Run>, BookError> {
        let loaded = self.authority().store().load(uid).await.map_err(unavailable)?;
        Ok(loaded.map(|loaded| loaded.run))
    }

    async fn log_index(&self, uid: &str) -> Result<Option<u64>, BookError> {
        self.authority().store().log_index(uid).await.map_err(unavailable)
    }

    async fn first(&self, request: &RunRequest) -> Result<Option<String>, BookError> {
        Ok(Driver::first(self, request).await?)
    }

    async fn open(&self, request: &RunRequest, ended: Option<Reason>) -> Result<Opened, BookError> {
        Ok(match ended {
            None => self.open_now(request).await?,
            Some(reason) => self.open_ended(request, reason).await?,
        })
    }

    async fn end(&self, uid: &str, reason: Reason) -> Result<(), BookError> {
        match self.authority().end(uid, Ending::Interrupted(reason)).await {
            Ok(_) => Ok(()),
            Err(error @ (AuthorityError::Unavailable(_) | AuthorityError::Refused { .. })) => Err(unavailable(error)),
        }
    }

    async fn unsealed(&self) -> Result<Vec<String>, BookError> {
        self.authority().store().unsealed().await.map_err(unavailable)
    }
}
