//! What anyone can verify offline: receipts hold, and nothing about them can be changed or left out unnoticed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, policy};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const KEY: &str = "m87-out/keys/signing.pub.pem";

fn ran() -> Place {
    let place = Place::new();
    let done = place.run(&policy(), &[]);
    assert_eq!(done.code, 0, "{done:?}");
    place
}

fn bundles(place: &Place) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(place.path("m87-out/receipts/default")).unwrap().map(|file| file.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn every_receipt_verifies_with_the_key_and_is_untrusted_without() {
    let place = ran();
    let done = place.m87(["receipt", "verify", "m87-out/receipts", "m87-out/log", "--key", KEY]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("12 verified, 0 failed") && done.out.contains("no receipt is missing"), "{done:?}");
    // A whole out folder is its receipts, logs and checkpoints; its keys are none of them.
    let done = place.m87(["receipt", "verify", "m87-out", "--key", KEY]);
    assert!(done.code == 0 && done.out.contains("13 verified, 0 failed"), "{done:?}");
    assert!(done.out.contains("m87-out/checkpoints/"), "{done:?}");
    let done = place.m87(["receipt", "verify", "m87-out/receipts"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.out.contains("untrusted key"), "{done:?}");
    // The private key's file will do too, and another's will not.
    let done = place.m87(["receipt", "verify", "m87-out/receipts", "--key", "m87-out/keys/signing.pem"]);
    assert_eq!(done.code, 0, "{done:?}");
    let other = Place::new();
    other.run(&policy(), &["--key", "other.pem"]);
    let foreign = other.path("other.pem");
    let done = place.m87(["receipt", "verify", "m87-out/receipts", "m87-out/log", "--key", foreign.to_str().unwrap()]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("foreign key") && done.out.contains("0 verified, 12 failed"), "{done:?}");
}

/// Writes copies of a file, each with one byte changed, and counts how many still verify.
fn changed(place: &Place, file: &Path, also: Option<&str>) {
    let bytes = fs::read(file).unwrap();
    // Every byte is for tests/tests/fuzz, in one process; here it is the command, its files and its exit code.
    let places = if std::env::var_os("M87_LONG").is_some() { 240 } else { 12 };
    let step = bytes.len() / places + 1;
    let folder = place.path("changed");
    let _ = fs::remove_dir_all(&folder);
    let mut count = 0;
    // Another offset for each file, so that the samples lie elsewhere.
    for at in (bytes.len() % step..bytes.len()).step_by(step) {
        for flip in [0x01, 0x20] {
            let mut copy = bytes.clone();
            copy[at] ^= flip;
            place.write(&format!("changed/{at}-{flip}.json"), copy);
            count += 1;
        }
    }
    let mut arguments = vec!["receipt", "verify", "changed", "--key", KEY];
    arguments.extend(also);
    let done = place.m87(arguments);
    assert_eq!(done.code, 1, "{}", done.err);
    let changed = done.out.lines().filter(|line| line.starts_with("ok") && line.contains("changed/"));
    assert_eq!(changed.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", file.display());
    assert!(done.out.contains(&format!("{count} failed")), "{}: {:?}", file.display(), done.out.lines().last());
}

#[test]
fn any_changed_byte_of_a_bundle_is_found() {
    let place = ran();
    for bundle in bundles(&place) {
        changed(&place, &bundle, None);
    }
}

#[test]
fn any_changed_byte_of_a_log_is_found() {
    let place = ran();
    changed(&place, &place.path("m87-out/log/default.json"), Some("m87-out/receipts"));
}

#[test]
fn a_removed_receipt_and_a_removed_entry_are_found() {
    let place = ran();
    let verify = || place.m87(["receipt", "verify", "m87-out/receipts", "m87-out/log", "--key", KEY]);
    assert_eq!(verify().code, 0);
    let (bundle, log) = (bundles(&place).remove(3), place.path("m87-out/log/default.json"));
    let (kept, whole) = (fs::read(&bundle).unwrap(), fs::read(&log).unwrap());
    fs::remove_file(&bundle).unwrap();
    let done = verify();
    assert!(done.code == 1 && done.out.contains("1 receipt is missing"), "{done:?}");
    fs::write(&bundle, kept).unwrap();
    let document: Value = serde_json::from_slice(&whole).unwrap();
    let entries = document["entries"].as_array().unwrap().len();
    assert_eq!(entries, 22);
    for removed in [0, entries / 2, entries - 1] {
        let mut copy = document.clone();
        copy["entries"].as_array_mut().unwrap().remove(removed);
        fs::write(&log, serde_json::to_string(&copy).unwrap()).unwrap();
        let done = verify();
        assert_eq!(done.code, 1, "entry {removed}: {done:?}");
    }
    fs::write(&log, whole).unwrap();
    assert_eq!(verify().code, 0);
}

#[test]
fn a_checkpoint_that_somebody_kept_finds_out_a_log_that_was_made_anew() {
    let place = Place::new();
    let runs = fs::read_to_string(policy().join("runs.yaml")).unwrap();
    place.write("few/runs.yaml", runs.split("---\n").nth(1).unwrap());
    for file in ["policy.yaml", "tools.yaml"] {
        place.write(&format!("few/{file}"), fs::read(policy().join(file)).unwrap());
    }
    let same = ["--clock", "2026-01-31T12:00:00Z", "--key", "key.pem", "--out"];
    for (files, out) in [(policy(), "all"), (place.path("few"), "few-out")] {
        let done = place.run(&files, &[same.as_slice(), &[out]].concat());
        assert_eq!(done.code, 0, "{done:?}");
    }
    let verify = |out: &str, held: &str| {
        let [receipts, log, held] = [format!("{out}/receipts"), format!("{out}/log"), format!("{held}/checkpoints")];
        place.m87(["receipt", "verify", &receipts, &log, &held, "--key", "key.pem"])
    };
    for out in ["all", "few-out"] {
        let done = verify(out, out);
        assert!(done.code == 0 && done.out.contains("the log still begins with"), "{done:?}");
    }
    let done = verify("few-out", "all");
    assert!(done.code == 1 && done.out.contains("some are missing"), "{done:?}");
    let done = verify("all", "few-out");
    assert!(done.code == 1 && done.out.contains("the log has others"), "{done:?}");
    let done = place.m87(["receipt", "verify", "all/receipts", "all/checkpoints", "--key", "key.pem"]);
    assert!(done.code == 1 && done.out.contains("name log/NAMESPACE.json"), "{done:?}");
}

#[test]
fn receipts_are_listed_shown_and_explained() {
    let place = ran();
    let done = place.m87(["receipt", "list"]);
    assert!(
        done.code == 0 && done.out.contains("q3-totals-21-steps") && done.out.contains("BudgetExceeded"),
        "{done:?}"
    );
    let done = place.m87(["receipt", "list", "-o", "json"]);
    let list: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(list["receipts"].as_array().unwrap().len(), 11);
    let done = place.m87(["receipt", "show", "q3-totals-bad-row"]);
    assert!(done.code == 0 && done.out.contains("tool said: line 4 is not id,date,currency,amount"), "{done:?}");
    assert!(done.out.contains(", says the operating system\n"), "{done:?}");
    let done = place.m87(["run", "-f", policy().to_str().unwrap()]);
    for said in ["tool said: line 4 is not id,date,currency,amount", "validation said: paid twice: P-002"] {
        assert!(done.out.contains(said), "a run that did not end well is told without what was said: {done:?}");
    }
    let done = place.m87(["receipt", "show", "q3-totals", "-o", "json"]);
    let receipt: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&receipt["terminal"], &receipt["trust"]), (&"COMPLETE".into(), &"local".into()));
    let done = place.m87(["explain", "q3-totals-21-steps"]);
    assert!(done.code == 0 && done.out.contains("NO   steps are within the budget"), "{done:?}");
    let done = place.m87(["receipt", "show", "nobody"]);
    assert!(done.code == 1 && done.err.contains("no receipt of run \"nobody\""), "{done:?}");
}

#[test]
fn what_is_no_receipt_in_a_folder_of_receipts_is_named_and_hides_nothing() {
    let place = ran();
    let folder = "m87-out/receipts/default";
    place.write(&format!("{folder}/junk.json"), "no JSON at all");
    place.write(&format!("{folder}/other.json"), r#"{"kind":"Bundle"}"#);
    let fifo = place.path(&format!("{folder}/pipe.json"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let named = ["junk.json", "other.json", "pipe.json"];
    for arguments in [
        &["receipt", "list"][..],
        &["receipt", "show", "q3-totals"],
        &["explain", "q3-totals"],
        &["receipt", "list", "-o", "json"],
    ] {
        let done = place.m87(arguments);
        assert_eq!(done.code, 1, "{arguments:?}: {done:?}");
        assert!(named.iter().all(|name| done.err.contains(name)), "{arguments:?}: {done:?}");
        assert!(done.out.contains("COMPLETE"), "{arguments:?}: {done:?}");
    }
    let done = place.m87(["receipt", "verify", "m87-out/receipts", "--key", KEY]);
    assert!(done.code == 1 && done.out.contains("11 verified, 3 failed"), "{done:?}");
    assert!(named.iter().all(|name| done.out.contains(name)), "{done:?}");
}

#[test]
fn a_verification_is_there_for_programs() {
    let place = ran();
    let files = ["receipt", "verify", "m87-out/receipts", "m87-out/log", "-o", "json"];
    let done = place.m87(files.iter().chain(&["--key", KEY]));
    let found: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((done.code, &found["verified"], &found["failed"]), (0, &12.into(), &0.into()));
    assert_eq!(found["keyPinned"], true);
    fs::remove_file(&bundles(&place)[0]).unwrap();
    let done = place.m87(files);
    let found: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((done.code, &found["failed"], &found["keyPinned"]), (1, &1.into(), &false.into()));
    let log = found["files"].as_array().unwrap().iter().find(|file| file["holds"] == false).unwrap();
    assert!(log["problems"][0].as_str().unwrap().contains("1 receipt is missing"), "{log}");
}

#[test]
fn one_run_is_told_in_the_singular() {
    let place = Place::new();
    let files = place.write(
        "all.yaml",
        common::tool("echo x > \"$M87_OUTPUT/a\"; echo '{\"steps\":1}' > \"$M87_USAGE\"") + &common::run_of("a"),
    );
    let done = place.m87(["run", "-f", files.to_str().unwrap()]);
    assert!(done.code == 0 && done.out.ends_with("1 run: 1 COMPLETE; all as expected\n"), "{done:?}");
    let done = place.m87(["receipt", "verify", "m87-out/receipts", "m87-out/log", "--key", KEY]);
    assert!(done.code == 0 && done.out.contains("2 entries, no receipt is missing, 0 runs are open"), "{done:?}");
}
