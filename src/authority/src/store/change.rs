//! The statements that a change is made of, within a transaction.

use super::codec::to_json;
use super::{Change, Opening, StoreError, With};
use crate::executor::AttemptKind;
use crate::row::Attempt;
use m87_core::log::LogEntry;
use sqlx::{Row, SqliteConnection};

/// Writes a run's row as it is from now on, given as JSON, with what belongs to the change.
pub(super) async fn update_run(
    connection: &mut SqliteConnection,
    change: &Change<'_>,
    row: &str,
) -> Result<(), StoreError> {
    let claim = change.row.claim();
    let updated = sqlx::query(
            "UPDATE runs SET version = version + 1, epoch = ?1, state = ?2, engine_id = ?3, instance_key = ?4, row = ?5 WHERE uid = ?6 AND version = ?7 AND (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'epoch') = ?1",
        )
        .bind(change.epoch)
        .bind(change.row.state.name())
        .bind(claim.map(|claim| claim.engine_id.as_str()))
        .bind(claim.map(|claim| claim.instance_key))
        .bind(row)
        .bind(change.uid())
        .bind(change.from.version)
        .execute(&mut *connection)
        .await?;
    if updated.rows_affected() != 1 {
        let leader = number(connection, "epoch").await?;
        return Err(match leader == change.epoch {
            true => StoreError::Conflict(change.uid().to_owned()),
            false => StoreError::Deposed { mine: change.epoch, leader },
        });
    }
    add_tokens(connection, change).await?;
    match change.with {
        With::Nothing => {}
        With::Redemption => {
            sqlx::query("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'redemptions'")
                .execute(&mut *connection)
                .await?;
        }
        With::Receipt(receipt, entry) => {
            let namespace: String = sqlx::query("SELECT namespace_uid FROM runs WHERE uid = ?")
                .bind(change.uid())
                .fetch_one(&mut *connection)
                .await?
                .try_get(0)?;
            let index = append(connection, &namespace, change.uid(), entry).await?;
            sqlx::query(
                "INSERT INTO receipts (run_uid, namespace_uid, hash, log_index, envelope) VALUES (?, ?, ?, ?, ?)",
            )
            .bind(change.uid())
            .bind(&namespace)
            .bind(&receipt.hash)
            .bind(index)
            .bind(&receipt.envelope)
            .execute(&mut *connection)
            .await?;
        }
    }
    Ok(())
}

async fn add_tokens(connection: &mut SqliteConnection, change: &Change<'_>) -> Result<(), StoreError> {
    let kinds =
        [(AttemptKind::Tool, change.row.attempts.last()), (AttemptKind::Validation, change.row.validations.last())];
    for (kind, attempt) in kinds {
        // With its handle, an attempt is in the row for the second time at least.
        let Some(attempt @ Attempt { handle: None, .. }) = attempt else { continue };
        sqlx::query("INSERT INTO tokens (sha256, run_uid, kind, number) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING")
            .bind(&attempt.token_sha256)
            .bind(change.uid())
            .bind(kind.name())
            .bind(attempt.number)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
/// What stands in `meta` under that key.
pub(super) async fn number(connection: &mut SqliteConnection, key: &str) -> Result<i64, StoreError> {
    let row = sqlx::query("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?")
        .bind(key)
        .fetch_one(&mut *connection)
        .await?;
    Ok(row.try_get(0)?)
}

/// Appends to the log of a namespace.
async fn append(
    connection: &mut SqliteConnection,
    namespace_uid: &str,
    run_uid: &str,
    entry: &LogEntry,
) -> Result<i64, StoreError> {
    let row = sqlx::query(
        "INSERT INTO log (namespace_uid, idx, run_uid, entry) SELECT ?, COALESCE(MAX(idx) + 1, 0), ?, ? FROM log WHERE namespace_uid = ? RETURNING idx",
    )
    .bind(namespace_uid)
    .bind(run_uid)
    .bind(to_json("a log entry", entry)?)
    .bind(namespace_uid)
    .fetch_one(&mut *connection)
    .await?;
    Ok(row.try_get(0)?)
}

/// Inserts a run, its dossier and row given as JSON, and its `opened` entry.
pub(super) async fn insert_run(
    connection: &mut SqliteConnection,
    opening: &Opening<'_>,
    (dossier_json, row): (&str, &str),
) -> Result<(), StoreError> {
    let dossier = &opening.run.dossier;
    sqlx::query(
        "INSERT INTO runs (uid, namespace_uid, namespace, name, version, epoch, state, dossier, row) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?)",
    )
    .bind(&dossier.run.uid)
    .bind(&dossier.namespace.uid)
    .bind(&dossier.namespace.name)
    .bind(&dossier.run.name)
    .bind(opening.epoch)
    .bind(opening.run.row.state.name())
    .bind(dossier_json)
    .bind(row)
    .execute(&mut *connection)
    .await?;
    append(connection, &dossier.namespace.uid, &dossier.run.uid, opening.entry).await?;
    Ok(())
}

/// Claims the effect's identity for a run.
pub(super) async fn claim_effect(connection: &mut SqliteConnection, opening: &Opening<'_>) -> Result<(), StoreError> {
    let dossier = &opening.run.dossier;
    sqlx::query(
        "INSERT INTO effects (namespace_uid, idempotency_key, proposal_hash, actor_hash, run_uid) VALUES (?, ?, ?, ?, ?)",
    )
    .bind(&dossier.namespace.uid)
    .bind(&dossier.run.idempotency_key)
    .bind(opening.proposal_hash)
    .bind(opening.actor_hash)
    .bind(&dossier.run.uid)
    .execute(connection)
    .await?;
    Ok(())
}
