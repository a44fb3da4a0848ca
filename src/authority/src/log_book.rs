//! The trees over the logs, kept in memory and caught up from the store, which holds the entries.

use crate::mark::LogMark;
use crate::store::{Store, StoreError};
use m87_core::log::Log;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Each namespace's tree, by the namespace's uid.
pub(crate) struct LogBook {
    /// Entries that are read at one time.
    page: u64,
    trees: Mutex<HashMap<String, Log>>,
    /// One catches up at a time, so that no entry is appended twice.
    catching_up: tokio::sync::Mutex<()>,
}

impl LogBook {
    /// Trees over nothing yet, caught up by so many entries at a time.
    pub(crate) fn new(page: u64) -> Self {
        Self { page: page.max(1), trees: Mutex::default(), catching_up: tokio::sync::Mutex::default() }
    }

    /// Reads what the store has more than the trees.
    pub(crate) async fn catch_up(&self, store: &dyn Store) -> Result<(), StoreError> {
        for namespace in store.namespaces().await? {
            self.catch_up_one(store, &namespace).await?;
        }
        Ok(())
    }

    /// Reads what the store has more than the tree of one namespace.
    pub(crate) async fn catch_up_one(&self, store: &dyn Store, namespace_uid: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.catching_up.lock().await;
        loop {
            let from = self.with(namespace_uid, |log| log.size());
            let entries = store.log(namespace_uid, from..from.saturating_add(self.page)).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                let corrupt = |message: String| StoreError::Corrupt { what: "a log entry", message };
                let leaf = entry.leaf().map_err(|error| corrupt(error.to_string()))?;
                self.with(namespace_uid, |log| log.append(leaf));
            }
        }
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
            // Who was only looked at has no log.
            .filter(|(_, log)| log.size() > 0)
            .map(|(namespace, log)| (namespace.clone(), LogMark { size: log.size(), root: log.root().to_string() }))
            .collect()
    }

    /// Looks at the tree of a namespace.
    pub(crate) fn with<T>(&self, namespace_uid: &str, look: impl FnOnce(&mut Log) -> T) -> T {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        look(trees.entry(namespace_uid.to_owned()).or_default())
    }
}
