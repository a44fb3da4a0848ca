//! The local executor: attempts that outlive it, are found again, and are ended for good.

use super::support::*;
use m87_authority::{AttemptKind, AttemptName, AttemptOrder, Executor, Handle};
use m87_core::contract::WorkOrder;
use m87_core::dossier::Named;
use m87_worker::executor::LocalExecutor;
use std::path::{Path, PathBuf};
use std::time::Duration;

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new(order: &WorkOrder) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("authority")).unwrap();
        std::fs::write(root.path().join("authority/order.json"), m87_core::json::to_canonical(order).unwrap()).unwrap();
        Self { root }
    }

    fn executor(&self) -> LocalExecutor {
        let executor = LocalExecutor::new(self.root.path().join("attempts"), Duration::from_secs(3)).unwrap();
        executor.with_program(env!("CARGO_BIN_EXE_m87-worker-harness"))
    }

    fn order(&self) -> AttemptOrder {
        AttemptOrder {
            namespace: Named { name: "default".to_owned(), uid: "ns-1".to_owned() },
            run_name: "run".to_owned(),
            run_uid: "run-1".to_owned(),
            contract_id: "contract-1".to_owned(),
            attempt: 1,
            kind: AttemptKind::Tool,
            credentials: credentials_of(&self.root.path().join("authority")),
            image: None,
            limits: LIMITS,
        }
    }

    fn report(&self) -> PathBuf {
        self.root.path().join("authority/report.json")
    }

    fn attempts(&self) -> usize {
        std::fs::read_dir(self.root.path().join("attempts")).map_or(0, Iterator::count)
    }
}

async fn until_over(executor: &LocalExecutor, handle: &Handle) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while executor.alive(handle).await.unwrap() {
        assert!(tokio::time::Instant::now() < deadline, "the attempt hangs");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_attempt_runs_by_itself_and_is_found_again_by_another_executor() {
    let mark = mark();
    let place = Place::new(&tool(&format!("sleep 0.5; : {mark}")));
    let handle = place.executor().start(&place.order()).await.unwrap();
    // As after a restart: all that is left of the first one is the handle.
    let other = place.executor();
    assert!(other.alive(&handle).await.unwrap());
    until_over(&other, &handle).await;
    assert!(place.report().exists());
    other.discard(&handle).await.unwrap();
    other.discard(&handle).await.unwrap();
    assert_eq!(place.attempts(), 0);
}

#[tokio::test]
async fn a_discarded_attempt_is_gone_with_its_tool_its_daemons_and_its_folder() {
    let mark = mark();
    let place = Place::new(&tool(&format!("(setsid sleep {mark} &); sleep {mark}")));
    let executor = place.executor();
    let handle = executor.start(&place.order()).await.unwrap();
    eventually("the tool starts", || processes_with(&mark).len() == 2);
    executor.discard(&handle).await.unwrap();
    assert!(!executor.alive(&handle).await.unwrap());
    eventually("all of the tool dies", || processes_with(&mark).is_empty());
    assert_eq!(place.attempts(), 0);
    assert!(!place.report().exists());
}

#[tokio::test]
async fn an_attempt_whose_start_nobody_heard_of_is_cleared_away_by_its_name() {
    let mark = mark();
    let place = Place::new(&tool(&format!("sleep {mark}")));
    let executor = place.executor();
    let order = place.order();
    executor.discard_unheard(&order.name()).await.unwrap();
    let handle = executor.start(&order).await.unwrap();
    eventually("the tool starts", || processes_with(&mark).len() == 1);
    let other = AttemptName { attempt: order.attempt + 1, ..order.name() };
    executor.discard_unheard(&other).await.unwrap();
    assert!(executor.alive(&handle).await.unwrap());
    executor.discard_unheard(&order.name()).await.unwrap();
    eventually("it and its tool die", || processes_with(&mark).is_empty());
    assert!(!executor.alive(&handle).await.unwrap());
    assert_eq!(place.attempts(), 0);
}

#[tokio::test]
async fn the_same_attempt_is_not_started_twice() {
    let place = Place::new(&tool("true"));
    let executor = place.executor();
    let handle = executor.start(&place.order()).await.unwrap();
    assert!(executor.start(&place.order()).await.is_err());
    until_over(&executor, &handle).await;
    assert!(executor.start(&place.order()).await.is_err());
    let calls = std::fs::read_to_string(place.root.path().join("authority/calls")).unwrap();
    assert_eq!(calls.lines().filter(|line| line.starts_with("redeem")).count(), 1);
}

#[tokio::test]
async fn a_process_that_has_the_pid_of_an_attempt_is_not_taken_for_it() {
    let place = Place::new(&tool("true"));
    let executor = place.executor();
    let handle = executor.start(&place.order()).await.unwrap();
    until_over(&executor, &handle).await;
    let mut bystander = std::process::Command::new("sleep").arg(mark()).spawn().unwrap();
    // The handle as it would be, had the bystander got the pid of the attempt.
    let mut started: serde_json::Value = serde_json::from_str(&handle.0).unwrap();
    started["process"]["pid"] = bystander.id().into();
    let reused = Handle(started.to_string());
    assert!(!executor.alive(&reused).await.unwrap());
    executor.discard(&reused).await.unwrap();
    assert_eq!(bystander.try_wait().unwrap(), None);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn what_cannot_name_a_folder_starts_nothing() {
    let place = Place::new(&tool("true"));
    for run_uid in ["", "..", "../x", "a/b", "/", "a\0b", "é"] {
        let order = AttemptOrder { run_uid: run_uid.to_owned(), ..place.order() };
        assert!(place.executor().start(&order).await.is_err(), "{run_uid:?}");
    }
    for folder in ["..", "../x", "/etc", ""] {
        let handle = Handle(serde_json::json!({"folder": folder, "process": {"pid": 1, "started": 1}}).to_string());
        assert!(place.executor().discard(&handle).await.is_err(), "{folder:?}");
    }
    assert!(Path::new("/etc").exists());
    assert_eq!(place.attempts(), 0);
}

#[tokio::test]
async fn its_folder_and_its_credentials_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(&tool("true"));
    // Until the answer comes, it waits with its credentials.
    std::fs::write(place.root.path().join("authority/down"), "").unwrap();
    let executor = place.executor();
    let handle = executor.start(&place.order()).await.unwrap();
    let folder = place.root.path().join("attempts/run-1.tool-1");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("credentials")), mode(&folder.join("log"))), (0o700, 0o600, 0o600));
    let stat = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    for process in stat {
        for part in ["cmdline", "environ"] {
            let text = std::fs::read(process.join(part)).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&text).contains("secret-of-the-token"), "{process:?}/{part}");
        }
    }
    std::fs::remove_file(place.root.path().join("authority/down")).unwrap();
    until_over(&executor, &handle).await;
    assert!(!folder.join("credentials").exists());
}

#[tokio::test]
async fn what_a_killed_authority_has_left_is_swept_unless_its_run_is_open() {
    let mark = mark();
    let place = Place::new(&tool(&format!("sleep {mark}")));
    let executor = place.executor();
    // Nobody writes the handle down.
    drop(executor.start(&place.order()).await.unwrap());
    eventually("the tool starts", || processes_with(&mark).len() == 1);
    executor.sweep(&["run-1".to_owned()].into()).unwrap();
    assert_eq!((place.attempts(), processes_with(&mark).len()), (1, 1));
    // What is still in use stays for the next time.
    eventually("it is swept", || {
        executor.sweep(&std::collections::HashSet::new()).unwrap();
        place.attempts() == 0
    });
    eventually("the tool dies", || processes_with(&mark).is_empty());
}
