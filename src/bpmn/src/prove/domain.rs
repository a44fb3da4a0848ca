//! The values that stand for all values.
//!
//! In a proved model a value from outside is only compared with literals, so two numbers between the same two literals, or two
//! strings, take the same ways. One of each region is enough.

use crate::feel;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Representatives of every class and region, given the literals that the model compares with.
pub(super) fn values(literals: &[feel::Value]) -> Vec<Value> {
    let mut values = vec![json!(true), json!(false), json!(null), json!([true]), json!({"value": true})];
    values.extend(numbers(literals));
    values.extend(strings(literals).into_iter().map(Value::String));
    values
}

fn numbers(literals: &[feel::Value]) -> Vec<Value> {
    let points: BTreeSet<Decimal> = literals
        .iter()
        .filter_map(|literal| match literal {
            feel::Value::Number(number) => Some(number.normalize()),
            _ => None,
        })
        .collect();
    let mut numbers = points.clone();
    numbers.insert(Decimal::ONE);
    let below = points.first().and_then(|first| first.checked_sub(Decimal::ONE));
    let above = points.last().and_then(|last| last.checked_add(Decimal::ONE));
    numbers.extend(below.into_iter().chain(above));
    // Halving first cannot overflow.
    let half = Decimal::new(5, 1);
    numbers.extend(points.iter().zip(points.iter().skip(1)).map(|(low, high)| low * half + high * half));
    numbers.into_iter().map(|number| feel::Value::Number(number).to_json()).collect()
}

fn strings(literals: &[feel::Value]) -> BTreeSet<String> {
    let points = literals.iter().filter_map(feel::Value::as_str);
    // The least string, and right after each literal the least that is greater.
    let mut strings: BTreeSet<String> = points.flat_map(|point| [point.to_owned(), format!("{point}\u{1}")]).collect();
    strings.extend([String::new(), "true".to_owned()]);
    strings
}
