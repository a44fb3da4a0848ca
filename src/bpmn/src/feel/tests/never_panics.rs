//! Any text, any arguments and any operands give an error or a value.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::*;
use super::now;

fn survives(text: &str) {
    if let Ok(expression) = parse(text) {
        let variables: BTreeMap<String, Json> =
            [("x", json!(1)), ("y", json!([{"a": 1}, "s", null])), ("a b", json!({"k": [1.5]}))]
                .map(|(k, v)| (k.to_owned(), v))
                .into();
        let evaluation = expression.eval(&variables, now());
        let _ = evaluation.value.to_json();
        let _ = expression.variables();
    }
}

proptest! {
    #[test]
    fn parsing_and_evaluating_never_panic_on_any_text(text in "\\PC{0,60}") {
        survives(&text);
    }

    #[test]
    fn functions_never_panic_on_any_arguments(
        name in prop::sample::select(builtins::names()),
        arguments in prop::collection::vec(prop::sample::select(vec![
            "null", "true", "0", "1", "-1", "2.5", "-79228162514264337593543950335", "79228162514264337593543950335", "0.0000000000000000000000000001",
            "\"\"", "\"a\"", "\"é(\"", "\"$1\"", "\"2026-02-29\"", "[]", "[1,2,3]", "[null,\"a\",1]", "{}", "{a:1,key:\"k\",value:2}", "[1..3]",
            "@\"2026-02-28\"", "@\"23:59:59.999999999+18:00\"", "@\"9999-12-31T23:59:59Z\"", "@\"P999999999D\"", "@\"-P99999999Y\"",
            "function(x, y) x < y", "function() 1", "[[1]]", "9223372036854775807", "-9223372036854775808",
        ]), 0..5),
    ) {
        survives(&format!("{name}({})", arguments.join(", ")));
    }

    #[test]
    fn operators_never_panic_on_any_operands(
        x in operand(), y in operand(), operator in prop::sample::select(vec!["+", "-", "*", "/", "**", "=", "<", ">=", "in", "and"]),
    ) {
        survives(&format!("{x} {operator} {y}"));
        survives(&format!("for i in {x}..{y} return i"));
        survives(&format!("[abs({x}), -({x}), {x}.days, string({x}), {y} in [{x}..{y}]]"));
    }
}

fn operand() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1",
        "2.5",
        "0.5",
        "-79228162514264337593543950335",
        "79228162514264337593543950335",
        "0.0000000000000000000000000001",
        "9223372036854775807",
        "\"a\"",
        "[1]",
        "{a:1}",
        "@\"0000-01-01\"",
        "@\"-9999-01-01\"",
        "@\"9999-12-31\"",
        "@\"23:59:59+18:00\"",
        "@\"00:00:00\"",
        "@\"9999-12-31T23:59:59.999999999Z\"",
        "@\"-9999-01-01T00:00:00\"",
        "@\"PT9223372036854775807S\"",
        "@\"-PT9223372036854775807S\"",
        "@\"P9223372036854775807M\"",
        "@\"-P9223372036854775807M\"",
        "[1..2]",
    ])
}
