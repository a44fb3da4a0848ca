//! The store on SQLite: one file, one writer, every commit on the disk before it is answered.

use super::change::{claim_effect, insert_run, number, update_run};
use super::codec::{effect, from_json, loaded, to_json};
use super::group::{Group, Grouped};
use super::latest::{Became, Latest};
use super::migrate::migrate;
use super::reserve::Reserve;
use super::{
    Change, Counters, Effect, Headroom, Inserted, Loaded, Opening, Store, StoreError, StoredReceipt, TokenOwner,
};
use crate::executor::AttemptKind;
use crate::row::{Definition, Run};
use async_trait::async_trait;
use m87_core::log::LogEntry;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Row};
use std::fs::{File, OpenOptions, TryLockError};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A store in a folder of its own; one process at a time may hold it.
pub struct SqliteStore {
    id: String,
    writer: Group,
    readers: SqlitePool,
    latest: Latest,
    reserve: Reserve,
    /// Held as long as the store is open.
    _lock: File,
}

const READERS: u32 = 4;

impl SqliteStore {
    /// Opens the store in `folder`, making it if it is not there. `fresh_id` names a new store.
    pub async fn open(folder: &Path, fresh_id: &str, headroom: &Headroom) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io { path: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(io)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join("lock"))
            .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(folder.display().to_string())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let options = SqliteConnectOptions::new()
            .filename(folder.join("authority.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10));
        let mut writer = options.connect().await?;
        migrate(&mut writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .test_before_acquire(false)
            .connect_with(options.read_only(true))
            .await?;
        sqlx::query("INSERT INTO meta (key, value) VALUES ('id', ?), ('epoch', '0'), ('redemptions', '0'), ('barred', '0') ON CONFLICT DO NOTHING")
            .bind(fresh_id)
            .execute(&mut writer)
            .await?;
        let id = sqlx::query("SELECT value FROM meta WHERE key = 'id'").fetch_one(&mut writer).await?.try_get(0)?;
        let latest = Latest::default();
        Ok(Self {
            id,
            writer: Group::new(writer, latest.clone()),
            latest,
            readers,
            reserve: Reserve::keep(folder, headroom),
            _lock: lock,
        })
    }

    /// Lets the database grow to so many pages at most, as a full disk would.
    #[cfg(test)]
    pub(super) async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        let pragma = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        let mut change = self.writer.begin().await?;
        sqlx::raw_sql(pragma).execute(&mut *change).await?;
        change.commit(None).await?;
        Ok(())
    }

    /// Has the transaction that is open undone under a change, as a failing disk would.
    #[cfg(test)]
    pub(super) async fn undo_transaction(&self) -> Result<(), StoreError> {
        let mut change = self.writer.begin().await?;
        sqlx::raw_sql("ROLLBACK").execute(&mut *change).await?;
        Ok(())
    }

    /// Begins a change of this epoch's leader.
    async fn begin(&self, epoch: i64) -> Result<Grouped, StoreError> {
        let mut change = self.writer.begin().await?;
        let leader = number(&mut change, "epoch").await?;
        if leader == epoch { Ok(change) } else { Err(StoreError::Deposed { mine: epoch, leader }) }
    }

    async fn try_commit(&self, change: &Change<'_>) -> Result<(), StoreError> {
        let row = to_json("a row", change.row)?;
        let mut grouped = self.writer.begin().await?;
        update_run(&mut grouped, change, &row).await?;
        let Loaded { run, version, barred } = change.from;
        // As it reads, which is what counts: JSON has one null for what is absent and what is null.
        let run = Run { dossier: run.dossier.clone(), row: from_json("a row", &row)? };
        let run = Loaded { run, version: version.saturating_add(1), barred: *barred };
        grouped.commit(Some(Became { run, row_bytes: row.len() })).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn id(&self) -> &str {
        &self.id
    }

    async fn lead(&self, epoch: i64) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin().await?;
        let leader = number(&mut transaction, "epoch").await?;
        if leader > epoch {
            return Err(StoreError::Deposed { mine: epoch, leader });
        }
        sqlx::query("UPDATE meta SET value = ? WHERE key = 'epoch'")
            .bind(epoch.to_string())
            .execute(&mut *transaction)
            .await?;
        transaction.commit(None).await?;
        self.reserve.refill();
        Ok(())
    }

    async fn open_run(&self, opening: &Opening<'_>) -> Result<Inserted, StoreError> {
        let dossier = &opening.run.dossier;
        let (uid, key) = (&dossier.run.uid, &dossier.run.idempotency_key);
        let (dossier_json, row) = (to_json("a dossier", dossier.as_ref())?, to_json("a row", &opening.run.row)?);
        let mut transaction = self.begin(opening.epoch).await?;
        let existing =
            sqlx::query("SELECT 1 FROM runs WHERE uid = ?").bind(uid).fetch_optional(&mut *transaction).await?;
        if existing.is_some() {
            // Nobody is told of a run before it is durable.
            transaction.commit(None).await?;
            return Ok(Inserted::Existing);
        }
        let taken = sqlx::query(
            "SELECT proposal_hash, actor_hash, run_uid FROM effects WHERE namespace_uid = ? AND idempotency_key = ?",
        )
        .bind(&dossier.namespace.uid)
        .bind(key)
        .fetch_optional(&mut *transaction)
        .await?
        .map(|row| effect(&row))
        .transpose()?;
        let opened = match taken {
            Some(first) if first.proposal_hash == opening.proposal_hash && first.actor_hash == opening.actor_hash => {
                transaction.commit(None).await?;
                return Ok(Inserted::SameEffect(first.run_uid));
            }
            Some(first) => Inserted::KeyReused(first.run_uid),
            None => Inserted::New,
        };
        insert_run(&mut transaction, opening, (&dossier_json, &row)).await?;
        if opened == Inserted::New {
            claim_effect(&mut transaction, opening).await?;
        }
        let run = Run { dossier: Arc::new(from_json("a dossier", &dossier_json)?), row: from_json("a row", &row)? };
        let run = Loaded { run, version: 1, barred: false };
        transaction.commit(Some(Became { run, row_bytes: row.len() })).await?;
        Ok(opened)
    }

    async fn load(&self, uid: &str) -> Result<Option<Loaded>, StoreError> {
        if let Some(latest) = self.latest.get(uid) {
            return Ok(Some(latest.as_ref().clone()));
        }
        let row = sqlx::query("SELECT version, dossier, row, seq <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'barred') FROM runs WHERE uid = ?")
            .bind(uid)
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(loaded).transpose()
    }

    async fn by_instance(&self, engine_id: &str, instance_key: i64) -> Result<Option<String>, StoreError> {
        if let Some(uid) = self.latest.by_instance(engine_id, instance_key) {
            return Ok(Some(uid));
        }
        let row = sqlx::query("SELECT uid FROM runs WHERE engine_id = ? AND instance_key = ?")
            .bind(engine_id)
            .bind(instance_key)
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn by_token(&self, sha256: &str) -> Result<Option<TokenOwner>, StoreError> {
        let row = sqlx::query("SELECT run_uid, kind, number FROM tokens WHERE sha256 = ?")
            .bind(sha256)
            .fetch_optional(&self.readers)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let name: String = row.try_get(1)?;
        let kind = [AttemptKind::Tool, AttemptKind::Validation]
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| StoreError::Corrupt { what: "a token's kind", message: name })?;
        Ok(Some(TokenOwner { run_uid: row.try_get(0)?, kind, number: row.try_get(2)? }))
    }

    async fn commit(&self, change: &Change<'_>) -> Result<(), StoreError> {
        let committed = match self.try_commit(change).await {
            Err(StoreError::Undone) => self.try_commit(change).await,
            other => other,
        };
        match committed {
            // What runs must still be sealed: that is what the reserve is for. Changes that were to become durable together fail
            // together, and only one of them finds the reserve.
            Err(StoreError::Full) => {
                if self.reserve.release() {
                    tracing::warn!("the disk is full: the reserve was released so that runs can be sealed");
                }
                self.try_commit(change).await
            }
            Ok(()) => {
                self.reserve.refill_when_released();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn note_leftover(&self, epoch: i64, uid: &str) -> Result<(), StoreError> {
        let mut transaction = self.begin(epoch).await?;
        sqlx::query("INSERT INTO leftovers (run_uid) VALUES (?) ON CONFLICT DO NOTHING")
            .bind(uid)
            .execute(&mut *transaction)
            .await?;
        transaction.commit(None).await
    }

    async fn leftovers(&self) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query("SELECT run_uid FROM leftovers ORDER BY seq").fetch_all(&self.readers).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn forget_leftover(&self, epoch: i64, uid: &str) -> Result<(), StoreError> {
        let mut transaction = self.begin(epoch).await?;
        sqlx::query("DELETE FROM leftovers WHERE run_uid = ?").bind(uid).execute(&mut *transaction).await?;
        transaction.commit(None).await
    }

    async fn unsealed(&self) -> Result<Vec<String>, StoreError> {
        let rows =
            sqlx::query("SELECT uid FROM runs WHERE state <> 'Sealed' ORDER BY seq").fetch_all(&self.readers).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn runs(&self, namespace_uid: Option<&str>) -> Result<Vec<Loaded>, StoreError> {
        let rows = sqlx::query("SELECT version, dossier, row, seq <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'barred') FROM runs WHERE ?1 IS NULL OR namespace_uid = ?1 ORDER BY seq")
            .bind(namespace_uid)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(loaded).collect()
    }

    async fn effect(&self, namespace_uid: &str, key: &str) -> Result<Option<Effect>, StoreError> {
        sqlx::query(
            "SELECT proposal_hash, actor_hash, run_uid FROM effects WHERE namespace_uid = ? AND idempotency_key = ?",
        )
        .bind(namespace_uid)
        .bind(key)
        .fetch_optional(&self.readers)
        .await?
        .map(|row| effect(&row))
        .transpose()
    }

    async fn receipt(&self, uid: &str) -> Result<Option<StoredReceipt>, StoreError> {
        let row = sqlx::query("SELECT hash, envelope FROM receipts WHERE run_uid = ?")
            .bind(uid)
            .fetch_optional(&self.readers)
            .await?;
        row.map(|row| Ok(StoredReceipt { hash: row.try_get(0)?, envelope: row.try_get(1)? })).transpose()
    }

    async fn log_index(&self, uid: &str) -> Result<Option<u64>, StoreError> {
        let row = sqlx::query("SELECT log_index FROM receipts WHERE run_uid = ?")
            .bind(uid)
            .fetch_optional(&self.readers)
            .await?;
        row.map(|row| Ok(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default())).transpose()
    }

    async fn log(&self, namespace_uid: &str, range: Range<u64>) -> Result<Vec<LogEntry>, StoreError> {
        let index = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let rows = sqlx::query("SELECT entry FROM log WHERE namespace_uid = ? AND idx >= ? AND idx < ? ORDER BY idx")
            .bind(namespace_uid)
            .bind(index(range.start))
            .bind(index(range.end))
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(|row| from_json("a log entry", &row.try_get::<String, _>(0)?)).collect()
    }

    async fn namespaces(&self) -> Result<Vec<String>, StoreError> {
        // From one to the next by the index, and not over every entry.
        let rows = sqlx::query("WITH RECURSIVE known (uid) AS (SELECT MIN(namespace_uid) FROM log UNION ALL SELECT (SELECT MIN(namespace_uid) FROM log WHERE namespace_uid > known.uid) FROM known WHERE known.uid IS NOT NULL) SELECT uid FROM known WHERE uid IS NOT NULL")
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn definition(&self, engine_id: &str, bpmn_sha256: &str) -> Result<Option<Definition>, StoreError> {
        let row =
            sqlx::query("SELECT definition_key, version FROM definitions WHERE engine_id = ? AND bpmn_sha256 = ?")
                .bind(engine_id)
                .bind(bpmn_sha256)
                .fetch_optional(&self.readers)
                .await?;
        row.map(|row| Ok(Definition { key: row.try_get(0)?, version: row.try_get(1)? })).transpose()
    }

    async fn remember_definition(
        &self,
        epoch: i64,
        engine_id: &str,
        bpmn_sha256: &str,
        definition: Definition,
    ) -> Result<(), StoreError> {
        let mut transaction = self.begin(epoch).await?;
        sqlx::query("INSERT INTO definitions (engine_id, bpmn_sha256, definition_key, version) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET definition_key = excluded.definition_key, version = excluded.version")
            .bind(engine_id)
            .bind(bpmn_sha256)
            .bind(definition.key)
            .bind(definition.version)
            .execute(&mut *transaction)
            .await?;
        transaction.commit(None).await
    }

    async fn counters(&self) -> Result<Counters, StoreError> {
        let mut transaction = self.readers.begin().await?;
        Ok(Counters {
            epoch: number(&mut transaction, "epoch").await?,
            redemptions: number(&mut transaction, "redemptions").await?,
        })
    }

    async fn bar_present_runs(&self, epoch: i64) -> Result<(), StoreError> {
        let mut transaction = self.begin(epoch).await?;
        sqlx::query("UPDATE meta SET value = (SELECT COALESCE(MAX(seq), 0) FROM runs) WHERE key = 'barred'")
            .execute(&mut *transaction)
            .await?;
        self.latest.close();
        transaction.commit(None).await
    }
}
