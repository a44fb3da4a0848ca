#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::clock::Wall;
use crate::event::Event;
use crate::row::{Claim, Closing, Ending, Row, Sealed, Start, State};
use crate::step::{Step, step};
use m87_core::fixtures;
use m87_core::reason::Terminal;
use std::path::Path;
use std::sync::Arc;

const SMALL: Headroom = Headroom { bytes: 0, reserve_bytes: 4096 };

async fn open(folder: &Path) -> SqliteStore {
    let store = SqliteStore::open(folder, "fresh", &SMALL).await.unwrap();
    let epoch = store.counters().await.unwrap().epoch + 1;
    store.lead(epoch).await.unwrap();
    store
}

fn run(name: &str, key: &str) -> Run {
    let mut dossier = fixtures::dossier();
    dossier.run.name = name.to_owned();
    dossier.run.uid = format!("uid-of-{name}");
    dossier.run.idempotency_key = key.to_owned();
    Run { dossier: Arc::new(dossier), row: Row::open(Wall(60_000)) }
}

async fn insert(store: &SqliteStore, run: &Run, proposal: &str) -> Result<Inserted, StoreError> {
    let epoch = store.counters().await.unwrap().epoch;
    let entry = LogEntry::opened(&run.dossier.run.uid, proposal);
    let opening = Opening { epoch, run, proposal_hash: proposal, actor_hash: "actor", entry: &entry };
    store.open_run(&opening).await
}

fn claim(engine_id: &str, instance_key: i64) -> Claim {
    Claim { engine_id: engine_id.to_owned(), instance_key, definition: Definition { key: 1, version: 1 } }
}

fn closing() -> Closing {
    Closing { claim: Some(claim("e", 1)), ending: Ending::Alone, at: fixtures::at(9) }
}

fn sealed() -> Sealed {
    Sealed { receipt_hash: "h".to_owned(), terminal: Terminal::Complete, reason: None }
}

/// The row after its next step.
fn started(run: &Run) -> Row {
    let start =
        Start { engine_id: "e".to_owned(), definition: Definition { key: 1, version: 1 }, nonce: "n".to_owned() };
    match step(run, &Event::Start(start)) {
        Step::To(row) => *row,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_run_survives_the_store_and_the_effects_identity_is_claimed_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = run("a", "key");
    {
        let store = open(folder.path()).await;
        assert_eq!(insert(&store, &first, "p").await.unwrap(), Inserted::New);
        assert_eq!(insert(&store, &first, "p").await.unwrap(), Inserted::Existing);
    }
    let store = open(folder.path()).await;
    assert_eq!(store.load("uid-of-a").await.unwrap().unwrap().run, first);
    let same = insert(&store, &run("b", "key"), "p").await.unwrap();
    assert_eq!(same, Inserted::SameEffect("uid-of-a".to_owned()));
    assert_eq!(store.load("uid-of-b").await.unwrap(), None);
    let reused = insert(&store, &run("c", "key"), "other").await.unwrap();
    assert_eq!(reused, Inserted::KeyReused("uid-of-a".to_owned()));
    assert_eq!(store.unsealed().await.unwrap(), ["uid-of-a", "uid-of-c"]);
    assert_eq!(store.effect("uid-of-default", "key").await.unwrap().unwrap().run_uid, "uid-of-a");
    assert_eq!(store.log("uid-of-default", 0..u64::MAX).await.unwrap().len(), 2);
    assert_eq!(store.log("uid-of-default", 1..2).await.unwrap()[0].run, "uid-of-c");
}

#[tokio::test]
async fn a_change_needs_the_version_and_the_leaders_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let run = run("a", "key");
    insert(&store, &run, "p").await.unwrap();
    let row = started(&run);
    let from = |version| Loaded { run: run.clone(), version, barred: false };
    let (first, second) = (from(1), from(2));
    let change = |epoch, from| Change { epoch, from, row: &row, with: With::Nothing };
    store.commit(&change(1, &first)).await.unwrap();
    assert!(matches!(store.commit(&change(1, &first)).await, Err(StoreError::Conflict(_))));
    store.lead(2).await.unwrap();
    assert!(matches!(store.commit(&change(1, &second)).await, Err(StoreError::Deposed { mine: 1, leader: 2 })));
    assert!(matches!(store.lead(1).await, Err(StoreError::Deposed { .. })));
    store.commit(&change(2, &second)).await.unwrap();
    assert_eq!(store.load("uid-of-a").await.unwrap().unwrap().version, 3);
}

