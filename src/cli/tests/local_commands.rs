//! The commands beside `run`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, policy, run_of, tool};
use serde_json::Value;
use std::fs;

#[test]
fn the_hash_vector_holds() {
    let place = Place::new();
    for (name, text) in [("v.json", r#"{"n": 1, "k": "v"}"#), ("v.yaml", "n: 1\nk: v\n")] {
        let file = place.write(name, text);
        let done = place.m87(["hash", file.to_str().unwrap()]);
        assert_eq!(done.out, "e18b0bd83a6696db623e23b627cb0ec836690d3317856e2c131750c1b2391993\n", "{done:?}");
    }
    let done = place.m87(["hash", "--canonical", "v.yaml"]);
    assert_eq!(done.out, "{\"k\":\"v\",\"n\":1}\n");
    place.write("bad.json", r#"{"a": 1, "a": 2}"#);
    assert_eq!(place.m87(["hash", "bad.json"]).code, 2);
}

#[test]
fn a_plan_is_the_runs_own_and_has_no_effect() {
    let place = Place::new();
    let files = policy();
    let done = place.m87(["plan", "-f", files.to_str().unwrap(), "-o", "json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let plan: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(plan["authoritative"], false);
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0, "planning wrote something");
    place.run(&files, &[]);
    for planned in plan["runs"].as_array().unwrap() {
        let name = planned["name"].as_str().unwrap();
        let shown = place.m87(["receipt", "show", name, "-o", "json"]);
        let receipt: Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(receipt["planHash"], planned["planHash"], "{name}");
        assert_eq!(receipt["decision"], planned["decision"], "{name}");
        let refused = &planned["refused"]["reason"];
        if !refused.is_null() {
            assert_eq!(&receipt["reason"], refused, "{name}");
        }
    }
    let done = place.m87(["plan", "-f", files.to_str().unwrap()]);
    assert!(done.out.contains("payment-totals@1.0.0 on reports/2026-q3, risk low"), "{}", done.out);
    assert!(done.out.contains("would be  HALT TargetForbidden"), "{}", done.out);
    assert!(done.out.contains("  decision  Allowed\n"), "{}", done.out);
}

#[test]
fn files_are_explained_without_running_them() {
    let place = Place::new();
    let files = place.write("all.yaml", tool("true") + &run_of("a").replace("risk: low", "risk: none"));
    let done = place.m87(["explain", "-f", files.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("[RiskUnknown]") && done.out.contains("would pass:"), "{done:?}");
    assert!(!place.path("m87-out").exists());
}

#[test]
fn a_process_is_proved_or_refused_with_a_counterexample_on_the_drawing() {
    let place = Place::new();
    let done = place.m87(["bpmn", "check", "--svg", "good.svg"]);
    assert!(done.code == 0 && done.out.contains("m87-governed-loop is proved"), "{done:?}");
    assert!(fs::read_to_string(place.path("good.svg")).unwrap().starts_with("<svg"));
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpmn/executable/m87-governed-loop.bpmn");
    let model = fs::read_to_string(shipped).unwrap();
    assert_eq!(place.m87(["bpmn", "check", shipped]).code, 0);
    // The gateway's default removed: what is neither true nor false goes nowhere.
    let broken = model.replacen(" default=\"", " data-default=\"", 1);
    assert_ne!(broken, model);
    place.write("broken.bpmn", broken);
    let done = place.m87(["bpmn", "check", "broken.bpmn", "--svg", "bad.svg"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("broken.bpmn: "), "{done:?}");
    assert!(place.path("bad.svg").exists());
    place.write("none.bpmn", "<nothing");
    assert_eq!(place.m87(["bpmn", "check", "none.bpmn"]).code, 2);
    assert_eq!(place.m87(["bpmn", "check", "absent.bpmn"]).code, 2);
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = place.m87(["completions", shell]);
        assert!(done.code == 0 && done.out.contains("m87"), "{shell}");
    }
    let done = place.m87(["man"]);
    assert!(done.code == 0 && done.out.contains(".TH m87"), "{done:?}");
}

#[test]
fn generated_files_that_are_stale_are_named() {
    let place = Place::new();
    let done = place.m87(["gen", "--check"]);
    assert!(done.code == 1 && done.err.contains("docs/reference/reasons.md is not current"), "{done:?}");
    assert_eq!(place.m87(["gen"]).code, 0);
    assert_eq!(place.m87(["gen", "--check"]).code, 0);
}

#[test]
fn wrong_arguments_are_exit_2() {
    let place = Place::new();
    for arguments in
        [&["run"][..], &["nonsense"], &["run", "-f", "x", "--clock", "yesterday"], &["worker", "--lane", "fast"]]
    {
        assert_eq!(place.m87(arguments).code, 2, "{arguments:?}");
    }
    for arguments in [&["explain"][..], &["explain", "--out", "x"], &["explain", "-o", "json"]] {
        let done = place.m87(arguments);
        assert!(done.code == 2 && done.err.contains("not provided:\n  <RUN|--file <PATH>>\n"), "{done:?}");
    }
    let done = place.m87(["run", "-f", "x", "--lanes", "external"]);
    assert!(done.code == 2 && done.err.contains("--engine"), "{done:?}");
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let place = Place::new();
    for arguments in [&["plan", "-f", policy().to_str().unwrap(), "-o", "json"][..], &["man"], &["bpmn", "check"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place.command(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("could not be written to the standard output"), "{arguments:?}: {said}");
    }
    // A reader who has seen enough is none of m87's business.
    let shell = format!("'{}' man | head -n 1", env!("CARGO_BIN_EXE_m87"));
    let output = std::process::Command::new("bash").args(["-o", "pipefail", "-c", &shell]).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn a_plan_that_would_end_otherwise_than_it_should_is_exit_1() {
    let place = Place::new();
    let refused = run_of("a").replace("risk: low", "risk: none");
    let plan = |text: String| {
        let file = place.write("all.yaml", text);
        place.m87(["plan", "-f", file.to_str().unwrap()])
    };
    assert_eq!(plan(tool("true") + &run_of("a")).code, 0);
    let done = plan(tool("true") + &refused);
    assert!(done.code == 1 && done.out.contains("not as expected: COMPLETE"), "{done:?}");
    let with = |run: &str, terminal: &str| {
        let metadata = format!("metadata: {{name: a, annotations: {{m87.dev/expect-terminal: {terminal}}}}}");
        plan(tool("true") + &run.replace("metadata: {name: a}", &metadata)).code
    };
    assert_eq!(with(&refused, "HALT"), 0);
    assert_eq!(with(&refused, "REJECT_MANIFEST"), 1);
    assert_eq!(with(&run_of("a"), "HALT"), 1);
    // What only the tool decides is not known before.
    assert_eq!(with(&run_of("a"), "FAILED"), 0);
}

#[test]
fn the_process_of_a_policy_is_checked_where_it_stands() {
    let place = Place::new();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpmn/executable/m87-governed-loop.bpmn");
    let model = fs::read_to_string(shipped).unwrap();
    let policy = |bpmn: &str| {
        let with = format!("  process: {{bpmn: {}}}\n---\n", serde_json::to_string(bpmn).unwrap());
        tool("true").replacen("---\n", &with, 1)
    };
    place.write("good.yaml", policy(&model));
    let done = place.m87(["bpmn", "check", "good.yaml", "--svg", "good.svg"]);
    assert!(
        done.code == 0 && done.out.contains("good.yaml: policy \"p\": ") && done.out.contains("is proved"),
        "{done:?}"
    );
    assert!(place.path("good.svg").exists());
    place.write("bad.yaml", policy(&model.replacen(" default=\"", " data-default=\"", 1)));
    let done = place.m87(["bpmn", "check", "bad.yaml"]);
    assert!(done.code == 1 && done.err.contains("bad.yaml: policy \"p\": "), "{done:?}");
    // What refuses is told line by line, also where a run would be refused by it.
    let past = policy(&model.replace("=constraints_ok = true", "=true")) + &run_of("a");
    place.write("past.yaml", past);
    let done = place.m87(["plan", "-f", "past.yaml"]);
    assert!(done.code == 1 && done.out.contains("HALT ProcessNotProved"), "{done:?}");
    assert!(done.err.contains("must be HALT\n    path: Start > "), "{done:?}");
    place.write("own.yaml", tool("true"));
    let done = place.m87(["bpmn", "check", "own.yaml"]);
    assert!(done.code == 0 && done.out.contains("has no process of its own"), "{done:?}");
    place.write("none.yaml", run_of("a"));
    let done = place.m87(["bpmn", "check", "none.yaml"]);
    assert!(done.code == 2 && done.err.contains("holds no GovernancePolicy"), "{done:?}");
    place.write("broken.yaml", "kind: [");
    assert_eq!(place.m87(["bpmn", "check", "broken.yaml"]).code, 2);
}

#[test]
fn an_explanation_is_there_for_programs() {
    let place = Place::new();
    let files = place.write("all.yaml", tool("true") + &run_of("a").replace("risk: low", "risk: none"));
    let stands = place.m87(["explain", "-f", files.to_str().unwrap(), "-o", "json"]);
    place.run(&files, &[]);
    let ended = place.m87(["explain", "a", "-o", "json"]);
    for done in [stands, ended] {
        let explained: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
        let run = &explained["runs"][0];
        assert_eq!((&run["name"], &run["terminal"]), (&"a".into(), &"HALT".into()), "{run}");
        assert_eq!(run["reason"], "RiskUnknown");
        assert!(run["trace"].as_array().unwrap().iter().any(|clause| clause["passed"] == false), "{run}");
    }
}

#[test]
fn every_command_has_a_manual_page_and_internal_ones_are_offered_nowhere() {
    let place = Place::new();
    let done = place.m87(["man", "--dir", "pages"]);
    assert_eq!(done.code, 0, "{done:?}");
    let pages: Vec<String> = fs::read_dir(place.path("pages"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in ["m87.1", "m87-run.1", "m87-receipt-verify.1", "m87-bpmn-check.1", "m87-kube-status.1", "m87-man.1"] {
        assert!(pages.iter().any(|one| one == page), "{page}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| ["m87-exec.1", "m87-shim.1", "m87-help.1"].contains(&page.as_str())), "{pages:?}");
    let done = place.m87(["man", "receipt", "verify"]);
    let title = concat!(".TH m87-receipt-verify 1  \"m87 ", env!("CARGO_PKG_VERSION"), "\"");
    assert!(done.code == 0 && done.out.contains(title), "{done:?}");
    assert_eq!(place.m87(["man", "exec"]).code, 2);
    for shell in ["bash", "zsh", "fish"] {
        let done = place.m87(["completions", shell]);
        assert!(!done.out.contains("install-self") && !done.out.contains("shim"), "{shell} offers internal commands");
        assert!(done.out.contains("receipt"), "{shell}");
    }
}

#[test]
fn an_engine_that_is_refused_does_not_say_that_it_listens() {
    let place = Place::new();
    let done = place.m87(["engine", "--listen", "0.0.0.0:0", "--data", "engine"]);
    assert!(done.code == 1 && done.err.contains("is not loopback") && !done.err.contains("listens"), "{done:?}");
    assert!(!place.path("engine").exists(), "a refused engine left something");
}

#[test]
fn a_plugin_of_kubectl_has_the_plugins_commands_alone() {
    let place = Place::new();
    let program = place.path("kubectl-m87");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_m87"), &program).unwrap();
    let plugin = |arguments: &[&str]| {
        let output = std::process::Command::new(&program).args(arguments).output().unwrap();
        common::Done::of(output)
    };
    let done = plugin(&["tenant", "pay"]);
    assert!(done.code == 0 && done.out.contains("namespace: pay"), "{done:?}");
    assert_eq!(done.out, place.m87(["tenant", "pay"]).out);
    assert_eq!(done.out, place.m87(["kube", "tenant", "pay"]).out);
    let done = plugin(&["--help"]);
    assert!(done.code == 0 && done.out.contains("kubectl m87"), "{done:?}");
    assert_eq!(plugin(&["run", "-f", "x"]).code, 2);
    assert_eq!(plugin(&["tenant", "No Name"]).code, 2);
    let done = plugin(&["status", "--kubeconfig", "/nowhere/kubeconfig"]);
    assert!(done.code == 1 && done.err.contains("/nowhere/kubeconfig"), "{done:?}");
}
