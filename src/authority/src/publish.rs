//! Checkpoints leave the store by a task of their own. Sealing only says whose log has grown: an API server that is slow or gone
//! keeps no run from its receipt, and what could not be published is tried again until it is.

use crate::authority::Authority;
use m87_core::log::{Checkpoint, Log};
use m87_core::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What could not be published is tried again after so long, and each time after twice as long, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// After a publication the next waits so long: in a flood of runs, many share a write.
const PAUSE: Duration = Duration::from_millis(500);

/// Whose log may be ahead of its checkpoint.
#[derive(Default)]
pub(crate) struct Outbox {
    /// These namespaces'.
    grown: Mutex<BTreeSet<String>>,
    bell: Notify,
}

impl Outbox {
    /// The log of that namespace has grown.
    pub(crate) fn grown(&self, namespace_uid: &str) {
        self.lock().insert(namespace_uid.to_owned());
        self.bell.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What could not be published yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpublished {
    /// Namespaces.
    pub namespaces: usize,
    /// Why, of the first; empty if there is none.
    pub why: String,
}

/// What is to be done about a namespace's checkpoint.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// The log's head is published.
    Nothing,
    Publish,
    /// What is published speaks against the log, and stays: it is the evidence.
    Contradicted(String),
}

/// Judges what is published of a log by the log. What was signed before a person had accepted the store as it is may be of the
/// history that was given up.
fn due(published: Option<&Checkpoint>, log: &Log, accepted_at: Option<Timestamp>) -> Due {
    let Some(Checkpoint { size, root, timestamp, .. }) = published else { return Due::Publish };
    match log.root_at(*size) {
        Some(own) if own == *root && *size == log.size() => Due::Nothing,
        Some(own) if own == *root => Due::Publish,
        Some(_) | None if accepted_at.is_some_and(|at| *timestamp <= at) => Due::Publish,
        Some(_) => Due::Contradicted(format!("the log has others than the {size} entries that are published")),
        None => Due::Contradicted(format!("{size} entries are published, and the log has {}", log.size())),
    }
}

/// Publishes until it is closed, or dropped.
pub struct Publisher {
    task: JoinHandle<()>,
    stop: CancellationToken,
    unpublished: watch::Receiver<Unpublished>,
    _ends_with_it: DropGuard,
}

impl Publisher {
    /// Publishes what is not published yet, and from now on whatever grows. `accepted_at` is when a person accepted the store as it
    /// is, if ever; it has to be remembered as long as the store.
    pub fn start(authority: Arc<Authority>, cluster_uid: &str, accepted_at: Option<Timestamp>) -> Self {
        let (stop, (tell, unpublished)) = (CancellationToken::new(), watch::channel(Unpublished::default()));
        let rounds = Rounds {
            authority,
            cluster_uid: cluster_uid.to_owned(),
            accepted_at,
            published: BTreeMap::new(),
            late: BTreeMap::new(),
            tell,
        };
        let task = tokio::spawn(rounds.run(stop.clone()));
        Self { task, unpublished, _ends_with_it: stop.clone().drop_guard(), stop }
    }

    /// What could not be published, now and from now on.
    pub fn unpublished(&self) -> watch::Receiver<Unpublished> {
        self.unpublished.clone()
    }

    /// Publishes what is left, if that takes no longer than this. What is left then is published at the next start.
    pub async fn close(mut self, within: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(within, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = (&mut self.task).await;
            tracing::warn!(?within, "checkpoints could not be published in time; they are at the next start");
        }
    }
}

/// What the task knows.
struct Rounds {
    authority: Arc<Authority>,
    cluster_uid: String,
    accepted_at: Option<Timestamp>,
    /// What is published, as it was read or written last.
    published: BTreeMap<String, Checkpoint>,
    /// What could not be published, and why. An empty name stands for what could not even be looked at.
    late: BTreeMap<String, String>,
    tell: watch::Sender<Unpublished>,
}

impl Rounds {
    async fn run(mut self, stop: CancellationToken) {
        self.again().await;
        let (mut wait, mut at) = (FIRST_WAIT, Instant::now() + FIRST_WAIT);
        let mut rested = Instant::now();
        let authority = self.authority.clone();
        while !stop.is_cancelled() {
            let was_late = !self.late.is_empty();
            tokio::select! {
                () = stop.cancelled() => break,
                // What fails does not hold up what has just grown.
                () = authority.outbox.bell.notified() => {
                    tokio::select! { () = stop.cancelled() => {}, () = tokio::time::sleep_until(rested) => {} }
                    self.news().await;
                    rested = Instant::now() + PAUSE;
                }
                () = tokio::time::sleep_until(at), if was_late => {
                    self.again().await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    at = Instant::now() + wait;
                }
            }
            if self.late.is_empty() || !was_late {
                wait = FIRST_WAIT;
                at = Instant::now() + wait;
            }
        }
        if self.late.is_empty() { self.news().await } else { self.again().await }
    }

    /// Publishes what has grown.
    async fn news(&mut self) {
        let grown = std::mem::take(&mut *self.authority.outbox.lock());
        // As long as nobody knows what is there, nothing is replaced.
        match self.late.get("").cloned() {
            Some(why) => self.late.extend(grown.into_iter().map(|uid| (uid, why.clone()))),
            None => self.publish(grown).await,
        }
        self.say(false);
    }

