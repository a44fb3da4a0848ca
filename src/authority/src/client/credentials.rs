//! What a process needs to reach the authority as itself: one file, readable by its owner only.

use crate::files::{read_private, write_private};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A way to the authority and a name there. Kept as JSON in a file with mode 0600.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// A file with `host:port` on its first line, read anew at each connection: the authority may come back elsewhere.
    pub address_file: PathBuf,
    /// The certificate authority that signed the server's certificate, PEM; no other is believed.
    pub ca_pem: String,
    /// The bearer token.
    pub token: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("address_file", &self.address_file).finish_non_exhaustive()
    }
}

/// The file of credentials, or the address that it names, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what m87 writes.
    #[error("{path}: not a file of credentials: {message}", path = path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

pub(super) fn malformed(path: &Path, error: impl std::fmt::Display) -> CredentialsError {
    CredentialsError::Malformed { path: path.to_owned(), message: error.to_string() }
}

impl Credentials {
    /// Reads a file of credentials; refuses one that others may read.
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        Self::read_if_there(path)?
            .ok_or_else(|| CredentialsError::Io { path: path.to_owned(), source: std::io::ErrorKind::NotFound.into() })
    }

    /// Reads a file of credentials; `None` if there is no such file.
    pub fn read_if_there(path: &Path) -> Result<Option<Self>, CredentialsError> {
        let content = read_private(path).map_err(|source| CredentialsError::Io { path: path.to_owned(), source })?;
        content.map(|content| serde_json::from_slice(&content).map_err(|error| malformed(path, error))).transpose()
    }

    /// Writes them with mode 0600, in place of what is there.
    pub fn write(&self, path: &Path) -> Result<(), CredentialsError> {
        let text = serde_json::to_vec(self).map_err(|error| malformed(path, error))?;
        write_private(path, &text).map_err(|source| CredentialsError::Io { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn credentials(folder: &Path) -> Credentials {
        Credentials { address_file: folder.join("address"), ca_pem: "PEM".to_owned(), token: "secret".to_owned() }
    }

    #[test]
    fn credentials_survive_a_file_that_only_the_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let (path, written) = (folder.path().join("runner.json"), credentials(folder.path()));
        written.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Credentials::read(&path).unwrap(), written);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Credentials::read(&path), Err(CredentialsError::Io { .. })));
    }

    #[test]
    fn no_secret_leaks_into_debug_output() {
        assert!(!format!("{:?}", credentials(Path::new("/x"))).contains("secret"));
    }
}
