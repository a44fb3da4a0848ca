//! The receipt log: an RFC 6962 Merkle tree of what was opened and what was sealed, one for each namespace.
//!
//! Whoever holds a checkpoint can have it proved that a receipt is in the log, that a later log only grew, and, from the
//! entries, that every opened run is sealed or still open.

mod export;
#[cfg(test)]
mod tests;

pub use export::{LogExport, LogPage};

use crate::json::{Document, JsonError, read_document, to_canonical};
use crate::sign::{Envelope, SignError, SigningKey, VerifyingKey};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogEntry {
    /// `LogEntry`.
    pub kind: String,
    /// Raised when the meaning changes.
    pub spec_version: String,
    /// The run's uid.
    pub run: String,
    /// What happened to it.
    pub event: Event,
}

/// What the log records of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Event {
    /// It was opened for this proposal.
    #[serde(rename_all = "camelCase")]
    Opened {
        /// `compute_hash` of the proposal.
        proposal_hash: String,
    },
    /// It ended with this receipt.
    #[serde(rename_all = "camelCase")]
    Sealed {
        /// `compute_hash` of the receipt.
        receipt_hash: String,
    },
}

impl Document for LogEntry {
    const KIND: &'static str = "LogEntry";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

impl LogEntry {
    /// A run was opened.
    pub fn opened(run: &str, proposal_hash: &str) -> Self {
        Self::of(run, Event::Opened { proposal_hash: proposal_hash.to_owned() })
    }

    /// A run was sealed.
    pub fn sealed(run: &str, receipt_hash: &str) -> Self {
        Self::of(run, Event::Sealed { receipt_hash: receipt_hash.to_owned() })
    }

    fn of(run: &str, event: Event) -> Self {
        Self { kind: Self::KIND.to_owned(), spec_version: Self::SPEC_VERSION.to_owned(), run: run.to_owned(), event }
    }

    /// The entry's leaf in the tree.
    pub fn leaf(&self) -> Result<Hash, JsonError> {
        Ok(Hash::leaf(to_canonical(self)?.as_bytes()))
    }
}

/// A hash of the tree: SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The root of an empty tree.
    pub fn empty() -> Self {
        Self(Sha256::digest([]).into())
    }

    /// A leaf's hash; the prefix keeps leaves and nodes apart.
    pub fn leaf(data: &[u8]) -> Self {
        Self(Sha256::new().chain_update([0]).chain_update(data).finalize().into())
    }

    fn node(left: Self, right: Self) -> Self {
        Self(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0).finalize().into())
    }

    /// From 64 digits of lower-case hex.
    pub fn parse(text: &str) -> Option<Self> {
        if !crate::json::is_sha256_hex(text) {
            return None;
        }
        hex::decode(text).ok()?.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("64 digits of lower-case hex are expected"))
    }
}

/// The tree. It keeps every complete subtree, so that appending is cheap and a root or a proof takes logarithmic time.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// `levels[l][i]` is the root of the 2^l leaves from i·2^l on.
    levels: Vec<Vec<Hash>>,
}

impl Log {
    /// How many entries there are.
    pub fn size(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }

    /// The leaf at that index.
    pub fn leaf(&self, index: u64) -> Option<Hash> {
        self.levels.first()?.get(usize::try_from(index).ok()?).copied()
    }

    /// Appends a leaf and says at which index.
    pub fn append(&mut self, leaf: Hash) -> u64 {
        let index = self.size();
        let mut hash = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(vec![]);
            }
            let Some(row) = self.levels.get_mut(level) else { break };
            row.push(hash);
            match row.as_slice() {
                [.., left, right] if row.len().is_multiple_of(2) => hash = Hash::node(*left, *right),
                [..] => break,
            }
        }
        index
    }

    /// The root of all entries.
    pub fn root(&self) -> Hash {
        self.root_at(self.size()).unwrap_or_else(Hash::empty)
    }

    /// The root when there were `size` entries; `None` if there never were so many.
    pub fn root_at(&self, size: u64) -> Option<Hash> {
        match size {
            0 => Some(Hash::empty()),
            _ if size > self.size() => None,
            _ => self.range(0, size),
        }
    }

    /// RFC 6962, 2.1: the hash of the leaves from `start` to before `end`.
    fn range(&self, start: u64, end: u64) -> Option<Hash> {
        let width = end.checked_sub(start)?;
        if width.is_power_of_two() && start.is_multiple_of(width) {
            let row = self.levels.get(usize::try_from(width.trailing_zeros()).ok()?)?;
            return row.get(usize::try_from(start / width).ok()?).copied();
        }
        let split = start + split(width)?;
        Some(Hash::node(self.range(start, split)?, self.range(split, end)?))
    }

    /// RFC 6962, 2.1.1: the proof that the entry at `index` is in the tree of `size` entries.
    pub fn inclusion(&self, index: u64, size: u64) -> Option<Vec<Hash>> {
        if index >= size || size > self.size() {
            return None;
        }
        let (mut start, mut end, mut path) = (0, size, vec![]);
        while end - start > 1 {
            let middle = start + split(end - start)?;
            if index < middle {
                path.push(self.range(middle, end)?);
                end = middle;
            } else {
                path.push(self.range(start, middle)?);
                start = middle;
            }
        }
        path.reverse();
        Some(path)
    }

    /// RFC 6962, 2.1.2: the proof that the tree of `old` entries is the beginning of the tree of `new` ones.
    pub fn consistency(&self, old: u64, new: u64) -> Option<Vec<Hash>> {
        if old > new || new > self.size() {
            return None;
        }
        if old == 0 || old == new {
            return Some(vec![]);
        }
        let (mut start, mut end, mut proof, mut whole) = (0, new, vec![], true);
        while old != end {
            let middle = start + split(end - start)?;
            if old <= middle {
                proof.push(self.range(middle, end)?);
                end = middle;
            } else {
                proof.push(self.range(start, middle)?);
                start = middle;
                whole = false;
            }
        }
        if !whole {
            proof.push(self.range(start, end)?);
        }
        proof.reverse();
        Some(proof)
    }
}

