//! Canonical JSON (RFC 8785) and the hash over it.
//!
//! The same value has one text, whoever writes it: keys sorted by UTF-16 code units, the shortest number that reads back
//! as the same double, no white space. What is hashed, signed or compared anywhere in m87 is this text.
//!
//! One restriction: an integer that a double cannot hold is refused instead of being rounded, so that nobody's 64-bit key
//! changes silently; write it as a string. (The strict reader is stricter still: it refuses every integer literal beyond
//! ±(2^53−1) in what people write.)

mod size;
#[cfg(test)]
mod tests;
mod writer;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The largest integer that is safe in every JSON reader: 2^53 − 1.
pub const MAX_SAFE_INTEGER: i64 = 9_007_199_254_740_991;

/// How deep a document may be nested.
pub const MAX_DEPTH: usize = 128;

/// Why a value has no canonical text, or a text is not canonical.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// An integer that a double cannot hold.
    #[error("the integer {0} is beyond ±(2^53−1) and would lose digits; write it as a string")]
    Integer(String),
    /// NaN or an infinity.
    #[error("NaN and infinities are no numbers")]
    NotFinite,
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A type of our own could not be turned into JSON.
    #[error("cannot be written as JSON: {0}")]
    Unwritable(String),
    /// A text that should be canonical is no JSON of the expected shape.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A text that should be canonical is written differently from what RFC 8785 says.
    #[error("is not in canonical form (RFC 8785): byte {at} differs")]
    NotCanonical {
        /// The first byte, from 0, that differs.
        at: usize,
    },
    /// A document of another kind or version.
    #[error("is {found_kind:?} {found_version:?}, but {kind} {version} is expected")]
    Kind {
        /// The kind that is expected.
        kind: &'static str,
        /// The version that is expected.
        version: &'static str,
        /// The kind that stands there.
        found_kind: String,
        /// The version that stands there.
        found_version: String,
    },
}

/// A document that is hashed: it says what it is, so that no text can be taken for one of another kind.
pub trait Document: Serialize + DeserializeOwned {
    /// What stands in `kind`.
    const KIND: &'static str;
    /// What stands in `specVersion`; raised when the meaning or the fields change.
    const SPEC_VERSION: &'static str;
    /// What this one says in `kind` and `specVersion`.
    fn says(&self) -> (&str, &str);

    /// Refuses a document of another kind or version.
    fn check_kind(&self) -> Result<(), JsonError> {
        let (kind, version) = self.says();
        if (kind, version) == (Self::KIND, Self::SPEC_VERSION) {
            return Ok(());
        }
        Err(JsonError::Kind {
            kind: Self::KIND,
            version: Self::SPEC_VERSION,
            found_kind: kind.to_owned(),
            found_version: version.to_owned(),
        })
    }
}

/// The canonical text of a value.
pub fn canonical(value: &Value) -> Result<String, JsonError> {
    to_canonical(value)
}

/// The canonical text of anything that serialises.
pub fn to_canonical<T: Serialize + ?Sized>(value: &T) -> Result<String, JsonError> {
    let mut out = String::with_capacity(256);
    value.serialize(writer::Writer { out: &mut out, depth: 0 })?;
    Ok(out)
}

/// How long the canonical text of a value is, in bytes, without writing it.
pub fn canonical_size(value: &Value) -> Result<usize, JsonError> {
    size::of(value, 0)
}

/// Lower-case hex SHA-256 of the canonical text.
pub fn compute_hash<T: Serialize + ?Sized>(value: &T) -> Result<String, JsonError> {
    Ok(sha256_hex(to_canonical(value)?.as_bytes()))
}

/// Lower-case hex SHA-256 of bytes as they stand.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Whether this is how a SHA-256 is written: 64 digits of lower-case hex.
pub fn is_sha256_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a text that [`canonical`] wrote. One differing byte refuses: white space, order, a repeated key, another spelling.
pub fn from_canonical<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let read: T = serde_json::from_slice(bytes).map_err(|error| JsonError::Unreadable(error.to_string()))?;
    let written = to_canonical(&read)?;
    if written.as_bytes() == bytes {
        return Ok(read);
    }
    let same = written.bytes().zip(bytes).take_while(|(a, b)| a == *b).count();
    Err(JsonError::NotCanonical { at: same })
}

/// [`from_canonical`] for a document, checking what it says it is.
pub fn read_document<T: Document>(bytes: &[u8]) -> Result<T, JsonError> {
    let document: T = from_canonical(bytes)?;
    document.check_kind()?;
    Ok(document)
}
