//! Values from and to JSON. Variables are JSON: integers of 64 bits stay integers, other numbers are doubles, and
//! temporal values become their ISO 8601 text.

use serde_json::Value as Json;

use super::limits;
use super::number;
use super::value::Value;

/// A JSON value that FEEL cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAValue {
    /// Decimals have 28 digits.
    #[error("the number {0} is out of range for a decimal")]
    Number(String),
    /// Nested too deeply.
    #[error("the value nests deeper than {} levels", limits::VALUE_DEPTH)]
    Depth,
}

impl Value {
    /// From JSON.
    ///
    /// # Errors
    /// A number such as `1e300` that a decimal cannot hold, or nesting past the bound: refused, not rounded or cut.
    pub fn from_json(json: &Json) -> Result<Self, NotAValue> {
        read(json, 0)
    }

    /// To JSON. `100.00` is written `100`; functions have no JSON form and are null.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null | Self::Function(_) => Json::Null,
            Self::Boolean(value) => Json::Bool(*value),
            Self::Number(value) => number::to_json(*value),
            Self::String(text) => Json::String(text.as_ref().to_owned()),
            Self::List(list) => Json::Array(list.items().iter().map(Self::to_json).collect()),
            Self::Context(context) => Json::Object(
                context.entries().iter().map(|(key, value)| (key.as_ref().to_owned(), value.to_json())).collect(),
            ),
            Self::Date(_)
            | Self::Time(_)
            | Self::DateTime(_)
            | Self::Duration(_)
            | Self::Months(_)
            | Self::Range(_) => Json::String(self.to_string()),
        }
    }
}

fn read(json: &Json, depth: usize) -> Result<Value, NotAValue> {
    if depth > limits::VALUE_DEPTH {
        return Err(NotAValue::Depth);
    }
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(value) => Value::Number(read_number(value)?),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(|item| read(item, depth + 1)).collect::<Result<_, _>>()?),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| read(value, depth + 1).map(|value| (key.as_str(), value)));
            Value::context(entries.collect::<Result<Vec<_>, _>>()?)
        }
    })
}

fn read_number(value: &serde_json::Number) -> Result<rust_decimal::Decimal, NotAValue> {
    if let Some(integer) = value.as_i64() {
        return Ok(integer.into());
    }
    if let Some(integer) = value.as_u64() {
        return Ok(integer.into());
    }
    value.as_f64().and_then(number::from_f64).ok_or_else(|| NotAValue::Number(value.to_string()))
}
