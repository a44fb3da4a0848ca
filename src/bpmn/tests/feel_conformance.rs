//! Runs the cases of other implementations' test suites. What differs is listed beside the cases, each with its reason;
//! a difference that is not listed fails, and so does a listed one that no longer differs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use m87_bpmn::feel::{self, Value};
use m87_core::time::Timestamp;
use serde_json::Value as Json;

fn now() -> Timestamp {
    Timestamp::parse("2026-03-01T12:30:00Z").unwrap()
}

fn read(path: &str) -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/third_party").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// A value of a case: JSON in which `{"$feel": "…"}` stands for what JSON cannot say.
fn value(json: &Json) -> Result<Value, String> {
    Ok(match json {
        Json::Object(entries) => match entries.get("$feel") {
            Some(text) => {
                let text = text.as_str().unwrap();
                let value = feel::parse(text).map_err(|error| error.to_string())?.eval(&(), now()).value;
                if value.is_null() {
                    return Err(format!("{text} is null here"));
                }
                value
            }
            None => {
                let entries = entries.iter().map(|(key, item)| value(item).map(|item| (key.as_str(), item)));
                Value::context(entries.collect::<Result<Vec<_>, _>>()?)
            }
        },
        Json::Array(items) => Value::list(items.iter().map(value).collect::<Result<_, _>>()?),
        other => Value::from_json(other).map_err(|error| error.to_string())?,
    })
}

/// `true` if both are the same, where doubles may differ in their last digits.
fn agree(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Null, Value::Null) => true,
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.to_string().parse::<f64>().unwrap(), y.to_string().parse::<f64>().unwrap());
            (x - y).abs() <= 1e-8 * x.abs().max(y.abs())
        }
        (Value::List(x), Value::List(y)) => {
            x.items().len() == y.items().len() && x.items().iter().zip(y.items()).all(|(x, y)| agree(x, y))
        }
        (Value::Context(x), Value::Context(y)) => {
            let found = |key: &str, y: &Value| x.get(key).is_some_and(|x| agree(x, y));
            x.entries().len() == y.entries().len() && y.entries().iter().all(|(key, y)| found(key, y))
        }
        (x, y) => x.type_name() == y.type_name() && x.to_string() == y.to_string(),
    }
}

/// What is wrong with the result of a case, if anything is.
fn difference(case: &Json) -> Result<(), String> {
    let text = case["expression"].as_str().unwrap();
    let expression = match (feel::parse(text), case["parses"] == false) {
        (Err(_), true) => return Ok(()),
        (Ok(_), true) => return Err("parses".to_owned()),
        (Err(error), false) => return Err(error.to_string()),
        (Ok(expression), false) => expression,
    };
    let mut variables = BTreeMap::new();
    for (name, json) in case["variables"].as_object().into_iter().flatten() {
        variables.insert(name.clone(), value(json)?);
    }
    let evaluation = expression.eval(&variables, now());
    if let Some(failure) = evaluation.failure {
        return Err(failure.to_string());
    }
    if let Some(json) = case.get("value") {
        let expected = value(json)?;
        if !agree(&evaluation.value, &expected) {
            return Err(format!("{} instead of {expected}", evaluation.value));
        }
    }
    let warnings: Vec<_> = evaluation.warnings.iter().map(ToString::to_string).collect();
    for warning in case["warnings"].as_array().into_iter().flatten() {
        if !warnings.iter().any(|found| found == warning) {
            return Err(format!("warns {warnings:?}, not {warning}"));
        }
    }
    Ok(())
}

/// Runs every case of a suite against its list of known differences: reason to expressions.
fn run(suite: &str, total: usize, passing: usize) {
    let cases = read(&format!("{suite}/cases.json"));
    let differences = read(&format!("{suite}/differences.json"));
    let listed = differences.as_object().unwrap().values().flat_map(|texts| texts.as_array().unwrap());
    let known: BTreeSet<&str> = listed.map(|text| text.as_str().unwrap()).collect();
    let mut passed = 0;
    let mut seen = BTreeSet::new();
    let mut surprises = Vec::new();
    for case in cases.as_array().unwrap() {
        let text = case["expression"].as_str().unwrap();
        match (difference(case), known.contains(text)) {
            (Ok(()), _) => passed += 1,
            (Err(_), true) => {
                seen.insert(text);
            }
            (Err(reason), false) => {
                surprises.push(format!("{}\n    {text:?}\n    {reason}", case["test"].as_str().unwrap()))
            }
        }
    }
    let stale: Vec<_> = known.difference(&seen).collect();
    assert!(surprises.is_empty(), "{} cases differ and are not listed:\n{}", surprises.len(), surprises.join("\n"));
    assert!(stale.is_empty(), "listed as different, but are not: {stale:?}");
    assert_eq!((cases.as_array().unwrap().len(), passed), (total, passing));
}

#[test]
fn feel_scala_cases_pass_except_the_listed_differences() {
    run("feel-scala", 1500, 1476);
}

#[test]
fn dmn_tck_cases_pass_except_the_listed_differences() {
    run("dmn-tck", 3009, 2669);
}
