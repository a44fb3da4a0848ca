//! Lists.

use std::collections::HashMap;

use super::{Answer, Builtin, Call, Refusal, Value, clamp, function, offset, variadic};
use crate::feel::compare::{hash, same};
use crate::feel::limits;
use crate::feel::number::whole;
use crate::feel::text::quote;
use crate::feel::value::Function;
use crate::feel::warnings::Failure;

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("list contains", &["list", "element"], |_, arguments| match arguments {
        [Value::List(list), element] => Ok(Value::Boolean(list.items().iter().any(|item| same(item, element)))),
        _ => Err(Refusal::Illegal),
    }),
    function("count", &["list"], |_, arguments| {
        list(arguments, |items| Ok(Value::from(i64::try_from(items.len()).ok())))
    }),
    function("is empty", &["list"], |_, arguments| list(arguments, |items| Ok(Value::Boolean(items.is_empty())))),
    variadic("and", &["list"], |_, arguments| connect(arguments, false)),
    variadic("all", &["list"], |_, arguments| connect(arguments, false)),
    variadic("or", &["list"], |_, arguments| connect(arguments, true)),
    variadic("any", &["list"], |_, arguments| connect(arguments, true)),
    function("sublist", &["list", "start"], sublist),
    function("sublist", &["list", "start", "length"], sublist),
    variadic("append", &["list", "items"], |_, arguments| match arguments {
        [Value::List(list), Value::List(items)] => {
            Ok(Value::list(list.items().iter().chain(items.items()).cloned().collect()))
        }
        _ => Err(Refusal::Illegal),
    }),
    variadic("concatenate", &["lists"], |_, arguments| list(arguments, |items| Ok(Value::list(joined(items))))),
    function("insert before", &["list", "position", "newItem"], insert_before),
    function("remove", &["list", "position"], remove),
    function("reverse", &["list"], |_, arguments| {
        list(arguments, |items| Ok(Value::list(items.iter().rev().cloned().collect())))
    }),
    function("index of", &["list", "match"], index_of),
    variadic("union", &["lists"], |call, arguments| {
        list(arguments, |items| Ok(Value::list(distinct(call, &joined(items))?)))
    }),
    function("distinct values", &["list"], |call, arguments| {
        list(arguments, |items| Ok(Value::list(distinct(call, items)?)))
    }),
    function("duplicate values", &["list"], |call, arguments| list(arguments, |items| duplicates(call, items))),
    function("flatten", &["list"], |_, arguments| {
        list(arguments, |items| {
            let mut flat = Vec::new();
            flatten(items, &mut flat);
            Ok(Value::list(flat))
        })
    }),
    function("sort", &["list", "precedes"], sort),
    function("partition", &["list", "size"], partition),
    function("string join", &["list"], string_join),
    function("string join", &["list", "delimiter"], string_join),
    function("string join", &["list", "delimiter", "prefix", "suffix"], string_join),
];

pub(super) fn list(arguments: &[Value], apply: impl FnOnce(&[Value]) -> Answer) -> Answer {
    match arguments {
        [Value::List(list)] => apply(list.items()),
        _ => Err(Refusal::Illegal),
    }
}

/// Three-valued `or` if `settling` is true, `and` if it is false.
fn connect(arguments: &[Value], settling: bool) -> Answer {
    list(arguments, |items| {
        let values = || items.iter().map(Value::as_bool);
        let settled = values().any(|value| value == Some(settling));
        let unknown = values().any(|value| value.is_none());
        Ok(if settled {
            Value::Boolean(settling)
        } else if unknown {
            Value::Null
        } else {
            Value::Boolean(!settling)
        })
    })
}

fn position(number: rust_decimal::Decimal) -> Result<i64, Refusal> {
    whole(number)
        .filter(|position| *position != 0)
        .ok_or_else(|| Refusal::Because("position must be a non-zero number".to_owned()))
}

fn sublist(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let (list, start, length) = match arguments {
        [Value::List(list), Value::Number(start)] => (list, start, None),
        [Value::List(list), Value::Number(start), Value::Number(length)] => (list, start, Some(length)),
        _ => return Err(Refusal::Illegal),
    };
    let start = whole(*start)
        .filter(|start| *start != 0)
        .ok_or_else(|| Refusal::Because("start position must be a non-zero number".to_owned()))?;
    let items = list.items();
    let from = offset(start, items.len());
    let to =
        length.map_or(Some(i64::MAX), |length| whole(*length)).map_or(i64::MAX, |length| from.saturating_add(length));
    let (from, to) = (clamp(from, items.len()), clamp(to, items.len()));
    Ok(Value::list(items.get(from..to).unwrap_or_default().to_vec()))
}

fn joined(items: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Value::List(list) => all.extend_from_slice(list.items()),
            other => all.push(other.clone()),
        }
    }
    all
}

fn insert_before(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(list), Value::Number(at), item] = arguments else { return Err(Refusal::Illegal) };
    let mut items = list.items().to_vec();
    let at = clamp(offset(position(*at)?, items.len()), items.len());
    items.insert(at, item.clone());
    Ok(Value::list(items))
}

