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
    let done = place.m87(["run", "-f", "x", "--lanes", "external"]);
    assert!(done.code == 2 && done.err.contains("--engine"), "{done:?}");
}
