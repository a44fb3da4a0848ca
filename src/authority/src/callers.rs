//! Who calls: from a bearer token to a principal.
//!
//! Tokens are 32 random bytes; the authority keeps only their SHA-256. Lanes have one token each, attempts one each in the
//! store.

use crate::client::{AuthorityError, Credentials, CredentialsError};
use crate::entropy::{Entropy, NoEntropy};
use async_trait::async_trait;
use m87_core::lane::Lane;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Who calls the authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A lane: the jobs of its own types.
    Lane(Lane),
    /// The process of an attempt to run the tool: its own contract only.
    Exec {
        /// The run.
        run_uid: String,
        /// The attempt.
        attempt: u32,
    },
    /// The process of an attempt to validate: its own artifact only.
    Validator {
        /// The run.
        run_uid: String,
        /// The attempt.
        attempt: u32,
    },
    /// The operator itself.
    Operator,
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lane(lane) => write!(f, "lane {}", lane.name()),
            Self::Exec { run_uid, attempt } => write!(f, "exec {attempt} of run {run_uid}"),
            Self::Validator { run_uid, attempt } => write!(f, "validator {attempt} of run {run_uid}"),
            Self::Operator => f.write_str("operator"),
        }
    }
}

/// Whose token it is, for callers other than attempts: lanes' credentials locally, TokenReview on a cluster.
#[async_trait]
pub trait Callers: Send + Sync {
    /// The principal with that token; `None` if nobody has it. An error means that nobody could say now: ask again.
    async fn principal(&self, token: &str) -> Result<Option<Principal>, AuthorityError>;
}

/// What the authority keeps of a token.
pub fn token_sha256(token: &str) -> String {
    hex::encode(Sha256::digest(token))
}

/// Compares without telling by the time it takes how much was right.
fn same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |differing, (one, other)| differing | (one ^ other));
    one.len() == other.len() && differing == 0
}

/// Lanes whose credentials are files in one folder, `<lane>.json`, made on first start.
#[derive(Debug, Clone)]
pub struct LaneCredentials {
    hashes: Vec<(Lane, String)>,
}

impl LaneCredentials {
    /// Reads each lane's credentials, or makes them.
    pub fn open(
        folder: &Path,
        ca_pem: &str,
        address_file: PathBuf,
        entropy: &dyn Entropy,
    ) -> Result<Self, CallersError> {
        let hashes = Lane::ALL.into_iter().map(|lane| {
            let path = Self::file(folder, lane);
            let credentials = match Credentials::read_if_there(&path)? {
                Some(found) if found.ca_pem == ca_pem && found.address_file == address_file => found,
                Some(_) | None => {
                    let made = Credentials {
                        address_file: address_file.clone(),
                        ca_pem: ca_pem.to_owned(),
                        token: entropy.secret()?,
                    };
                    made.write(&path)?;
                    made
                }
            };
            Ok((lane, token_sha256(&credentials.token)))
        });
        Ok(Self { hashes: hashes.collect::<Result<_, CallersError>>()? })
    }

    /// The file of a lane's credentials.
    pub fn file(folder: &Path, lane: Lane) -> PathBuf {
        folder.join(format!("{}.json", lane.name()))
    }
}

/// Lanes' credentials cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum CallersError {
    /// A file.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] NoEntropy),
}

#[async_trait]
impl Callers for LaneCredentials {
    async fn principal(&self, token: &str) -> Result<Option<Principal>, AuthorityError> {
        let hash = token_sha256(token);
        // Every hash is compared, whichever is found.
        let found = self.hashes.iter().fold(None, |found, (lane, known)| same(known, &hash).then_some(*lane).or(found));
        Ok(found.map(Principal::Lane))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::entropy::SystemEntropy;

    #[tokio::test]
    async fn each_lane_has_a_token_of_its_own_that_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || LaneCredentials::open(folder.path(), "CA", folder.path().join("address"), &SystemEntropy).unwrap();
        let (first, second) = (open(), open());
        for lane in Lane::ALL {
            let token = Credentials::read(&LaneCredentials::file(folder.path(), lane)).unwrap().token;
            assert_eq!(first.principal(&token).await.unwrap(), Some(Principal::Lane(lane)));
            assert_eq!(second.principal(&token).await.unwrap(), Some(Principal::Lane(lane)));
            assert_eq!(second.principal(&token[1..]).await.unwrap(), None);
        }
        assert_eq!(second.principal("").await.unwrap(), None);
    }
}
