//! The journal: every event, in order, on disk before anybody is told of it.
//!
//! A row of the table is one batch of commands, so one `INSERT` is one transaction and one sync (SQLite in WAL mode,
//! `synchronous=FULL`). The state is the latest good snapshot with the rows after it applied. Two snapshots are kept, and the
//! rows since the older one, so that a damaged snapshot costs time and not history.

mod error;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};

pub use error::OpenError;

use crate::machine::{EVENT_VERSION, Event, State};

/// Rows that one truncation deletes, so that it does not hold up a batch.
const TRUNCATED_ROWS: i64 = 256;

/// How much journal, at least, a snapshot saves from being replayed.
const SNAPSHOT_BYTES: u64 = 16 << 20;

/// An open journal; the folder is locked while it lives.
pub(crate) struct Journal {
    folder: PathBuf,
    engine: String,
    connection: SqliteConnection,
    /// The position of the last row.
    position: i64,
    /// Bytes of the rows since the last snapshot, and that snapshot's size.
    grown: u64,
    snapshot_bytes: u64,
    /// Rows up to here are covered by the older of the two snapshots that are kept.
    covered: i64,
    truncated: bool,
    // Unlocked when the file is closed.
    _lock: File,
}

/// Adds the events of one command to a batch: a line that holds a JSON array.
pub(crate) fn encode(events: &[Event], batch: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *batch, events)?;
    batch.push(b'\n');
    Ok(())
}

fn decode(batch: &[u8]) -> Result<Vec<Event>, serde_json::Error> {
    let mut events = Vec::new();
    for line in batch.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        events.append(&mut serde_json::from_slice(line)?);
    }
    Ok(events)
}

impl Journal {
    /// Opens the journal of a folder (made if absent) and recovers its state.
    ///
    /// `id` is the engine's id at its first start; a folder that began with another refuses.
    ///
    /// # Errors
    /// The folder is in use, cannot be read, belongs to another engine, or holds what this build cannot trust.
    pub(crate) async fn open(folder: &Path, id: Option<&str>) -> Result<(Self, State), OpenError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(io(folder))?;
        let lock = lock(folder)?;
        let database = folder.join("journal.db");
        let failed = |source| OpenError::Database { path: database.clone(), source };
        let mut connection = SqliteConnectOptions::new()
            .filename(&database)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .locking_mode(SqliteLockingMode::Exclusive)
            .disable_statement_logging()
            .connect()
            .await
            .map_err(failed)?;
        let snapshots = snapshot::list(folder).map_err(io(folder))?;
        let engine = identify(&mut connection, &database, !snapshots.is_empty(), id).await?;
        // The database's own entry in the folder must survive a crash too.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io(folder))?;

