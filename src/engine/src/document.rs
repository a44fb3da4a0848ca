//! Variables as they arrive and leave: one JSON object, whose integers are 64-bit and whose other numbers are doubles.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::rejection::{Rejection, RejectionKind};

/// A JSON object of variables by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Document(Map<String, Value>);

impl Document {
    /// Reads the text of a request. Empty text and `null` are no variables.
    ///
    /// Refuses what is not JSON, what is not an object, and integers that do not fit 64 bits (they would lose digits).
    pub fn parse(text: &str) -> Result<Self, Rejection> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let invalid = |why: String| Rejection::request(RejectionKind::InvalidArgument, why);
        if let Some(number) = oversized_integer(text) {
            return Err(invalid(format!("Invalid JSON value: the integer {number} does not fit 64 bits")));
        }
        match serde_json::from_str(text) {
            Ok(Value::Null) => Ok(Self::default()),
            Ok(Value::Object(map)) => Ok(Self::from_map(map)),
            Ok(other) => Err(invalid(format!(
                "Property 'variables' is invalid: Expected document to be a root level object, but was '{}'",
                type_name(&other)
            ))),
            Err(error) => Err(invalid(format!("Invalid JSON value: {error}"))),
        }
    }

    /// From a JSON object; doubles that are whole become integers (`100.00` is `100`).
    pub fn from_map(mut map: Map<String, Value>) -> Self {
        map.values_mut().for_each(make_whole);
        Self(map)
    }

    /// From variables that were documents before.
    pub(crate) const fn of(map: Map<String, Value>) -> Self {
        Self(map)
    }

    /// The variables by name.
    pub const fn map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The variables by name.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// Is there no variable?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| fmt::Error)?)
    }
}

/// The type of a JSON value, in Zeebe's words.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "BOOLEAN",
        Value::Number(_) => "NUMBER",
        Value::String(_) => "STRING",
        Value::Array(_) => "ARRAY",
        Value::Object(_) => "OBJECT",
    }
}

fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn whole(number: &Number) -> Option<Number> {
    // Beyond 2^53 a double is not one certain integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let double = if number.is_f64() { number.as_f64()? } else { return None };
    #[allow(clippy::cast_possible_truncation)]
    (double.fract() == 0.0 && double.abs() < EXACT).then(|| Number::from(double as i64))
}

/// The first integer literal of a JSON text that is not an `i64`. The parser would silently make it a double.
fn oversized_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(&inside) = bytes.get(at) {
                    match inside {
                        b'\\' => at += 2,
                        b'"' => break,
                        _ => at += 1,
                    }
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = text.get(at..)?;
                let end =
                    rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
                let number = rest.get(..end)?;
                if !number.contains(['.', 'e', 'E']) && number.len() > 18 && number.parse::<i64>().is_err() {
                    return Some(number);
                }
                at += end.max(1);
            }
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn empty_text_and_null_are_no_variables() {
        for text in ["", "  ", "null", "{}"] {
            assert!(Document::parse(text).unwrap().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_refused_with_its_type() {
        for (text, name) in [("[]", "ARRAY"), ("1", "NUMBER"), ("true", "BOOLEAN"), ("\"a\"", "STRING")] {
            let refusal = Document::parse(text).unwrap_err();
            assert_eq!(refusal.kind, RejectionKind::InvalidArgument);
            assert_eq!(
                refusal.to_string(),
                format!(
                    "Property 'variables' is invalid: Expected document to be a root level object, but was '{name}'"
                )
            );
        }
        for text in ["{", "{a:1}", "{\"a\":NaN}", "{} x", "\u{0}"] {
            assert!(Document::parse(text).unwrap_err().reason.starts_with("Invalid JSON value: "), "{text:?}");
        }
    }

    #[test]
    fn integers_keep_their_64_bits_and_larger_ones_are_refused() {
        let text = r#"{"max":9223372036854775807,"min":-9223372036854775808,"s":"99999999999999999999\""}"#;
        assert_eq!(Document::parse(text).unwrap().to_string(), text);
        for text in ["{\"a\":9223372036854775808}", "{\"a\":[1,{\"b\":-9223372036854775809}]}"] {
            assert!(Document::parse(text).unwrap_err().reason.contains("does not fit 64 bits"), "{text}");
        }
    }

    #[test]
    fn whole_doubles_become_integers() {
        let document = Document::parse(r#"{"a":100.00,"b":[1e2,0.5],"c":1e300}"#).unwrap();
        assert_eq!(document.map()["a"], 100);
        assert_eq!(document.map()["b"][0], 100);
        assert_eq!(document.map()["b"][1], 0.5);
        assert!(document.map()["c"].is_f64());
    }
}
