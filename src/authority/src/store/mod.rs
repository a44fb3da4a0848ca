//! Where the rows are kept. Every change is one compare-and-set in one transaction, which also checks the leader's epoch
//! and appends to the log what belongs to the change.

mod change;
mod codec;
mod group;
mod latest;
mod migrate;
mod reserve;
mod sqlite;

#[cfg(test)]
mod tests;

pub use migrate::MigrateError;
pub use reserve::{Disk, FileSystem, Headroom};
pub use sqlite::SqliteStore;

use crate::executor::AttemptKind;
use crate::row::{Definition, Row, Run};
use async_trait::async_trait;
use m87_core::log::LogEntry;
use std::ops::Range;

/// A database of runs. SQLite implements it; the trait asks for nothing that PostgreSQL could not do.
#[async_trait]
pub trait Store: Send + Sync {
    /// The store's own name, drawn when it was made; a copy of a store has the same.
    fn id(&self) -> &str;

    /// Declares the leader's epoch; refused if a later one has been declared. Changes under an earlier epoch are refused
    /// from here on.
    async fn lead(&self, epoch: i64) -> Result<(), StoreError>;

    /// Inserts a run and its `opened` entry, and claims the effect's identity for it, unless that is taken.
    async fn open_run(&self, opening: &Opening<'_>) -> Result<Inserted, StoreError>;

    /// The run of that uid.
    async fn load(&self, uid: &str) -> Result<Option<Loaded>, StoreError>;

    /// The run that is bound to that instance.
    async fn by_instance(&self, engine_id: &str, instance_key: i64) -> Result<Option<String>, StoreError>;

    /// Whose token has that hash.
    async fn by_token(&self, sha256: &str) -> Result<Option<TokenOwner>, StoreError>;

    /// Makes one change to one run. Fails with [`StoreError::Conflict`] if it was changed since it was loaded.
    async fn commit(&self, change: &Change<'_>) -> Result<(), StoreError>;

    /// Notes that attempts of a run may have left something that is to be cleared away. Safe to repeat.
    async fn note_leftover(&self, epoch: i64, uid: &str) -> Result<(), StoreError>;

    /// The runs of which that was noted, oldest first.
    async fn leftovers(&self) -> Result<Vec<String>, StoreError>;

    /// Nothing is left of that run's attempts.
    async fn forget_leftover(&self, epoch: i64, uid: &str) -> Result<(), StoreError>;

    /// Runs without a receipt, oldest first.
    async fn unsealed(&self) -> Result<Vec<String>, StoreError>;

    /// Every run, oldest first, of one namespace or of all.
    async fn runs(&self, namespace_uid: Option<&str>) -> Result<Vec<Loaded>, StoreError>;

    /// Whom an effect's identity belongs to.
    async fn effect(&self, namespace_uid: &str, key: &str) -> Result<Option<Effect>, StoreError>;

    /// The receipt of that run.
    async fn receipt(&self, uid: &str) -> Result<Option<StoredReceipt>, StoreError>;

    /// Where that run's receipt stands in its namespace's log, from 0; `None` if it has none yet.
    async fn log_index(&self, uid: &str) -> Result<Option<u64>, StoreError>;

    /// Those entries of a namespace's log, as far as it goes.
    async fn log(&self, namespace_uid: &str, range: Range<u64>) -> Result<Vec<LogEntry>, StoreError>;

    /// Every namespace that has a log.
    async fn namespaces(&self) -> Result<Vec<String>, StoreError>;

    /// What that engine calls those bytes.
    async fn definition(&self, engine_id: &str, bpmn_sha256: &str) -> Result<Option<Definition>, StoreError>;

    /// Remembers what an engine calls those bytes; the latest answer counts.
    async fn remember_definition(
        &self,
        epoch: i64,
        engine_id: &str,
        bpmn_sha256: &str,
        definition: Definition,
    ) -> Result<(), StoreError>;

    /// The latest epoch declared, and how many redemptions there have been.
    async fn counters(&self) -> Result<Counters, StoreError>;

    /// Marks every run that is in the store as one of a restored copy: none of them gets a contract any more.
    async fn bar_present_runs(&self, epoch: i64) -> Result<(), StoreError>;
}

/// A run as it was loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The run.
    pub run: Run,
    /// For compare-and-set.
    pub version: i64,
    /// True if it came with a restored copy: what happened to it since, nobody knows.
    pub barred: bool,
}

/// A run to be inserted.
#[derive(Debug, Clone)]
pub struct Opening<'a> {
    /// The leader's epoch.
    pub epoch: i64,
    /// The run, open.
    pub run: &'a Run,
    /// `compute_hash` of the proposal.
    pub proposal_hash: &'a str,
    /// `compute_hash` of the actor.
    pub actor_hash: &'a str,
    /// The log entry.
    pub entry: &'a LogEntry,
}

