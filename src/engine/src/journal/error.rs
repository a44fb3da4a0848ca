//! Why an engine does not start.

use std::path::PathBuf;

/// An engine that does not start: it would have to guess.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder.
    #[error("{}: another engine has this folder open; stop it, or choose another folder", .0.display())]
    Locked(PathBuf),
    /// The folder or a file in it cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The database cannot be used.
    #[error("{}: the journal cannot be read: {source}", path.display())]
    Database {
        /// The database file.
        path: PathBuf,
        /// What SQLite says.
        source: sqlx::Error,
    },
    /// The journal is not what this engine wrote.
    #[error("{}: {place}: {reason}; the engine does not start on a damaged journal: restore the folder from a copy", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// The journal was written by a build that writes other events.
    #[error(
        "{}: {place}: written with version {found}, and this build reads version {known}; start the build that wrote it",
        path.display()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// The version found.
        found: i64,
        /// The version that this build reads.
        known: u32,
    },
    /// The folder belongs to another engine.
    #[error("{}: this folder belongs to engine {found:?}, not {expected:?}; choose another folder", path.display())]
    OtherEngine {
        /// The folder.
        path: PathBuf,
        /// The id it began with.
        found: String,
        /// The id asked for.
        expected: String,
    },
    /// No id could be drawn.
    #[error("no random engine id: {0}")]
    NoRandomness(String),
}
