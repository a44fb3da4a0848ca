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

/// What is kept outside a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Nothing was ever written.
    Nothing,
    /// The store's own mark.
    Own(Mark),
    /// The mark of another store: the one that was here has been swapped.
    OfAnother {
        /// The id of that store.
        store_id: String,
        /// The latest leader's epoch over it.
        epoch: i64,
    },
    /// No mark, and this trace of a store that must have had one.
    Lost(String),
}

impl Kept {
    /// The latest leader's epoch that is known here; 0 if none is.
    pub const fn epoch(&self) -> i64 {
        match self {
            Self::Own(mark) => mark.epoch,
            Self::OfAnother { epoch, .. } => *epoch,
            Self::Nothing | Self::Lost(_) => 0,
        }
    }
}

/// Where the mark is kept: one API object on a cluster, locally a file beside the signing key.
#[async_trait]
pub trait HighWaterMark: Send + Sync {
    /// What is kept for the store with that id.
    async fn read(&self, store_id: &str) -> Result<Kept, MarkError>;

    /// Writes the mark of a store that stands to it as it should. When this returns, it is durable. Where others could
    /// write too, it fails if anybody has done so since it was read or written here: then somebody else leads.
    async fn write(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError>;

    /// Writes the mark in place of whatever is kept, since a person has accepted the store as it is.
    async fn accept(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError>;

    /// Where it is, for people.
    fn place(&self, store_id: &str) -> String;

    /// How a person accepts the store as it is: a command.
    fn accepting(&self, store_id: &str) -> String;
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
    async fn read(&self, store_id: &str) -> Result<Kept, MarkError> {
        match read_private(&self.path(store_id)).map_err(|error| self.error(store_id, error))? {
            Some(content) => {
                serde_json::from_slice(&content).map(Kept::Own).map_err(|error| self.error(store_id, error))
            }
            None => Ok(Kept::Nothing),
        }
    }

    async fn write(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError> {
        let content = serde_json::to_vec(mark).map_err(|error| self.error(store_id, error))?;
        let path = self.path(store_id);
        tokio::task::spawn_blocking(move || write_private(&path, &content))
            .await
            .map_err(|error| self.error(store_id, error))?
            .map_err(|error| self.error(store_id, error))
    }

    async fn accept(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError> {
        self.write(store_id, mark).await
    }

    fn place(&self, store_id: &str) -> String {
        self.path(store_id).display().to_string()
    }

    fn accepting(&self, _store_id: &str) -> String {
        "m87 store accept --out DIR".to_owned()
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

/// Judges a store by what is kept outside it. `root_at` gives the root of a namespace's log at a size, `None` if it is not
/// that long.
pub fn standing(kept: &Kept, store: &Mark, mut root_at: impl FnMut(&str, u64) -> Option<String>) -> Standing {
    let mark = match kept {
        Kept::Own(mark) => mark,
        Kept::OfAnother { store_id, .. } => {
            return Standing::Restored(format!("the mark is that of the store {store_id}, which was here before it"));
        }
        Kept::Lost(trace) => return Standing::Restored(format!("its mark is gone, and {trace}")),
        Kept::Nothing => {
            return match store.redemptions {
                0 => Standing::Current,
                count => Standing::Restored(format!("it knows {count} redemptions and its mark is gone")),
            };
        }
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

    fn judge(kept: &Kept, store: &Mark) -> Standing {
        let log = store.logs["ns"].size;
        standing(kept, store, |_, size| (size <= log).then(|| format!("root at {size}")))
    }

    #[test]
    fn a_store_behind_its_mark_in_any_figure_is_restored() {
        let had = Kept::Own(mark(2, 3, 4));
        assert_eq!(judge(&had, &mark(2, 3, 4)), Standing::Current);
        assert_eq!(judge(&had, &mark(3, 9, 9)), Standing::Current);
        for behind in [mark(1, 3, 4), mark(2, 2, 4), mark(2, 3, 3)] {
            assert!(matches!(judge(&had, &behind), Standing::Restored(_)), "{behind:?}");
        }
    }

    #[test]
    fn a_forked_log_is_restored() {
        let standing = standing(&Kept::Own(mark(1, 1, 1)), &mark(1, 1, 2), |_, _| Some("another".to_owned()));
        assert!(matches!(standing, Standing::Restored(_)));
    }

    #[test]
    fn a_missing_mark_is_refusal_once_anything_was_redeemed() {
        assert_eq!(judge(&Kept::Nothing, &mark(1, 0, 1)), Standing::Current);
        assert!(matches!(judge(&Kept::Nothing, &mark(1, 1, 1)), Standing::Restored(_)));
    }

    #[test]
    fn a_store_whose_mark_is_anothers_or_lost_is_restored_however_new_it_is() {
        let swapped = Kept::OfAnother { store_id: "s".to_owned(), epoch: 7 };
        for kept in [swapped.clone(), Kept::Lost("a trace".to_owned())] {
            assert!(matches!(judge(&kept, &mark(0, 0, 0)), Standing::Restored(_)), "{kept:?}");
        }
        assert_eq!(swapped.epoch(), 7);
    }

    #[tokio::test]
    async fn a_mark_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileMark(folder.path().to_owned());
        assert_eq!(file.read("s").await.unwrap(), Kept::Nothing);
        file.write("s", &mark(1, 2, 3)).await.unwrap();
        assert_eq!(file.read("s").await.unwrap(), Kept::Own(mark(1, 2, 3)));
    }
}
