//! What a process needs to reach the authority as itself: one file, readable by its owner only.

use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
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
        f.debug_struct("Credentials")
            .field("address_file", &self.address_file)
            .finish_non_exhaustive()
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
    /// Others can read it.
    #[error("{path}: mode {mode:o} lets others read the token; run chmod 600", path = path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Files of credentials and addresses are small; what is larger is not one.
const MAX_BYTES: u64 = 64 * 1024;

impl Credentials {
    /// Reads a file of credentials; refuses one that others may read.
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        let io = |source| CredentialsError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(CredentialsError::Exposed {
                path: path.to_owned(),
                mode,
            });
        }
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(io)?;
        serde_json::from_str(&text).map_err(|error| CredentialsError::Malformed {
            path: path.to_owned(),
            message: error.to_string(),
        })
    }

    /// Writes them with mode 0600, in place of what is there.
    pub fn write(&self, path: &Path) -> Result<(), CredentialsError> {
        let io = |source| CredentialsError::Io {
            path: path.to_owned(),
            source,
        };
        let text = serde_json::to_string(self).map_err(|error| CredentialsError::Malformed {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        let temporary = path.with_extension("new");
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(io)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(io)?;
        std::fs::rename(&temporary, path).map_err(io)
    }

    /// The authority's address, as `host:port`, read now.
    pub fn address(&self) -> Result<String, CredentialsError> {
        let io = |source| CredentialsError::Io {
            path: self.address_file.clone(),
            source,
        };
        let mut text = String::new();
        File::open(&self.address_file)
            .map_err(io)?
            .take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(io)?;
        match text.lines().next().map(str::trim) {
            Some(address) if !address.is_empty() => Ok(address.to_owned()),
            Some(_) | None => Err(CredentialsError::Malformed {
                path: self.address_file.clone(),
                message: "the first line must be host:port".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )]
    use super::*;

    fn credentials(folder: &Path) -> Credentials {
        Credentials {
            address_file: folder.join("address"),
            ca_pem: "PEM".to_owned(),
            token: "secret".to_owned(),
        }
    }

    #[test]
    fn credentials_survive_a_file_that_only_the_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let (path, written) = (
            folder.path().join("runner.json"),
            credentials(folder.path()),
        );
        written.write(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(Credentials::read(&path).unwrap(), written);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            Credentials::read(&path),
            Err(CredentialsError::Exposed { mode: 0o644, .. })
        ));
    }

    #[test]
    fn the_address_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let it = credentials(folder.path());
        assert!(it.address().is_err());
        for address in ["127.0.0.1:1", "127.0.0.1:2"] {
            std::fs::write(&it.address_file, format!("{address}\n")).unwrap();
            assert_eq!(it.address().unwrap(), address);
        }
    }

    #[test]
    fn no_secret_leaks_into_debug_output() {
        assert!(!format!("{:?}", credentials(Path::new("/x"))).contains("secret"));
    }
}