        let mut state = State::default();
        let mut position = 0;
        let mut refused = String::new();
        for place in snapshots.iter().rev() {
            match snapshot::read(place, &engine) {
                Ok(found) => {
                    (state, position) = (found, place.position);
                    break;
                }
                Err(reason) => {
                    tracing::warn!(path = %place.path.display(), reason, "a snapshot is not used");
                    refused.push_str(&format!(" ({}: {reason})", place.path.display()));
                }
            }
        }
        let mut journal = Self {
            folder: folder.to_owned(),
            engine,
            connection,
            position,
            grown: 0,
            snapshot_bytes: 0,
            covered: snapshots.iter().rev().nth(1).map_or(0, |older| older.position),
            truncated: false,
            _lock: lock,
        };
        journal.replay(&mut state).await.map_err(|error| match error {
            OpenError::Damaged { path, place, reason } => {
                OpenError::Damaged { path, place, reason: format!("{reason}{refused}") }
            }
            other => other,
        })?;
        Ok((journal, state))
    }

    /// The engine's id.
    pub(crate) fn engine(&self) -> &str {
        &self.engine
    }

    /// Makes a batch (as [`encode`] wrote it) durable.
    ///
    /// # Errors
    /// The disk is full or fails. Whether the batch is on disk is then unknown: [`Journal::replay`] tells.
    pub(crate) async fn append(&mut self, events: &[u8]) -> Result<(), sqlx::Error> {
        let position = self.position + 1;
        sqlx::query("INSERT INTO journal (position, version, checksum, events) VALUES (?1, ?2, ?3, ?4)")
            .bind(position)
            .bind(i64::from(EVENT_VERSION))
            .bind(checksum(position, EVENT_VERSION.into(), events))
            .bind(events)
            .execute(&mut self.connection)
            .await?;
        self.position = position;
        self.grown += events.len() as u64;
        Ok(())
    }

    /// Applies the rows that the state has not seen.
    ///
    /// # Errors
    /// A row is missing, damaged, of another version, or does not fit; the error says which.
    pub(crate) async fn replay(&mut self, state: &mut State) -> Result<(), OpenError> {
        let path = self.folder.join("journal.db");
        loop {
            let rows = sqlx::query(
                "SELECT position, version, checksum, events FROM journal WHERE position > ?1 ORDER BY position LIMIT 16",
            )
            .bind(self.position)
            .fetch_all(&mut self.connection)
            .await
            .map_err(|source| OpenError::Database { path: path.clone(), source })?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let events = self.replay_row(&row, &path)?;
                for event in &events {
                    state.apply(event).map_err(|misfit| OpenError::Damaged {
                        path: path.clone(),
                        place: format!("position {}", self.position + 1),
                        reason: misfit.to_string(),
                    })?;
                }
                self.position += 1;
            }
        }
    }

    fn replay_row(&mut self, row: &sqlx::sqlite::SqliteRow, path: &Path) -> Result<Vec<Event>, OpenError> {
        let database = |source| OpenError::Database { path: path.to_owned(), source };
        let expected = self.position + 1;
        let place = format!("position {expected}");
        let damaged = |reason: String| OpenError::Damaged { path: path.to_owned(), place: place.clone(), reason };
        let position: i64 = row.try_get(0).map_err(database)?;
        if position != expected {
            return Err(damaged(format!("it is missing; the next is {position}")));
        }
        let version: i64 = row.try_get(1).map_err(database)?;
        let sum: Vec<u8> = row.try_get(2).map_err(database)?;
        let bytes: Vec<u8> = row.try_get(3).map_err(database)?;
        if sum != checksum(position, version, &bytes) {
            return Err(damaged("its checksum does not match".to_owned()));
        }
        if version != i64::from(EVENT_VERSION) {
            return Err(OpenError::OtherVersion { path: path.to_owned(), place, found: version, known: EVENT_VERSION });
        }
        self.grown += bytes.len() as u64;
        decode(&bytes).map_err(|error| damaged(format!("it does not read: {error}")))
    }

    /// Is it time for a snapshot? Rarer as the state grows, so that writing snapshots stays a small part of writing.
    pub(crate) const fn wants_snapshot(&self) -> bool {
        self.grown > SNAPSHOT_BYTES && self.grown > 2 * self.snapshot_bytes
    }

    /// A job that writes a snapshot of this state; run it where blocking is allowed, then tell [`Journal::snapshot_taken`].
    pub(crate) fn snapshot(&mut self, state: State) -> impl FnOnce() -> std::io::Result<(i64, u64)> + Send + 'static {
        let (folder, engine, position) = (self.folder.clone(), self.engine.clone(), self.position);
        self.grown = 0;
        move || snapshot::write(&folder, &engine, position, &state).map(|bytes| (position, bytes))
    }

    /// The snapshot at `position` is on disk, `bytes` large: what the one before covers is not needed any more.
    pub(crate) fn snapshot_taken(&mut self, position: i64, bytes: u64) -> std::io::Result<()> {
        self.snapshot_bytes = bytes;
        let mut older: Vec<_> =
            snapshot::list(&self.folder)?.into_iter().filter(|place| place.position < position).collect();
        if let Some(kept) = older.pop() {
            self.covered = kept.position;
            self.truncated = false;
        }
        older.iter().try_for_each(|place| fs::remove_file(&place.path))
    }

    /// Deletes some of the rows that are not needed any more.
    ///
    /// # Errors
    /// The disk fails; the rows stay and are tried again.
    pub(crate) async fn truncate(&mut self) -> Result<(), sqlx::Error> {
        if self.truncated {
            return Ok(());
        }
        let deleted = sqlx::query(
            "DELETE FROM journal WHERE position <= ?1 AND position < (SELECT min(position) FROM journal) + ?2",
        )
        .bind(self.covered)
        .bind(TRUNCATED_ROWS)
        .execute(&mut self.connection)
        .await?
        .rows_affected();
        self.truncated = deleted == 0;
        Ok(())
    }

    /// Closes the database and unlocks the folder.
    pub(crate) async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::warn!(%error, "the journal was not closed cleanly; nothing is lost");
        }
    }
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("lock");
    let io = |source| OpenError::Io { path: path.clone(), source };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// The id that the folder began with; a new folder begins with `id`, or a random one.
async fn identify(
    connection: &mut SqliteConnection,
    path: &Path,
    has_snapshots: bool,
    id: Option<&str>,
) -> Result<String, OpenError> {
    let database = |source| OpenError::Database { path: path.to_owned(), source };
    for table in [
        "CREATE TABLE IF NOT EXISTS engine (id TEXT NOT NULL) STRICT",
        "CREATE TABLE IF NOT EXISTS journal \
         (position INTEGER PRIMARY KEY, version INTEGER NOT NULL, checksum BLOB NOT NULL, events BLOB NOT NULL) STRICT",
    ] {
        sqlx::query(table).execute(&mut *connection).await.map_err(database)?;
    }
    let found: Option<String> =
        sqlx::query_scalar("SELECT id FROM engine").fetch_optional(&mut *connection).await.map_err(database)?;
    match (found, id) {
        (Some(found), Some(expected)) if found != expected => {
            Err(OpenError::OtherEngine { path: path.to_owned(), found, expected: expected.to_owned() })
        }
        (Some(found), _) => Ok(found),
        (None, _) if has_snapshots => Err(OpenError::Damaged {
            path: path.to_owned(),
            place: "the journal".to_owned(),
            reason: "it is empty, but there are snapshots beside it".to_owned(),
        }),
        (None, id) => {
            let id = id.map_or_else(draw_id, |id| Ok(id.to_owned()))?;
            let insert = sqlx::query("INSERT INTO engine (id) VALUES (?1)").bind(&id);
            insert.execute(connection).await.map_err(database)?;
            Ok(id)
        }
    }
}

/// A random engine id: 32 hexadecimal digits.
pub(crate) fn draw_id() -> Result<String, OpenError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| OpenError::NoRandomness(error.to_string()))?;
    Ok(hex::encode(bytes))
}

fn checksum(position: i64, version: i64, events: &[u8]) -> Vec<u8> {
    let mut sum = Sha256::new();
    sum.update(position.to_le_bytes());
    sum.update(version.to_le_bytes());
    sum.update(events);
    sum.finalize().to_vec()
}
