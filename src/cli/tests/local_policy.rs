//! The examples' tools under busybox alone, as in a pod: the same answers without a host's programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, policy};
use m87_core::json::canonical;
use m87_core::reason::Terminal;
use m87_core::resolve::candidates;
use m87_core::tool::Run;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command with nothing but busybox's programs and these variables.
fn within(place: &Place, name: &str, argv: &[String], variables: &[(&str, &Path)]) -> Output {
    let home = place.path(&format!("{name}-home"));
    fs::create_dir_all(&home).unwrap();
    let mut command = Command::new(place.path("bin").join(&argv[0]));
    command.args(&argv[1..]).env_clear().env("PATH", place.path("bin")).env("LANG", "C.UTF-8").env("HOME", &home);
    command.current_dir(&home).envs(variables.iter().copied()).output().unwrap()
}

#[test]
#[ignore = "needs busybox; tests/busybox installs and runs it"]
fn the_examples_tools_run_unchanged_under_busybox() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    let installed = Command::new("busybox").args(["--install", "-s"]).arg(place.path("bin")).status().unwrap();
    assert!(installed.success());
    let objects = m87_api::local::read(&[policy()]).unwrap();
    let manifest = &objects.manifests.values().next().unwrap().spec;
    let mut ran = 0;
    for (key, run) in &objects.runs {
        let terminal = run.expected_terminal().unwrap();
        if matches!(terminal, Terminal::Halt | Terminal::RejectManifest) {
            continue;
        }
        let proposal = &run.spec.proposal;
        let tool = candidates(proposal, manifest).tools.remove(0);
        let Run::Command(command) = &tool.run;
        let input = canonical(proposal.input.as_ref().unwrap()).unwrap();
        let input = place.write(&format!("{}/input", key.name), input);
        let (output, usage) = (place.path(&format!("{}/output", key.name)), place.path(&format!("{}/usage", key.name)));
        fs::create_dir(&output).unwrap();
        let variables = [("M87_INPUT", &*input), ("M87_OUTPUT", &*output), ("M87_USAGE", &*usage)];
        let ended = within(&place, &key.name, &command.argv, &variables);
        ran += 1;
        if key.name == "q3-totals-bad-row" {
            assert_eq!(ended.status.code(), Some(1), "{ended:?}");
            continue;
        }
        assert!(ended.status.success(), "{}: {ended:?}", key.name);
        let usage: serde_json::Value = serde_json::from_slice(&fs::read(&usage).unwrap()).unwrap();
        let over = terminal == Terminal::Failed;
        assert_eq!(usage["steps"].as_i64().unwrap() > 20, over, "{}: {usage}", key.name);
        let artifact = output.join(&command.artifact);
        let variables = [("M87_INPUT", &*input), ("M87_ARTIFACT", &*artifact)];
        let checked = within(&place, &format!("{}-check", key.name), &tool.validation.argv, &variables);
        assert_eq!(checked.status.success(), terminal != Terminal::RejectVerify, "{}: {checked:?}", key.name);
    }
    assert!(ran >= 7, "{ran}");
}
