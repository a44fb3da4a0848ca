//! The way to the authority: where it is, whom to believe there, and as whom to speak.
//!
//! Locally an address file and one certificate name of our own; on a cluster a Service's name, which the certificate has to
//! carry, and a projected token. Whatever is a file is read anew whenever it is needed: addresses, tokens and certificate
//! authorities change while a client lives.

use super::credentials::{Credentials, CredentialsError, malformed};
use super::grpc::SERVER_NAME;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No address is longer.
const MAX_ADDRESS: u64 = 1024;
/// No token is longer.
const MAX_TOKEN: u64 = 64 * 1024;
/// No bundle of certificates is longer.
const MAX_CA: u64 = 1024 * 1024;

/// A way to the authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Where it listens.
    pub address: Address,
    /// The certificate authority that signed its certificate; no other is believed.
    pub ca: CaSource,
    /// As whom to speak.
    pub token: TokenSource,
}

/// Where the authority listens, and by which name its certificate is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A file with `host:port` on its first line; the certificate carries m87's own name, whatever the address.
    File(PathBuf),
    /// `host:port`; the certificate has to carry that host.
    Fixed(String),
}

/// The certificate authority to believe, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaSource {
    /// These certificates.
    Pem(String),
    /// The certificates in this file.
    File(PathBuf),
}

/// The bearer token.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// This token.
    Inline(String),
    /// The token in this file, which is replaced from time to time.
    File(PathBuf),
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Reach {
    /// The authority's address, as `host:port`, read now.
    pub fn address(&self) -> Result<String, CredentialsError> {
        match &self.address {
            Address::Fixed(address) => Ok(address.clone()),
            Address::File(path) => {
                let text = read(path, MAX_ADDRESS)?;
                match text.lines().next().map(str::trim) {
                    Some(address) if !address.is_empty() => Ok(address.to_owned()),
                    Some(_) | None => Err(malformed(path, "the first line must be host:port")),
                }
            }
        }
    }

    /// The name that the certificate has to carry, where that is not the address's host.
    pub(super) const fn server_name(&self) -> Option<&'static str> {
        match self.address {
            Address::File(_) => Some(SERVER_NAME),
            Address::Fixed(_) => None,
        }
    }

    /// The certificates to believe, read now.
    pub fn ca_pem(&self) -> Result<String, CredentialsError> {
        match &self.ca {
            CaSource::Pem(pem) => Ok(pem.clone()),
            CaSource::File(path) => read(path, MAX_CA),
        }
    }

    /// The token, read now.
    pub fn token(&self) -> Result<String, CredentialsError> {
        match &self.token {
            TokenSource::Inline(token) => Ok(token.clone()),
            TokenSource::File(path) => match read(path, MAX_TOKEN)?.trim() {
                "" => Err(malformed(path, "the token is empty")),
                token => Ok(token.to_owned()),
            },
        }
    }
}

impl From<Credentials> for Reach {
    fn from(Credentials { address_file, ca_pem, token }: Credentials) -> Self {
        Self { address: Address::File(address_file), ca: CaSource::Pem(ca_pem), token: TokenSource::Inline(token) }
    }
}

fn read(path: &Path, limit: u64) -> Result<String, CredentialsError> {
    let io = |source| CredentialsError::Io { path: path.to_owned(), source };
    let mut text = String::new();
    let count = File::open(path).map_err(io)?.take(limit + 1).read_to_string(&mut text).map_err(io)?;
    if count as u64 > limit { Err(malformed(path, format!("longer than {limit} bytes"))) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn what_is_a_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let it = Reach {
            address: Address::File(file("address")),
            ca: CaSource::File(file("ca")),
            token: TokenSource::File(file("token")),
        };
        assert!(it.address().is_err() && it.ca_pem().is_err() && it.token().is_err());
        for round in ["one", "two"] {
            for name in ["address", "ca", "token"] {
                std::fs::write(file(name), format!("{round}\n")).unwrap();
            }
            assert_eq!((it.address().unwrap(), it.token().unwrap()), (round.to_owned(), round.to_owned()));
            assert_eq!(it.ca_pem().unwrap(), format!("{round}\n"));
        }
    }

    #[test]
    fn an_empty_or_endless_file_is_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for content in [String::new(), " \n".to_owned(), "x".repeat(70_000)] {
            std::fs::write(&path, content).unwrap();
            let token = TokenSource::File(path.clone());
            let it = Reach { address: Address::Fixed("a:1".to_owned()), ca: CaSource::Pem(String::new()), token };
            assert!(it.token().is_err());
        }
    }

    #[test]
    fn a_service_is_believed_by_its_own_name_and_a_local_authority_by_ours() {
        let of =
            |address| Reach { address, ca: CaSource::Pem(String::new()), token: TokenSource::Inline(String::new()) };
        assert_eq!(of(Address::Fixed("m87.m87-system.svc:8443".to_owned())).server_name(), None);
        assert_eq!(of(Address::File(PathBuf::new())).server_name(), Some(SERVER_NAME));
    }

    #[test]
    fn no_secret_leaks_into_debug_output() {
        assert!(!format!("{:?}", TokenSource::Inline("secret".to_owned())).contains("secret"));
    }
}