/// The largest power of two below `width`, which is at least 2.
fn split(width: u64) -> Option<u64> {
    width.checked_sub(1)?.checked_ilog2().map(|log| 1 << log)
}

/// RFC 9162, 2.1.3.2: whether `leaf` is at `index` of the tree with this size and root.
pub fn verify_inclusion(leaf: Hash, index: u64, size: u64, proof: &[Hash], root: Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut fn_, mut sn, mut hash) = (index, size - 1, leaf);
    for &sibling in proof {
        if sn == 0 {
            return false;
        }
        if fn_ & 1 == 1 || fn_ == sn {
            hash = Hash::node(sibling, hash);
            while fn_ & 1 == 0 && fn_ != 0 {
                fn_ >>= 1;
                sn >>= 1;
            }
        } else {
            hash = Hash::node(hash, sibling);
        }
        fn_ >>= 1;
        sn >>= 1;
    }
    sn == 0 && hash == root
}

/// RFC 9162, 2.1.4.2: whether the tree with the old size and root is the beginning of the new one.
pub fn verify_consistency(old: u64, new: u64, old_root: Hash, new_root: Hash, proof: &[Hash]) -> bool {
    if old > new {
        return false;
    }
    if old == new {
        return proof.is_empty() && old_root == new_root;
    }
    if old == 0 {
        return proof.is_empty() && old_root == Hash::empty();
    }
    let mut rest = proof.iter().copied();
    let (mut fn_, mut sn) = (old - 1, new - 1);
    while fn_ & 1 == 1 {
        fn_ >>= 1;
        sn >>= 1;
    }
    let first = if old.is_power_of_two() { Some(old_root) } else { rest.next() };
    let Some(first) = first else { return false };
    let (mut old_hash, mut new_hash) = (first, first);
    for sibling in rest {
        if sn == 0 {
            return false;
        }
        if fn_ & 1 == 1 || fn_ == sn {
            old_hash = Hash::node(sibling, old_hash);
            new_hash = Hash::node(sibling, new_hash);
            while fn_ & 1 == 0 && fn_ != 0 {
                fn_ >>= 1;
                sn >>= 1;
            }
        } else {
            new_hash = Hash::node(new_hash, sibling);
        }
        fn_ >>= 1;
        sn >>= 1;
    }
    sn == 0 && old_hash == old_root && new_hash == new_root
}

/// A signed statement of how long a log is and what its root is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    /// `Checkpoint`.
    pub kind: String,
    /// Raised when the meaning changes.
    pub spec_version: String,
    /// The cluster's uid.
    pub cluster_uid: String,
    /// The namespace's uid: which log it is.
    pub namespace_uid: String,
    /// Entries.
    pub size: u64,
    /// The root of that many entries.
    pub root: Hash,
    /// When it was signed.
    pub timestamp: Timestamp,
}

impl Document for Checkpoint {
    const KIND: &'static str = "Checkpoint";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

/// What a checkpoint's envelope says it holds.
pub const CHECKPOINT_TYPE: &str = "application/vnd.m87.checkpoint+json";

impl Checkpoint {
    /// States the log as it is.
    pub fn new(cluster_uid: &str, namespace_uid: &str, log: &Log, timestamp: Timestamp) -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            spec_version: Self::SPEC_VERSION.to_owned(),
            cluster_uid: cluster_uid.to_owned(),
            namespace_uid: namespace_uid.to_owned(),
            size: log.size(),
            root: log.root(),
            timestamp,
        }
    }

    /// Signs it.
    pub fn seal(&self, key: &SigningKey) -> Result<Envelope, JsonError> {
        Ok(Envelope::seal(CHECKPOINT_TYPE, to_canonical(self)?.as_bytes(), key))
    }

    /// Reads one that `key` signed.
    pub fn open(envelope: &Envelope, key: &VerifyingKey) -> Result<Self, CheckpointError> {
        Ok(read_document(&envelope.open(CHECKPOINT_TYPE, key)?)?)
    }
}

/// Why a checkpoint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Its signature.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// Its text.
    #[error("the checkpoint {0}")]
    Json(#[from] JsonError),
}

/// What is wrong with a log's story.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClosureError {
    /// A run was opened twice.
    #[error("entry {index}: run {run} is opened a second time")]
    OpenedTwice {
        /// Where.
        index: usize,
        /// Which.
        run: String,
    },
    /// A run was sealed that is not open: never opened, or sealed before.
    #[error("entry {index}: run {run} is sealed and is not open")]
    SealedNotOpen {
        /// Where.
        index: usize,
        /// Which.
        run: String,
    },
}

/// Every run that is opened and not sealed yet, by uid, with the hash of its proposal. Everything else that was opened is sealed
/// exactly once.
pub fn closure(entries: &[LogEntry]) -> Result<BTreeMap<String, String>, ClosureError> {
    let (mut open, mut known) = (BTreeMap::new(), BTreeSet::new());
    for (index, LogEntry { run, event, .. }) in entries.iter().enumerate() {
        match event {
            Event::Opened { proposal_hash } => {
                if !known.insert(run.clone()) {
                    return Err(ClosureError::OpenedTwice { index, run: run.clone() });
                }
                open.insert(run.clone(), proposal_hash.clone());
            }
            Event::Sealed { .. } => {
                if open.remove(run).is_none() {
                    return Err(ClosureError::SealedNotOpen { index, run: run.clone() });
                }
            }
        }
    }
    Ok(open)
}
