//! Checkpoints leave the store by themselves: no run waits for them, and none is forgotten.

use crate::scene::{Served, end};
use async_trait::async_trait;
use m87_authority::Opened;
use m87_authority::publish::Publisher;
use m87_authority::row::Ending;
use m87_authority::world::{CheckpointFiles, Checkpoints};
use m87_core::log::{Checkpoint, Hash, Log};
use m87_core::reason::Reason;
use m87_core::sign::{Envelope, SigningKey};
use m87_core::time::Timestamp;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NAMESPACE: &str = "uid-of-default";

/// A place outside that can be silent, refuse, or take one namespace's checkpoints only.
#[derive(Default)]
struct Outside {
    held: Mutex<BTreeMap<String, Envelope>>,
    silent: Mutex<bool>,
    refusals: Mutex<usize>,
    refused: Mutex<Option<&'static str>>,
    asked: AtomicU32,
}

#[async_trait]
impl Checkpoints for Outside {
    async fn published(&self) -> io::Result<BTreeMap<String, Envelope>> {
        Ok(self.held.lock().unwrap().clone())
    }

    async fn publish(&self, checkpoints: &BTreeMap<String, Envelope>) -> BTreeMap<String, io::Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if *self.silent.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        let refuses_all = {
            let mut refusals = self.refusals.lock().unwrap();
            let before = *refusals;
            *refusals = before.saturating_sub(1);
            before > 0
        };
        let refused = *self.refused.lock().unwrap();
        let mut failed = BTreeMap::new();
        for (uid, checkpoint) in checkpoints {
            if refuses_all || refused == Some(uid) {
                failed.insert(uid.clone(), io::Error::other("no room"));
            } else {
                self.held.lock().unwrap().insert(uid.clone(), checkpoint.clone());
            }
        }
        failed
    }
}

impl Outside {
    /// How long the log is that is published of a namespace; 0 if none is.
    fn size(&self, uid: &str) -> u64 {
        let held = self.held.lock().unwrap();
        held.get(uid).map_or(0, |envelope| Checkpoint::open(envelope, &key().verifying_key()).unwrap().size)
    }

