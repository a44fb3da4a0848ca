//! Tools that misbehave: each ends in a refusing terminal with its reason, within its limits, and with a receipt.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, Tool, run_of, tools};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const GOOD_USAGE: &str = "echo '{\"steps\":1}' > \"$M87_USAGE\"";
const GOOD_ARTIFACT: &str = "echo done > \"$M87_OUTPUT/a\"";

#[test]
fn a_tool_that_misbehaves_is_refused_with_its_reason_and_the_others_go_on() {
    let usage = |text: &str| format!("{GOOD_ARTIFACT}; printf '%s' '{text}' > \"$M87_USAGE\"");
    let artifact = |script: &str| format!("{GOOD_USAGE}; cd \"$M87_OUTPUT\"; {script}");
    let good = format!("{GOOD_USAGE}; {GOOD_ARTIFACT}");
    let cases: Vec<(&str, String, &str, &str)> = vec![
        ("good", good.clone(), "COMPLETE", ""),
        ("exits", format!("{good}; exit 137"), "FAILED", "ToolFailed"),
        ("killed", format!("{good}; kill -9 $$"), "FAILED", "ToolFailed"),
        ("hangs", format!("{good}; sleep 1000"), "FAILED", "ToolLimitExceeded"),
        (
            "ignores-signals",
            format!("{good}; trap '' TERM INT HUP; while :; do sleep 1; done"),
            "FAILED",
            "ToolLimitExceeded",
        ),
        (
            "floods",
            format!("{good}; head -c 1000000000 /dev/zero > \"$M87_OUTPUT/big\""),
            "FAILED",
            "ToolLimitExceeded",
        ),
        ("chatters", format!("{good}; head -c 1000000000 /dev/zero"), "FAILED", "ToolLimitExceeded"),
        ("no-usage", GOOD_ARTIFACT.to_owned(), "FAILED", "TelemetryMissing"),
        ("steps-text", usage(r#"{"steps":"3"}"#), "FAILED", "TelemetryMalformed"),
        ("steps-true", usage(r#"{"steps":true}"#), "FAILED", "TelemetryMalformed"),
        ("steps-negative", usage(r#"{"steps":-1}"#), "FAILED", "TelemetryMalformed"),
        ("steps-null", usage(r#"{"steps":null}"#), "FAILED", "TelemetryMalformed"),
        ("steps-fraction", usage(r#"{"steps":1.5}"#), "FAILED", "TelemetryMalformed"),
        ("usage-list", usage("[]"), "FAILED", "TelemetryMalformed"),
        (
            "usage-binary",
            format!("{GOOD_ARTIFACT}; head -c 100 /dev/urandom > \"$M87_USAGE\""),
            "FAILED",
            "TelemetryMalformed",
        ),
        ("unbudgeted", usage(r#"{"steps":1,"tokens":1}"#), "FAILED", "BudgetExceeded"),
        ("no-artifact", GOOD_USAGE.to_owned(), "REJECT_VERIFY", "ArtifactMissing"),
        ("symlink", artifact("ln -s /etc/hostname a"), "REJECT_VERIFY", "ArtifactMissing"),
        ("fifo", artifact("mkfifo a"), "REJECT_VERIFY", "ArtifactMissing"),
        ("folder", artifact("mkdir a"), "REJECT_VERIFY", "ArtifactMissing"),
        ("large-artifact", artifact("head -c 5000 /dev/zero > a"), "FAILED", "BudgetExceeded"),
        ("escapes", format!("{good}; printf '\\033[2J\\033]0;owned\\007\\377\\376'; exit 3"), "FAILED", "ToolFailed"),
    ];
    let manifest: Vec<Tool<'_>> = cases
        .iter()
        .map(|(name, script, ..)| Tool {
            name,
            script,
            seconds: if *name == "hangs" || *name == "ignores-signals" { 2 } else { 20 },
            ..Tool::default()
        })
        .collect();
    let mut text = tools(&manifest);
    for (name, ..) in &cases {
        text += &run_of(name).replace("tool: t,", &format!("tool: {name},"));
    }
    let place = Place::new();
    let begun = Instant::now();
    let done = place.run(&place.write("all.yaml", text), &[]);
    assert!(begun.elapsed() < Duration::from_secs(120), "took {:?}", begun.elapsed());
    let runs = done.runs();
    let wrong: Vec<String> = cases
        .iter()
        .filter(|(name, _, terminal, reason)| {
            let run = &runs[*name];
            run["terminal"] != *terminal || run["reason"].as_str().unwrap_or_default() != *reason
        })
        .map(|(name, ..)| {
            format!("{name}: {} {} {}", runs[*name]["terminal"], runs[*name]["reason"], runs[*name]["message"])
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let verified =
        place.m87(["receipt", "verify", "m87-out/receipts", "m87-out/log", "--key", "m87-out/keys/signing.pub.pem"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let shown = place.m87(["receipt", "show", "escapes"]);
    assert!(shown.code == 0 && shown.out.contains("tool said") && !shown.out.contains('\u{1b}'), "{shown:?}");
    assert!(!done.err.contains('\u{1b}'), "{}", done.err);
    let left = std::fs::read_dir(place.path("m87-out/attempts")).unwrap().count();
    assert_eq!(left, 0, "folders of attempts are left");
}

#[test]
fn a_daemon_that_a_tool_leaves_is_killed_with_it() {
    let place = Place::new();
    let alive = place.path("alive");
    let daemon = format!("(setsid sh -c 'while :; do date > {}; sleep 0.1; done' > /dev/null 2>&1 &)", alive.display());
    let script = format!("{daemon}; sleep 1; {GOOD_USAGE}; {GOOD_ARTIFACT}");
    let done = place.run(&place.write("all.yaml", common::tool(&script) + &run_of("a")), &[]);
    assert_eq!(done.runs()["a"]["terminal"], "COMPLETE", "{done:?}");
    assert!(alive.exists(), "the daemon never ran");
    std::fs::remove_file(&alive).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(!alive.exists(), "the daemon still writes");
}

#[test]
fn a_validation_that_says_no_or_hangs_is_reject_verify() {
    let good = format!("{GOOD_USAGE}; {GOOD_ARTIFACT}");
    let validations = [("no", "exit 1"), ("hanging", "sleep 1000")];
    let place = Place::new();
    let done = place.run(&place.write("all.yaml", validated(&good, &validations, 2)), &[]);
    for (name, _) in validations {
        let run = &done.runs()[name];
        assert_eq!((&run["terminal"], &run["reason"]), (&"REJECT_VERIFY".into(), &"ValidationFailed".into()), "{run}");
    }
}

#[test]
fn whatever_a_validation_writes_the_stored_artifact_stays_as_the_tool_left_it() {
    let good = format!("{GOOD_USAGE}; {GOOD_ARTIFACT}");
    // It may do what it likes to its copy, and its exit code alone is the verdict; the last of them shows that it did.
    let validations = [
        ("appends", "chmod u+w \"$M87_ARTIFACT\" && echo more >> \"$M87_ARTIFACT\""),
        ("empties", "chmod u+w \"$M87_ARTIFACT\" && : > \"$M87_ARTIFACT\""),
        ("replaces", "rm -f \"$M87_ARTIFACT\"; echo other > \"$M87_ARTIFACT\""),
        (
            "appends-and-says-no",
            "chmod u+w \"$M87_ARTIFACT\" && echo more >> \"$M87_ARTIFACT\"; cat \"$M87_ARTIFACT\"; exit 1",
        ),
    ];
    let place = Place::new();
    let done = place.run(&place.write("all.yaml", validated(&good, &validations, 20)), &[]);
    let runs = done.runs();
    for (name, _) in validations {
        let expected = if name == "appends-and-says-no" { "REJECT_VERIFY" } else { "COMPLETE" };
        assert_eq!(runs[name]["terminal"], expected, "{}", runs[name]);
        let shown = place.m87(["receipt", "show", name, "-o", "json"]);
        let receipt: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
        let artifact = &receipt["artifact"];
        assert_eq!(artifact["declared"], DONE_SHA256, "{name}: {artifact}");
        assert_eq!(
            (&artifact["recomputed"], &artifact["size"]),
            (&DONE_SHA256.into(), &5.into()),
            "{name}: {artifact}"
        );
    }
    let said = place.m87(["receipt", "show", "appends-and-says-no"]);
    assert!(said.out.contains("validation said: done") && said.out.contains("more"), "{said:?}");
    // All four made the same bytes, and under their hash there are still these.
    let stored = artifacts(&place.path("m87-out/artifacts"));
    assert_eq!(stored.iter().map(|(_, bytes)| bytes.as_slice()).collect::<Vec<_>>(), [b"done\n"], "{stored:?}");
    assert!(stored[0].0.to_str().unwrap().replace('/', "").ends_with(DONE_SHA256), "{stored:?}");
}

/// A policy, and for each validation a tool of its name that is this script, and a run of it.
fn validated(script: &str, validations: &[(&str, &str)], seconds: u32) -> String {
    let manifest: Vec<Tool<'_>> =
        validations.iter().map(|&(name, validation)| Tool { name, script, validation, seconds }).collect();
    let runs = validations.iter().map(|(name, _)| run_of(name).replace("tool: t,", &format!("tool: {name},")));
    tools(&manifest) + &runs.collect::<String>()
}

/// `sha256sum` of the line that the good tool leaves.
const DONE_SHA256: &str = "d117fa006ba9208500b2930ce69cbde436c647afa917cb7396a9bc9111a46dd2";

/// Every stored file under a folder, with its bytes.
fn artifacts(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(artifacts(&path)),
            false => found.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found
}
