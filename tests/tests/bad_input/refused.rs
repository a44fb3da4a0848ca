//! Objects that are read, and runs that are refused, with a receipt.

use crate::{LIMIT, scene};
use m87_tests::Scene;
use m87_tests::scene::run;
use std::time::Duration;

/// Runs the scene over files that are read, and expects that one terminal and reason for its only new run.
fn assert_refused(scene: &Scene, name: &str, terminal: &str, reason: &str) {
    scene.finish(&[], LIMIT);
    let receipt = scene.receipt(name);
    let ended = (receipt["terminal"].as_str(), receipt["reason"].as_str());
    assert_eq!(ended, (Some(terminal), Some(reason)), "{name}: {}", receipt["message"]);
    assert_eq!(receipt["effect"], "none", "{name}");
}

#[test]
fn what_is_missing_is_refused_with_a_receipt() {
    let scene = scene();
    let (policy, tools) = (scene.files().join("policy.yaml"), scene.files().join("tools.yaml"));
    let aside = scene.path("aside");
    std::fs::rename(&policy, &aside).unwrap();
    scene.write("runs.yaml", &run("no-policy"));
    assert_refused(&scene, "no-policy", "HALT", "PolicyMissing");
    assert_eq!(scene.receipt("no-policy")["process"], serde_json::Value::Null);
    std::fs::rename(&aside, &policy).unwrap();
    std::fs::rename(&tools, &aside).unwrap();
    scene.write("runs.yaml", &run("no-manifest"));
    assert_refused(&scene, "no-manifest", "REJECT_MANIFEST", "ManifestMissing");
    std::fs::rename(&aside, &tools).unwrap();
    // What is there belongs to another namespace.
    scene.write(
        "runs.yaml",
        &run("elsewhere").replace("{name: elsewhere}\nspec", "{name: elsewhere, namespace: other}\nspec"),
    );
    scene.finish(&[], LIMIT);
    assert!(
        scene
            .outcomes()
            .iter()
            .any(|outcome| outcome.run == "elsewhere" && outcome.reason.as_deref() == Some("PolicyMissing"))
    );
    assert!(scene.effects().is_empty());
    scene.runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    scene.assert_invariants(4);
}

#[test]
fn a_process_that_is_not_proved_starts_nothing() {
    let scene = scene();
    let good =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../bpmn/executable/m87-governed-loop.bpmn"))
            .unwrap();
    let policy = std::fs::read_to_string(scene.files().join("policy.yaml")).unwrap();
    let without_defaults = regex_free_removal(&good, " default=\"", "\"");
    // Any value of the gate goes on to the tool.
    let open = good.replace("=constraints_ok = true", "=constraints_ok = constraints_ok");
    let unguarded = good.replace(
        "sourceRef=\"Gw_Constraints\" targetRef=\"End_Halt\"",
        "sourceRef=\"Gw_Constraints\" targetRef=\"Gw_Manifest\"",
    );
    let cases = [
        ("not-xml", "governed".to_owned(), "line 1"),
        ("half-of-it", good[..good.len() / 2].to_owned(), "line "),
        ("other-xml", "<a/>".to_owned(), ""),
        (
            "entities",
            format!(
                "<!DOCTYPE a [<!ENTITY b \"{0}\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">]>\n<a>&c;</a>",
                "x".repeat(1000)
            ),
            "",
        ),
        ("outside-entity", "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]>\n<a>&b;</a>".to_owned(), ""),
        ("without-defaults", without_defaults, "Flow_Constraints_Halt"),
        ("open", open, "constraints_ok = constraints_ok"),
        ("unguarded", unguarded, "Gw_Constraints"),
        ("deep", "<a>".repeat(20_000), ""),
    ];
    for (name, bpmn, named) in &cases {
        assert_ne!(*bpmn, good, "{name}");
        let file = scene.path("process.bpmn");
        std::fs::write(&file, bpmn).unwrap();
        let output = scene.output(&["bpmn", "check", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name}: {said}");
        assert!(said.contains("process.bpmn") && said.contains(named), "{name}: {said}");
        assert!(!said.contains("root:"), "{name}: {said}");

        scene.write(
            "policy.yaml",
            &policy.replace("spec:\n", &format!("spec:\n  process: {{bpmn: {}}}\n", serde_json::json!(bpmn))),
        );
        scene.write("runs.yaml", &run(name));
        assert_refused(&scene, name, "HALT", "ProcessNotProved");
        assert!(scene.logs().contains("its process is not proved"), "{name}: {}", scene.logs());
        assert_eq!(scene.receipt(name)["process"]["instance"], serde_json::Value::Null, "{name}");
    }
    scene.write(
        "policy.yaml",
        &policy.replace("spec:\n", &format!("spec:\n  process: {{bpmn: {}}}\n", serde_json::json!(good))),
    );
    scene.runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    scene.assert_invariants(cases.len() + 1);
}

/// The text without every part from `start` to the next `end`.
fn regex_free_removal(text: &str, start: &str, end: &str) -> String {
    let mut parts = text.split(start);
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |whole, part| whole + part.split_once(end).unwrap().1)
}

/// As a YAML text in quotes; YAML takes this one character only escaped, and JSON does not escape it.
fn quoted(text: &str) -> String {
    serde_json::json!(text).to_string().replace('\u{7f}', "\\u007f")
}

