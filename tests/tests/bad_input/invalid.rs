//! Files that cannot be read as objects: nothing of the invocation runs.

use crate::{assert_invalid, assert_works, scene};
use m87_tests::scene::run;

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