    /// Looks at everything anew: at the start, and while something could not be published.
    async fn again(&mut self) {
        self.late.remove("");
        let looked = async {
            let namespaces = self.authority.store.namespaces().await.map_err(|error| error.to_string())?;
            let published = self.authority.world.checkpoints.published().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((namespaces, published))
        };
        match looked.await {
            Ok((namespaces, published)) => {
                let key = self.authority.verifying_key();
                let own = published.into_iter().filter_map(|(uid, envelope)| {
                    // What this key did not sign, or signed for another log, says nothing of this one.
                    let checkpoint = Checkpoint::open(&envelope, &key).ok()?;
                    (checkpoint.namespace_uid == uid).then_some((uid, checkpoint))
                });
                self.published = own.collect();
                // A log of which only a checkpoint is left is one too.
                self.authority.outbox.lock().extend(namespaces.into_iter().chain(self.published.keys().cloned()));
            }
            Err(why) => {
                self.late.insert(String::new(), why);
            }
        }
        self.news().await;
        self.say(true);
    }

    async fn publish(&mut self, namespaces: BTreeSet<String>) {
        let (mut checkpoints, mut sealed) = (BTreeMap::new(), BTreeMap::new());
        for uid in namespaces {
            match self.head(&uid).await {
                Ok(None) => {
                    self.late.remove(&uid);
                }
                Ok(Some((checkpoint, envelope))) => {
                    checkpoints.insert(uid.clone(), checkpoint);
                    sealed.insert(uid, envelope);
                }
                Err(why) => {
                    self.late.insert(uid, why);
                }
            }
        }
        if sealed.is_empty() {
            return;
        }
        let mut failed = self.authority.world.checkpoints.publish(&sealed).await;
        for (uid, checkpoint) in checkpoints {
            match failed.remove(&uid) {
                None => {
                    self.late.remove(&uid);
                    self.published.insert(uid, checkpoint);
                }
                Some(error) => {
                    self.late.insert(uid, error.to_string());
                }
            }
        }
    }

    /// The checkpoint of a log as it is now; `None` if it is published.
    async fn head(&self, uid: &str) -> Result<Option<(Checkpoint, m87_core::sign::Envelope)>, String> {
        let authority = &self.authority;
        authority.logs.catch_up_one(&*authority.store, uid).await.map_err(|error| error.to_string())?;
        match authority.logs.with(uid, |log| due(self.published.get(uid), log, self.accepted_at)) {
            Due::Nothing => Ok(None),
            Due::Contradicted(why) => Err(why),
            Due::Publish => {
                let checkpoint = authority.checkpoint(&self.cluster_uid, uid);
                let envelope = checkpoint.seal(&authority.key).map_err(|error| error.to_string())?;
                Ok(Some((checkpoint, envelope)))
            }
        }
    }

    /// Tells what is late. A flood of runs says it once, and each new try once more.
    fn say(&self, tried_again: bool) {
        let why = self.late.iter().next().map_or(String::new(), |(uid, why)| match uid.as_str() {
            "" => why.clone(),
            uid => format!("namespace {uid}: {why}"),
        });
        let now = Unpublished { namespaces: self.late.keys().filter(|uid| !uid.is_empty()).count(), why };
        let before = self.tell.send_replace(now.clone());
        if !now.why.is_empty() && (tried_again || before.why.is_empty()) {
            let Unpublished { namespaces, why } = now;
            tracing::warn!(namespaces, why, "checkpoints could not be published; they are tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::log::Hash;

    fn log(entries: &[&str]) -> Log {
        let mut log = Log::default();
        entries.iter().for_each(|entry| {
            log.append(Hash::leaf(entry.as_bytes()));
        });
        log
    }

    #[test]
    fn a_longer_logs_checkpoint_is_never_replaced_by_a_shorter_ones() {
        let of = |entries: &[&str]| Checkpoint::new("c", "ns", &log(entries), Timestamp::from_millis(5));
        let due = |published: Option<&Checkpoint>, log: &Log| due(published, log, Some(Timestamp::from_millis(4)));
        let own = log(&["a", "b"]);
        assert_eq!(due(None, &own), Due::Publish);
        assert_eq!(due(Some(&of(&["a"])), &own), Due::Publish);
        assert_eq!(due(Some(&of(&["a", "b"])), &own), Due::Nothing);
        for (published, why) in
            [(of(&["a", "b", "c"]), "the log has 2"), (of(&["a", "x"]), "others"), (of(&["x"]), "others")]
        {
            let Due::Contradicted(said) = due(Some(&published), &own) else { panic!("{published:?}") };
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_was_signed_before_the_store_was_accepted_is_replaced() {
        let longer = Checkpoint::new("c", "ns", &log(&["a", "b", "c"]), Timestamp::from_millis(5));
        for own in [log(&["a", "b"]), log(&["x", "y", "z"]), log(&[])] {
            assert!(matches!(due(Some(&longer), &own, None), Due::Contradicted(_)));
            assert_eq!(due(Some(&longer), &own, Some(Timestamp::from_millis(5))), Due::Publish);
        }
        let at = Some(Timestamp::from_millis(5));
        assert_eq!(due(Some(&longer), &log(&["a", "b", "c"]), at), Due::Nothing);
    }
}