#[test]
fn targets_with_two_readings_are_refused_with_a_receipt() {
    let scene = scene();
    let targets = [
        "things/../prod",
        "..",
        "things/..",
        "../things/x",
        "things/./x",
        "things//x",
        "/things/x",
        "things/x/",
        "things/%2e%2e/prod",
        "things/%2E",
        "things/%00",
        "things\\..\\prod",
        "things/\u{440}rod",
        "things/pr\u{43e}d",
        "things/x\u{200b}",
        "things/\u{202e}dorp",
        "things/\u{ff0e}\u{ff0e}/prod",
        "things/x y",
        " things/x",
        "things/x ",
        "things/x\n",
        "things/x\r",
        "things/\u{1b}[2J",
        "things/\u{0}",
        "things/x\u{7f}",
        "things/*",
        "things/?",
        "things/{a,b}",
        "things/[a]",
        "things/...",
        "th\u{131}ngs/x",
        "things/e\u{301}",
        "things/\u{e9}",
    ];
    let runs: Vec<String> = targets
        .iter()
        .enumerate()
        .map(|(at, target)| {
            let path = target.strip_prefix("things/").unwrap_or(target);
            let text = run(&format!("target-{at}"));
            text.replace(&format!("target: things/target-{at}"), &format!("target: {}", quoted(target)))
                .replace(&format!("input: {{name: target-{at}}}"), &format!("input: {{name: {}}}", quoted(path)))
        })
        .collect();
    scene.write("runs.yaml", &runs.join("---\n"));
    assert_eq!(scene.finish(&[], Duration::from_secs(120)), 1, "{}", scene.logs());
    for (at, target) in targets.iter().enumerate() {
        let receipt = scene.receipt(&format!("target-{at}"));
        let ended = (receipt["terminal"].as_str(), receipt["reason"].as_str());
        assert_eq!(ended, (Some("REJECT_MANIFEST"), Some("TargetInvalid")), "{target:?}: {}", receipt["message"]);
    }
    assert!(scene.effects().is_empty());
    let steering = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}' || c == '\u{200b}';
    assert_eq!(scene.logs().find(steering), None, "{:?}", scene.logs());
    scene.runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    scene.assert_invariants(targets.len() + 1);
}

#[test]
fn absent_and_blank_fields_of_a_proposal_are_judged() {
    let scene = scene();
    let cases = [
        ("no-trace", "    reasoningTrace: The line must be there.\n", "", "HALT", "ReasoningMissing"),
        ("blank-trace", "The line must be there.", "' \u{a0}\u{2003}\u{200b}'", "HALT", "ReasoningMissing"),
        ("unknown-risk", "risk: low", "risk: lowish", "HALT", "RiskUnknown"),
        ("capital-risk", "risk: low", "risk: LOW", "HALT", "RiskUnknown"),
        ("high-risk", "risk: low", "risk: critical", "HALT", "RiskNotAllowed"),
        ("no-tool", "    tool: append\n", "", "REJECT_MANIFEST", "ToolNotNamed"),
        (
            "both-named",
            "tool: append",
            "tool: append\n    capability: things.append",
            "REJECT_MANIFEST",
            "ToolNotNamed",
        ),
        ("proto-tool", "tool: append", "tool: __proto__", "REJECT_MANIFEST", "ToolUnknown"),
        ("other-action", "actionType: append", "actionType: delete", "REJECT_MANIFEST", "ActionTypeMismatch"),
        ("no-action", "    actionType: append\n", "", "REJECT_MANIFEST", "ActionTypeMismatch"),
        ("no-target", "    target: things/no-target\n", "", "REJECT_MANIFEST", "TargetMissing"),
        ("no-input", "    input: {name: no-input}\n", "", "REJECT_MANIFEST", ""),
        ("list-as-input", "input: {name: list-as-input}", "input: [list-as-input]", "REJECT_MANIFEST", ""),
        ("number-as-name", "input: {name: number-as-name}", "input: {name: 7}", "REJECT_MANIFEST", ""),
        (
            "more-input",
            "input: {name: more-input}",
            "input: {name: more-input, __proto__: {name: x}}",
            "REJECT_MANIFEST",
            "InputInvalid",
        ),
        ("elsewhere", "target: things/elsewhere", "target: things/other", "REJECT_MANIFEST", "TargetMismatch"),
    ];
    let runs: Vec<String> = cases
        .iter()
        .map(|(name, what, by, ..)| {
            let (good, broken) = (run(name), run(name).replace(what, by));
            assert_ne!(broken, good, "{what:?} is not in the run");
            broken
        })
        .collect();
    scene.write("runs.yaml", &runs.join("---\n"));
    assert_eq!(scene.finish(&[], Duration::from_secs(120)), 1, "{}", scene.logs());
    for (name, _, _, terminal, reason) in cases {
        let receipt = scene.receipt(name);
        assert_eq!(receipt["terminal"], terminal, "{name}: {receipt}");
        assert!(reason.is_empty() || receipt["reason"] == reason, "{name}: {receipt}");
    }
    assert!(scene.effects().is_empty());
    scene.runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    scene.assert_invariants(cases.len() + 1);
}

#[test]
fn names_at_their_bounds_work() {
    let scene = scene();
    let label = |letter: &str, length| letter.repeat(length);
    let longest = [label("a", 63), label("b", 63), label("c", 63), label("d", 61)].join(".");
    let plain = ["constructor", "1a", "a.b.c.json", "lock", "x--y"].map(str::to_owned);
    let names: Vec<String> = plain.into_iter().chain([label("a", 63), longest.clone()]).collect();
    assert_eq!(longest.len(), 253);
    let runs: Vec<String> = names.iter().map(|name| run(name)).collect();
    scene.write("runs.yaml", &runs.join("---\n"));
    for _ in 0..2 {
        assert_eq!(scene.finish(&[], Duration::from_secs(120)), 0, "{}", scene.logs());
        scene.assert_invariants(names.len());
    }
    scene.write("runs.yaml", &run(&format!("{longest}e")));
    let output = scene.output(&["run", "-f", scene.files().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("metadata.name"));
}
