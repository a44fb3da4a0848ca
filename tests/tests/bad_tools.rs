//! Tools that hang, hide, flood and lie. Each ends in the terminal and with the reason that say so, within its limits, with
//! a receipt that can be recomputed; nothing of it stays, and the next run works.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_tests::scene::{run, run_of, tool};
use m87_tests::{Scene, processes};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// What a tool does at its end that did all as agreed.
const WELL: &str = r#"echo done > "$M87_OUTPUT/artifact"; echo '{"steps":1}' > "$M87_USAGE""#;

/// Name and script of a tool, with limits of its own, and how its run must end.
struct Bad(&'static str, String, &'static [&'static str], &'static str, &'static str);

/// Runs every tool once, all at the same time, and compares; then a good one runs over the same folder.
fn assert_each_ends(scene: &Scene, bad: &[Bad]) {
    let tools: Vec<String> = bad.iter().map(|Bad(name, script, limits, ..)| tool(name, script, limits)).collect();
    let runs: Vec<String> = bad.iter().map(|Bad(name, ..)| run_of(name, name)).collect();
    scene.tools(&tools).write("runs.yaml", &runs.join("---\n"));
    scene.finish(&[], LIMIT);
    let outcomes = scene.outcomes();
    for Bad(name, _, _, terminal, reason) in bad {
        let outcome = outcomes.iter().find(|outcome| outcome.run == *name);
        let outcome = outcome.unwrap_or_else(|| panic!("{name} has no receipt\n{}", scene.logs()));
        let ended = (outcome.terminal.as_str(), outcome.reason.as_deref().unwrap_or(""));
        assert_eq!(ended, (*terminal, *reason), "{name}: {}", scene.receipt(name)["message"]);
    }
    assert_nothing_stays(scene);
    assert_the_next_run_works(scene, bad.len());
}

fn assert_nothing_stays(scene: &Scene) {
    let left = processes::of_scene(&scene.path(""));
    assert!(left.is_empty(), "still running: {left:?}");
    let attempts: Vec<_> = std::fs::read_dir(scene.out().join("attempts")).unwrap().flatten().collect();
    assert!(attempts.is_empty(), "still lying there: {attempts:?}");
}

fn assert_the_next_run_works(scene: &Scene, before: usize) {
    scene.manifest(WELL).write("runs.yaml", &run("afterwards"));
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    assert_eq!(scene.outcomes().len(), before + 1, "{}", scene.logs());
    scene.assert_receipts_verify();
}

/// How long m87 measured that the tool ran, in seconds.
fn measured(scene: &Scene, run: &str) -> u64 {
    scene.receipt(run)["usage"]["seconds"]["value"].as_u64().expect("seconds are measured")
}

#[test]
fn whoever_does_not_end_is_ended_at_its_limit() {
    let scene = Scene::new();
    let effects = scene.path("effects").display().to_string();
    // A daemon without parent, session, environment and folder of the tool's.
    let daemon =
        format!("cd / && setsid env -i sh -c 'sleep 6; echo late >> {effects}' > /dev/null 2>&1 < /dev/null &");
    let bad = [
        Bad("hangs", "sleep 600".to_owned(), &["seconds: 2"], "FAILED", "ToolLimitExceeded"),
        Bad(
            "ignores-signals",
            "trap '' TERM INT HUP QUIT; while :; do sleep 1; done".to_owned(),
            &["seconds: 2"],
            "FAILED",
            "ToolLimitExceeded",
        ),
        Bad("stops-itself", "kill -STOP $$".to_owned(), &["seconds: 2"], "FAILED", "ToolLimitExceeded"),
        Bad("waits-for-a-fifo", "mkfifo f; cat f".to_owned(), &["seconds: 2"], "FAILED", "ToolLimitExceeded"),
        Bad("spins", "while :; do :; done".to_owned(), &["cpuSeconds: 1"], "FAILED", "ToolLimitExceeded"),
        // It ends well itself; only what it leaves behind does not.
        Bad("forks-a-daemon", format!("{daemon} {WELL}"), &[], "COMPLETE", ""),
        Bad("forks-a-daemon-and-hangs", format!("{daemon} sleep 600"), &["seconds: 2"], "FAILED", "ToolLimitExceeded"),
        Bad("forks-a-daemon-and-fails", format!("{daemon} exit 3"), &[], "FAILED", "ToolFailed"),
        // 200 processes at most, whatever m87 does.
        Bad(
            "forks-many",
            "i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i + 1)); done; wait".to_owned(),
            &["processes: 16"],
            "FAILED",
            "ToolLimitExceeded",
        ),
        // 127 processes at most.
        Bad(
            "forks-like-a-bomb",
            "f() { [ $1 -ge 6 ] || { f $(($1 + 1)) & f $(($1 + 1)) & }; sleep 60; }; f 0".to_owned(),
            &["processes: 16"],
            "FAILED",
            "ToolLimitExceeded",
        ),
    ];
    let begun = Instant::now();
    assert_each_ends(&scene, &bad);
    for Bad(name, ..) in bad {
        assert!(measured(&scene, name) <= 10, "{name} ran for {} s", measured(&scene, name));
    }
    // Longer than the daemons wait.
    std::thread::sleep(Duration::from_secs(8).saturating_sub(begun.elapsed()));
    assert_eq!(scene.effects().len(), 0, "a daemon outlived its tool");
}

#[test]
fn whoever_writes_without_end_is_ended_at_its_limit() {
    let scene = Scene::new();
    let gigabyte = "head -c 1073741824 /dev/zero";
    let bad = [
        Bad(
            "one-large-file",
            format!(r#"{gigabyte} > "$M87_OUTPUT/artifact"; echo '{{"steps":1}}' > "$M87_USAGE""#),
            &[],
            "FAILED",
            "ToolLimitExceeded",
        ),
        Bad(
            "many-files",
            "i=0; while [ $i -lt 256 ]; do head -c 4194304 /dev/zero > f$i; i=$((i + 1)); done; sleep 5".to_owned(),
            &[],
            "FAILED",
            "ToolLimitExceeded",
        ),
        Bad(
            "a-sparse-file",
            format!(r#"truncate -s 1073741824 "$M87_OUTPUT/artifact" || exit 1; {WELL}"#),
            &[],
            "FAILED",
            "ToolFailed",
        ),
        Bad("prints-a-gigabyte", gigabyte.to_owned(), &[], "FAILED", "ToolLimitExceeded"),
        Bad("prints-a-gigabyte-of-errors", format!("{gigabyte} >&2"), &[], "FAILED", "ToolLimitExceeded"),
        Bad(
            "over-the-budget",
            r#"head -c 1048577 /dev/zero > "$M87_OUTPUT/artifact"; echo '{"steps":1}' > "$M87_USAGE""#.to_owned(),
            &[],
            "FAILED",
            "BudgetExceeded",
        ),
        Bad(
            "at-the-budget",
            r#"head -c 1048575 /dev/zero | tr '\0' x > "$M87_OUTPUT/artifact"; echo >> "$M87_OUTPUT/artifact"; echo '{"steps":20}' > "$M87_USAGE""#.to_owned(),
            &[],
            "COMPLETE",
            "",
        ),
    ];
    assert_each_ends(&scene, &bad);
    let size = |path| walk(path).iter().map(|file| file.metadata().unwrap().len()).sum::<u64>();
    let kept = size(&scene.out());
    assert!(kept < 64 << 20, "{kept} bytes are kept of tools that wrote too much");
}

/// Every regular file below.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(walk(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

#[test]
fn only_a_regular_file_is_an_artifact() {
    let scene = Scene::new();
    let used = r#"echo '{"steps":1}' > "$M87_USAGE""#;
    let leaves = |what: &str| format!(r#"cd "$M87_OUTPUT"; {what}; {used}"#);
    let missing = |name, script| Bad(name, script, &[], "REJECT_VERIFY", "ArtifactMissing");
    let bad = [
        missing("nothing", used.to_owned()),
        missing("a-link-to-a-file", leaves("ln -s /etc/passwd artifact")),
        missing("a-link-to-its-own", leaves(r#"echo x > "$HOME/x"; ln -s "$HOME/x" artifact"#)),
        missing("a-link-to-nothing", leaves("ln -s nowhere artifact")),
        missing("a-hard-link", leaves(r#"echo x > "$HOME/x"; ln "$HOME/x" artifact"#)),
        missing("a-fifo", leaves("mkfifo artifact")),
        missing("a-folder", leaves("mkdir artifact")),
        missing("another-name", leaves("echo x > Artifact")),
        missing(
            "another-folder",
            format!(r#"mkdir x; echo x > x/artifact; rm -r "$M87_OUTPUT"; ln -s "$HOME/x" "$M87_OUTPUT"; {used}"#),
        ),
        Bad("an-empty-file", leaves(": > artifact"), &[], "REJECT_VERIFY", "ValidationFailed"),
    ];
    assert_each_ends(&scene, &bad);
}

#[test]
fn what_is_no_figure_is_no_figure_in_favour_of_the_tool() {
    let scene = Scene::new();
    let reports = |usage: &str| format!(r#"echo done > "$M87_OUTPUT/artifact"; printf '%s' '{usage}' > "$M87_USAGE""#);
    let figure = |name, usage: &str, reason| Bad(name, reports(usage), &[], "FAILED", reason);
    let malformed = "TelemetryMalformed";
    let bad = [
        figure("a-string", r#"{"steps":"3"}"#, malformed),
        figure("a-boolean", r#"{"steps":true}"#, malformed),
        figure("a-negative-figure", r#"{"steps":-1}"#, malformed),
        figure("a-fraction", r#"{"steps":1.5}"#, malformed),
        figure("an-enormous-figure", r#"{"steps":1e99}"#, malformed),
        figure("past-every-number", r#"{"steps":1e999}"#, malformed),
        figure("past-2-to-the-53", r#"{"steps":9007199254740993}"#, malformed),
        figure("a-list-for-steps", r#"{"steps":[3]}"#, malformed),
        figure("an-object-for-steps", r#"{"steps":{"limit":3}}"#, malformed),
        figure("not-a-number", r#"{"steps":NaN}"#, malformed),
        figure("twice", r#"{"steps":1,"steps":2}"#, malformed),
        figure("a-list", "[]", malformed),
        figure("a-bare-number", "3", malformed),
        figure("null-for-all", "null", "TelemetryMissing"),
        figure("no-json", "steps: 3", malformed),
        figure("half-json", r#"{"steps":3"#, malformed),
        figure("an-empty-file-of-usage", "", malformed),
        Bad("binary", format!(r#"{WELL}; printf '\377\000' > "$M87_USAGE""#), &[], "FAILED", malformed),
        figure("nothing-in-it", "{}", "TelemetryMissing"),
        figure("steps-of-nobody", r#"{"steps":null}"#, malformed),
        figure("one-past-the-limit", r#"{"steps":21}"#, "BudgetExceeded"),
        figure("without-a-limit", r#"{"steps":1,"tokens":1}"#, "BudgetExceeded"),
        figure("says-that-it-failed", r#"{"steps":1,"error":"no"}"#, "ToolFailed"),
        Bad("nothing-reported", r#"echo done > "$M87_OUTPUT/artifact""#.to_owned(), &[], "FAILED", "TelemetryMissing"),
        Bad(
            "much-usage",
            format!(r#"{WELL}; head -c 8388608 /dev/zero | tr '\0' ' ' >> "$M87_USAGE""#),
            &[],
            "FAILED",
            malformed,
        ),
        Bad(
            "deep-usage",
            format!(r#"{WELL}; awk 'BEGIN {{ while (i++ < 20000) printf "[" }}' > "$M87_USAGE""#),
            &[],
            "FAILED",
            malformed,
        ),
        Bad(
            "a-link-as-usage",
            format!(r#"{WELL}; mv "$M87_USAGE" x; ln -s "$HOME/x" "$M87_USAGE""#),
            &[],
            "FAILED",
            malformed,
        ),
        Bad("a-fifo-as-usage", format!(r#"{WELL}; rm "$M87_USAGE"; mkfifo "$M87_USAGE""#), &[], "FAILED", malformed),
    ];
    assert_each_ends(&scene, &bad);
}

#[test]
fn no_tool_steers_a_terminal_or_breaks_a_receipt() {
    let scene = Scene::new();
    // Title, clear screen, colour, C1 control, direction override, NUL, bad UTF-8, a line that looks like m87's own.
    let shout = r"printf '\033]0;owned\007\033[2J\033[31mred\302\2332J\342\200\256\000\377\376\rshouts: COMPLETE\n'";
    let bad = [
        Bad("shouts", format!("{shout}; {shout} >&2; exit 1"), &[], "FAILED", "ToolFailed"),
        Bad("prints-binary", format!("head -c 100000 /dev/urandom; {WELL}"), &[], "COMPLETE", ""),
        Bad("exits-137", "exit 137".to_owned(), &[], "FAILED", "ToolFailed"),
        Bad("kills-itself", "kill -9 $$".to_owned(), &[], "FAILED", "ToolFailed"),
        Bad("segfaults", "kill -SEGV $$".to_owned(), &[], "FAILED", "ToolFailed"),
        Bad(
            "takes-memory",
            "awk 'BEGIN { s = \"x\"; while (i++ < 27) s = s s; print length(s) }'; exit $?".to_owned(),
            &["memoryBytes: 33554432"],
            "FAILED",
            "ToolFailed",
        ),
        Bad("removes-its-folder", r#"cd /; rm -rf "$HOME""#.to_owned(), &[], "FAILED", "TelemetryMissing"),
        Bad(
            "writes-escapes-as-usage",
            r#"echo x > "$M87_OUTPUT/artifact"; printf '{"steps":1,"\033[2J":"\033[2J"}' > "$M87_USAGE""#.to_owned(),
            &[],
            "FAILED",
            "TelemetryMalformed",
        ),
    ];
    let not_there = tool("is-not-there", "", &[]).replace(r#"["sh","-c",""]"#, r#"["/nonexistent/\u001b[2J"]"#);
    assert_each_ends(&scene, &bad);
    assert_eq!(scene.receipt("exits-137")["message"], "exit code 137; would pass: exit code 0");
    scene.tools(&[not_there]).write("runs.yaml", &run_of("is-not-there", "is-not-there"));
    scene.finish(&[], LIMIT);
    assert_eq!(scene.receipt("is-not-there")["reason"], "ToolFailed");
    scene.assert_receipts_verify();

    let mut shown = scene.logs().into_bytes();
    for run in ["shouts", "prints-binary", "writes-escapes-as-usage", "is-not-there"] {
        let out = scene.out().display().to_string();
        for arguments in [
            &["receipt", "show", run, "--out", &out][..],
            &["explain", run, "--out", &out],
            &["receipt", "list", "--out", &out],
        ] {
            let output = scene.output(arguments);
            assert!(output.status.success(), "{arguments:?}");
            shown.extend(output.stdout);
            shown.extend(output.stderr);
        }
    }
    let shown = String::from_utf8(shown).expect("what is shown is text");
    let steering = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    let at = shown.find(steering);
    assert_eq!(at, None, "{:?}", at.map(|at| shown[..at].lines().last()));
}
