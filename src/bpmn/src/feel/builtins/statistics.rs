//! Functions over lists of numbers, and the least and greatest of comparable values.

use std::cmp::Ordering;

use rust_decimal::Decimal;

use super::list::list;
use super::{Answer, Builtin, Refusal, Value, variadic};
use crate::feel::compare::order;
use crate::feel::number::{divide, multiply, square_root};
use crate::feel::text::quote;

pub(super) const FUNCTIONS: &[Builtin] = &[
    variadic("min", &["list"], |_, arguments| extreme(arguments, Ordering::Less)),
    variadic("max", &["list"], |_, arguments| extreme(arguments, Ordering::Greater)),
    variadic("sum", &["list"], |_, arguments| numbers(arguments, sum)),
    variadic("product", &["list"], |_, arguments| {
        numbers(arguments, |numbers| numbers.iter().try_fold(Decimal::ONE, |x, y| multiply(x, *y)))
    }),
    variadic("mean", &["list"], |_, arguments| numbers(arguments, |numbers| divide(sum(numbers)?, count(numbers)))),
    variadic("median", &["list"], |_, arguments| numbers(arguments, median)),
    variadic("stddev", &["list"], |_, arguments| numbers(arguments, deviation)),
    variadic("mode", &["list"], |_, arguments| mode(arguments)),
];

fn extreme(arguments: &[Value], wanted: Ordering) -> Answer {
    list(arguments, |items| {
        let Some((first, rest)) = items.split_first() else { return Ok(Value::Null) };
        let mut best = first;
        let mut comparable = order(first, first).is_some();
        for item in rest {
            match order(item, best) {
                Some(found) if found == wanted => best = item,
                Some(_) => {}
                None => comparable = false,
            }
        }
        if comparable {
            Ok(best.clone())
        } else {
            Err(Refusal::Because(format!("{} is not comparable", quote(&Value::list(items.to_vec())))))
        }
    })
}

/// The numbers of a list. Of an empty list there is no result.
fn numbers(arguments: &[Value], apply: impl FnOnce(&[Decimal]) -> Option<Decimal>) -> Answer {
    list(arguments, |items| {
        if items.is_empty() {
            return Ok(Value::Null);
        }
        apply(&all_numbers(items)?)
            .map(Value::Number)
            .ok_or_else(|| Refusal::Because("The result is out of range".to_owned()))
    })
}

fn all_numbers(items: &[Value]) -> Result<Vec<Decimal>, Refusal> {
    let number = |item: &Value| match item {
        Value::Number(number) => Ok(*number),
        other => Err(Refusal::Because(format!("expected number but found '{}'", quote(other)))),
    };
    items.iter().map(number).collect()
}

fn count(numbers: &[Decimal]) -> Decimal {
    Decimal::from(numbers.len())
}

fn sum(numbers: &[Decimal]) -> Option<Decimal> {
    numbers.iter().try_fold(Decimal::ZERO, |sum, number| sum.checked_add(*number))
}

fn median(numbers: &[Decimal]) -> Option<Decimal> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    divide(sorted.get(middle.checked_sub(1)?)?.checked_add(upper)?, Decimal::TWO)
}

/// The deviation of a sample; one number has none.
fn deviation(numbers: &[Decimal]) -> Option<Decimal> {
    let mean = divide(sum(numbers)?, count(numbers))?;
    let squares = numbers.iter().try_fold(Decimal::ZERO, |squares, number| {
        let distance = number.checked_sub(mean)?;
        squares.checked_add(distance.checked_mul(distance)?)
    })?;
    square_root(squares.checked_div(count(numbers).checked_sub(Decimal::ONE)?)?)
}

/// The most frequent numbers, in ascending order.
fn mode(arguments: &[Value]) -> Answer {
    list(arguments, |items| {
        let mut sorted = all_numbers(items)?;
        sorted.sort_unstable();
        let groups: Vec<&[Decimal]> = sorted.chunk_by(|x, y| x == y).collect();
        let most = groups.iter().map(|group| group.len()).max().unwrap_or(0);
        let modes = groups.iter().filter(|group| group.len() == most).filter_map(|group| group.first());
        Ok(Value::list(modes.map(|number| Value::Number(*number)).collect()))
    })
}
