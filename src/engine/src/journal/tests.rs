//! What is on disk is what happened, or the engine does not start.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::fixture::{Lab, activate, create, one_task, resource};
use crate::machine::Command;

/// A journal with its machine: commands are carried out and written, one batch each.
struct Desk {
    lab: Lab,
    journal: Journal,
}

impl Desk {
    async fn open(folder: &Path) -> Self {
        let (journal, state) = Journal::open(folder, None).await.unwrap();
        let mut lab = Lab::new();
        lab.state = state;
        Self { lab, journal }
    }

    async fn run(&mut self, command: Command) {
        let known = self.lab.events.len();
        self.lab.run(command).unwrap();
        let mut batch = Vec::new();
        encode(&self.lab.events[known..], &mut batch).unwrap();
        self.journal.append(&batch).await.unwrap();
    }

    async fn fill(&mut self, instances: usize) {
        self.run(Command::Deploy(vec![resource("p.bpmn", &one_task("p"))])).await;
        for at in 0..instances {
            self.run(create("p", json!({"at": at, "text": "x".repeat(100)}))).await;
        }
        self.run(Command::Activate(activate("work", 1))).await;
    }

    fn snapshot(&mut self) {
        let (position, bytes) = self.journal.snapshot(self.lab.state.clone())().unwrap();
        self.journal.snapshot_taken(position, bytes).unwrap();
    }
}

async fn recover(folder: &Path) -> Result<State, OpenError> {
    let (journal, state) = Journal::open(folder, None).await?;
    journal.close().await;
    Ok(state)
}

async fn tamper(folder: &Path, statement: &'static str) {
    let options = SqliteConnectOptions::new().filename(folder.join("journal.db"));
    let mut connection = options.connect().await.unwrap();
    assert!(sqlx::query(statement).execute(&mut connection).await.unwrap().rows_affected() > 0);
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_reopened_journal_gives_the_same_state_and_id() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    desk.fill(10).await;
    let (state, id) = (desk.lab.state.clone(), desk.journal.engine().to_owned());
    desk.journal.close().await;
    let (journal, recovered) = Journal::open(folder.path(), Some(&id)).await.unwrap();
    assert_eq!((recovered, journal.engine()), (state, id.as_str()));
    assert_eq!(id.len(), 32);
}

#[tokio::test]
async fn a_folder_belongs_to_one_process_and_one_engine() {
    let folder = TempDir::new().unwrap();
    let (journal, _) = Journal::open(folder.path(), Some("first")).await.unwrap();
    let Err(error) = Journal::open(folder.path(), None).await else { panic!("two have it open") };
    assert!(error.to_string().contains("another engine has this folder open"), "{error}");
    journal.close().await;
    let Err(error) = Journal::open(folder.path(), Some("second")).await else { panic!("it has two ids") };
    assert!(error.to_string().contains("belongs to engine \"first\", not \"second\""), "{error}");
    Journal::open(folder.path(), Some("first")).await.unwrap();
}

#[tokio::test]
async fn a_damaged_journal_is_refused_and_says_where() {
    for (statement, text) in [
        (
            "UPDATE journal SET events = CAST(replace(events, 'x', 'y') AS BLOB) WHERE position = 4",
            "position 4: its checksum does not match",
        ),
        ("UPDATE journal SET checksum = x'00' WHERE position = 2", "position 2: its checksum does not match"),
        ("DELETE FROM journal WHERE position = 3", "position 3: it is missing; the next is 4"),
        ("UPDATE journal SET version = 2 WHERE position = 5", "position 5: its checksum does not match"),
    ] {
        let folder = TempDir::new().unwrap();
        let mut desk = Desk::open(folder.path()).await;
        desk.fill(5).await;
        desk.journal.close().await;
        tamper(folder.path(), statement).await;
        let error = recover(folder.path()).await.unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("journal.db"), "{statement}: {error}");
    }
}

