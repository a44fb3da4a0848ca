//! Equality and order. Only values of one type compare; what does not compare is `None`, and the operator makes null of it.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::temporal;
use super::value::{Range, Value};

/// Whether two values are equal. Null equals only null; lists and contexts compare by their items.
pub(super) fn equal(x: &Value, y: &Value) -> Option<bool> {
    Some(match (x, y) {
        (Value::Null, other) | (other, Value::Null) => other.is_null(),
        (Value::Boolean(x), Value::Boolean(y)) => x == y,
        (Value::Number(x), Value::Number(y)) => x == y,
        (Value::String(x), Value::String(y)) => x == y,
        (Value::Date(x), Value::Date(y)) => x == y,
        (Value::Time(x), Value::Time(y)) if x.offset.is_some() == y.offset.is_some() => x == y,
        (Value::DateTime(x), Value::DateTime(y)) if x.offset.is_some() == y.offset.is_some() => x == y,
        (Value::Duration(x), Value::Duration(y)) => x == y,
        (Value::Months(x), Value::Months(y)) => x == y,
        (Value::List(x), Value::List(y)) => {
            x.items().len() == y.items().len() && x.items().iter().zip(y.items()).all(|(x, y)| same(x, y))
        }
        (Value::Context(x), Value::Context(y)) => {
            x.entries().len() == y.entries().len()
                && x.entries().iter().all(|(key, value)| y.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Range(x), Value::Range(y)) => {
            x.start_included == y.start_included
                && x.end_included == y.end_included
                && same(&x.start, &y.start)
                && same(&x.end, &y.end)
        }
        _ => return None,
    })
}

/// Equality where values that do not compare are just different, as inside of lists.
pub(super) fn same(x: &Value, y: &Value) -> bool {
    equal(x, y).unwrap_or(false)
}

/// The order of two values of one ordered type.
pub(super) fn order(x: &Value, y: &Value) -> Option<Ordering> {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) => Some(x.cmp(y)),
        (Value::String(x), Value::String(y)) => Some(x.cmp(y)),
        (Value::Date(x), Value::Date(y)) => Some(x.cmp(y)),
        (Value::Time(x), Value::Time(y)) => temporal::compare_times(*x, *y),
        (Value::DateTime(x), Value::DateTime(y)) => temporal::compare_date_times(*x, *y),
        (Value::Duration(x), Value::Duration(y)) => Some(x.cmp(y)),
        (Value::Months(x), Value::Months(y)) => Some(x.cmp(y)),
        _ => None,
    }
}

impl Range {
    /// Whether `value` lies inside; `None` if it does not compare with both ends.
    pub(super) fn includes(&self, value: &Value) -> Option<bool> {
        let start = order(value, &self.start)?;
        let end = order(value, &self.end)?;
        let after_start = start.is_gt() || (self.start_included && start.is_eq());
        let before_end = end.is_lt() || (self.end_included && end.is_eq());
        Some(after_start && before_end)
    }
}

/// A hash that agrees with `same`.
pub(super) fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    feed(value, &mut hasher);
    hasher.finish()
}

fn feed(value: &Value, hasher: &mut DefaultHasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null | Value::Function(_) => {}
        Value::Boolean(value) => value.hash(hasher),
        Value::Number(value) => value.hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Date(date) => date.hash(hasher),
        Value::Time(time) => time.hash(hasher),
        Value::DateTime(date_time) => date_time.hash(hasher),
        Value::Duration(duration) => duration.hash(hasher),
        Value::Months(months) => months.hash(hasher),
        Value::List(list) => list.items().iter().for_each(|item| feed(item, hasher)),
        // The order of entries does not count, so only their number and keys do, summed.
        Value::Context(context) => {
            let keys = context.entries().iter().fold(0_u64, |sum, (key, value)| {
                let mut entry = DefaultHasher::new();
                key.hash(&mut entry);
                feed(value, &mut entry);
                sum.wrapping_add(entry.finish())
            });
            keys.hash(hasher);
        }
        Value::Range(range) => {
            feed(&range.start, hasher);
            feed(&range.end, hasher);
        }
    }
}
