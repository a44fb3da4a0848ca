//! The high-water mark as one ConfigMap, replaced by compare-and-set.
//!
//! Each process that writes it has a name of its own, drawn when it starts. A replace that does not fit is looked into: if
//! the object holds what this process wrote, or what it had read, only its version has moved, and the write is repeated.
//! Otherwise somebody else leads over the same or another store: that is an error for ever after, so that no redemption of a
//! deposed leader or of a swapped volume is ever answered.
//!
//! An object holds 1 MiB, and so the logs of about 8,000 namespaces. A mark that does not fit is not written, and so nothing is
//! executed any more; it is told long before.

use super::call::{CallError, call, found};
use super::names::{MARK, checkpoints};
use super::{Known, ROOM, labels};
use async_trait::async_trait;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use m87_authority::entropy::{Entropy, NoEntropy, SystemEntropy};
use m87_authority::mark::{HighWaterMark, Kept, Mark, MarkError};
use m87_core::time::Timestamp;
use std::collections::BTreeMap;
use tokio::sync::{Mutex, watch};

/// Put on the ConfigMap by a person, with a store's id: that store is accepted as it is.
pub const ACCEPT: &str = "m87.dev/accept-store";

/// Put on the ConfigMap when a store is accepted: since when what the store does not know of has not happened.
pub const ACCEPTED_AT: &str = "m87.dev/store-accepted-at";

const STORE: &str = "store";
const CONTENT: &str = "mark";
const WRITER: &str = "writer";

/// From here on it is told, in bytes.
const NEARLY: usize = ROOM / 4 * 3;

/// How often a write is repeated because only the object's version has moved.
const TRIES: usize = 4;

/// The mark on a cluster.
pub struct ClusterMark {
    api: Api<ConfigMap>,
    namespace: String,
    /// This process's name.
    writer: String,
    /// The object as this process knows it.
    known: Mutex<Known<Box<ConfigMap>>>,
    /// How long the mark is, in bytes.
    length: watch::Sender<usize>,
}

/// What is to be told of a mark of that length, if anything is.
pub fn nearly_full(length: usize) -> Option<String> {
    (length > NEARLY).then(|| {
        format!(
            "the high-water mark has {length} bytes, of {ROOM} that a ConfigMap has room for: once it is full nothing is executed \
             any more; each namespace in which there ever was a run takes about 130, so let no more be made on this cluster"
        )
    })
}

impl Known<Box<ConfigMap>> {
    fn of(object: Option<ConfigMap>) -> Self {
        object.map_or(Self::Absent, |object| Self::Object(Box::new(object)))
    }
}

impl ClusterMark {
    /// Keeps the mark in the operator's own namespace.
    pub fn new(client: Client, namespace: impl Into<String>) -> Result<Self, NoEntropy> {
        let namespace = namespace.into();
        let writer = SystemEntropy.secret()?.chars().take(16).collect();
        let api = Api::namespaced(client, &namespace);
        Ok(Self { api, namespace, writer, known: Mutex::new(Known::NotRead), length: watch::Sender::new(0) })
    }

    /// How long the mark is, in bytes, now and from now on.
    pub fn length(&self) -> watch::Receiver<usize> {
        self.length.subscribe()
    }

    /// Whether a mark was ever written: then somebody has led here before.
    pub async fn exists(&self) -> Result<bool, MarkError> {
        let object = self.get().await?;
        Ok(object.is_some_and(|object| value(&object, CONTENT).is_some()))
    }

    /// Whether a person has accepted that store as it is, and nobody has acted on it yet.
    pub async fn is_accepted(&self, store_id: &str) -> Result<bool, MarkError> {
        let annotations = self.get().await?.and_then(|object| object.metadata.annotations).unwrap_or_default();
        Ok(annotations.get(ACCEPT).is_some_and(|accepted| accepted == store_id))
    }

