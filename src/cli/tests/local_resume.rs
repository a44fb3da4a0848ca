//! Stopped, killed, restored: no action is repeated, and every run ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Done, Place, ledger_tool, run_of, tool};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Appends to the ledger, then takes two seconds.
fn slow(ledger: &Path) -> String {
    let ledger = ledger.display();
    tool(&format!(
        "echo once >> {ledger}; sleep 2; echo done > \"$M87_OUTPUT/a\"; echo '{{\"steps\":1}}' > \"$M87_USAGE\""
    ))
}

/// Starts an invocation and waits until its tool has had its effect.
fn started(place: &Place, files: &Path, ledger: &Path) -> Child {
    let arguments = ["run", "-f", files.to_str().unwrap(), "-o", "json"];
    let child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !ledger.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the tool did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_stopped_invocation_says_what_is_left_and_the_next_resumes_it() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let files = place.write("all.yaml", slow(&ledger) + &run_of("a"));
    let child = started(&place, &files, &ledger);
    signal(&child, Signal::TERM);
    let done = Done::of(child.wait_with_output().unwrap());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("not over yet: a") && done.err.contains("resume"), "{done:?}");
    let done = place.run(&files, &[]);
    assert_eq!((done.code, &done.runs()["a"]["terminal"]), (0, &"COMPLETE".into()), "{done:?}");
    assert_eq!(fs::read_to_string(&ledger).unwrap(), "once\n");
}

#[test]
fn a_killed_invocation_is_resumed_without_repeating_the_effect() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let files = place.write("all.yaml", slow(&ledger) + &run_of("a") + &run_of("b"));
    let mut child = started(&place, &files, &ledger);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let done = place.run(&files, &[]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(fs::read_to_string(&ledger).unwrap(), "once\nonce\n");
}

#[test]
fn a_restored_store_refuses_until_it_is_accepted_and_never_repeats_an_effect() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let base = ledger_tool(&ledger);
    assert_eq!(place.run(&place.write("1.yaml", base.clone() + &run_of("a")), &[]).code, 0);
    copy(&place.path("m87-out/store"), &place.path("backup"));
    assert_eq!(place.run(&place.write("2.yaml", base.clone() + &run_of("b")), &[]).code, 0);
    fs::remove_dir_all(place.path("m87-out/store")).unwrap();
    copy(&place.path("backup"), &place.path("m87-out/store"));

    let again = place.run(&place.path("2.yaml"), &[]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("restored from an older copy") && again.err.contains("m87 store accept"), "{again:?}");
    assert_eq!(again.runs()["b"]["reason"], "ContractRefused", "{again:?}");
    let accepted = place.m87(["store", "accept"]);
    assert!(accepted.code == 0 && accepted.out.contains("accepted"), "{accepted:?}");
    assert!(place.m87(["store", "accept"]).out.contains("nothing to accept"));
    let new = place.run(&place.write("3.yaml", base + &run_of("c")), &[]);
    assert_eq!(new.code, 0, "{new:?}");
    assert_eq!(fs::read_to_string(&ledger).unwrap(), "once\nonce\nonce\n");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from: PathBuf = entry.unwrap().path();
        fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
}