/// What is asked of a run that goes on is answered as the disk would answer it.
#[tokio::test]
async fn what_is_kept_of_runs_is_what_the_disk_has() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let mut odd = run("a", "key");
    // Read again, a null that stands where nothing has to stand is nothing.
    Arc::make_mut(&mut odd.dossier).proposal.input = Some(serde_json::Value::Null);
    insert(&store, &odd, "p").await.unwrap();
    let steps = [
        State::Claimed(claim("e", 1)),
        State::Claimed(claim("e", 2)),
        State::Open(None),
        State::Claimed(claim("f", 2)),
        State::Closing(closing()),
        State::Sealed(closing(), sealed()),
    ];
    for state in steps {
        let kept = store.load("uid-of-a").await.unwrap().unwrap();
        let row = Row { state, ..kept.run.row.clone() };
        let refused =
            Change { epoch: 1, from: &Loaded { version: 99, ..kept.clone() }, row: &row, with: With::Nothing };
        assert!(matches!(store.commit(&refused).await, Err(StoreError::Conflict(_))));
        assert_eq!(store.load("uid-of-a").await.unwrap().unwrap(), kept);
        store.commit(&Change { epoch: 1, from: &kept, row: &row, with: With::Nothing }).await.unwrap();
        let after = store.load("uid-of-a").await.unwrap().unwrap();
        assert_eq!(after.run.row, row);
        assert_eq!(store.runs(None).await.unwrap(), [after]);
        for (engine, key) in [("e", 1), ("e", 2), ("f", 2)] {
            let bound = row.claim().is_some_and(|claim| claim.engine_id == engine && claim.instance_key == key);
            assert_eq!(store.by_instance(engine, key).await.unwrap().is_some(), bound, "{row:?} {engine} {key}");
        }
    }
}

#[tokio::test]
async fn receipt_log_entry_and_row_are_one_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let run = run("a", "key");
    insert(&store, &run, "p").await.unwrap();
    let row = started(&run);
    let receipt = StoredReceipt { hash: "h".to_owned(), envelope: "{}".to_owned() };
    let entry = LogEntry::sealed("uid-of-a", "h");
    let from = |version| Loaded { run: run.clone(), version, barred: false };
    let (first, second, later) = (from(1), from(2), from(7));
    let change = |from| Change { epoch: 1, from, row: &row, with: With::Receipt(&receipt, &entry) };
    assert!(matches!(store.commit(&change(&later)).await, Err(StoreError::Conflict(_))));
    assert_eq!(store.receipt("uid-of-a").await.unwrap(), None);
    store.commit(&change(&first)).await.unwrap();
    // A second receipt cannot be: neither it, nor its entry, nor the row is written.
    assert!(store.commit(&change(&second)).await.is_err());
    assert_eq!(store.receipt("uid-of-a").await.unwrap(), Some(receipt.clone()));
    assert_eq!(store.log("uid-of-default", 0..u64::MAX).await.unwrap().len(), 2);
    assert_eq!(store.load("uid-of-a").await.unwrap().unwrap().version, 2);
}

#[tokio::test]
async fn redemptions_are_counted_with_their_change() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let run = run("a", "key");
    insert(&store, &run, "p").await.unwrap();
    let row = started(&run);
    for (version, with) in [(1, With::Redemption), (2, With::Nothing)] {
        let from = Loaded { run: run.clone(), version, barred: false };
        store.commit(&Change { epoch: 1, from: &from, row: &row, with }).await.unwrap();
    }
    assert_eq!(store.counters().await.unwrap(), Counters { epoch: 1, redemptions: 1 });
}

#[tokio::test]
async fn runs_that_came_with_a_copy_are_barred_and_later_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    insert(&store, &run("a", "1"), "p").await.unwrap();
    assert!(!store.load("uid-of-a").await.unwrap().unwrap().barred);
    store.bar_present_runs(1).await.unwrap();
    insert(&store, &run("b", "2"), "p").await.unwrap();
    assert!(store.load("uid-of-a").await.unwrap().unwrap().barred);
    assert!(!store.load("uid-of-b").await.unwrap().unwrap().barred);
}

#[tokio::test]
async fn one_process_at_a_time_holds_a_store_and_its_id_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let second = SqliteStore::open(folder.path(), "other", &SMALL).await;
    assert!(matches!(second, Err(StoreError::InUse(_))));
    drop(store);
    let again = SqliteStore::open(folder.path(), "other", &SMALL).await.unwrap();
    assert_eq!(again.id(), "fresh");
}

