//! Input that is broken, hostile or half there: either nothing of the invocation runs, exit 2, file and field are named; or
//! the run is judged and refused, with a reason and a receipt. In both cases the next run works.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_tests::Scene;
use m87_tests::scene::run;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A scene whose one tool appends a line and is done.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.appending("0").runs(1);
    scene
}

/// `m87 run` and `m87 plan` over the scene exit with 2 soon, name all of this, and leave nothing behind.
fn assert_invalid(scene: &Scene, case: &str, named: &[&str]) {
    let (files, out) = (scene.files(), scene.out());
    let (files, out) = (files.to_str().unwrap(), out.to_str().unwrap());
    for arguments in [&["run", "-f", files, "--out", out][..], &["plan", "-f", files]] {
        let begun = Instant::now();
        let output = scene.output(arguments);
        assert!(begun.elapsed() < Duration::from_secs(20), "{case}: took {:?}", begun.elapsed());
        let said = String::from_utf8(output.stderr).expect("what is said is text");
        let shown = said.chars().take(2000).collect::<String>();
        assert_eq!(output.status.code(), Some(2), "{case}: {arguments:?}: {shown}");
        for part in named {
            assert!(said.contains(part), "{case}: {part:?} is not named in: {shown}");
        }
        assert!(said.len() < 16 << 10, "{case}: {} bytes of errors: {shown}", said.len());
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{case}: steers the terminal: {shown:?}");
        assert!(!scene.out().exists(), "{case}: an out folder was made");
        assert!(scene.effects().is_empty(), "{case}: something ran");
    }
}

/// What was broken is mended: the same command works now.
fn assert_works(scene: &Scene) {
    scene.runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    assert_eq!(scene.effects().values().sum::<usize>(), 1);
    scene.assert_invariants(1);
}

#[test]
fn a_run_that_is_written_wrong_runs_nothing_and_names_its_field() {
    let scene = scene();
    let good = run("run-1");
    // What is replaced, by what, and what the message names.
    let cases: &[(&str, &str, &[&str])] = &[
        ("risk: low", "risk: low\n    rsik: low", &["run \"run-1\"", "spec.proposal.rsik", "is not a field"]),
        ("spec:\n", "spec:\n  autoApprove: true\n", &["spec.autoApprove", "is not a field"]),
        ("spec:\n", "spec:\n  actor: {username: admin}\n", &["spec.actor", "is not written by hand"]),
        (
            "reasoningTrace: The line must be there.",
            "reasoningTrace: null",
            &["spec.proposal.reasoningTrace", "is null"],
        ),
        ("spec:\n", "spec:\n  __proto__: {x: 1}\n", &["spec.__proto__", "is not a field"]),
        ("{name: run-1}\nspec", "{name: run-1, anotations: {}}\nspec", &["metadata.anotations", "annotations"]),
        ("risk: low", "risk: 3", &["spec.proposal.risk", "is the number 3"]),
        ("risk: low", "risk: [low]", &["spec.proposal.risk", "is a list"]),
        ("target: things/run-1", "target: {path: things/run-1}", &["spec.proposal.target", "is an object"]),
        (
            "reasoningTrace: The line must be there.",
            "reasoningTrace: true",
            &["spec.proposal.reasoningTrace", "the boolean true"],
        ),
        ("  policyRef: {name: policy}\n", "", &["spec.policyRef", "is missing"]),
        ("policyRef: {name: policy}", "policyRef: policy", &["spec.policyRef", "the string \"policy\""]),
        ("spec:\n", "spec:\n  deadlineSeconds: 0\n", &["spec.deadlineSeconds", "at least 1"]),
        ("spec:\n", "spec:\n  deadlineSeconds: -1\n", &["spec.deadlineSeconds"]),
        ("spec:\n", "spec:\n  deadlineSeconds: 1.5\n", &["spec.deadlineSeconds"]),
        ("spec:\n", "spec:\n  deadlineSeconds: 9007199254740991\n", &["spec.deadlineSeconds", "at most"]),
        ("spec:\n", "spec:\n  idempotencyKey: ''\n", &["spec.idempotencyKey"]),
        ("kind: GovernedRun", "kind: GovernedRum", &["kind", "GovernedRun"]),
        ("kind: GovernedRun\n", "", &["kind"]),
        ("m87.dev/v1alpha1", "m87.dev/v2", &["apiVersion", "m87.dev/v1alpha1"]),
        ("{name: run-1}\nspec", "{name: ../run-1}\nspec", &["metadata.name"]),
        ("{name: run-1}\nspec", "{name: Run_1}\nspec", &["metadata.name"]),
        ("{name: run-1}\nspec", "{name: \"run-1\\e[2J\"}\nspec", &["metadata.name"]),
        ("{name: run-1}\nspec", "{name: run-1, namespace: ../..}\nspec", &["metadata.namespace"]),
        ("{name: run-1}\nspec", "{}\nspec", &["metadata.name"]),
        (
            "{name: run-1}\nspec",
            "{name: run-1, annotations: {m87.dev/expect-terminal: DONE}}\nspec",
            &["m87.dev/expect-terminal", "\"DONE\"", "REJECT_VERIFY"],
        ),
        // What two readers could understand differently.
        ("risk: low", "risk: low\n    risk: critical", &["spec.proposal", "line ", "risk"]),
        ("input: {name: run-1}", "input: {name: run-1, name: run-2}", &["line ", "name"]),
        ("input: {name: run-1}", "input: {name: .nan}", &["spec.proposal.input.name", "line "]),
        ("input: {name: run-1}", "input: {name: .inf}", &["spec.proposal.input.name", "line "]),
        ("input: {name: run-1}", "input: {name: -.inf}", &["spec.proposal.input.name", "line "]),
        ("input: {name: run-1}", "input: {name: 9007199254740993}", &["spec.proposal.input.name", "line "]),
        ("input: {name: run-1}", "input: {name: -9007199254740993}", &["spec.proposal.input.name", "line "]),
        ("input: {name: run-1}", "input: {name: 0x20000000000001}", &["spec.proposal.input.name", "line "]),
        (
            "input: {name: run-1}",
            "input: {name: 99999999999999999999999999999999999999999999}",
            &["spec.proposal.input.name", "line "],
        ),
        ("input: {name: run-1}", "input: {1: run-1}", &["spec.proposal.input", "line "]),
        ("input: {name: run-1}", "input: !tool {name: run-1}", &["line "]),
        ("input: {name: run-1}", "input: {name: run-1", &["line "]),
        ("input: {name: run-1}", "input: \"\u{0}\"", &["line "]),
    ];
    for (what, by, named) in cases {
        let broken = good.replace(what, by);
        assert_ne!(broken, good, "{what:?} is not in the run");
        scene.write("runs.yaml", &broken);
        assert_invalid(&scene, by, &[&["runs.yaml"], *named].concat());
    }
    assert_works(&scene);
}

