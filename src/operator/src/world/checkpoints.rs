//! Signed checkpoints in ConfigMaps, one key for each namespace's uid.
//!
//! An object holds 1 MiB at most, and so the checkpoints of about 1,500 namespaces: they are spread over a fixed number of objects
//! by the hash of the uid. Each object is written as it was read or written here last: if anybody else has written meanwhile,
//! nothing is replaced before it was read again. A checkpoint that does not fit is refused, and holds up no other.

use super::call::{CallError, call, found};
use super::names::checkpoints;
use super::{Known, ROOM, labels};
use async_trait::async_trait;
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use m87_authority::world::{Checkpoints, MAX_CHECKPOINT};
use m87_core::json::{from_canonical, to_canonical};
use m87_core::sign::Envelope;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use tokio::sync::Mutex;

/// Checkpoints on a cluster.
pub struct ClusterCheckpoints {
    api: Api<ConfigMap>,
    shards: Vec<Shard>,
}

/// One object.
struct Shard {
    name: String,
    /// As this process knows it. Held by whoever reads or writes.
    known: Mutex<Known<Held>>,
}

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    version: String,
    /// How long each text in it is, by the namespace's uid.
    lengths: BTreeMap<String, usize>,
}

impl Held {
    /// Without a version nothing can be written over it.
    fn known(version: Option<String>, lengths: BTreeMap<String, usize>) -> Known<Self> {
        version.map_or(Known::NotRead, |version| Known::Object(Self { version, lengths }))
    }
}

/// A namespace's uid, and the text of its checkpoint.
type Entry = (String, String);