#[tokio::test]
async fn an_event_of_another_version_is_refused_and_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    desk.fill(1).await;
    let position = desk.journal.position + 1;
    sqlx::query("INSERT INTO journal VALUES (?1, 2, ?2, x'')")
        .bind(position)
        .bind(checksum(position, 2, b""))
        .execute(&mut desk.journal.connection)
        .await
        .unwrap();
    desk.journal.close().await;
    let error = recover(folder.path()).await.unwrap_err().to_string();
    assert!(
        error.ends_with(
            "position 4: written with version 2, and this build reads version 1; start the build that wrote it"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn events_that_do_not_fit_are_refused() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    let mut batch = Vec::new();
    encode(&[Event::Opened { key: 7 }], &mut batch).unwrap();
    desk.journal.append(&batch).await.unwrap();
    desk.journal.close().await;
    let error = recover(folder.path()).await.unwrap_err().to_string();
    assert!(error.contains("position 1: the event does not fit the state before it: no element instance 7"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("journal.db"), "nonsense ".repeat(1000)).unwrap();
    let error = recover(folder.path()).await.unwrap_err().to_string();
    assert!(error.contains("journal.db: the journal cannot be read"), "{error}");
}

#[tokio::test]
async fn a_snapshot_stands_for_the_rows_before_it_and_they_go() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    desk.fill(20).await;
    desk.snapshot();
    desk.run(create("p", json!({}))).await;
    desk.snapshot();
    desk.run(create("p", json!({}))).await;
    while !desk.journal.truncated {
        desk.journal.truncate().await.unwrap();
    }
    let (first,): (i64,) =
        sqlx::query_as("SELECT min(position) FROM journal").fetch_one(&mut desk.journal.connection).await.unwrap();
    assert_eq!(first, 23, "the older snapshot covers what was before");
    desk.snapshot();
    assert_eq!(snapshot::list(folder.path()).unwrap().len(), 2);
    let state = desk.lab.state.clone();
    desk.journal.close().await;
    assert_eq!(recover(folder.path()).await.unwrap(), state);
}

#[tokio::test]
async fn a_damaged_snapshot_costs_time_and_two_are_refused() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    desk.fill(5).await;
    desk.snapshot();
    desk.run(create("p", json!({}))).await;
    desk.snapshot();
    desk.run(create("p", json!({}))).await;
    desk.journal.truncate().await.unwrap();
    let state = desk.lab.state.clone();
    desk.journal.close().await;
    let places = snapshot::list(folder.path()).unwrap();
    for (at, place) in places.iter().rev().enumerate() {
        let mut bytes = fs::read(&place.path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&place.path, bytes).unwrap();
        match recover(folder.path()).await {
            Ok(recovered) => assert_eq!((at, recovered), (0, state.clone())),
            Err(error) => {
                assert_eq!(at, 1);
                let error = error.to_string();
                assert!(error.contains("position 1: it is missing"), "{error}");
                assert!(error.contains("its checksum does not match"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_journal_that_vanished_beside_its_snapshots_is_refused() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    desk.fill(2).await;
    desk.snapshot();
    desk.journal.close().await;
    fs::remove_file(folder.path().join("journal.db")).unwrap();
    let error = recover(folder.path()).await.unwrap_err().to_string();
    assert!(error.contains("it is empty, but there are snapshots beside it"), "{error}");
}

/// The log of a journal and, for each batch, how long the log was when the batch was acknowledged.
async fn written(batches: usize) -> (TempDir, Vec<(u64, State)>) {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::open(folder.path()).await;
    let log = folder.path().join("journal.db-wal");
    let mut acknowledged = vec![(fs::metadata(&log).unwrap().len(), desk.lab.state.clone())];
    desk.run(Command::Deploy(vec![resource("p.bpmn", &one_task("p"))])).await;
    acknowledged.push((fs::metadata(&log).unwrap().len(), desk.lab.state.clone()));
    for at in 0..batches {
        desk.run(create("p", json!({"text": "x".repeat(at * 700)}))).await;
        acknowledged.push((fs::metadata(&log).unwrap().len(), desk.lab.state.clone()));
    }
    // As a crash leaves it: no clean close.
    let copy = TempDir::new().unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    (copy, acknowledged)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_crash_at_any_byte_loses_no_acknowledged_batch_and_invents_none(at in 0.0..1.0_f64, garbage in any::<bool>()) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (folder, acknowledged) = written(12).await;
            let log = folder.path().join("journal.db-wal");
            let (begin, end) = (acknowledged[0].0, acknowledged.last().unwrap().0);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let cut = begin + ((end - begin) as f64 * at) as u64;
            let mut bytes = fs::read(&log).unwrap();
            bytes.truncate(usize::try_from(cut).unwrap());
            if garbage {
                // What was being written when the power went.
                bytes.extend((0..3000_u32).map(|byte| (byte % 251) as u8));
            }
            fs::write(&log, bytes).unwrap();
            let expected = &acknowledged.iter().rev().find(|(size, _)| *size <= cut).unwrap().1;
            assert_eq!(&recover(folder.path()).await.unwrap(), expected, "cut at {cut} of {end}");
        });
    }
}
