//! Contexts.

use std::sync::Arc;

use super::{Answer, Builtin, Call, Refusal, Value, function, variadic};
use crate::feel::limits;
use crate::feel::value::Context;
use crate::feel::warnings::Failure;

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("get entries", &["context"], get_entries),
    function("get entries", &["m"], get_entries),
    function("get value", &["m", "key"], get_value),
    function("get value", &["context", "key"], get_value),
    function("get value", &["context", "keys"], get_value),
    function("context put", &["context", "key", "value"], put),
    function("context put", &["context", "keys", "value"], put),
    function("put", &["context", "key", "value"], put),
    variadic("context merge", &["contexts"], merge),
    variadic("put all", &["contexts"], merge),
    function("context", &["entries"], from_entries),
];

fn get_entries(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::Context(context)] = arguments else { return Err(Refusal::Illegal) };
    let entry = |(key, value): &(Arc<str>, Value)| {
        Value::context([("key", Value::String(Arc::clone(key))), ("value", value.clone())])
    };
    Ok(Value::list(context.entries().iter().map(entry).collect()))
}

/// The value of one key, or along a list of keys; null if it is not there.
fn get_value(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::Context(context), Value::String(key)] => Ok(context.get(key).cloned().unwrap_or(Value::Null)),
        [Value::Context(_), Value::List(keys)] if keys.items().is_empty() => Ok(Value::Null),
        [context @ Value::Context(_), Value::List(keys)] => {
            let mut value = context;
            for key in keys.items() {
                let (Value::Context(context), Value::String(key)) = (value, key) else { return Ok(Value::Null) };
                let Some(found) = context.get(key) else { return Ok(Value::Null) };
                value = found;
            }
            Ok(value.clone())
        }
        _ => Err(Refusal::Illegal),
    }
}

fn put(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::Context(context), Value::String(key), value] => {
            Ok(Value::Context(Arc::new(context.with(key, value.clone()))))
        }
        [Value::Context(_), Value::List(keys), _] if keys.items().is_empty() => Ok(Value::Null),
        [Value::Context(context), Value::List(keys), value] => {
            let keys: Option<Vec<&str>> = keys.items().iter().map(Value::as_str).collect();
            put_along(context, &keys.ok_or(Refusal::Illegal)?, value)
        }
        _ => Err(Refusal::Illegal),
    }
}

/// Goes down along the keys, making contexts where there are none, and rebuilds them on the way up.
fn put_along(context: &Arc<Context>, keys: &[&str], value: &Value) -> Answer {
    if keys.len() > limits::VALUE_DEPTH {
        return Err(Failure::TooDeep.into());
    }
    let mut levels = vec![Arc::clone(context)];
    for key in keys.iter().take(keys.len().saturating_sub(1)) {
        let below = match levels.last().and_then(|level| level.get(key)) {
            Some(Value::Context(below)) => Arc::clone(below),
            _ => Arc::new(Context::empty()),
        };
        levels.push(below);
    }
    let rebuilt = levels
        .iter()
        .zip(keys)
        .rev()
        .fold(value.clone(), |value, (level, key)| Value::Context(Arc::new(level.with(key, value))));
    Ok(rebuilt)
}

fn merge(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(contexts)] = arguments else { return Ok(Value::Null) };
    let mut entries = Vec::new();
    for context in contexts.items() {
        match context {
            Value::Context(context) => entries.extend_from_slice(context.entries()),
            _ => return Ok(Value::Null),
        }
    }
    Ok(Value::context(entries))
}

/// From a list of contexts with `key` and `value`.
fn from_entries(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(list)] = arguments else { return Ok(Value::Null) };
    let mut entries = Vec::new();
    for item in list.items() {
        let Value::Context(entry) = item else { return Ok(Value::Null) };
        match (entry.get("key"), entry.get("value")) {
            (Some(Value::String(key)), Some(value)) => entries.push((Arc::clone(key), value.clone())),
            _ => return Ok(Value::Null),
        }
    }
    Ok(Value::context(entries))
}
