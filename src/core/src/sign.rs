//! Ed25519 keys, and DSSE, which signs a payload together with what it is.
//!
//! A key's name is the hex SHA-256 of its 32 public bytes. Keys are files: PKCS#8 for the private, SPKI for the public one.

use crate::json::sha256_hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes};
use ed25519_dalek::{Signature, Signer};
use serde::{Deserialize, Serialize};

/// Why a key or a signature is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The file is no Ed25519 key in PEM.
    #[error("this is no Ed25519 key in PEM (PKCS#8 \"PRIVATE KEY\" or \"PUBLIC KEY\"): {0}")]
    Key(String),
    /// The envelope is not written as it must be.
    #[error("the envelope is malformed: {0}")]
    Malformed(&'static str),
    /// It was signed by another key.
    #[error("it is signed by the key {found}, not by {expected}")]
    ForeignKey {
        /// The key that was expected.
        expected: String,
        /// The key that is named.
        found: String,
    },
    /// The signature does not belong to the payload and the key.
    #[error("the signature does not fit")]
    BadSignature,
}

/// A private key.
pub struct SigningKey(ed25519_dalek::SigningKey);

/// A public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.verifying_key().key_id())
    }
}

impl SigningKey {
    /// From 32 bytes of randomness, which the caller draws.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// From PKCS#8 in PEM.
    pub fn from_pem(pem: &str) -> Result<Self, SignError> {
        ed25519_dalek::SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|error| SignError::Key(error.to_string()))
    }

    /// As PKCS#8 in PEM, in the older form that every tool reads.
    pub fn to_pem(&self) -> Result<String, SignError> {
        let pair = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        pair.to_pkcs8_pem(LineEnding::LF).map(|pem| pem.to_string()).map_err(|error| SignError::Key(error.to_string()))
    }

    /// The public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    /// The key's name: hex SHA-256 of the public key.
    pub fn key_id(&self) -> String {
        self.verifying_key().key_id()
    }
}

impl VerifyingKey {
    /// From SPKI in PEM; a private key's file will do as well.
    pub fn from_pem(pem: &str) -> Result<Self, SignError> {
        if let Ok(private) = SigningKey::from_pem(pem) {
            return Ok(private.verifying_key());
        }
        let public = ed25519_dalek::VerifyingKey::from_public_key_pem(pem);
        public.map(Self).map_err(|error| SignError::Key(error.to_string()))
    }

    /// As SPKI in PEM.
    pub fn to_pem(&self) -> Result<String, SignError> {
        self.0.to_public_key_pem(LineEnding::LF).map_err(|error| SignError::Key(error.to_string()))
    }

    /// From the hex of the 32 public bytes.
    pub fn from_hex(text: &str) -> Result<Self, SignError> {
        let bad = || SignError::Key("64 hex digits are expected".to_owned());
        let bytes: [u8; 32] = hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(bad)?;
        ed25519_dalek::VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| bad())
    }

    /// The hex of the 32 public bytes.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0.as_bytes())
    }

    /// The key's name: hex SHA-256 of the public key.
    pub fn key_id(&self) -> String {
        sha256_hex(self.0.as_bytes())
    }
}

/// A DSSE envelope with one signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    /// The payload, in base64.
    pub payload: String,
    /// What the payload is.
    pub payload_type: String,
    /// Exactly one.
    pub signatures: Vec<EnvelopeSignature>,
}

/// Who signed, and the signature in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvelopeSignature {
    /// The key's name.
    pub keyid: String,
    /// The signature.
    pub sig: String,
}

impl Envelope {
    /// Signs a payload and its type.
    pub fn seal(payload_type: &str, payload: &[u8], key: &SigningKey) -> Self {
        let signature = key.0.sign(&pae(payload_type, payload));
        Self {
            payload: STANDARD.encode(payload),
            payload_type: payload_type.to_owned(),
            signatures: vec![EnvelopeSignature { keyid: key.key_id(), sig: STANDARD.encode(signature.to_bytes()) }],
        }
    }

    /// The payload, if `key` signed it as `payload_type`.
    pub fn open(&self, payload_type: &str, key: &VerifyingKey) -> Result<Vec<u8>, SignError> {
        if self.payload_type != payload_type {
            return Err(SignError::Malformed("another payloadType is expected"));
        }
        let [signature] = self.signatures.as_slice() else {
            return Err(SignError::Malformed("exactly one signature is expected"));
        };
        let expected = key.key_id();
        if signature.keyid != expected {
            return Err(SignError::ForeignKey { expected, found: signature.keyid.clone() });
        }
        let payload = STANDARD.decode(&self.payload).map_err(|_| SignError::Malformed("the payload is no base64"))?;
        let bytes = STANDARD.decode(&signature.sig).map_err(|_| SignError::Malformed("the signature is no base64"))?;
        let parsed = Signature::from_slice(&bytes).map_err(|_| SignError::Malformed("a signature has 64 bytes"))?;
        key.0.verify_strict(&pae(payload_type, &payload), &parsed).map_err(|_| SignError::BadSignature)?;
        Ok(payload)
    }
}

/// DSSE's pre-authentication encoding: lengths make type and payload unmistakable.
fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_seed(&[7; 32])
    }

    /// The protocol's own example.
    #[test]
    fn the_encoding_is_the_protocols() {
        assert_eq!(
            pae("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    /// RFC 8032, 7.1, test 1.
    #[test]
    fn the_signature_is_ed25519() {
        let seed = hex::decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let key = SigningKey::from_seed(&seed.try_into().unwrap());
        assert_eq!(key.verifying_key().to_hex(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    }

    #[test]
    fn keys_survive_their_files() {
        let pem = key().to_pem().unwrap();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI"), "{pem}");
        assert_eq!(SigningKey::from_pem(&pem).unwrap().key_id(), key().key_id());
        let public = key().verifying_key().to_pem().unwrap();
        for text in [&pem, &public] {
            assert_eq!(VerifyingKey::from_pem(text).unwrap(), key().verifying_key());
        }
        assert_eq!(VerifyingKey::from_hex(&key().verifying_key().to_hex()).unwrap(), key().verifying_key());
        for bad in ["", "x", &pem[..40], &public.replace('A', "B")] {
            assert!(SigningKey::from_pem(bad).is_err(), "{bad}");
        }
        assert!(!format!("{:?}", key()).contains(&hex::encode([7; 32])));
    }

    #[test]
    fn an_envelope_opens_only_as_it_was_sealed() {
        let sealed = Envelope::seal("text/plain", b"hello", &key());
        assert_eq!(sealed.open("text/plain", &key().verifying_key()).unwrap(), b"hello");
        let other = SigningKey::from_seed(&[8; 32]);
        assert!(matches!(sealed.open("text/plain", &other.verifying_key()), Err(SignError::ForeignKey { .. })));
        assert!(sealed.open("text/html", &key().verifying_key()).is_err());
        let mut forged = sealed.clone();
        forged.payload = STANDARD.encode(b"hellO");
        assert_eq!(forged.open("text/plain", &key().verifying_key()), Err(SignError::BadSignature));
        let mut claimed = Envelope::seal("text/plain", b"hello", &other);
        claimed.signatures[0].keyid = key().key_id();
        assert_eq!(claimed.open("text/plain", &key().verifying_key()), Err(SignError::BadSignature));
        let mut twice = sealed.clone();
        twice.signatures.push(sealed.signatures[0].clone());
        assert!(twice.open("text/plain", &key().verifying_key()).is_err());
    }
}
