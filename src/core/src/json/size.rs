//! How long a canonical text would be: the writer's rules, counted instead of written.

use super::writer::write_integer;
use super::{JsonError, MAX_DEPTH, MAX_SAFE_INTEGER};
use serde_json::{Number, Value};

pub(super) fn of(value: &Value, depth: usize) -> Result<usize, JsonError> {
    match value {
        Value::Null => Ok(4),
        Value::Bool(true) => Ok(4),
        Value::Bool(false) => Ok(5),
        Value::Number(number) => of_number(number),
        Value::String(text) => Ok(of_string(text)),
        Value::Array(items) => {
            let depth = deeper(depth)?;
            items.iter().try_fold(around(items.len()), |size, item| Ok(size.saturating_add(of(item, depth)?)))
        }
        Value::Object(members) => {
            let depth = deeper(depth)?;
            members.iter().try_fold(around(members.len()), |size, (key, value)| {
                Ok(size.saturating_add(of_string(key)).saturating_add(1).saturating_add(of(value, depth)?))
            })
        }
    }
}

const fn deeper(depth: usize) -> Result<usize, JsonError> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(JsonError::TooDeep) }
}

/// The brackets and commas around so many items.
const fn around(items: usize) -> usize {
    2_usize.saturating_add(items.saturating_sub(1))
}

fn of_number(number: &Number) -> Result<usize, JsonError> {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), _, _) if integer.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs() => {
            let digits = integer.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
            Ok(digits + usize::from(integer < 0))
        }
        (Some(integer), _, _) => of_large(i128::from(integer)),
        (None, Some(integer), _) => of_large(i128::from(integer)),
        (None, None, Some(double)) if double.is_finite() => Ok(ryu_js::Buffer::new().format_finite(double).len()),
        (None, None, _) => Err(JsonError::NotFinite),
    }
}

fn of_large(integer: i128) -> Result<usize, JsonError> {
    let mut text = String::new();
    write_integer(integer, &mut text)?;
    Ok(text.len())
}

fn of_string(text: &str) -> usize {
    let byte = |byte| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(byte).sum::<usize>().saturating_add(2)
}
