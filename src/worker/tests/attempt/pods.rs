//! `exec` and the shim as the two containers of a pod: neither is the other's child, a socket in a shared folder is all
//! they have in common; and the check of an artifact with nobody to talk to.

use super::support::*;
use m87_core::contract::WorkOrder;
use m87_core::evidence::{Ended, ExecutionReport, LimitKind, ValidationReport};
use m87_core::json::{sha256_hex, to_canonical};
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const HARNESS: &str = env!("CARGO_BIN_EXE_m87-worker-harness");

struct Pod {
    root: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Pod {
    fn new(order: &impl serde::Serialize) -> Self {
        let pod = Self { root: tempfile::tempdir().unwrap(), processes: Vec::new() };
        for folder in ["authority", "link", "work", "order"] {
            std::fs::create_dir(pod.at(folder)).unwrap();
        }
        std::fs::write(pod.at("authority/order.json"), to_canonical(order).unwrap()).unwrap();
        pod
    }

    /// Both containers of a tool's pod.
    fn of_tool(order: &WorkOrder) -> Self {
        let mut pod = Self::new(order);
        pod.exec(rustix::process::getuid().as_raw());
        pod.shim();
        pod
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn start(&mut self, arguments: &[&str]) -> usize {
        let log = std::fs::File::options().append(true).create(true).open(self.at("log")).unwrap();
        let mut command = Command::new(HARNESS);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.processes.push(command.spawn().unwrap());
        self.processes.len() - 1
    }

    fn exec(&mut self, peer: u32) -> usize {
        let (socket, authority) = (self.at("link/socket"), self.at("authority"));
        let peer = peer.to_string();
        let (socket, authority) = (socket.to_str().unwrap(), authority.to_str().unwrap());
        let words = ["exec", "--listen", socket, "--peer", &peer, "--authority", authority, "--report-grace", "3"];
        self.start(&[&words[..], &["--contract", "contract-1"]].concat())
    }

    fn shim(&mut self) -> usize {
        let (socket, work) = (self.at("link/socket"), self.at("work"));
        self.start(&["shim", "--connect", socket.to_str().unwrap(), "--work", work.to_str().unwrap()])
    }

    fn kill(&self, process: usize) {
        let pid = i32::try_from(self.processes[process].id()).unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    fn wait(&mut self, process: usize) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.processes[process].try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "{process} hangs: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    fn redemptions(&self) -> usize {
        let calls = std::fs::read_to_string(self.at("authority/calls")).unwrap_or_default();
        calls.lines().filter(|line| line.starts_with("redeem ")).count()
    }

    /// Waits for both, and for the report.
    fn report(&mut self) -> ExecutionReport {
        for process in 0..2 {
            let status = self.wait(process);
            assert!(status.success(), "{process}: {status}: {}", self.log());
        }
        self.reported()
    }

    fn reported(&self) -> ExecutionReport {
        serde_json::from_str(&std::fs::read_to_string(self.at("authority/report.json")).unwrap()).unwrap()
    }

    fn check(&mut self) -> (Option<i32>, ValidationReport) {
        let [fetched, work, report] = ["order", "work", "last-words"].map(|name| self.at(name));
        let [fetched, work, report] = [&fetched, &work, &report].map(|path| path.to_str().unwrap());
        let check = self.start(&["shim", "--check", fetched, "--work", work, "--report", report]);
        let status = self.wait(check);
        (status.code(), serde_json::from_str(&std::fs::read_to_string(self.at("last-words")).unwrap()).unwrap())
    }

    fn fetch(&mut self) -> ExitStatus {
        let [folder, authority, report] = ["order", "authority", "last-words"].map(|name| self.at(name));
        let [folder, authority, report] = [&folder, &authority, &report].map(|path| path.to_str().unwrap());
        let fetch = self.start(&["exec", "--fetch", folder, "--authority", authority, "--report", report]);
        self.wait(fetch)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn artifact_and_usage_are_handed_over_open_and_reported() {
    let mut pod = Pod::of_tool(&tool("cat $M87_INPUT > $M87_OUTPUT/result; echo '{\"steps\": 3}' > $M87_USAGE"));
    let report = pod.report();
    assert_eq!(report.ended, Ended::Exited(0), "{}", report.output);
    assert_eq!(report.reported, Some(json!({"steps": 3})));
    let input = std::fs::read(pod.at("authority/artifact")).unwrap();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&input).unwrap(),
        json!({"question": "secret-of-the-input"})
    );
    assert_eq!(report.artifact.unwrap().sha256, Some(sha256_hex(&input)));
    assert!(!pod.at("link/socket").exists());
}

#[test]
fn nothing_but_a_regular_file_is_handed_over() {
    for script in ["ln -s /etc/passwd $M87_OUTPUT/result", "mkfifo $M87_OUTPUT/result $M87_USAGE", "true"] {
        let report = Pod::of_tool(&tool(script)).report();
        assert_eq!((report.ended, report.artifact), (Ended::Exited(0), None), "{script}");
    }
}

#[test]
fn the_shim_waits_for_its_socket_and_ends_only_after_the_report_was_heard() {
    let mut pod = Pod::new(&tool("sleep 1.5; exit 4"));
    let shim = pod.shim();
    std::thread::sleep(Duration::from_millis(300));
    let exec = pod.exec(rustix::process::getuid().as_raw());
    eventually("it redeems", || pod.redemptions() == 1);
    std::fs::write(pod.at("authority/down"), "").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(pod.processes[shim].try_wait().unwrap().is_none(), "{}", pod.log());
    std::fs::remove_file(pod.at("authority/down")).unwrap();
    assert!(pod.wait(exec).success() && pod.wait(shim).success());
    assert_eq!(pod.reported().ended, Ended::Exited(4));
}

#[test]
fn a_hanging_tool_is_killed_at_its_limit() {
    let mark = mark();
    let script = format!("(setsid sleep {mark} &); sleep {mark}");
    let report = Pod::of_tool(&limited(&script, |limits| limits.seconds = 1)).report();
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn somebody_else_than_the_tools_user_is_not_heard_and_nothing_is_redeemed() {
    let mut pod = Pod::new(&tool("true"));
    let exec = pod.exec(rustix::process::getuid().as_raw() + 1);
    pod.shim();
    assert!(!pod.wait(exec).success());
    assert!(pod.log().contains("there is no shim"), "{}", pod.log());
    assert_eq!(pod.redemptions(), 0);
}

#[test]
fn exec_killed_takes_the_tool_with_it_and_started_again_does_nothing() {
    let (mark, scratch) = (mark(), tempfile::tempdir().unwrap());
    let effect = scratch.path().join("effect");
    let script = format!("echo x >> {}; (setsid sleep {mark} &); sleep {mark}", effect.display());
    let mut pod = Pod::of_tool(&tool(&script));
    eventually("the tool starts", || processes_with(&mark).len() == 2);
    pod.kill(0);
    pod.wait(1);
    assert_eq!(processes_with(&mark), [0_i32; 0]);
    let again = pod.exec(rustix::process::getuid().as_raw());
    pod.shim();
    assert!(!pod.wait(again).success());
    assert_eq!((pod.redemptions(), std::fs::read_to_string(effect).unwrap().lines().count()), (1, 1));
}

#[test]
fn the_tools_container_killed_is_told() {
    let mark = mark();
    let mut pod = Pod::of_tool(&tool(&format!("exec sleep {mark}")));
    eventually("the tool starts", || processes_with(&mark).len() == 1);
    pod.kill(1);
    assert!(pod.wait(0).success(), "{}", pod.log());
    assert_eq!(pod.reported().ended, Ended::Signalled(9));
    eventually("the tool dies", || processes_with(&mark).is_empty());
}

#[test]
fn a_check_is_judged_by_its_exit_code_and_says_the_same_in_its_last_words() {
    let artifact = b"the artifact";
    for (script, code, ended) in [
        ("grep -q the $M87_ARTIFACT && grep -q secret $M87_INPUT", 0, Ended::Exited(0)),
        ("exit 3", 3, Ended::Exited(3)),
        ("kill -TERM $$", 143, Ended::Signalled(15)),
        ("sleep 60", 124, Ended::Limit(LimitKind::Seconds)),
    ] {
        let mut order = validation(script, artifact);
        order.validation.limits.seconds = 1;
        let mut pod = Pod::new(&order);
        std::fs::write(pod.at("authority/artifact"), artifact).unwrap();
        assert!(pod.fetch().success(), "{}", pod.log());
        let (exit, report) = pod.check();
        assert_eq!((exit, report.ended), (Some(code), ended), "{script}");
    }
}

#[test]
fn a_check_that_writes_its_own_last_words_gains_nothing() {
    let mut pod = Pod::new(&json!({}));
    let praise = r#"{"ended":{"exited":0}}"#;
    let script = format!("echo '{praise}' > {}; exit 1", pod.at("last-words").display());
    std::fs::write(pod.at("authority/order.json"), to_canonical(&validation(&script, b"x")).unwrap()).unwrap();
    std::fs::write(pod.at("authority/artifact"), b"x").unwrap();
    assert!(pod.fetch().success());
    let (exit, report) = pod.check();
    assert_eq!((exit, report.ended), (Some(1), Ended::Exited(1)));
}

#[test]
fn an_artifact_with_another_hash_is_not_checked_and_the_fetcher_says_so() {
    let mut pod = Pod::new(&validation("true", b"declared"));
    std::fs::write(pod.at("authority/artifact"), b"stored").unwrap();
    assert!(!pod.fetch().success());
    let words = std::fs::read_to_string(pod.at("last-words")).unwrap();
    let report: ValidationReport = serde_json::from_str(&words).unwrap();
    assert!(matches!(report.ended, Ended::NotStarted(why) if why.contains("not the declared")));
}

#[test]
fn what_was_not_fetched_is_not_checked() {
    let (exit, report) = Pod::new(&json!({})).check();
    assert_eq!(exit, Some(125));
    assert!(matches!(report.ended, Ended::NotStarted(_)));
}
