//! The schema, in ordered files that never change once they were released.
//!
//! What was applied is written down with its checksum. A changed file, or a database from a newer version, is refused
//! rather than guessed at.

use sha2::{Digest, Sha256};
use sqlx::{Connection, Row, SqliteConnection};

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "runs", sql: include_str!("../../migrations/0001_runs.sql") },
    Migration { version: 2, name: "leftovers", sql: include_str!("../../migrations/0002_leftovers.sql") },
];

/// The database's schema is not one that this version can use.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A newer version has been at work.
    #[error("the database has schema {found}, this m87 knows {known}: run the newer version that made it")]
    Newer {
        /// In the database.
        found: i64,
        /// In this program.
        known: i64,
    },
    /// A migration was applied in another form.
    #[error("migration {version} ({name}) was applied with another content (sha256 {found}, expected {expected})")]
    Changed {
        /// Which one.
        version: i64,
        /// Its name.
        name: &'static str,
        /// In the database.
        found: String,
        /// In this program.
        expected: String,
    },
    /// The database failed.
    #[error("migrating the database failed: {0}")]
    Database(#[from] sqlx::Error),
}

/// Brings the database to this version's schema, each step in a transaction of its own.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    apply(connection, MIGRATIONS).await
}

async fn apply(connection: &mut SqliteConnection, migrations: &[Migration]) -> Result<(), MigrateError> {
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT",
    )
    .execute(&mut *connection)
    .await?;
    let applied =
        sqlx::query("SELECT version, sha256 FROM migrations ORDER BY version").fetch_all(&mut *connection).await?;
    let known = migrations.last().map_or(0, |migration| migration.version);
    for row in &applied {
        let (version, found): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        match migrations.iter().find(|migration| migration.version == version) {
            None => return Err(MigrateError::Newer { found: version, known }),
            Some(Migration { name, sql, .. }) if checksum(sql) != found => {
                return Err(MigrateError::Changed { version, name, found, expected: checksum(sql) });
            }
            Some(_) => {}
        }
    }
    for migration in migrations.iter().skip(applied.len()) {
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(migration.sql).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO migrations (version, name, sha256) VALUES (?, ?, ?)")
            .bind(migration.version)
            .bind(migration.name)
            .bind(checksum(migration.sql))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
    }
    Ok(())
}

fn checksum(sql: &str) -> String {
    hex::encode(Sha256::digest(sql))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    const ONE: Migration = Migration { version: 1, name: "one", sql: "CREATE TABLE a (x INTEGER) STRICT" };
    const TWO: Migration = Migration { version: 2, name: "two", sql: "ALTER TABLE a ADD COLUMN y TEXT" };

    #[tokio::test]
    async fn migrations_are_applied_once_and_in_order() {
        let mut database = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        apply(&mut database, &[ONE]).await.unwrap();
        apply(&mut database, &[ONE, TWO]).await.unwrap();
        apply(&mut database, &[ONE, TWO]).await.unwrap();
        sqlx::query("INSERT INTO a (x, y) VALUES (1, 'z')").execute(&mut database).await.unwrap();
    }

    #[tokio::test]
    async fn a_newer_database_and_a_changed_migration_are_refused() {
        let mut database = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        apply(&mut database, &[ONE, TWO]).await.unwrap();
        assert!(matches!(apply(&mut database, &[ONE]).await, Err(MigrateError::Newer { found: 2, known: 1 })));
        let changed = Migration { sql: "ALTER TABLE a ADD COLUMN z TEXT", ..TWO };
        assert!(matches!(apply(&mut database, &[ONE, changed]).await, Err(MigrateError::Changed { version: 2, .. })));
    }
}
