//! The server's own certificate: made on first start, by a certificate authority that signs nothing else.
//!
//! Clients pin that authority. Its key is thrown away at once, so that no other certificate can ever be signed by it.

use crate::client::grpc::SERVER_NAME;
use crate::files::{read_private, write_private};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Certificate and key of the server, with the authority to pin. Kept as JSON in a file with mode 0600.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerIdentity {
    /// What clients pin, PEM.
    pub ca_pem: String,
    /// The server's certificate, PEM.
    pub certificate_pem: String,
    /// The server's key, PEM.
    pub key_pem: String,
}

impl std::fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerIdentity")
    }
}

/// The identity cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: the server's TLS identity: {message}")]
pub struct TlsError {
    /// Its file.
    pub path: String,
    /// What happened.
    pub message: String,
}

impl ServerIdentity {
    /// Reads the identity, or makes it if the file is not there.
    pub fn open(path: &Path) -> Result<Self, TlsError> {
        let error =
            |error: &dyn std::fmt::Display| TlsError { path: path.display().to_string(), message: error.to_string() };
        match read_private(path).map_err(|cause| error(&cause))? {
            Some(content) => serde_json::from_slice(&content).map_err(|cause| error(&cause)),
            None => {
                let identity = Self::make().map_err(|cause| error(&cause))?;
                let content = serde_json::to_vec(&identity).map_err(|cause| error(&cause))?;
                write_private(path, &content).map_err(|cause| error(&cause))?;
                Ok(identity)
            }
        }
    }

    fn make() -> Result<Self, rcgen::Error> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        ca.distinguished_name.push(DnType::CommonName, "m87 authority CA");
        let ca_key = KeyPair::generate()?;
        let ca_pem = ca.self_signed(&ca_key)?.pem();

        let mut server = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.distinguished_name.push(DnType::CommonName, "m87 authority");
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
        Ok(Self { ca_pem, certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn the_identity_is_made_once_and_kept_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.json");
        let made = ServerIdentity::open(&path).unwrap();
        assert_eq!(ServerIdentity::open(&path).unwrap(), made);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(made.certificate_pem.contains("BEGIN CERTIFICATE"));
    }
}
