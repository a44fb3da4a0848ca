//! Changes that are made durable together.
//!
//! There is one writer. Each change is a savepoint in the transaction that is open, and whoever waits for the writer while that
//! transaction is committed shares the next one: many changes, one sync of the disk. A change is answered when its transaction
//! is durable, and nobody can read it before.
//!
//! | the writer is | what comes | then it is |
//! | --- | --- | --- |
//! | at rest | a change: `BEGIN`, `SAVEPOINT` | changing |
//! | changing | its end: `RELEASE`, and it waits for the transaction | open |
//! | changing | nothing, its owner is gone: the next one does `ROLLBACK TO` | open, as if it had never been |
//! | changing | SQLite undoes the whole transaction under it: there is nothing to go back to | at rest, all who wait are told [`Outcome::Undone`] |
//! | open | a change: `SAVEPOINT` | changing |
//! | open | `COMMIT`, when those who waited for the writer have had it | at rest, all who wait are told what became of it |
//!
//! Owners may be gone at any time. Each step of this table is a task of its own, so that none is left half done.

use super::StoreError;
use super::latest::{Became, Latest};
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
    /// A change was begun and not finished: whoever comes next undoes it.
    unfinished: bool,
    /// Runs as the transaction that is open makes them, in the order of its changes.
    became: Vec<Became>,
}

/// What became of a transaction.
#[derive(Debug, Clone)]
enum Outcome {
    Durable,
    /// SQLite undid it under the change of another, who is told why. It says nothing of the changes that were finished in it.
    Undone,
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
        let writer = Writer { connection, open: None, unfinished: false, became: Vec::new() };
        Self { writer: Arc::new(Mutex::new(writer)), latest }
    }

    /// Begins a change, in the transaction that is open or in a new one.
    pub(super) async fn begin(&self) -> Result<Grouped, StoreError> {
        let (group, mut writer) = (self.clone(), self.writer.clone().lock_owned().await);
        to_the_end(async move {
            writer.undo_unfinished().await;
            let outcome = match &writer.open {
                Some(open) => open.subscribe(),
                None => {
                    writer.connection.execute("BEGIN IMMEDIATE").await?;
                    let (open, outcome) = watch::channel(None);
                    writer.open = Some(open);
                    // It comes after those who wait for the writer now.
                    tokio::spawn(group.commit());
                    outcome
                }
            };
            writer.unfinished = true;
            writer.connection.execute("SAVEPOINT change").await?;
            Ok(Grouped { writer, outcome })
        })
        .await
    }

    /// Makes durable what is finished.
    async fn commit(self) {
        let mut writer = self.writer.lock().await;
        writer.undo_unfinished().await;
        // In hand: whatever happens here, those who wait for it are told, or see that nobody will tell them.
        let Some(open) = writer.open.take() else { return };
        let became = std::mem::take(&mut writer.became);
        let outcome = match writer.connection.execute("COMMIT").await {
            Ok(_) => {
                became.into_iter().for_each(|run| self.latest.became(run));
                Outcome::Durable
            }
            Err(error) => {
                // Whether SQLite has undone the transaction itself or not, it is over now.
                let _ = writer.connection.execute("ROLLBACK").await;
                Outcome::from(StoreError::from(error))
            }
        };
        open.send_replace(Some(outcome));
    }
}

impl Writer {
    /// Undoes a change that was begun and not finished.
    async fn undo_unfinished(&mut self) {
        if self.unfinished {
            if self.connection.execute("ROLLBACK TO change; RELEASE change").await.is_err() {
                // A full or failing disk has made SQLite undo the whole transaction.
                let _ = self.connection.execute("ROLLBACK").await;
                self.became.clear();
                if let Some(open) = self.open.take() {
                    open.send_replace(Some(Outcome::Undone));
                }
            }
            self.unfinished = false;
        }
    }
}

impl Grouped {
    /// Finishes the change, by which a run may have become another, and waits until it is durable.
    pub(super) async fn commit(self, became: Option<Became>) -> Result<(), StoreError> {
        let Self { mut writer, mut outcome } = self;
        to_the_end(async move {
            writer.connection.execute("RELEASE change").await?;
            writer.unfinished = false;
            writer.became.extend(became);
            Ok(())
        })
        .await?;
        let outcome = outcome.wait_for(Option::is_some).await.map(|outcome| (*outcome).clone());
        match outcome.ok().flatten() {
            Some(Outcome::Durable) => Ok(()),
            Some(Outcome::Undone) => Err(StoreError::Undone),
            Some(Outcome::Full) => Err(StoreError::Full),
            Some(Outcome::Failed(message)) => Err(StoreError::Database(sqlx::Error::Protocol(message))),
            None => Err(StoreError::Database(sqlx::Error::WorkerCrashed)),
        }
    }
}

/// Does it whole, also if whoever waits for it is gone before.
async fn to_the_end<T: Send + 'static>(
    step: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::spawn(step).await.unwrap_or(Err(StoreError::Database(sqlx::Error::WorkerCrashed)))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use futures::FutureExt;
    use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};

    async fn group() -> Group {
        let mut connection = SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();
        connection.execute("CREATE TABLE things (name TEXT UNIQUE)").await.unwrap();
        Group::new(connection, Latest::default())
    }

    async fn add(change: &mut Grouped, name: &'static str) {
        sqlx::query("INSERT INTO things VALUES (?)").bind(name).execute(&mut **change).await.unwrap();
    }

    async fn things(group: &Group) -> Vec<String> {
        let mut writer = group.writer.lock().await;
        let rows =
            sqlx::query("SELECT name FROM things ORDER BY name").fetch_all(&mut writer.connection).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Two changes in one transaction: the first is finished and waits, the second is given to the test.
    async fn two(group: &Group) -> (tokio::task::JoinHandle<Result<(), StoreError>>, Grouped) {
        let held = group.writer.clone().lock_owned().await;
        let own = group.clone();
        let first = tokio::spawn(async move {
            let mut change = own.begin().await?;
            add(&mut change, "first").await;
            change.commit(None).await
        });
        tokio::task::yield_now().await;
        let mut second = Box::pin(group.begin());
        assert!((&mut second).now_or_never().is_none());
        drop(held);
        let mut second = second.await.unwrap();
        add(&mut second, "second").await;
        (first, second)
    }

    #[tokio::test]
    async fn who_is_gone_while_a_change_is_finished_undoes_no_other() {
        for polls in 0..6 {
            let group = group().await;
            let (first, second) = two(&group).await;
            let mut commit = Box::pin(second.commit(None));
            for _ in 0..polls {
                if (&mut commit).now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(commit);
            group.begin().await.unwrap().commit(None).await.unwrap();
            first.await.unwrap().unwrap();
            let things = things(&group).await;
            assert!(things == ["first"] || things == ["first", "second"], "{polls} polls: {things:?}");
        }
    }

    #[tokio::test]
    async fn who_is_undone_with_another_is_told_that_and_not_that_the_disk_is_full() {
        let group = group().await;
        let (first, mut second) = two(&group).await;
        // As SQLite does itself when a write fails.
        second.execute("ROLLBACK").await.unwrap();
        drop(second);
        group.begin().await.unwrap().commit(None).await.unwrap();
        assert!(matches!(first.await.unwrap(), Err(StoreError::Undone)));
        assert_eq!(things(&group).await, Vec::<String>::new());
    }
}
