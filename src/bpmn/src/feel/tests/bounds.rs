//! Depth, time and memory are bounded, whatever the text and the data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use super::super::*;
use super::{eval, eval_with, now};

/// Runs on a stack of 1 MiB, half of what a worker thread has: an overflow would end the test process.
fn on_a_small_stack(text: String) -> Result<Evaluation, FeelError> {
    let run = move || parse(&text).map(|expression| (expression.variables(), expression.eval(&(), now())).1);
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap().join().expect("no panic")
}

#[test]
fn deep_and_long_texts_give_an_error_or_a_result_on_a_small_stack() {
    let nested = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    assert_eq!(on_a_small_stack(format!("1{}", "+1".repeat(3_000))).unwrap().value.to_json(), json!(3001));
    assert_eq!(on_a_small_stack(format!("true{}", " and true".repeat(3_000))).unwrap().value.to_json(), json!(true));
    assert_eq!(on_a_small_stack(nested("(", ")", 90)).unwrap().value.to_json(), json!(1));
    assert!(on_a_small_stack(nested("(", ")", 10_000)).unwrap_err().message.contains("nests deeper"));
    assert!(on_a_small_stack(nested("not(", ")", 10_000)).unwrap_err().message.contains("nests deeper"));
    assert!(on_a_small_stack("1".repeat(100_000)).unwrap_err().message.contains("longer than"));
    assert!(on_a_small_stack(format!("{}1", "-".repeat(10_000))).is_ok());
    assert!(on_a_small_stack(format!("x{}", ".y".repeat(10_000))).is_ok());
    // What opens and closes one nesting, and how many of them fit: an operator that binds tighter is a level too.
    for (open, close, fits) in [
        ("not(", ")", 95),
        ("[", "]", 95),
        ("{a:", "}", 95),
        ("if true then ", " else 0", 95),
        ("for x in [1] return ", "", 95),
        ("some x in [1] satisfies ", "", 95),
        ("[1][", "]", 95),
        ("1 in (", ")", 95),
        ("-(", ")", 95),
        ("{f: function(x) ", "}.f(1)", 45),
        ("1 + 2 * (", ")", 30),
        ("1 in [0..(", ")]", 30),
        ("string(1 < 2 and (", "))", 20),
    ] {
        let outcome = on_a_small_stack(nested(open, close, fits));
        assert!(outcome.is_ok(), "{open} {fits}: {outcome:?}");
        let outcome = on_a_small_stack(nested(open, close, 2_000));
        assert!(outcome.unwrap_err().message.contains("nests deeper"), "{open}");
    }
}

#[test]
fn an_expression_cannot_run_or_grow_without_bound() {
    for (text, failure) in [
        ("count(for x in 1..1000000000 return x)", Failure::TooLong),
        ("some x in 1..9223372036854775807 satisfies x < 0", Failure::TooLong),
        ("for x in 1..10000, y in 1..10000 return x", Failure::TooLong),
        ("{f: function(g) g(g), r: f(f)}.r", Failure::TooDeep),
        ("{f: function(g) [g(g)], r: f(f)}.r", Failure::TooDeep),
    ] {
        assert_eq!(on_a_small_stack(text.to_owned()).unwrap().failure, Some(failure), "{text}");
    }
    // Doubling by sharing: 2^60 items, or bytes, from a short text.
    let doubling = |start: &str, double: &str| {
        let entries: Vec<_> =
            (1..60).map(|n| format!("a{n}: {}", double.replace('#', &format!("a{}", n - 1)))).collect();
        format!("{{a0: {start}, {}}}", entries.join(", "))
    };
    for (start, double) in [("[1]", "[#, #]"), ("\"0123456789\"", "# + #"), ("[1]", "concatenate(#, #)")] {
        let evaluation = on_a_small_stack(doubling(start, double)).unwrap();
        assert!(evaluation.failure.is_some(), "{double}: {:?}", evaluation.value.to_json());
    }
    // Nesting by reference: each entry wraps the one before.
    for wrap in ["[#]", "{x: #}", "function() #", "(function(x) #)"] {
        let entries: Vec<_> =
            (1..2_000).map(|n| format!("a{n}: {}", wrap.replace('#', &format!("a{}", n - 1)))).collect();
        let evaluation = on_a_small_stack(format!("{{a0: 1, {}}}", entries.join(", "))).unwrap();
        assert_eq!(evaluation.failure, Some(Failure::TooDeep), "{wrap}");
    }
    let text = "replace(replace(replace(a, \".\", a), \".\", a), \".\", a)";
    assert!(eval_with(text, &json!({"a": "x".repeat(5_000)})).failure.is_some());
    // Regular expressions pay by the byte, whatever the pattern.
    let text = "x".repeat(1_000_000);
    for pattern in ["matches(a, \"(x?){200}y\")", "split(a, \"\")", "extract(a, \"x\")", "from json(a + a + a + a + a)"]
    {
        assert_eq!(eval_with(pattern, &json!({"a": text})).failure, Some(Failure::TooLong), "{pattern}");
    }
    assert!(
        eval("matches(\"a\", \"(((x{100}){100}){100})\")").is_null(),
        "a pattern that compiles to too much is refused"
    );
    assert!(eval_with("string join(for x in 1..100000 return a)", &json!({"a": "x".repeat(5_000)})).failure.is_some());
}

#[test]
fn a_large_variable_can_be_read_and_judged() {
    let variables = json!({"x": vec![1; 1_000_000], "s": "y".repeat(4_000_000)});
    for (text, expected) in
        [("get or else(x = true, false)", json!(false)), ("count(x)", json!(1_000_000)), ("s = \"y\"", json!(false))]
    {
        let evaluation = eval_with(text, &variables);
        assert_eq!((evaluation.value.to_json(), evaluation.failure), (expected, None), "{text}");
    }
}

#[test]
fn a_variable_that_nests_too_deeply_is_null_with_a_warning() {
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let evaluation = eval_with("x", &json!({"x": deep}));
    assert!(evaluation.value.is_null());
    assert!(evaluation.warnings[0].to_string().contains("nests deeper"));
}
