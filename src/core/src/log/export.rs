//! A namespace's whole log as a document of its own: what is held against receipts to see that none is missing.

use super::LogEntry;
use crate::json::{Document, JsonError, to_canonical};
use crate::sign::{Envelope, VerifyingKey};
use serde::{Deserialize, Serialize};

/// Every entry of a namespace's log, with a checkpoint over exactly these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogExport {
    /// `ReceiptLog`.
    pub kind: String,
    /// Raised when the meaning changes.
    pub spec_version: String,
    /// The signed size and root of exactly these entries.
    pub checkpoint: Envelope,
    /// The public key, in hex; it proves nothing by itself.
    pub public_key: String,
    /// Every entry, in order.
    pub entries: Vec<LogEntry>,
}

impl Document for LogExport {
    const KIND: &'static str = "ReceiptLog";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

impl LogExport {
    /// Puts an export together.
    pub fn new(entries: Vec<LogEntry>, checkpoint: Envelope, key: &VerifyingKey) -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            spec_version: Self::SPEC_VERSION.to_owned(),
            checkpoint,
            public_key: key.to_hex(),
            entries,
        }
    }

    /// The export's bytes, in canonical form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        to_canonical(self).map(String::into_bytes)
    }
}

/// A part of a namespace's log: the entries from `from` on, with the first the checkpoint over the whole that they are a part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogPage {
    /// `ReceiptLogPage`.
    pub kind: String,
    /// Raised when the meaning changes.
    pub spec_version: String,
    /// The signed size and root of the whole, as it is now. A page of a whole that was asked for by its size has none: what is
    /// signed today says how long the log is today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Envelope>,
    /// The public key, in hex; it proves nothing by itself.
    pub public_key: String,
    /// Where the first of these entries stands in the log, from 0.
    pub from: u64,
    /// Entries, in order.
    pub entries: Vec<LogEntry>,
}

impl Document for LogPage {
    const KIND: &'static str = "ReceiptLogPage";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

impl LogPage {
    /// Puts a page together.
    pub fn new(from: u64, entries: Vec<LogEntry>, checkpoint: Option<Envelope>, key: &VerifyingKey) -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            spec_version: Self::SPEC_VERSION.to_owned(),
            checkpoint,
            public_key: key.to_hex(),
            from,
            entries,
        }
    }

    /// The page's bytes, in canonical form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        to_canonical(self).map(String::into_bytes)
    }
}