    async fn reaches(&self, uid: &str, size: u64) {
        let begun = Instant::now();
        while self.size(uid) != size {
            assert!(begun.elapsed() < Duration::from_secs(30), "{} of {size} entries are published", self.size(uid));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

async fn begin(folder: &Path, outside: &Arc<Outside>) -> (Served, Publisher) {
    let served = Served::begin_over(folder, Duration::from_secs(30), outside.clone()).await;
    let publisher = Publisher::start(served.authority.clone(), "cluster", None);
    (served, publisher)
}

/// Opens a run and seals it: two entries.
async fn seal(served: &Served, name: &str, namespace: &str) {
    let mut request = Served::request(name);
    request.namespace.uid = namespace.to_owned();
    let Opened::Run(uid) = served.driver.open(&request).await.unwrap() else { panic!("{name} was done before") };
    let sealing = served.authority.end(&uid, Ending::Interrupted(Reason::Interrupted));
    tokio::time::timeout(Duration::from_secs(10), sealing).await.expect("sealing waits for something").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sealing_waits_for_no_checkpoint_and_neither_does_the_end() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), Arc::new(Outside::default()));
    *outside.silent.lock().unwrap() = true;
    let (served, publisher) = begin(folder.path(), &outside).await;
    seal(&served, "a", NAMESPACE).await;
    seal(&served, "b", NAMESPACE).await;
    let closing = publisher.close(Duration::from_millis(200));
    tokio::time::timeout(Duration::from_secs(10), closing).await.unwrap();
    end(served).await;
    assert_eq!(outside.size(NAMESPACE), 0);

    // Whoever was killed makes up for it at the next start, without another seal.
    *outside.silent.lock().unwrap() = false;
    let (served, publisher) = begin(folder.path(), &outside).await;
    outside.reaches(NAMESPACE, 4).await;
    publisher.close(Duration::from_secs(10)).await;
    end(served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_published_is_tried_again_without_another_seal() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), Arc::new(Outside::default()));
    let (served, publisher) = begin(folder.path(), &outside).await;
    *outside.refusals.lock().unwrap() = 3;
    let mut told = publisher.unpublished();
    seal(&served, "a", NAMESPACE).await;
    let late = told.wait_for(|now| now.namespaces == 1).await.unwrap().clone();
    assert!(late.why.contains(NAMESPACE) && late.why.contains("no room"), "{late:?}");
    outside.reaches(NAMESPACE, 2).await;
    told.wait_for(|now| now.why.is_empty()).await.unwrap();
    publisher.close(Duration::from_secs(10)).await;
    end(served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_cannot_be_published_holds_up_only_itself() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), Arc::new(Outside::default()));
    let (served, publisher) = begin(folder.path(), &outside).await;
    *outside.refused.lock().unwrap() = Some("full");
    seal(&served, "a", "full").await;
    publisher.unpublished().wait_for(|now| now.namespaces == 1).await.unwrap();
    for (at, name) in ["b", "c", "d"].into_iter().enumerate() {
        seal(&served, name, NAMESPACE).await;
        outside.reaches(NAMESPACE, 2 * (at as u64 + 1)).await;
    }
    assert_eq!(outside.size("full"), 0);
    *outside.refused.lock().unwrap() = None;
    outside.reaches("full", 2).await;
    publisher.close(Duration::from_secs(10)).await;
    end(served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_receipts_shares_its_publications() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), Arc::new(Outside::default()));
    let (served, publisher) = begin(folder.path(), &outside).await;
    let begun = Instant::now();
    for at in 1..=40 {
        seal(&served, &format!("run-{at}"), NAMESPACE).await;
    }
    outside.reaches(NAMESPACE, 80).await;
    // The first at once, then two a second.
    let allowed = begun.elapsed().as_millis() / 500 + 1;
    let asked = outside.asked.load(Ordering::SeqCst);
    assert!(u128::from(asked) <= allowed, "{asked} publications, {allowed} allowed");
    publisher.close(Duration::from_secs(10)).await;
    end(served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_publishes_what_was_sealed_last() {
    let folder = tempfile::tempdir().unwrap();
    let files = CheckpointFiles(folder.path().join("checkpoints"));
    let served = Served::begin(folder.path()).await;
    let publisher = Publisher::start(served.authority.clone(), "cluster", None);
    for at in 1..=5 {
        seal(&served, &format!("run-{at}"), NAMESPACE).await;
    }
    publisher.close(Duration::from_secs(10)).await;
    let published = files.published().await.unwrap();
    let checkpoint = Checkpoint::open(&published[NAMESPACE], &key().verifying_key()).unwrap();
    assert_eq!((checkpoint.size, published.len()), (10, 1));
    // What is no checkpoint is none, and is written anew.
    std::fs::write(files.file(NAMESPACE), "{").unwrap();
    assert!(files.published().await.unwrap().is_empty());
    Publisher::start(served.authority.clone(), "cluster", None).close(Duration::from_secs(10)).await;
    assert_eq!(files.published().await.unwrap().len(), 1);
    end(served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_speaks_against_the_log_stays_and_is_told_until_the_store_is_accepted() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), Arc::new(Outside::default()));
    let longer = |namespace: &str| {
        let mut log = Log::default();
        for entry in 0..9_u64 {
            log.append(Hash::leaf(&entry.to_be_bytes()));
        }
        Checkpoint::new("cluster", namespace, &log, Timestamp::from_millis(0)).seal(&key()).unwrap()
    };
    outside.held.lock().unwrap().insert(NAMESPACE.to_owned(), longer(NAMESPACE));
    let (served, publisher) = begin(folder.path(), &outside).await;
    let mut told = publisher.unpublished();
    // Until it is shorter than the log, and beyond: a log that has grown over it has other entries.
    for at in 0..6 {
        seal(&served, &format!("run-{at}"), NAMESPACE).await;
        told.wait_for(|now| now.namespaces == 1).await.unwrap();
    }
    told.wait_for(|now| now.why.contains("others than the 9 entries")).await.unwrap();
    assert_eq!(outside.size(NAMESPACE), 9);
    publisher.close(Duration::from_secs(10)).await;
    assert_eq!(outside.size(NAMESPACE), 9);
    // However often what was accepted is begun anew before it could be published, and with a namespace that only the lost
    // history knows so far.
    let accepted_at = Some(Timestamp::from_millis(0));
    *outside.silent.lock().unwrap() = true;
    Publisher::start(served.authority.clone(), "cluster", accepted_at).close(Duration::from_millis(100)).await;
    *outside.silent.lock().unwrap() = false;
    outside.held.lock().unwrap().insert("lost".to_owned(), longer("lost"));
    let (publisher, of_lost) =
        (Publisher::start(served.authority.clone(), "cluster", None), "namespace lost: 9 entries");
    publisher.unpublished().wait_for(|now| now.namespaces == 2).await.unwrap();
    assert!(publisher.unpublished().borrow().why.contains(of_lost));
    publisher.close(Duration::from_secs(10)).await;
    let publisher = Publisher::start(served.authority.clone(), "cluster", accepted_at);
    outside.reaches(NAMESPACE, 12).await;
    outside.reaches("lost", 0).await;
    seal(&served, "later", "lost").await;
    outside.reaches("lost", 2).await;
    publisher.unpublished().wait_for(|now| now.why.is_empty()).await.unwrap();
    publisher.close(Duration::from_secs(10)).await;
    end(served).await;
}