    /// Since when what the store does not know of has not happened; `None` if that was always so.
    pub async fn accepted_at(&self) -> Result<Option<Timestamp>, MarkError> {
        let annotations = self.get().await?.and_then(|object| object.metadata.annotations).unwrap_or_default();
        let Some(text) = annotations.get(ACCEPTED_AT) else { return Ok(None) };
        let wrong = |error| self.error(format_args!("its annotation {ACCEPTED_AT} is {text:?}: {error}"));
        Timestamp::parse(text).map(Some).map_err(wrong)
    }

    /// Notes that the store is accepted as of this instant.
    pub async fn remember_acceptance(&self, at: Timestamp) -> Result<(), MarkError> {
        let note = Patch::Merge(serde_json::json!({"metadata": {"annotations": {ACCEPTED_AT: at.to_string()}}}));
        let parameters = PatchParams::default();
        let noted = call("noting on it that a store is accepted", self.api.patch(MARK, &parameters, &note)).await;
        noted.map(|_| ()).map_err(|error| self.error(error))
    }

    async fn get(&self) -> Result<Option<ConfigMap>, MarkError> {
        found("reading it", self.api.get(MARK)).await.map_err(|error| self.error(error))
    }

    fn error(&self, message: impl std::fmt::Display) -> MarkError {
        MarkError { place: format!("ConfigMap {}/{MARK}", self.namespace), message: message.to_string() }
    }

    /// A sign, outside the mark, that a store was here before.
    async fn trace(&self) -> Result<Option<String>, MarkError> {
        let looking = checkpoints().map(async |name| found("looking for checkpoints", self.api.get(&name)).await);
        let objects = try_join_all(looking).await.map_err(|error| self.error(error))?;
        let count: usize = objects.into_iter().flatten().filter_map(|object| object.data).map(|data| data.len()).sum();
        let namespace = &self.namespace;
        Ok((count > 0)
            .then(|| format!("ConfigMaps {namespace}/m87-checkpoints-* have checkpoints of {count} namespaces")))
    }

    /// The object with this content, based on what is known of it, so that nobody's notes on it are lost.
    fn object(&self, known: &Known<Box<ConfigMap>>, store_id: &str, mark: &Mark) -> Result<ConfigMap, MarkError> {
        let content = serde_json::to_string(mark).map_err(|error| self.error(error))?;
        self.length.send_replace(content.len());
        let length = content.len() + store_id.len() + self.writer.len();
        if length > ROOM {
            let namespaces = mark.logs.len();
            return Err(self.error(format_args!(
                "with the logs of {namespaces} namespaces it has {length} bytes, and a ConfigMap has room for {ROOM}; as long as it \
                 cannot be written nothing is executed"
            )));
        }
        let mut object = match known {
            Known::Object(object) => (**object).clone(),
            Known::NotRead | Known::Absent => ConfigMap {
                metadata: ObjectMeta { name: Some(MARK.to_owned()), labels: Some(labels()), ..ObjectMeta::default() },
                ..ConfigMap::default()
            },
        };
        object.metadata.managed_fields = None;
        object.data = Some(BTreeMap::from([
            (STORE.to_owned(), store_id.to_owned()),
            (CONTENT.to_owned(), content),
            (WRITER.to_owned(), self.writer.clone()),
        ]));
        Ok(object)
    }

    async fn put(&self, known: &Known<Box<ConfigMap>>, object: &ConfigMap) -> Result<ConfigMap, CallError> {
        let parameters = PostParams::default();
        match known {
            Known::Object(_) => call("writing it", self.api.replace(MARK, &parameters, object)).await,
            Known::Absent | Known::NotRead => call("creating it", self.api.create(&parameters, object)).await,
        }
    }

