//! How rows of tables become what they mean.

use super::{Effect, Loaded, StoreError};
use crate::row::{Row as RunRow, Run};
use m87_core::dossier::Dossier;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use std::sync::Arc;

pub(super) fn effect(row: &SqliteRow) -> Result<Effect, StoreError> {
    Ok(Effect { proposal_hash: row.try_get(0)?, actor_hash: row.try_get(1)?, run_uid: row.try_get(2)? })
}

pub(super) fn loaded(row: &SqliteRow) -> Result<Loaded, StoreError> {
    let dossier: Arc<Dossier> = Arc::new(from_json("a dossier", row.try_get(1)?)?);
    let row_json: RunRow = from_json("a row", row.try_get(2)?)?;
    Ok(Loaded { run: Run { dossier, row: row_json }, version: row.try_get(0)?, barred: row.try_get(3)? })
}

pub(super) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt { what, message: error.to_string() })
}

pub(super) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt { what, message: error.to_string() })
}