#[test]
fn a_policy_or_manifest_that_is_written_wrong_runs_nothing_and_names_its_field() {
    let scene = scene();
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "policy.yaml",
            "targetsForbidden",
            "targetsForbiden",
            &["policy \"policy\"", "spec.constraints.targetsForbiden", "targetsForbidden"],
        ),
        ("policy.yaml", "    risksAllowed: [low, medium]\n", "", &["spec.constraints.risksAllowed", "is missing"]),
        ("policy.yaml", "[low, medium]", "[low, middling]", &["spec.constraints.risksAllowed[1]", "middling"]),
        (
            "policy.yaml",
            "steps: {limit: 20}",
            "steps: {limit: \"20\"}",
            &["spec.autonomyBudget.steps.limit", "the string \"20\""],
        ),
        ("policy.yaml", "steps: {limit: 20}", "steps: {limit: -1}", &["spec.autonomyBudget.steps.limit"]),
        ("policy.yaml", "steps: {limit: 20}", "steps: {limit: 1e99}", &["spec.autonomyBudget.steps.limit"]),
        ("policy.yaml", "steps: {limit: 20}", "steps: {limit: .inf}", &["spec.autonomyBudget.steps.limit"]),
        ("policy.yaml", "steps: {limit: 20}", "steps: {unlimited: false}", &["spec.autonomyBudget.steps"]),
        ("policy.yaml", "steps: {limit: 20}", "stepps: {limit: 20}", &["spec.autonomyBudget.stepps", "steps"]),
        ("policy.yaml", "reported: [steps]", "reported: [stepps]", &["spec.autonomyBudget.reported[0]"]),
        ("policy.yaml", "spec:\n", "spec:\n  process: {bpmn: 3}\n", &["spec.process.bpmn", "is the number 3"]),
        ("policy.yaml", "spec:\n", "spec:\n  process: {file: x.bpmn}\n", &["spec.process.file"]),
        ("tools.yaml", "    enabled: true\n", "", &["manifest \"tools\"", "spec.tools[0].enabled", "is missing"]),
        ("tools.yaml", "riskClass: low", "riskClass: none", &["spec.tools[0].riskClass", "\"none\""]),
        ("tools.yaml", "argv: [\"sh\"", "shell: true\n        argv: [\"sh\"", &["spec.tools[0].run.command.shell"]),
        ("tools.yaml", "argv: [\"sh\"", "argv: [7", &["spec.tools[0].run.command.argv[0]"]),
        ("tools.yaml", "seconds: 30,", "seconds: 0,", &["spec.tools[0].run.command.limits.seconds", "at least 1"]),
        ("tools.yaml", "seconds: 30,", "seconds: 1e10,", &["spec.tools[0].run.command.limits.seconds"]),
        ("tools.yaml", "command:", "kommand:", &["spec.tools[0].run"]),
    ];
    for (file, what, by, named) in cases {
        let good = std::fs::read_to_string(scene.files().join(file)).unwrap();
        let broken = good.replace(what, by);
        assert_ne!(broken, good, "{what:?} is not in {file}");
        scene.write(file, &broken);
        assert_invalid(&scene, by, &[&[*file], *named].concat());
        scene.write(file, &good);
    }
    assert_works(&scene);
}