/// What came of inserting a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// Inserted; the effect's identity is its own.
    New,
    /// It had been inserted before.
    Existing,
    /// Not inserted: that run has asked for the same, under the same key.
    SameEffect(String),
    /// Inserted, and the key belongs to that run, which asked for something else.
    KeyReused(String),
}

/// One change to one run.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// The leader's epoch.
    pub epoch: i64,
    /// The run as it was loaded.
    pub from: &'a Loaded,
    /// The row from now on.
    pub row: &'a Row,
    /// What else goes into the same transaction.
    pub with: With<'a>,
}

impl Change<'_> {
    /// The run's uid.
    pub fn uid(&self) -> &str {
        &self.from.run.dossier.run.uid
    }
}

/// What goes into the transaction of a change.
#[derive(Debug, Clone, Copy)]
pub enum With<'a> {
    /// Nothing else.
    Nothing,
    /// One redemption more.
    Redemption,
    /// The receipt and its log entry.
    Receipt(&'a StoredReceipt, &'a LogEntry),
}

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    /// The run.
    pub run_uid: String,
    /// What the attempt is for.
    pub kind: AttemptKind,
    /// Which attempt.
    pub number: u32,
}

/// A tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// `compute_hash` of the proposal.
    pub proposal_hash: String,
    /// `compute_hash` of the actor.
    pub actor_hash: String,
    /// The run that has the identity.
    pub run_uid: String,
}

/// A receipt as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReceipt {
    /// `compute_hash` of the receipt.
    pub hash: String,
    /// The DSSE envelope, canonical JSON.
    pub envelope: String,
}

/// What only goes up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// The latest leader's epoch.
    pub epoch: i64,
    /// Redemptions so far.
    pub redemptions: i64,
}

/// The store could not do it, by what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The run was changed meanwhile: load it again and judge again.
    #[error("run {0} was changed meanwhile")]
    Conflict(String),
    /// Another leader has taken over: stop writing.
    #[error("epoch {mine} is over: another authority leads with epoch {leader}")]
    Deposed {
        /// The epoch of this writer.
        mine: i64,
        /// The epoch in the store.
        leader: i64,
    },
    /// The disk is full.
    #[error("the disk under the store is full: make room, nothing is lost")]
    Full,
    /// The transaction of this change was undone under the change of another.
    #[error("the change was undone together with another one that failed: ask again")]
    Undone,
    /// Another process holds the store.
    #[error("{0} is in use by another m87 process: wait for it to end, or choose another folder")]
    InUse(String),
    /// The schema is not one that this version can use.
    #[error(transparent)]
    Schema(#[from] MigrateError),
    /// What is stored cannot be read as what this version writes.
    #[error("the store holds {what} that cannot be read: {message}")]
    Corrupt {
        /// What it should be.
        what: &'static str,
        /// Why not.
        message: String,
    },
    /// The database failed.
    #[error("the store failed: {0}")]
    Database(sqlx::Error),
    /// The file system failed.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        // SQLITE_FULL is 13; it and a failed write are what a full disk looks like.
        let is_full = error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "13");
        if is_full { Self::Full } else { Self::Database(error) }
    }
}
