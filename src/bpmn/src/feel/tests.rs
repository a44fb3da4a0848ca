#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value as Json, json};

use super::*;

mod bounds;
mod never_panics;

fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:30:00Z").unwrap()
}

fn eval_with(text: &str, variables: &Json) -> Evaluation {
    let variables = variables.as_object().expect("variables are an object");
    match parse(text) {
        Ok(expression) => expression.eval(variables, now()),
        Err(error) => panic!("{text:?}: {error}"),
    }
}

fn eval(text: &str) -> Json {
    eval_with(text, &json!({})).value.to_json()
}

fn warnings(text: &str, variables: Json) -> Vec<String> {
    eval_with(text, &variables).warnings.iter().map(ToString::to_string).collect()
}

/// The table of what Zeebe 8.3 and later does with a variable that is missing or null, row by row.
const NULL_TABLE: [(&str, Option<bool>); 27] = [
    ("x = true", Some(false)),
    ("true = x", Some(false)),
    ("x = false", Some(false)),
    ("x = 1", Some(false)),
    ("x = \"yes\"", Some(false)),
    ("x != true", Some(true)),
    ("true != x", Some(true)),
    ("x", None),
    ("x > 5", None),
    ("x < 5", None),
    ("x <= 5", None),
    ("x >= 5", None),
    ("5 > x", None),
    ("x between 1 and 3", None),
    ("not(x)", None),
    ("x = null", Some(true)),
    ("null = x", Some(true)),
    ("x != null", Some(false)),
    ("x != null and x > 5", Some(false)),
    ("x and true", None),
    ("x or false", None),
    ("x and false", Some(false)),
    ("x or true", Some(true)),
    ("is defined(x)", Some(false)),
    ("get or else(x = true, false)", Some(false)),
    ("not(get or else(x = false, false))", Some(true)),
    ("if x then true else false", Some(false)),
];

#[test]
fn missing_and_null_give_what_the_null_table_says() {
    for (text, expected) in NULL_TABLE {
        for variables in [json!({}), json!({"x": null})] {
            let evaluation = eval_with(text, &variables);
            assert_eq!(evaluation.value.to_json(), json!(expected), "{text} with {variables}");
            assert_eq!(evaluation.failure, None, "{text}");
        }
    }
}

#[test]
fn a_gate_condition_is_true_only_for_true_and_null_for_other_types() {
    for (value, expected) in [
        (json!(true), json!(true)),
        (json!(false), json!(false)),
        (json!(null), json!(false)),
        (json!("true"), json!(null)),
        (json!(1), json!(null)),
        (json!(0.5), json!(null)),
        (json!([true]), json!(null)),
        (json!({"a": true}), json!(null)),
    ] {
        let variables = json!({"gate": value});
        assert_eq!(eval_with("gate = true", &variables).value.to_json(), expected, "{variables}");
        let hardened = eval_with("get or else(gate = true, false)", &variables).value.to_json();
        assert_eq!(hardened, json!(value == json!(true)), "{variables}");
        let inverted = eval_with("not(get or else(gate = false, false))", &variables).value.to_json();
        assert_eq!(inverted, json!(value != json!(false)), "{variables}");
    }
}