#[test]
fn a_file_that_is_no_document_runs_nothing_and_is_named() {
    let scene = scene();
    let good_head = "apiVersion: m87.dev/v1alpha1\nkind: GovernedRun\nmetadata:\n  name: more\n".to_owned();
    let nested = |open: &str, close: &str, depth: usize| open.repeat(depth) + &close.repeat(depth);
    let laughs: String =
        (1..10).map(|n| format!("  a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(","))).collect();
    let many_fields = good_head + &(0..10_000).map(|n| format!("  x{n}: 1\n")).collect::<String>();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("latin-1", b"kind: \xe9t\xe9\n".to_vec(), "UTF-8"),
        ("utf-16", "kind: GovernedRun\n".encode_utf16().flat_map(u16::to_le_bytes).collect(), ""),
        ("binary", (0..=255).cycle().take(100_000).collect(), ""),
        ("a list", b"- kind: GovernedRun\n".to_vec(), ""),
        ("a word", b"yes\n".to_vec(), ""),
        ("only a brace", b"{".to_vec(), "line "),
        ("a tab", b"kind:\n\t- x\n".to_vec(), "line "),
        (
            "billion laughs",
            format!("kind: GovernedRun\nmetadata:\n  a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{laughs}").into_bytes(),
            "line ",
        ),
        ("an alias of itself", b"a: &a [*a]\n".to_vec(), "line "),
        ("an alias of nothing", b"a: *b\n".to_vec(), "line "),
        ("a merge key", b"a: &a {kind: GovernedRun}\nb: {<<: *a}\n".to_vec(), ""),
        ("deep in flow style", nested("[", "]", 100_000).into_bytes(), ""),
        ("deep mappings", nested("{a: ", "}", 100_000).into_bytes(), ""),
        ("deep in block style", (0..2000).map(|depth| " ".repeat(depth) + "a:\n").collect::<String>().into_bytes(), ""),
        ("deep sequences", ("- ".repeat(50_000) + "x").into_bytes(), ""),
        ("ten megabytes of documents", "---\n".repeat(2_500_000).into_bytes(), "documents"),
        ("many wrong documents", "--- 1\n".repeat(50_000).into_bytes(), "document 1"),
        ("many wrong fields", many_fields.into_bytes(), "metadata.x0"),
        ("twenty megabytes", vec![b'#'; 20 << 20], "bytes"),
    ];
    for (case, bytes, named) in cases {
        std::fs::write(scene.files().join("more.yaml"), bytes).unwrap();
        assert_invalid(&scene, case, &["more.yaml", named]);
    }
    std::fs::remove_file(scene.files().join("more.yaml")).unwrap();

    for (case, json) in [
        ("half a document", r#"{"kind": "GovernedRun""#.to_owned()),
        ("two documents", "{} {}".to_owned()),
        ("a key twice", r#"{"kind": "GovernedRun", "kind": "GovernedRun"}"#.to_owned()),
        ("a key twice, once in escapes", r#"{"kind": "GovernedRun", "\u006bind": "GovernedRun"}"#.to_owned()),
        ("no number", r#"{"kind": NaN}"#.to_owned()),
        ("an integer that would lose digits", r#"{"kind": 9007199254740993}"#.to_owned()),
        ("half a surrogate", r#"{"kind": "\ud800"}"#.to_owned()),
        ("a comment", "{} // x".to_owned()),
        ("deep", nested("[", "]", 100_000)),
        ("a byte order mark alone", "\u{feff}".to_owned()),
        ("nothing", String::new()),
    ] {
        scene.write("more.json", &json);
        assert_invalid(&scene, case, &["more.json"]);
    }
    std::fs::remove_file(scene.files().join("more.json")).unwrap();
    assert_works(&scene);
}

#[test]
fn two_documents_with_one_name_run_nothing() {
    let scene = scene();
    for (file, kind) in
        [("runs.yaml", "run \"run-1\""), ("policy.yaml", "policy \"policy\""), ("tools.yaml", "manifest \"tools\"")]
    {
        let text = std::fs::read_to_string(scene.files().join(file)).unwrap();
        scene.write("twice.yaml", &text);
        assert_invalid(&scene, file, &[file, "twice.yaml", kind, "metadata.name"]);
        scene.write("twice.yaml", "");
        scene.write(file, &format!("{text}---\n{text}"));
        assert_invalid(&scene, file, &[file, kind, "metadata.name"]);
        scene.write(file, &text);
    }
    assert_works(&scene);
}

#[test]
fn a_large_proposal_runs_nothing_and_is_named() {
    let scene = scene();
    let large = "x".repeat(10 << 20);
    for (what, by, named) in [
        ("input: {name: run-1}", format!("input: {{name: {large}}}"), "spec.proposal.input.name"),
        ("The line must be there.", large.clone(), "spec.proposal.reasoningTrace"),
        ("The line must be there.", "x".repeat(2049), "spec.proposal.reasoningTrace"),
        ("target: things/run-1", format!("target: {}", "x".repeat(1025)), "spec.proposal.target"),
    ] {
        scene.write("runs.yaml", &run("run-1").replace(what, &by));
        assert_invalid(&scene, named, &["runs.yaml", "run \"run-1\"", named]);
    }
    assert_works(&scene);
}

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