#[test]
fn the_reserve_is_given_back_once_and_kept_anew() {
    let folder = tempfile::tempdir().unwrap();
    let reserve = reserve::Reserve::keep(folder.path(), &Headroom { bytes: 0, reserve_bytes: 1 << 20 });
    assert_eq!(std::fs::metadata(folder.path().join("reserve")).unwrap().len(), 1 << 20);
    assert!(reserve.release());
    assert!(!reserve.release());
    reserve.refill();
    assert!(reserve.release());
    reserve.refill_when_released();
    assert!(reserve.release());
    let short = Headroom { bytes: u64::MAX, reserve_bytes: 1 << 20 };
    let short_of_room = reserve::Reserve::keep(folder.path(), &short);
    assert!(short_of_room.release());
    short_of_room.refill_when_released();
    assert!(!short_of_room.release(), "it was taken from those who have to be sealed");
}

#[tokio::test]
async fn a_full_disk_is_said_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    insert(&store, &run("a", "1"), "p").await.unwrap();
    store.limit_pages(1).await.unwrap();
    let error = loop {
        let before = store.unsealed().await.unwrap().len();
        let name = format!("run-{before}");
        match insert(&store, &run(&name, &name), "p").await {
            Ok(_) => assert!(before < 100, "the limit does not bite"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full), "{error}");
    let runs = store.unsealed().await.unwrap().len();
    assert_eq!(store.log("uid-of-default", 0..u64::MAX).await.unwrap().len(), runs, "a run without its entry");
    assert!(store.load("uid-of-a").await.unwrap().is_some());
    // What has to be sealed has the reserve, and when there is room again everything goes on, and the reserve is back.
    let (loaded, reserve) = (store.load("uid-of-a").await.unwrap().unwrap(), folder.path().join("reserve"));
    let large = State::Claimed(claim(&"e".repeat(100_000), 1));
    let row = Row { state: large, ..loaded.run.row.clone() };
    let change = Change { epoch: 1, from: &loaded, row: &row, with: With::Nothing };
    assert!(reserve.exists());
    assert!(matches!(store.commit(&change).await, Err(StoreError::Full)));
    assert!(!reserve.exists());
    store.limit_pages(100_000).await.unwrap();
    assert_eq!(insert(&store, &run("z", "z"), "p").await.unwrap(), Inserted::New);
    store.commit(&change).await.unwrap();
    assert!(reserve.exists());
}

#[tokio::test]
async fn a_change_that_is_undone_with_another_is_made_again_and_the_reserve_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let run = run("a", "key");
    insert(&store, &run, "p").await.unwrap();
    let (from, row) = (store.load("uid-of-a").await.unwrap().unwrap(), started(&run));
    let change = Change { epoch: 1, from: &from, row: &row, with: With::Nothing };
    // The other comes second, while the first waits for the transaction that both are in.
    let (made, undone) = tokio::join!(store.commit(&change), store.undo_transaction());
    undone.unwrap();
    made.unwrap();
    assert_eq!(store.load("uid-of-a").await.unwrap().unwrap().version, 2);
    assert_eq!(store.runs(None).await.unwrap()[0].run.row, row);
    assert!(folder.path().join("reserve").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_one_time_share_a_transaction_and_one_that_fails_undoes_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()).await);
    let changes = (0..64).map(|n| {
        let store = store.clone();
        // Every fourth is a run that is there already, or will be.
        let run = run(&format!("run-{}", n - n % 4 / 3), &format!("key-{n}"));
        tokio::spawn(async move { insert(&store, &run, "p").await.unwrap() })
    });
    let mut opened = vec![];
    for change in changes.collect::<Vec<_>>() {
        opened.push(change.await.unwrap());
    }
    assert_eq!(opened.iter().filter(|opened| **opened == Inserted::New).count(), 48);
    assert_eq!(opened.iter().filter(|opened| **opened == Inserted::Existing).count(), 16);
    drop(store);
    let store = open(folder.path()).await;
    assert_eq!(store.unsealed().await.unwrap().len(), 48);
    assert_eq!(store.log("uid-of-default", 0..u64::MAX).await.unwrap().len(), 48);
}

#[tokio::test]
async fn a_change_that_nobody_waits_for_any_more_never_was_or_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for polls in 0..40 {
        let run = run(&format!("run-{polls}"), &format!("key-{polls}"));
        let mut change = Box::pin(insert(&store, &run, "p"));
        for _ in 0..polls {
            let waited = tokio::time::timeout(std::time::Duration::from_micros(200), &mut change).await;
            if waited.is_ok() {
                break;
            }
        }
        drop(change);
        insert(&store, &self::run("after", "after"), "p").await.unwrap();
        let runs = store.runs(None).await.unwrap().len();
        assert_eq!(store.log("uid-of-default", 0..u64::MAX).await.unwrap().len(), runs, "a run without its entry");
    }
}