    /// Whether the object, as it is now, is still this process's to write.
    fn judge(&self, known: &Known<Box<ConfigMap>>, now: Option<&ConfigMap>) -> Result<(), MarkError> {
        let Some(now) = now else {
            // Whoever deleted it has written nothing in its place.
            return Ok(());
        };
        let is_own = value(now, WRITER) == Some(&self.writer);
        let is_as_read = match known {
            Known::Object(known) => known.data == now.data,
            Known::Absent | Known::NotRead => value(now, CONTENT).is_none(),
        };
        if is_own || is_as_read {
            return Ok(());
        }
        let store = value(now, STORE).map_or("?", String::as_str);
        let epoch = read_mark(now).map_or_else(|_| "?".to_owned(), |mark| mark.epoch.to_string());
        Err(self.error(format_args!(
            "another authority has written it, with epoch {epoch} over the store {store}: this one leads no more; \
             see to it that only one runs, and restart it"
        )))
    }
}

fn value<'o>(object: &'o ConfigMap, key: &str) -> Option<&'o String> {
    object.data.as_ref()?.get(key)
}

fn read_mark(object: &ConfigMap) -> Result<Mark, String> {
    let content = value(object, CONTENT).ok_or("it has no key `mark`")?;
    serde_json::from_str(content).map_err(|error| error.to_string())
}

/// What the object says to the store with that id; `None` if it says nothing at all.
fn kept(object: &ConfigMap, store_id: &str) -> Result<Option<Kept>, String> {
    if value(object, CONTENT).is_none() && value(object, STORE).is_none() {
        return Ok(None);
    }
    let mark = read_mark(object)?;
    match value(object, STORE) {
        Some(store) if store == store_id => Ok(Some(Kept::Own(mark))),
        Some(store) => Ok(Some(Kept::OfAnother { store_id: store.clone(), epoch: mark.epoch })),
        None => Err("it has no key `store`".to_owned()),
    }
}

#[async_trait]
impl HighWaterMark for ClusterMark {
    async fn read(&self, store_id: &str) -> Result<Kept, MarkError> {
        let mut known = self.known.lock().await;
        let object = self.get().await?;
        let said = object.as_ref().map(|object| kept(object, store_id)).transpose();
        let said =
            said.map_err(|why| self.error(format_args!("it cannot be read ({why}); restore it from a backup")))?;
        *known = Known::of(object);
        if let Some(kept) = said.flatten() {
            return Ok(kept);
        }
        let Some(trace) = self.trace().await? else { return Ok(Kept::Nothing) };
        if matches!(*known, Known::Absent) {
            // An empty one, so that a person can write on it that the store is accepted.
            let mut empty = self.object(&Known::Absent, store_id, &Mark::default())?;
            empty.data = None;
            *known = Known::of(Some(self.put(&Known::Absent, &empty).await.map_err(|error| self.error(error))?));
        }
        Ok(Kept::Lost(trace))
    }