fn remove(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(list), Value::Number(at)] = arguments else { return Err(Refusal::Illegal) };
    let at = offset(position(*at)?, list.items().len());
    let kept = list.items().iter().enumerate().filter(|(index, _)| i64::try_from(*index).ok() != Some(at));
    Ok(Value::list(kept.map(|(_, item)| item.clone()).collect()))
}

fn index_of(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(list), wanted] = arguments else { return Err(Refusal::Illegal) };
    let found = list.items().iter().zip(1_i64..).filter(|(item, _)| same(item, wanted));
    Ok(Value::list(found.map(|(_, at)| Value::from(at)).collect()))
}

/// Counts equal items: the first of each kind, in order, with how many there are.
fn counted(call: &mut Call<'_, '_>, items: &[Value]) -> Result<Vec<(Value, usize)>, Failure> {
    let mut kinds: Vec<(Value, usize)> = Vec::new();
    let mut by_hash: HashMap<u64, Vec<usize>> = HashMap::new();
    for item in items {
        let candidates = by_hash.entry(hash(item)).or_default();
        call.evaluator.spend(1 + candidates.len())?;
        let known = candidates.iter().copied().find(|at| kinds.get(*at).is_some_and(|(kind, _)| same(kind, item)));
        match known.and_then(|at| kinds.get_mut(at)) {
            Some((_, count)) => *count += 1,
            None => {
                candidates.push(kinds.len());
                kinds.push((item.clone(), 1));
            }
        }
    }
    Ok(kinds)
}

fn distinct(call: &mut Call<'_, '_>, items: &[Value]) -> Result<Vec<Value>, Refusal> {
    Ok(counted(call, items)?.into_iter().map(|(item, _)| item).collect())
}

fn duplicates(call: &mut Call<'_, '_>, items: &[Value]) -> Answer {
    let repeated = counted(call, items)?.into_iter().filter(|(_, count)| *count > 1);
    Ok(Value::list(repeated.map(|(item, _)| item).collect()))
}

/// Values nest no deeper than the bound, so this may recurse.
fn flatten(items: &[Value], flat: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::List(list) => flatten(list.items(), flat),
            other => flat.push(other.clone()),
        }
    }
}

/// A stable merge sort, because the given function may fail, and may be no order at all.
fn sort(call: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(list), Value::Function(precedes)] = arguments else { return Err(Refusal::Illegal) };
    let parameters = precedes.node.parameters.len();
    if parameters != 2 {
        return Err(Refusal::Because(format!("expect boolean function with 2 arguments, but found '{parameters}'")));
    }
    let mut items = list.items().to_vec();
    let mut width = 1;
    while width < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(width * 2) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(call, precedes, left, right, &mut merged)?;
        }
        items = merged;
        width *= 2;
    }
    Ok(Value::list(items))
}

fn merge(
    call: &mut Call<'_, '_>,
    precedes: &std::sync::Arc<Function>,
    mut left: &[Value],
    mut right: &[Value],
    merged: &mut Vec<Value>,
) -> Result<(), Refusal> {
    while let ([first, others @ ..], [second, rest @ ..]) = (left, right) {
        match call.evaluator.invoke(precedes, vec![second.clone(), first.clone()])? {
            Value::Boolean(true) => {
                merged.push(second.clone());
                right = rest;
            }
            Value::Boolean(false) => {
                merged.push(first.clone());
                left = others;
            }
            other => {
                let reason = format!(
                    "fail to sort list by given precedes function: expected boolean but found '{}'",
                    quote(&other)
                );
                return Err(Refusal::Because(reason));
            }
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    Ok(())
}

fn partition(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::List(list), Value::Number(size)] = arguments else { return Err(Refusal::Illegal) };
    match whole(*size).and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0) {
        Some(size) => Ok(Value::list(list.items().chunks(size).map(|part| Value::list(part.to_vec())).collect())),
        None => Err(Refusal::Because(format!("'size' should be greater than zero but was '{size}'"))),
    }
}

fn string_join(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let (list, others) = match arguments {
        [Value::List(list), others @ ..] => (list, others),
        _ => return Err(Refusal::Illegal),
    };
    let part = |at: usize| match others.get(at) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_ref()),
        Some(_) => Err(Refusal::Illegal),
    };
    let (delimiter, prefix, suffix) = (part(0)?, part(1)?, part(2)?);
    let mut result = prefix.to_owned();
    let mut is_first = true;
    for item in list.items() {
        match item {
            Value::Null => continue,
            Value::String(text) => {
                result.push_str(if is_first { "" } else { delimiter });
                result.push_str(text);
            }
            _ => {
                return Err(Refusal::Because(format!(
                    "expected a list of strings but found '{}'",
                    quote(&Value::List(list.clone()))
                )));
            }
        }
        is_first = false;
        if result.len() > limits::STRING {
            return Err(Failure::TooLarge.into());
        }
    }
    result.push_str(suffix);
    Ok(Value::string(result))
}
