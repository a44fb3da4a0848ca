//! Changes that are made durable together.
//!
//! There is one writer. Each change is a savepoint in the transaction that is open, and whoever waits for the writer while that
//! transaction is committed shares the next one: many changes, one sync of the disk. A change is answered when its transaction
//! is durable, and nobody can read it before.

use super::latest::Latest;
use super::{Loaded, StoreError};
use sqlx::{Executor, SqliteConnection};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

/// The writer. Cheap to clone.
#[derive(Clone)]
pub(super) struct Group {
    writer: Arc<Mutex<Writer>>,
    latest: Latest,
}

struct Writer {
    connection: SqliteConnection,
    /// Whom to tell what became of the transaction that is open.
    open: Option<watch::Sender<Option<Outcome>>>,
    /// A transaction was being begun by somebody who may have gone: whoever comes next undoes it.
    beginning: bool,
    /// A change was begun and not finished: whoever comes next undoes it.
    unfinished: bool,
    /// Runs as the transaction that is open makes them, in the order of its changes.
    became: Vec<Loaded>,
}

/// What became of a transaction.
#[derive(Debug, Clone)]
enum Outcome {
    Durable,
    Full,
    Failed(String),
}

/// One change, alone with the writer. Dropped before [`Grouped::commit`], it never was.
pub(super) struct Grouped {
    writer: OwnedMutexGuard<Writer>,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Group {
    /// The writer on this connection, which tells what becomes of runs.
    pub(super) fn new(connection: SqliteConnection, latest: Latest) -> Self {
        let writer = Writer { connection, open: None, beginning: false, unfinished: false, became: Vec::new() };
        Self { writer: Arc::new(Mutex::new(writer)), latest }
    }

    /// Begins a change, in the transaction that is open or in a new one.
    pub(super) async fn begin(&self) -> Result<Grouped, StoreError> {
        let mut writer = self.writer.clone().lock_owned().await;
        writer.undo_unfinished().await;
        let outcome = match &writer.open {
            Some(open) => open.subscribe(),
            None => {
                writer.begin().await?;
                let (open, outcome) = watch::channel(None);
                writer.open = Some(open);
                // A task of its own, since whoever waits may be gone before. It comes after those who wait now.
                tokio::spawn(self.clone().commit());
                outcome
            }
        };
        writer.unfinished = true;
        writer.connection.execute("SAVEPOINT change").await?;
        Ok(Grouped { writer, outcome })
    }

    /// Makes durable what is finished.
    async fn commit(self) {
        let mut writer = self.writer.lock().await;
        writer.undo_unfinished().await;
        if writer.open.is_some() {
            let outcome = match writer.connection.execute("COMMIT").await {
                Ok(_) => {
                    writer.became.drain(..).for_each(|run| self.latest.became(run));
                    Outcome::Durable
                }
                Err(error) => {
                    // Whether SQLite has undone the transaction itself or not, it is over now.
                    let _ = writer.connection.execute("ROLLBACK").await;
                    Outcome::from(StoreError::from(error))
                }
            };
            writer.close(outcome);
        }
    }
}

impl Writer {
    /// Begins a transaction. Whoever asks for one may be gone before SQLite has answered; it has begun all the same.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.beginning, true) {
            // Refused where there is nothing to undo, and then that is so.
            let _ = self.connection.execute("ROLLBACK").await;
        }
        self.connection.execute("BEGIN IMMEDIATE").await?;
        self.beginning = false;
        Ok(())
    }

    /// Undoes a change that was begun and not finished. Where there is nothing to undo any more, a full or failing disk has made
    /// SQLite undo the whole transaction.
    async fn undo_unfinished(&mut self) {
        if self.unfinished {
            if self.connection.execute("ROLLBACK TO change; RELEASE change").await.is_err() {
                let _ = self.connection.execute("ROLLBACK").await;
                self.close(Outcome::Full);
            }
            self.unfinished = false;
        }
    }

    /// Tells everybody who waits for the transaction what became of it.
    fn close(&mut self, outcome: Outcome) {
        self.became.clear();
        if let Some(open) = self.open.take() {
            open.send_replace(Some(outcome));
        }
    }
}

impl Grouped {
    /// Finishes the change, by which a run may have become another, and waits until it is durable.
    pub(super) async fn commit(self, became: Option<Loaded>) -> Result<(), StoreError> {
        let Self { mut writer, mut outcome } = self;
        writer.connection.execute("RELEASE change").await?;
        writer.unfinished = false;
        writer.became.extend(became);
        drop(writer);
        let outcome = outcome.wait_for(Option::is_some).await.map(|outcome| (*outcome).clone());
        match outcome.ok().flatten() {
            Some(Outcome::Durable) => Ok(()),
            Some(Outcome::Full) => Err(StoreError::Full),
            Some(Outcome::Failed(message)) => Err(StoreError::Database(sqlx::Error::Protocol(message))),
            None => Err(StoreError::Database(sqlx::Error::WorkerCrashed)),
        }
    }
}

impl Deref for Grouped {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.writer.connection
    }
}

impl DerefMut for Grouped {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.writer.connection
    }
}

impl From<StoreError> for Outcome {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::Full,
            other => Self::Failed(other.to_string()),
        }
    }
}
