//! The trees over the logs, kept in memory and caught up from the store, which holds the entries.

use crate::mark::LogMark;
use crate::store::{Store, StoreError};
use m87_core::log::Log;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Each namespace's tree, by the namespace's uid.
#[derive(Default)]
pub(crate) struct LogBook {
    trees: Mutex<HashMap<String, Log>>,
    /// One catches up at a time, so that no entry is appended twice.
    catching_up: tokio::sync::Mutex<()>,
}

impl LogBook {
    /// Reads what the store has more than the trees.
    pub(crate) async fn catch_up(&self, store: &dyn Store) -> Result<(), StoreError> {
        let _one_at_a_time = self.catching_up.lock().await;
        for namespace in store.namespaces().await? {
            let from = self.with(&namespace, |log| log.size());
            for entry in store.log(&namespace, from).await? {
                let leaf = entry
                    .leaf()
                    .map_err(|error| StoreError::Corrupt { what: "a log entry", message: error.to_string() })?;
                self.with(&namespace, |log| log.append(leaf));
            }
        }
        Ok(())
    }

    /// The tree of a namespace.
    pub(crate) fn tree(&self, namespace_uid: &str) -> Log {
        self.with(namespace_uid, |log| log.clone())
    }

    /// The root of a namespace's log at that size, hex; `None` if it is not that long.
    pub(crate) fn root_at(&self, namespace_uid: &str, size: u64) -> Option<String> {
        self.with(namespace_uid, |log| log.root_at(size)).map(|root| root.to_string())
    }

    /// How far each log has come.
    pub(crate) fn marks(&self) -> BTreeMap<String, LogMark> {
        let trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees
            .iter()
            .map(|(namespace, log)| (namespace.clone(), LogMark { size: log.size(), root: log.root().to_string() }))
            .collect()
    }

    fn with<T>(&self, namespace_uid: &str, look: impl FnOnce(&mut Log) -> T) -> T {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        look(trees.entry(namespace_uid.to_owned()).or_default())
    }
}