    async fn write(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError> {
        let mut known = self.known.lock().await;
        if matches!(*known, Known::NotRead) {
            return Err(self.error("it was not read before it was to be written"));
        }
        if let Known::Object(object) = &*known
            && value(object, WRITER) != Some(&self.writer)
        {
            // What was there before this process wrote for the first time.
            match kept(object, store_id).map_err(|why| self.error(why))? {
                None | Some(Kept::Nothing) => {}
                Some(Kept::Own(before)) if before.epoch < mark.epoch => {}
                Some(Kept::Own(before)) => {
                    let (theirs, ours) = (before.epoch, mark.epoch);
                    return Err(
                        self.error(format_args!("it is of epoch {theirs}, and this one leads with epoch {ours}"))
                    );
                }
                Some(Kept::OfAnother { store_id: other, .. }) => {
                    return Err(self.error(format_args!("it is that of the store {other}, not of {store_id}")));
                }
                Some(Kept::Lost(why)) => return Err(self.error(why)),
            }
        }
        for _ in 0..TRIES {
            let object = self.object(&known, store_id, mark)?;
            match self.put(&known, &object).await {
                Ok(written) => {
                    *known = Known::of(Some(written));
                    return Ok(());
                }
                Err(CallError::Conflict(_) | CallError::NotFound(_)) => {
                    let now = self.get().await?;
                    self.judge(&known, now.as_ref())?;
                    *known = Known::of(now);
                }
                Err(error @ (CallError::Forbidden(_) | CallError::Refused(_) | CallError::Unavailable(_))) => {
                    return Err(self.error(error));
                }
            }
        }
        Err(self.error(format_args!("it was changed {TRIES} times while it was to be written")))
    }

    async fn accept(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError> {
        let mut known = self.known.lock().await;
        let now = self.get().await?;
        if let Some(theirs) = now.as_ref().and_then(|now| read_mark(now).ok()).filter(|now| now.epoch > mark.epoch) {
            let (theirs, ours) = (theirs.epoch, mark.epoch);
            return Err(self.error(format_args!("an authority with epoch {theirs} leads, this one has {ours}")));
        }
        let now = Known::of(now);
        let mut object = self.object(&now, store_id, mark)?;
        if let Some(annotations) = &mut object.metadata.annotations {
            annotations.remove(ACCEPT);
        }
        *known = Known::of(Some(self.put(&now, &object).await.map_err(|error| self.error(error))?));
        Ok(())
    }

    fn place(&self, _store_id: &str) -> String {
        format!("ConfigMap {}/{MARK}", self.namespace)
    }

    fn accepting(&self, store_id: &str) -> String {
        let kubectl = format!("kubectl --namespace {}", self.namespace);
        format!("{kubectl} annotate configmap {MARK} {ACCEPT}={store_id} && {kubectl} rollout restart statefulset/m87")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::world::fake_config_maps::ConfigMaps;
    use m87_authority::mark::LogMark;

    fn of_namespaces(count: u32) -> Mark {
        let log = LogMark { size: 123_456, root: "0".repeat(64) };
        let logs = (0..count).map(|at| (format!("00000000-0000-4000-8000-{at:012}"), log.clone())).collect();
        Mark { epoch: 1, redemptions: 1, logs }
    }

    #[tokio::test]
    async fn a_mark_that_is_full_is_not_written_and_is_told_long_before() {
        let api = ConfigMaps::default();
        let mark = ClusterMark::new(api.client(), "m87").unwrap();
        let length = mark.length();
        mark.read("s").await.unwrap();
        let (mut told_at, mut full_at) = (None, None);
        for count in (500..12_000).step_by(500) {
            let before = api.data(MARK);
            let written = mark.write("s", &of_namespaces(count)).await;
            if nearly_full(*length.borrow()).is_some() {
                told_at.get_or_insert(count);
            }
            if let Err(error) = written {
                assert!(error.message.contains(&format!("{count} namespaces")), "{error}");
                assert_eq!(api.data(MARK), before);
                full_at = Some(count);
                break;
            }
            assert_eq!(mark.read("s").await.unwrap(), Kept::Own(of_namespaces(count)));
        }
        let (told_at, full_at) = (told_at.unwrap(), full_at.unwrap());
        assert!(told_at + 1_500 <= full_at && full_at > 8_000, "told at {told_at}, full at {full_at}");
        // It still leads, and what fits is written.
        mark.write("s", &of_namespaces(1)).await.unwrap();
        assert_eq!(nearly_full(*length.borrow()), None);
    }

    fn object(data: &[(&str, &str)]) -> ConfigMap {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ConfigMap { data: Some(data), ..ConfigMap::default() }
    }

    #[test]
    fn a_mark_is_its_own_stores_or_names_the_other() {
        let mark = Mark { epoch: 7, redemptions: 1, logs: BTreeMap::new() };
        let text = serde_json::to_string(&mark).unwrap();
        let written = object(&[(STORE, "s"), (CONTENT, &text)]);
        assert_eq!(kept(&written, "s").unwrap(), Some(Kept::Own(mark)));
        assert_eq!(kept(&written, "t").unwrap(), Some(Kept::OfAnother { store_id: "s".to_owned(), epoch: 7 }));
        assert_eq!(kept(&object(&[]), "s").unwrap(), None);
        for damaged in [object(&[(STORE, "s")]), object(&[(CONTENT, &text)]), object(&[(STORE, "s"), (CONTENT, "{")])] {
            assert!(kept(&damaged, "s").is_err(), "{damaged:?}");
        }
    }
}