impl ClusterCheckpoints {
    /// Publishes in the operator's own namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self::over(checkpoints(), client, namespace)
    }

    fn over(names: impl Iterator<Item = String>, client: Client, namespace: &str) -> Self {
        let shards = names.map(|name| Shard { name, known: Mutex::new(Known::NotRead) }).collect();
        Self { api: Api::namespaced(client, namespace), shards }
    }

    async fn read(&self, name: &str, known: &mut Known<Held>) -> Result<BTreeMap<String, String>, CallError> {
        *known = Known::NotRead;
        let Some(object) = found("reading checkpoints", self.api.get(name)).await? else {
            *known = Known::Absent;
            return Ok(BTreeMap::new());
        };
        let data = object.data.unwrap_or_default();
        let lengths = data.iter().map(|(uid, text)| (uid.clone(), text.len())).collect();
        *known = Held::known(object.metadata.resource_version, lengths);
        Ok(data)
    }

    async fn write(&self, name: &str, known: &mut Known<Held>, entries: &[Entry]) -> Result<(), CallError> {
        let data: BTreeMap<_, _> = entries.iter().cloned().collect();
        let (mut lengths, written) = match &*known {
            // Whoever has changed it may have published a longer log's checkpoint.
            Known::NotRead => {
                return Err(CallError::Conflict(format!("{name} is to be read again before it is written")));
            }
            Known::Object(Held { version, lengths }) => {
                let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "data": data }));
                let parameters = PatchParams::default();
                let patched = call("publishing checkpoints", self.api.patch_metadata(name, &parameters, &patch)).await;
                (lengths.clone(), patched.map(|object| object.metadata))
            }
            Known::Absent => {
                let metadata =
                    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels()), ..ObjectMeta::default() };
                let object = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
                let parameters = PostParams::default();
                let made = call("making a ConfigMap of checkpoints", self.api.create(&parameters, &object)).await;
                (BTreeMap::new(), made.map(|object| object.metadata))
            }
        };
        match written {
            Ok(ObjectMeta { resource_version, .. }) => {
                lengths.extend(entries.iter().map(|(uid, text)| (uid.clone(), text.len())));
                *known = Held::known(resource_version, lengths);
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

    /// Writes these into one object, and gives back which could not be.
    async fn fill(&self, shard: &Shard, entries: Vec<Entry>) -> Vec<(String, CallError)> {
        let mut known = shard.known.lock().await;
        let (fitting, mut failed) = fitting(&shard.name, &known, entries);
        let mut parts: Vec<_> = Some(fitting).filter(|part| !part.is_empty()).into_iter().collect();
        while let Some(mut part) = parts.pop() {
            match self.write(&shard.name, &mut known, &part).await {
                Ok(()) => {}
                // One of them is not to the server's liking: the others go on without it.
                Err(CallError::Refused(_)) if part.len() > 1 => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Err(error) => failed.extend(part.into_iter().map(|(uid, _)| (uid, error.clone()))),
            }
        }
        failed
    }
}

/// Which of these the object has room for; the others fail, each by itself.
fn fitting(name: &str, known: &Known<Held>, entries: Vec<Entry>) -> (Vec<Entry>, Vec<(String, CallError)>) {
    let mut lengths = match known {
        Known::Object(held) => held.lengths.clone(),
        Known::NotRead | Known::Absent => BTreeMap::new(),
    };
    let mut taken: usize = lengths.values().sum();
    let (mut fit, mut failed) = (Vec::new(), Vec::new());
    for (uid, text) in entries {
        let with = taken - lengths.get(&uid).copied().unwrap_or_default() + text.len();
        if with > ROOM {
            let why = format!("ConfigMap {name} has {taken} bytes, of {ROOM} that there is room for");
            failed.push((uid, CallError::Refused(why)));
        } else {
            taken = with;
            lengths.insert(uid.clone(), text.len());
            fit.push((uid, text));
        }
    }
    (fit, failed)
}

/// In which of so many objects a namespace's checkpoint is.
fn place(namespace_uid: &str, shards: usize) -> usize {
    let first = Sha256::digest(namespace_uid).first().copied().unwrap_or_default();
    usize::from(first).checked_rem(shards).unwrap_or_default()
}

#[async_trait]
impl Checkpoints for ClusterCheckpoints {
    async fn published(&self) -> io::Result<BTreeMap<String, Envelope>> {
        let reading =
            self.shards.iter().map(async |shard| self.read(&shard.name, &mut *shard.known.lock().await).await);
        let data = try_join_all(reading).await.map_err(io::Error::other)?.into_iter().flatten();
        Ok(data.filter_map(|(uid, text)| Some((uid, from_canonical(text.as_bytes()).ok()?))).collect())
    }

    async fn publish(&self, checkpoints: &BTreeMap<String, Envelope>) -> BTreeMap<String, io::Error> {
        let (mut of_shards, mut failed) = (BTreeMap::<usize, Vec<Entry>>::new(), BTreeMap::new());
        for (uid, checkpoint) in checkpoints {
            match text(checkpoint) {
                Ok(text) => {
                    of_shards.entry(place(uid, self.shards.len())).or_default().push((uid.clone(), text));
                }
                Err(error) => {
                    failed.insert(uid.clone(), error);
                }
            }
        }
        let filling = of_shards.into_iter().filter_map(|(at, entries)| Some(self.fill(self.shards.get(at)?, entries)));
        let refused = join_all(filling).await.into_iter().flatten();
        failed.extend(refused.map(|(uid, error)| (uid, io::Error::other(error))));
        failed
    }
}

fn text(checkpoint: &Envelope) -> io::Result<String> {
    let text = to_canonical(checkpoint).map_err(io::Error::other)?;
    if text.len() > MAX_CHECKPOINT {
        return Err(io::Error::other(format!(
            "a checkpoint of {} bytes, at most {MAX_CHECKPOINT} are taken",
            text.len()
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::world::fake_config_maps::ConfigMaps;
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
        let one_object = std::iter::once("m87-checkpoints-0".to_owned());
        let checkpoints = ClusterCheckpoints::over(one_object, api.client(), "m87");
        assert_eq!(checkpoints.publish(&many("a", 1)).await.len(), 1, "not before it was read");
        assert!(checkpoints.published().await.unwrap().is_empty());
        let first = many("a", 700);
        assert!(checkpoints.publish(&first).await.is_empty());
        // Together they do not fit; those that do are there, and those that were there before still change.
        let second = many("b", 700);
        let failed = checkpoints.publish(&second).await;
        assert!((1..700).contains(&failed.len()), "{}", failed.len());
        assert!(failed.values().all(|error| error.to_string().contains("of 1048576 that there is room for")));
        let mut held = first.clone();
        held.extend(second.into_iter().filter(|(uid, _)| !failed.contains_key(uid)));
        assert_eq!(checkpoints.published().await.unwrap(), held);
        assert_eq!(api.data("m87-checkpoints-0").len(), held.len());
        let next: BTreeMap<_, _> = first.into_keys().map(|uid| (uid, checkpoint(&"y".repeat(600)))).collect();
        assert!(checkpoints.publish(&next).await.is_empty());
        held.extend(next);
        assert_eq!(checkpoints.published().await.unwrap(), held);
        // One that is too long for any object is not even sent.
        let long = BTreeMap::from([("long".to_owned(), checkpoint(&"x".repeat(MAX_CHECKPOINT)))]);
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
        for _ in 0..2 {
            assert_eq!(old.publish(&one("1")).await.len(), 1, "it has not seen the second");
        }
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

    #[tokio::test]
    async fn checkpoints_are_spread_over_every_object_and_each_stays_where_it_is() {
        let api = ConfigMaps::default();
        let all = many("ns", 4_000);
        let cluster = ClusterCheckpoints::new(api.client(), "m87");
        assert!(cluster.published().await.unwrap().is_empty());
        assert!(cluster.publish(&all).await.is_empty());
        let sizes: Vec<usize> = checkpoints().map(|name| api.data(&name).len()).collect();
        assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (16, 4_000));
        assert!(sizes.iter().all(|size| (180..320).contains(size)), "{sizes:?}");
        assert_eq!(ClusterCheckpoints::new(api.client(), "m87").published().await.unwrap(), all);
        // One that moved would be there twice.
        let of = |uid: &str| checkpoints().nth(place(uid, 16)).unwrap();
        assert_eq!(of("00000000-0000-4000-8000-000000000001"), "m87-checkpoints-1");
        assert_eq!(of("ns-1"), "m87-checkpoints-a");
    }

    #[test]
    fn the_charts_role_lets_every_object_be_written_and_no_other() {
        let chart =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/m87/templates/rbac-operator.yaml");
        let text = std::fs::read_to_string(chart).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let named: std::collections::BTreeSet<_> = words.filter(|word| word.starts_with("m87-checkpoints")).collect();
        let all: Vec<String> = checkpoints().collect();
        assert_eq!(named, all.iter().map(String::as_str).collect());
    }
}
