//! Signed checkpoints in a ConfigMap, one key for each namespace's uid.
//!
//! The object is written as it was read or written here last: if anybody else has written meanwhile, nothing is replaced before
//! it was read again. An object holds 1 MiB at most, and so the checkpoints of about 1,500 namespaces; one that does not fit is
//! refused, and holds up no other.

use super::call::{CallError, call, found};
use super::labels;
use super::names::CHECKPOINTS;
use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use m87_authority::world::Checkpoints;
use m87_core::json::{from_canonical, to_canonical};
use m87_core::sign::Envelope;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use tokio::sync::Mutex;

/// No checkpoint is longer; they have less than 1 KiB.
const LONGEST: usize = 8 * 1024;

/// Checkpoints on a cluster.
pub struct ClusterCheckpoints {
    api: Api<ConfigMap>,
    /// The object's version as this process knows it. Held by whoever writes.
    known: Mutex<Known>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    NotRead,
    Absent,
    Version(String),
}

impl Known {
    fn of(metadata: ObjectMeta) -> Self {
        metadata.resource_version.map_or(Self::NotRead, Self::Version)
    }
}

/// A namespace's uid, and the text of its checkpoint.
type Entry = (String, String);

impl ClusterCheckpoints {
    /// Publishes in the operator's own namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), known: Mutex::new(Known::NotRead) }
    }

    async fn read(&self, known: &mut Known) -> Result<BTreeMap<String, String>, CallError> {
        let object = found("reading checkpoints", self.api.get(CHECKPOINTS)).await?;
        let (now, data) = object.map_or((Known::Absent, None), |object| (Known::of(object.metadata), object.data));
        *known = now;
        Ok(data.unwrap_or_default())
    }

    async fn write(&self, known: &mut Known, entries: &[Entry]) -> Result<(), CallError> {
        let data: BTreeMap<_, _> = entries.iter().cloned().collect();
        if *known == Known::NotRead {
            self.read(known).await?;
        }
        let written = if let Known::Version(version) = &*known {
            let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "data": data }));
            let parameters = PatchParams::default();
            let patched = self.api.patch_metadata(CHECKPOINTS, &parameters, &patch);
            call("publishing checkpoints", patched).await.map(|object| object.metadata)
        } else {
            let name = Some(CHECKPOINTS.to_owned());
            let metadata = ObjectMeta { name, labels: Some(labels()), ..ObjectMeta::default() };
            let object = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            let made =
                call("making the ConfigMap of checkpoints", self.api.create(&PostParams::default(), &object)).await;
            made.map(|object| object.metadata)
        };
        match written {
            Ok(metadata) => {
                *known = Known::of(metadata);
                Ok(())
            }
            // Nothing was written; the version is still the one.
            Err(error @ (CallError::Refused(_) | CallError::Forbidden(_))) => Err(error),
            Err(error @ (CallError::Conflict(_) | CallError::NotFound(_) | CallError::Unavailable(_))) => {
                *known = Known::NotRead;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Checkpoints for ClusterCheckpoints {
    async fn published(&self) -> io::Result<BTreeMap<String, Envelope>> {
        let data = self.read(&mut *self.known.lock().await).await.map_err(io::Error::other)?;
        let envelopes = data.into_iter().filter_map(|(uid, text)| Some((uid, from_canonical(text.as_bytes()).ok()?)));
        Ok(envelopes.collect())
    }

    async fn publish(&self, checkpoints: &BTreeMap<String, Envelope>) -> BTreeMap<String, io::Error> {
        let (mut entries, mut failed) = (Vec::new(), BTreeMap::new());
        for (uid, checkpoint) in checkpoints {
            match text(checkpoint) {
                Ok(text) => entries.push((uid.clone(), text)),
                Err(error) => {
                    failed.insert(uid.clone(), error);
                }
            }
        }
        let mut known = self.known.lock().await;
        let mut parts: Vec<_> = Some(entries).filter(|entries| !entries.is_empty()).into_iter().collect();
        while let Some(mut part) = parts.pop() {
            match self.write(&mut known, &part).await {
                Ok(()) => {}
                // One of them does not fit: the others go on without it.
                Err(CallError::Refused(_)) if part.len() > 1 => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Err(error) => {
                    failed.extend(part.into_iter().map(|(uid, _)| (uid, io::Error::other(error.clone()))));
                }
            }
        }
        failed
    }
}

fn text(checkpoint: &Envelope) -> io::Result<String> {
    let text = to_canonical(checkpoint).map_err(io::Error::other)?;
    if text.len() > LONGEST {
        return Err(io::Error::other(format!("a checkpoint of {} bytes, at most {LONGEST} are taken", text.len())));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::world::config_maps::ConfigMaps;
    use m87_core::sign::SigningKey;

    fn checkpoint(text: &str) -> Envelope {
        Envelope::seal("checkpoint", text.as_bytes(), &SigningKey::from_seed(&[7; 32]))
    }

    /// Of so many namespaces; about 1 KiB each.
    fn many(prefix: &str, count: usize) -> BTreeMap<String, Envelope> {
        (0..count).map(|at| (format!("{prefix}-{at}"), checkpoint(&"x".repeat(600)))).collect()
    }

    #[tokio::test]
    async fn what_does_not_fit_holds_up_only_itself() {
        let api = ConfigMaps::default();
        let checkpoints = ClusterCheckpoints::new(api.client(), "m87");
        let first = many("a", 700);
        assert!(checkpoints.publish(&first).await.is_empty());
        // Together they do not fit; those that do are there, and those that were there before still change.
        let second = many("b", 700);
        let failed = checkpoints.publish(&second).await;
        assert!((1..700).contains(&failed.len()), "{}", failed.len());
        let mut held = first.clone();
        held.extend(second.into_iter().filter(|(uid, _)| !failed.contains_key(uid)));
        assert_eq!(checkpoints.published().await.unwrap(), held);
        assert_eq!(api.data(CHECKPOINTS).len(), held.len());
        let next: BTreeMap<_, _> = first.into_keys().map(|uid| (uid, checkpoint(&"y".repeat(600)))).collect();
        assert!(checkpoints.publish(&next).await.is_empty());
        held.extend(next);
        assert_eq!(checkpoints.published().await.unwrap(), held);
        // One that is too long for any object is not even sent.
        let long = BTreeMap::from([("long".to_owned(), checkpoint(&"x".repeat(LONGEST)))]);
        let writes = api.writes();
        assert!(checkpoints.publish(&long).await["long"].to_string().contains("at most 8192"));
        assert_eq!(api.writes(), writes);
    }

    #[tokio::test]
    async fn nothing_is_replaced_that_somebody_else_has_written_meanwhile() {
        let api = ConfigMaps::default();
        let (old, new) = (ClusterCheckpoints::new(api.client(), "m87"), ClusterCheckpoints::new(api.client(), "m87"));
        let one = |text| BTreeMap::from([("ns".to_owned(), checkpoint(text))]);
        assert!(old.published().await.unwrap().is_empty());
        assert!(old.publish(&one("1")).await.is_empty() && new.published().await.unwrap() == one("1"));
        assert!(new.publish(&one("2")).await.is_empty());
        assert_eq!(old.publish(&one("1")).await.len(), 1, "it has not seen the second");
        assert_eq!(old.published().await.unwrap(), one("2"));
        assert!(old.publish(&one("3")).await.is_empty());
        // Both want to make the object.
        let (one_of, other) = (ConfigMaps::default(), checkpoint("1"));
        let (a, b) = (ClusterCheckpoints::new(one_of.client(), "m87"), ClusterCheckpoints::new(one_of.client(), "m87"));
        assert!(a.published().await.unwrap().is_empty() && b.published().await.unwrap().is_empty());
        assert!(a.publish(&one("2")).await.is_empty());
        assert_eq!(b.publish(&BTreeMap::from([("ns".to_owned(), other)])).await.len(), 1);
        assert_eq!(a.published().await.unwrap(), one("2"));
    }
}
