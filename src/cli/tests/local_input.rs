//! Bad input: a clear error with file and field and exit code 2, and nothing of that invocation runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{Place, ledger_tool, run_of};

#[test]
fn invalid_input_names_file_and_field_and_runs_nothing() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let good = ledger_tool(&ledger) + &run_of("a");
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n";
    let big = run_of("b").replace("input: {to: b}", &format!("input: {{to: b, much: {:?}}}", "x".repeat(10 << 20)));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "unknown field",
            run_of("b").replace("risk:", "riks:").into(),
            "run \"b\": spec.proposal.riks: is not a field",
        ),
        ("wrong type", run_of("b").replace("tool: t", "tool: [t]").into(), "run \"b\": spec.proposal.tool: is a list"),
        ("the same name twice", run_of("a").into(), "run \"a\": metadata.name: is also in"),
        ("no YAML", "a: [1, 2".into(), "bad.yaml: "),
        ("not UTF-8", b"a: \xff\xfe\n".to_vec(), "UTF-8"),
        ("a key twice", "a: 1\na: 2\n".into(), "bad.yaml: "),
        ("not a number", run_of("b").replace("to: b", "to: b, n: .nan").into(), "bad.yaml: "),
        (
            "an integer that loses digits",
            run_of("b").replace("to: b", "to: b, n: 9007199254740993").into(),
            "9007199254740993",
        ),
        ("too deep", deep.into(), "bad.yaml: "),
        ("a bomb of aliases", bomb.into(), "bad.yaml: "),
        ("ten megabytes", big.into(), "bytes"),
        ("another kind", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n".into(), "apiVersion: is \"v1\""),
        ("no object", "- 1\n".into(), "document 1"),
    ];
    for (what, bytes, message) in cases {
        let folder = place.path(what);
        place.write(&format!("{what}/good.yaml"), &good);
        place.write(&format!("{what}/bad.yaml"), bytes);
        let done = place.run(&folder, &[]);
        assert_eq!(done.code, 2, "{what}: {} {}", done.out, &done.err[..done.err.len().min(500)]);
        assert!(
            done.err.contains("bad.yaml") && done.err.contains(message),
            "{what}: {}",
            &done.err[..done.err.len().min(500)]
        );
        assert!(done.err.len() < 4000, "{what}: the message is too long");
        assert!(!ledger.exists() && !place.path("m87-out").exists(), "{what}: something ran");
    }
    let done = place.run(&place.path("nowhere"), &[]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("nowhere"), "{done:?}");
}

#[test]
fn no_run_in_the_files_is_said() {
    let place = Place::new();
    let files = place.write("tools.yaml", ledger_tool(&place.path("ledger")));
    let done = place.run(&files, &[]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("GovernedRun"), "{done:?}");
}

#[test]
fn what_is_suspended_or_cancelled_is_not_begun() {
    for (from, to, message) in [
        ("  policyRef:", "  suspend: true\n  policyRef:", "run \"a\": spec.suspend: is true"),
        ("  policyRef:", "  cancel: true\n  policyRef:", "run \"a\": spec.cancel: is true"),
        ("  constraints:", "  suspend: true\n  constraints:", "spec.suspend: is true, and nobody can resume it"),
    ] {
        let place = Place::new();
        let ledger = place.path("ledger");
        let text = ledger_tool(&ledger) + &run_of("a");
        let (held, free) = (text.replacen(from, to, 1), text.replacen(from, &to.replace("true", "false"), 1));
        assert!(held != text, "{from:?} is not in {text}");
        let done = place.run(&place.write("held.yaml", held), &[]);
        assert!(done.code == 2 && done.err.contains(message) && done.err.contains("nothing was run"), "{done:?}");
        assert!(!ledger.exists() && !place.path("m87-out").exists(), "{message}: something ran");
        let done = place.run(&place.write("free.yaml", free), &[]);
        assert_eq!(done.code, 0, "{done:?}");
    }
}
