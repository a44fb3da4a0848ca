//! `m87 run` over files, from proposal to receipt.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use base64::Engine;
use common::{Place, Tool, ledger_tool, policy, run_of, tool, tools};
use m87_core::time::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

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
fn the_exit_code_is_1_exactly_when_another_terminal_is_reached_than_the_annotation_names() {
    let place = Place::new();
    let good = tool("echo done > \"$M87_OUTPUT/a\"; echo '{\"steps\":1}' > \"$M87_USAGE\"");
    let refused = run_of("a").replace("risk: low", "risk: none");
    for (run, expected, reached, code) in [
        (run_of("a"), "COMPLETE", "COMPLETE", 0),
        (run_of("a"), "HALT", "COMPLETE", 1),
        (refused.clone(), "HALT", "HALT", 0),
        (refused.clone(), "COMPLETE", "HALT", 1),
        (refused, "REJECT_MANIFEST", "HALT", 1),
    ] {
        let annotated = format!("metadata: {{name: a, annotations: {{m87.dev/expect-terminal: {expected}}}}}");
        let files = place.write("all.yaml", good.clone() + &run.replace("metadata: {name: a}", &annotated));
        let (table, json) = (format!("table-{expected}-{reached}"), format!("json-{expected}-{reached}"));
        let done = place.run(&files, &["--out", &json]);
        assert_eq!(done.code, code, "{expected}, {reached}: {done:?}");
        let told = &done.runs()["a"];
        assert_eq!((&told["terminal"], &told["expected"]), (&reached.into(), &expected.into()), "{told}");
        assert_eq!(told["asExpected"], code == 0, "{told}");
        let done = place.m87(["run", "-f", files.to_str().unwrap(), "--out", &table]);
        assert_eq!(done.code, code, "{expected}, {reached}: {done:?}");
        assert_eq!(done.out.contains(&format!("(expected {expected})")), code == 1, "{done:?}");
        assert_eq!(done.out.ends_with("; 1 not as expected\n"), code == 1, "{done:?}");
    }
}

#[test]
fn runs_go_on_at_the_same_time() {
    let place = Place::new();
    // Neither ends before it has seen the other: one after another, the first would be killed at its limit.
    let waits = |own: &str, other: &str| {
        let [own, other] = [own, other].map(|name| place.path(name).display().to_string());
        format!(
            "touch {own}; while [ ! -e {other} ]; do sleep 0.1; done; \
             echo done > \"$M87_OUTPUT/a\"; echo '{{\"steps\":1}}' > \"$M87_USAGE\""
        )
    };
    let scripts = [("first", waits("seen-1", "seen-2")), ("second", waits("seen-2", "seen-1"))];
    let manifest = scripts.each_ref().map(|(name, script)| Tool { name, script, ..Tool::default() });
    let runs = scripts.each_ref().map(|(name, _)| run_of(name).replace("tool: t,", &format!("tool: {name},")));
    let done = place.run(&place.write("all.yaml", tools(&manifest) + &runs.concat()), &[]);
    assert_eq!(done.code, 0, "{done:?}");
    for (name, run) in done.runs() {
        assert_eq!(run["terminal"], "COMPLETE", "{name}: {run}");
    }
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
    // So that the log is the same too, one run is over before the next is opened, in the order of names.
    let receipts: BTreeMap<String, Value> = first.iter().map(|(name, bytes)| (name.clone(), receipt(bytes))).collect();
    let names: BTreeSet<&str> = receipts.values().map(|receipt| receipt["run"]["name"].as_str().unwrap()).collect();
    let in_order: Vec<(&str, &str)> = names.iter().flat_map(|&name| [(name, "opened"), (name, "sealed")]).collect();
    let log: Value = serde_json::from_slice(&fs::read(one.path("m87-out/log/default.json")).unwrap()).unwrap();
    assert_eq!(told(&log, receipts.values()), in_order);
    let logs = [&one, &two].map(|place| tree(&place.path("m87-out/log")));
    assert!(logs[0] == logs[1], "the logs differ");
    for (name, bytes) in &first {
        let bundle: Value = serde_json::from_slice(bytes).unwrap();
        for said in [&receipts[name], &bundle["dossier"]] {
            assert_eq!(said["clock"], "injected", "{name}: {said}");
        }
        let mut at = BTreeSet::new();
        for part in [&receipts[name], &bundle["dossier"], &bundle["evidence"]] {
            instants(part, &mut at);
        }
        assert_eq!(at, [Timestamp::parse("2026-11-30T12:00:00Z").unwrap()].into(), "{name}");
        assert_eq!(receipts[name]["timestamp"], "2026-11-30T12:00:00Z", "{name}");
    }
}

#[test]
fn limits_hold_in_real_time_also_when_the_clock_is_frozen() {
    let place = Place::new();
    let script = "echo done > \"$M87_OUTPUT/a\"; echo '{\"steps\":1}' > \"$M87_USAGE\"; sleep 1000";
    let text = tools(&[Tool { script, seconds: 1, ..Tool::default() }]) + &run_of("a");
    let begun = Instant::now();
    let done = place.run(&place.write("all.yaml", text), &["--clock", "2026-11-30T12:00:00Z"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "took {:?}", begun.elapsed());
    let run = &done.runs()["a"];
    assert_eq!((&run["terminal"], &run["reason"]), (&"FAILED".into(), &"ToolLimitExceeded".into()), "{run}");
    assert!(run["message"].as_str().unwrap().contains("killed at the limit of seconds, 1,"), "{run}");
    let receipt = receipt(&fs::read(place.path("m87-out/receipts/default/a.json")).unwrap());
    assert_eq!((&receipt["clock"], &receipt["timestamp"]), (&"injected".into(), &"2026-11-30T12:00:00Z".into()));
    // How long it took is measured by a clock, which would differ from time to time.
    assert_eq!(receipt["usage"]["seconds"], json!({"value": 0, "source": "measured"}), "{receipt}");
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

/// The receipt that a bundle holds.
fn receipt(bundle: &[u8]) -> Value {
    let bundle: Value = serde_json::from_slice(bundle).unwrap();
    let payload = base64::engine::general_purpose::STANDARD.decode(bundle["envelope"]["payload"].as_str().unwrap());
    let statement: Value = serde_json::from_slice(&payload.unwrap()).unwrap();
    statement["predicate"].clone()
}

/// What a log tells, in its order: which run was opened or sealed.
fn told<'a>(log: &Value, receipts: impl Iterator<Item = &'a Value>) -> Vec<(&'a str, &'static str)> {
    let names: BTreeMap<&str, &str> = receipts
        .map(|receipt| (receipt["run"]["uid"].as_str().unwrap(), receipt["run"]["name"].as_str().unwrap()))
        .collect();
    let told = |entry: &Value| {
        let event = ["opened", "sealed"].into_iter().find(|event| entry["event"].get(event).is_some()).unwrap();
        (names[entry["run"].as_str().unwrap()], event)
    };
    log["entries"].as_array().unwrap().iter().map(told).collect()
}

/// Every instant in a document.
fn instants(value: &Value, found: &mut BTreeSet<Timestamp>) {
    match value {
        Value::String(text) => found.extend(Timestamp::parse(text).ok()),
        Value::Array(items) => items.iter().for_each(|item| instants(item, found)),
        Value::Object(members) => members.values().for_each(|member| instants(member, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
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