#[test]
fn warnings_have_the_texts_that_incidents_show() {
    assert_eq!(
        warnings("x > 10", json!({})),
        ["[NO_VARIABLE_FOUND] No variable found with name 'x'", "[NOT_COMPARABLE] Can't compare 'null' with '10'"]
    );
    assert_eq!(warnings("foo > 10", json!({"foo": "bar"})), [r#"[NOT_COMPARABLE] Can't compare '"bar"' with '10'"#]);
    assert_eq!(warnings("x = true", json!({"x": true})), [""; 0]);
    assert_eq!(warnings("if 5 then 1 else 2", json!({})), ["[INVALID_TYPE] Expected boolean but found '5'"]);
    assert_eq!(warnings("f(1)", json!({})), ["[NO_FUNCTION_FOUND] No function found with name 'f' and 1 parameters"]);
    let huge = warnings("x = 1", json!({"x": "y".repeat(100_000)}));
    assert!(huge[0].len() < 1_000, "a warning does not quote a huge value whole");
}

#[test]
fn numbers_are_decimals_and_integers_stay_integers() {
    assert_eq!(eval("0.1 + 0.2 = 0.3"), json!(true));
    assert_eq!(eval_with("x", &json!({"x": 100.00})).value.to_json().to_string(), "100");
    assert_eq!(eval_with("x", &json!({"x": i64::MAX})).value.to_json(), json!(i64::MAX));
    assert_eq!(eval_with("x", &json!({"x": u64::MAX})).value.to_json(), json!(u64::MAX));
    assert_eq!(eval_with("x + 1", &json!({"x": i64::MIN})).value.to_json(), json!(i64::MIN + 1));
    assert_eq!(eval_with("x", &json!({"x": 0.1})).value.to_json(), json!(0.1));
    assert_eq!(eval_with("x", &json!({"x": 1e-7})).value.to_json(), json!(1e-7));
}

#[test]
fn a_number_out_of_range_is_null_with_a_warning() {
    for text in [
        "10 ** 40",
        "79228162514264337593543950335 + 1",
        "10 ** -40",
        "1 / 10 ** 28 / 10",
        "exp(1000)",
        "-(10**28) * 100",
    ] {
        let evaluation = eval_with(text, &json!({}));
        assert!(evaluation.value.is_null(), "{text}: {}", evaluation.value);
        assert!(!evaluation.warnings.is_empty(), "{text}");
        assert_eq!(evaluation.failure, None, "{text}");
    }
    assert_eq!(
        warnings("x = 1", json!({"x": 1e300})),
        ["[UNKNOWN] The variable 'x' cannot be read: the number 1e+300 is out of range for a decimal"]
    );
    assert!(parse(&"9".repeat(40)).unwrap_err().message.contains("out of range"));
}

#[test]
fn the_clock_is_the_one_given() {
    assert_eq!(eval("now()"), json!("2026-03-01T12:30:00Z"));
    assert_eq!(eval("today() + @\"P1D\""), json!("2026-03-02"));
    assert_eq!(eval("day of week(today())"), json!("Sunday"));
}

#[test]
fn what_is_not_deterministic_or_foreign_is_refused_when_parsed() {
    for text in
        ["uuid()", "1 + random number()", "function(x) external { java: { class: \"a\", method signature: \"b()\" } }"]
    {
        assert!(parse(text).unwrap_err().message.contains("refused"), "{text}");
    }
    // Names of zones depend on the machine's data.
    assert_eq!(eval("@\"2026-01-01T00:00:00@Europe/Berlin\""), json!(null));
}

#[test]
fn an_assertion_fails_the_evaluation() {
    let evaluation = eval_with("assert(x, x > 5, \"too small\")", &json!({"x": 1}));
    assert_eq!(evaluation.failure, Some(Failure::Assertion("too small".to_owned())));
    assert!(evaluation.value.is_null());
    assert_eq!(eval("assert(6, 6 > 5)"), json!(6));
    assert_eq!(eval_with("? < 1", &json!({})).failure, Some(Failure::NoInput));
}

#[test]
fn variables_are_the_names_read_from_outside() {
    for (text, expected) in [
        ("constraints_ok = true", vec!["constraints_ok"]),
        ("a.b.c[d > e].f", vec!["a", "d", "e"]),
        ("for x in xs return x + y", vec!["xs", "y"]),
        ("some x in xs satisfies x > limit", vec!["limit", "xs"]),
        ("{a: 1, b: a + c}", vec!["c"]),
        ("(function(p) p + q)", vec!["q"]),
        ("get or else(`a b`, 1)", vec!["a b"]),
        ("x in (1, y, [z..5])", vec!["x", "y", "z"]),
        ("[1,2][item > n]", vec!["n"]),
    ] {
        assert_eq!(parse(text).unwrap().variables().into_iter().collect::<Vec<_>>(), expected, "{text}");
    }
}

#[test]
fn an_attribute_is_an_expression_only_after_an_equals_sign() {
    let value = |text: &str| {
        Attribute::parse(text).unwrap().eval(&json!({"x": 1}).as_object().unwrap().clone(), now()).value.to_json()
    };
    assert_eq!(value("= x + 1"), json!(2));
    assert_eq!(value("x + 1"), json!("x + 1"));
    assert_eq!(value(""), json!(""));
    assert!(Attribute::parse("=").is_err());
    assert!(Attribute::parse("= x +").is_err());
}

#[test]
fn errors_say_where_and_what() {
    for (text, position, part) in [
        ("x = ", 4, "expected a value, found the end"),
        ("1 < 2 < 3", 6, "cannot be chained"),
        ("\"abc", 0, "not closed"),
        ("f(1", 3, "expected `)`"),
        ("a b", 2, "found `b`"),
        ("/* x", 0, "not closed"),
        ("\"é\" = )", 6, "found `)`"),
        ("", 0, "found the end"),
        ("{null: 1}.null", 10, "expected a name"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.position, position, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn usual_patterns_are_not_too_large() {
    assert_eq!(eval(r#"matches("jane.doe@example.org", "^[\w.+-]+@[\w-]+(\.[\w-]+)+$")"#), json!(true));
    assert_eq!(eval(r#"replace("2026-01-31", "(\d{4})-(\d{2})-(\d{2})", "$3.$2.$1")"#), json!("31.01.2026"));
    assert_eq!(eval(r#"split("a; b;c", ";\s*")"#), json!(["a", "b", "c"]));
}

#[test]
fn values_survive_the_way_through_json() {
    for value in [
        json!(null),
        json!(true),
        json!(1),
        json!(-1.5),
        json!("a"),
        json!([1, [2], {}]),
        json!({"b": {"c": [null]}, "a": 1}),
    ] {
        assert_eq!(Value::from_json(&value).unwrap().to_json(), value);
    }
}

#[test]
fn temporal_values_are_text_in_json() {
    for (text, expected) in [
        ("@\"2026-01-31\" + @\"P1M\"", json!("2026-02-28")),
        ("@\"10:00:00+02:00\"", json!("10:00:00+02:00")),
        ("@\"PT36H\"", json!("P1DT12H")),
        ("@\"P14M\"", json!("P1Y2M")),
        ("@\"-PT0.5S\"", json!("-PT0.5S")),
        ("@\"2026-01-01T00:00:00Z\" - @\"2025-01-01T00:00:00Z\"", json!("P365D")),
        ("@\"9999-12-31\" + @\"P1D\"", json!(null)),
        ("@\"23:30:00\" + @\"PT1H\"", json!("00:30:00")),
        ("[1..5]", json!("[1..5]")),
        ("function(x) x", json!(null)),
    ] {
        assert_eq!(eval(text), expected, "{text}");
    }
}
