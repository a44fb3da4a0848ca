//! The high-water mark: what the store had reached, kept outside the store.
//!
//! It is written before a redemption is answered. A store that is behind its mark was restored from an older copy: what it
//! does not know of may have happened, so it refuses until a person accepts it.

use crate::files::{read_private, write_private};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How far a store had come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// The latest leader's epoch.
    pub epoch: i64,
    /// Redemptions so far.
    pub redemptions: i64,
    /// Each namespace's log, by the namespace's uid.
    pub logs: BTreeMap<String, LogMark>,
}

/// How far a log had come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMark {
    /// Entries.
    pub size: u64,
    /// The root over them, hex.
    pub root: String,
}

/// Where the mark is kept: one API object on a cluster, locally a file beside the signing key.
#[async_trait]
pub trait HighWaterMark: Send + Sync {
    /// The mark of the store with that id; `None` if none was ever written.
    async fn read(&self, store_id: &str) -> Result<Option<Mark>, MarkError>;

    /// Writes it. When this returns, it is durable.
    async fn write(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError>;

    /// Where it is, for people.
    fn place(&self, store_id: &str) -> String;
}

/// The mark cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the high-water mark {place}: {message}")]
pub struct MarkError {
    /// Where it is.
    pub place: String,
    /// What happened.
    pub message: String,
}

/// Marks as files in a folder, one for each store.
#[derive(Debug, Clone)]
pub struct FileMark(pub PathBuf);

impl FileMark {
    fn path(&self, store_id: &str) -> PathBuf {
        self.0.join(format!("m87-{store_id}.mark"))
    }

    fn error(&self, store_id: &str, error: impl std::fmt::Display) -> MarkError {
        MarkError { place: self.place(store_id), message: error.to_string() }
    }
}

#[async_trait]
impl HighWaterMark for FileMark {
    async fn read(&self, store_id: &str) -> Result<Option<Mark>, MarkError> {
        let content = read_private(&self.path(store_id)).map_err(|error| self.error(store_id, error))?;
        content.map(|content| serde_json::from_slice(&content).map_err(|error| self.error(store_id, error))).transpose()
    }

    async fn write(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError> {
        let content = serde_json::to_vec(mark).map_err(|error| self.error(store_id, error))?;
        let path = self.path(store_id);
        tokio::task::spawn_blocking(move || write_private(&path, &content))
            .await
            .map_err(|error| self.error(store_id, error))?
            .map_err(|error| self.error(store_id, error))
    }

    fn place(&self, store_id: &str) -> String {
        self.path(store_id).display().to_string()
    }
}

/// How a store stands to its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// At its mark or past it, or new.
    Current,
    /// Behind it, for this reason.
    Restored(String),
}

/// Judges a store by its mark. `root_at` gives the root of a namespace's log at a size, `None` if it is not that long.
pub fn standing(mark: Option<&Mark>, store: &Mark, mut root_at: impl FnMut(&str, u64) -> Option<String>) -> Standing {
    let Some(mark) = mark else {
        return match store.redemptions {
            0 => Standing::Current,
            count => Standing::Restored(format!("it knows {count} redemptions and has no mark beside the signing key")),
        };
    };
    if store.redemptions < mark.redemptions {
        let (has, had) = (store.redemptions, mark.redemptions);
        return Standing::Restored(format!("it knows {has} redemptions, and there had been {had}"));
    }
    if store.epoch < mark.epoch {
        let (has, had) = (store.epoch, mark.epoch);
        return Standing::Restored(format!("its epoch is {has}, and had been {had}"));
    }
    for (namespace, log) in &mark.logs {
        match root_at(namespace, log.size) {
            Some(root) if root == log.root => {}
            Some(_) => {
                let size = log.size;
                return Standing::Restored(format!("the log of namespace {namespace} has other entries before {size}"));
            }
            None => {
                let size = log.size;
                return Standing::Restored(format!(
                    "the log of namespace {namespace} had {size} entries, and is shorter"
                ));
            }
        }
    }
    Standing::Current
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn mark(epoch: i64, redemptions: i64, size: u64) -> Mark {
        let log = LogMark { size, root: format!("root at {size}") };
        Mark { epoch, redemptions, logs: BTreeMap::from([("ns".to_owned(), log)]) }
    }

    fn judge(mark: Option<&Mark>, store: &Mark) -> Standing {
        let log = store.logs["ns"].size;
        standing(mark, store, |_, size| (size <= log).then(|| format!("root at {size}")))
    }

    #[test]
    fn a_store_behind_its_mark_in_any_figure_is_restored() {
        let had = mark(2, 3, 4);
        assert_eq!(judge(Some(&had), &mark(2, 3, 4)), Standing::Current);
        assert_eq!(judge(Some(&had), &mark(3, 9, 9)), Standing::Current);
        for behind in [mark(1, 3, 4), mark(2, 2, 4), mark(2, 3, 3)] {
            assert!(matches!(judge(Some(&had), &behind), Standing::Restored(_)), "{behind:?}");
        }
    }

    #[test]
    fn a_forked_log_is_restored() {
        let standing = standing(Some(&mark(1, 1, 1)), &mark(1, 1, 2), |_, _| Some("another".to_owned()));
        assert!(matches!(standing, Standing::Restored(_)));
    }

    #[test]
    fn a_missing_mark_is_refusal_once_anything_was_redeemed() {
        assert_eq!(judge(None, &mark(1, 0, 1)), Standing::Current);
        assert!(matches!(judge(None, &mark(1, 1, 1)), Standing::Restored(_)));
    }

    #[tokio::test]
    async fn a_mark_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileMark(folder.path().to_owned());
        assert_eq!(file.read("s").await.unwrap(), None);
        file.write("s", &mark(1, 2, 3)).await.unwrap();
        assert_eq!(file.read("s").await.unwrap(), Some(mark(1, 2, 3)));
    }
}
