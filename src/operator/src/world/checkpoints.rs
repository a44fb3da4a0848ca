//! Signed checkpoints in one ConfigMap, one key for each namespace's uid.
//!
//! Whoever publishes first takes along what others have brought meanwhile, so that a flood of receipts is a few writes. An
//! object holds 1 MiB at most, and so the checkpoints of about 1,500 namespaces; past that the API server refuses, and nothing
//! that was published is dropped for it.

use super::call::{CallError, call};
use super::labels;
use super::names::CHECKPOINTS;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use m87_authority::world::Checkpoints;
use m87_core::json::to_canonical;
use m87_core::sign::Envelope;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// No checkpoint is longer; they have less than 1 KiB.
const LONGEST: usize = 8 * 1024;

/// Checkpoints on a cluster.
pub struct ClusterCheckpoints {
    api: Api<ConfigMap>,
    /// Brought, and not yet published.
    waiting: Mutex<Waiting>,
    /// Held by whoever publishes.
    publishing: tokio::sync::Mutex<()>,
}

/// The latest checkpoint of each namespace that waits, by the namespace's uid.
#[derive(Debug, Default)]
struct Waiting(BTreeMap<String, Text>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Text {
    size: u64,
    json: String,
}

impl Waiting {
    /// Takes one in, unless a longer log's is there: two runs that end at one time may come in any order.
    fn bring(&mut self, namespace_uid: &str, text: Text) {
        match self.0.get(namespace_uid) {
            Some(there) if there.size > text.size => {}
            Some(_) | None => {
                self.0.insert(namespace_uid.to_owned(), text);
            }
        }
    }
}

impl ClusterCheckpoints {
    /// Publishes in the operator's own namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            waiting: Mutex::default(),
            publishing: tokio::sync::Mutex::default(),
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, batch: &BTreeMap<String, Text>) -> Result<(), CallError> {
        let data: BTreeMap<&str, &str> = batch.iter().map(|(uid, text)| (uid.as_str(), text.json.as_str())).collect();
        let patch = Patch::Merge(json!({ "data": data }));
        let parameters = PatchParams::default();
        let patched = self.api.patch_metadata(CHECKPOINTS, &parameters, &patch);
        match call("publishing checkpoints", patched).await {
            Err(CallError::NotFound(_)) => {}
            other => return other.map(drop),
        }
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some(CHECKPOINTS.to_owned()),
                labels: Some(labels()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        match call("making the ConfigMap of checkpoints", self.api.create(&PostParams::default(), &object)).await {
            Ok(_) | Err(CallError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
        let patched = self.api.patch_metadata(CHECKPOINTS, &parameters, &patch);
        call("publishing checkpoints", patched).await.map(drop)
    }
}

/// How long the log is that a checkpoint speaks of; its signature is for its readers.
fn size(checkpoint: &Envelope) -> io::Result<u64> {
    let payload = STANDARD.decode(&checkpoint.payload).map_err(io::Error::other)?;
    let payload: Value = serde_json::from_slice(&payload).map_err(io::Error::other)?;
    payload.get("size").and_then(Value::as_u64).ok_or_else(|| io::Error::other("a checkpoint without a size"))
}

#[async_trait]
impl Checkpoints for ClusterCheckpoints {
    async fn publish(&self, namespace_uid: &str, checkpoint: &Envelope) -> io::Result<()> {
        let text = Text { size: size(checkpoint)?, json: to_canonical(checkpoint).map_err(io::Error::other)? };
        if text.json.len() > LONGEST {
            return Err(io::Error::other(format!(
                "a checkpoint of {} bytes, at most {LONGEST} are taken",
                text.json.len()
            )));
        }
        self.waiting().bring(namespace_uid, text);
        let _one_at_a_time = self.publishing.lock().await;
        let batch = std::mem::take(&mut self.waiting().0);
        if batch.is_empty() {
            // Somebody took it along.
            return Ok(());
        }
        let written = self.write(&batch).await;
        if written.is_err() {
            let mut waiting = self.waiting();
            batch.into_iter().for_each(|(uid, text)| waiting.bring(&uid, text));
        }
        written.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_longer_logs_checkpoint_is_never_replaced_by_a_shorter_ones() {
        let text = |size: u64| Text { size, json: size.to_string() };
        let mut waiting = Waiting::default();
        for size in [1, 3, 2] {
            waiting.bring("ns", text(size));
        }
        waiting.bring("other", text(1));
        assert_eq!(waiting.0["ns"], text(3));
        assert_eq!(waiting.0.len(), 2);
    }
}
