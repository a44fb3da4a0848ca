//! What m87 says of an object. A status is a projection: written from what the authority holds, and never read back as fact.
//!
//! Every text and list of a status is bounded by its schema, and [`to_value`] is the one way to write it: what does not fit is
//! cut, so that no message of a tool can make a status that the API server refuses, or one that fills its store.

mod manifest;
mod policy;
mod run;
#[cfg(test)]
mod tests;

pub use manifest::{RefusedTool, ToolCounts, ToolManifestStatus};
pub use policy::{Deployment, GovernancePolicyStatus, Proof};
pub use run::{AlreadyDone, EngineInstance, GovernedRunStatus, Phase, SealedReceipt};

use crate::conditions::Condition;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The generation of a status that nobody has written yet. With it, a new object never looks ready.
pub const NEVER_OBSERVED: i64 = -1;

const fn never_observed() -> i64 {
    NEVER_OBSERVED
}

/// A status of any kind.
pub trait Status: Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync {
    /// What it may hold.
    fn schema() -> &'static Value;

    /// The `metadata.generation` that it was found for.
    fn observed_generation(&self) -> i64;

    /// What is so of the object.
    fn conditions(&self) -> &[Condition];
}

/// A status as it is written: within the bounds of its schema, and without nulls.
pub fn to_value<S: Status>(status: &S) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    fit(&mut value, S::schema());
    value
}

/// Cuts what is longer than its schema allows, and drops nulls.
fn fit(value: &mut Value, schema: &Value) {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => {
            if let Some(most) = bound("maxLength") {
                shorten(text, most);
            }
        }
        Value::Array(items) => {
            items.truncate(bound("maxItems").unwrap_or(usize::MAX));
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fit(item, schema));
            }
        }
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for (name, field) in fields {
                let own = schema.get("properties").and_then(|properties| properties.get(name));
                if let Some(schema) = own.or_else(|| schema.get("additionalProperties")) {
                    fit(field, schema);
                }
            }
        }
    }
}

/// Cuts a text to `most` bytes of JSON, which are never fewer than its characters. Control characters become `�`.
fn shorten(text: &mut String, most: usize) {
    const ELLIPSIS: char = '…';
    let shown: String =
        text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect();
    let weight = |c: char| c.len_utf8() + usize::from(matches!(c, '"' | '\\' | '\n'));
    if shown.chars().map(weight).sum::<usize>() <= most {
        *text = shown;
        return;
    }
    let mut room = most.saturating_sub(ELLIPSIS.len_utf8());
    let fitting = |c: &char| match room.checked_sub(weight(*c)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    *text = shown.chars().take_while(fitting).collect();
    text.push(ELLIPSIS);
}
