//! `m87 run` over files, from proposal to receipt.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, ledger_tool, policy, run_of, tool};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn the_examples_reach_all_five_terminals_as_they_say_they_do() {
    let place = Place::new();
    let done = place.run(&policy(), &[]);
    assert_eq!(done.code, 0, "{done:?}");
    let runs = done.runs();
    let terminals: BTreeSet<&str> = runs.values().map(|run| run["terminal"].as_str().unwrap()).collect();
    assert_eq!(terminals, ["COMPLETE", "FAILED", "HALT", "REJECT_MANIFEST", "REJECT_VERIFY"].into());
    for (name, run) in &runs {
        assert_eq!(run["terminal"], run["expected"], "{name}: {run}");
    }
    assert_eq!(runs["q3-totals-20-steps"]["terminal"], "COMPLETE");
    assert_eq!(runs["q3-totals-21-steps"]["reason"], "BudgetExceeded");
}

#[test]
fn a_second_invocation_repeats_no_action() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let files = place.write("all.yaml", ledger_tool(&ledger) + &run_of("a") + &run_of("b"));
    let first = place.run(&files, &[]);
    assert_eq!(first.code, 0, "{first:?}");
    let receipts = tree(&place.path("m87-out/receipts"));
    let second = place.run(&files, &[]);
    assert_eq!(second.code, 0, "{second:?}");
    assert_eq!(fs::read_to_string(&ledger).unwrap(), "once\nonce\n");
    assert_eq!(tree(&place.path("m87-out/receipts")), receipts);
    for (name, run) in second.runs() {
        assert_eq!(run["alreadyDone"], true, "{name}: {run}");
        assert_eq!(run["receipt"]["hash"], first.runs()[&name]["receipt"]["hash"]);
    }
}

#[test]
fn a_key_that_was_used_by_another_proposal_halts() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let base = ledger_tool(&ledger);
    place.run(&place.write("1.yaml", base.clone() + &run_of("a")), &[]);
    let other = run_of("a").replace("a test", "another reason");
    let done = place.run(&place.write("2.yaml", base + &other), &[]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.runs()["a"]["reason"], "IdempotencyKeyReused");
    assert_eq!(fs::read_to_string(&ledger).unwrap(), "once\n");
}

#[test]
fn an_unexpected_terminal_is_exit_1_and_the_next_run_works() {
    let place = Place::new();
    let text = tool("exit 137") + &run_of("a");
    let done = place.run(&place.write("all.yaml", text), &[]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.runs()["a"]["terminal"], "FAILED");
    assert_eq!(done.runs()["a"]["reason"], "ToolFailed");
    let text = ledger_tool(&place.path("ledger")) + &run_of("b");
    let done = place.run(&place.write("all.yaml", text), &[]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn a_missing_policy_is_halt_and_a_missing_manifest_reject_manifest_both_with_a_receipt() {
    let place = Place::new();
    let files = place.write("run.yaml", run_of("a"));
    let done = place.run(&files, &["--out", "no-policy"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!((&done.runs()["a"]["terminal"], &done.runs()["a"]["reason"]), (&"HALT".into(), &"PolicyMissing".into()));
    assert!(place.path("no-policy/receipts/default/a.json").is_file());
    let policy = tool("true").split("---").next().unwrap().to_owned();
    let files = place.write("run.yaml", policy + &run_of("a"));
    let done = place.run(&files, &["--out", "no-manifest"]);
    assert_eq!(done.runs()["a"]["reason"], "ManifestMissing", "{done:?}");
    assert_eq!(done.runs()["a"]["terminal"], "REJECT_MANIFEST");
    assert!(place.path("no-manifest/receipts/default/a.json").is_file());
}

#[test]
fn same_input_same_bytes_with_clock_and_key() {
    let (one, two) = (Place::new(), Place::new());
    let key = one.path("key.pem");
    for place in [&one, &two] {
        let done = place.run(&policy(), &["--clock", "2026-11-30T12:00:00Z", "--key", key.to_str().unwrap()]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    let (first, second) = (tree(&one.path("m87-out/receipts")), tree(&two.path("m87-out/receipts")));
    assert!(first.len() >= 11, "{:?}", first.keys());
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(second[name] == *bytes, "{name} differs");
    }
}

#[test]
fn an_agent_that_calls_itself_something_is_no_person() {
    let place = Place::new();
    let files = place.write("all.yaml", ledger_tool(&place.path("ledger")) + &run_of("a"));
    let done = place.run(&files, &["--as", "agent-7"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.runs()["a"]["reason"], "ApprovalRequired");
    assert!(!place.path("ledger").exists());
}

#[test]
fn two_invocations_on_one_folder_do_not_mix() {
    let place = Place::new();
    let slow = place.write(
        "slow.yaml",
        tool("echo x > \"$M87_OUTPUT/a\"; echo '{\"steps\":1}' > \"$M87_USAGE\"; sleep 3") + &run_of("slow"),
    );
    let mut first = place
        .command(["run", "-f", slow.to_str().unwrap(), "-o", "json"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    while !place.path("m87-out/store/authority.db").exists() {
        assert!(started.elapsed().as_secs() < 30, "the first invocation made no store");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let second = place.run(&slow, &[]);
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains("m87-out") && second.err.contains("another"), "{second:?}");
    assert_eq!(first.wait().unwrap().code(), Some(0));
}

/// Every file under a folder: path and bytes.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, "", &mut found);
    found
}
