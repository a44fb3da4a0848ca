//! `+ - * / **` on numbers, strings, dates, times and durations. Out of range is null with a warning.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use time::{Duration, PrimitiveDateTime};

use super::{Evaluated, Evaluator};
use crate::feel::ast::{Arithmetic, Node};
use crate::feel::scope::Frame;
use crate::feel::temporal::{DateTime, plus_months};
use crate::feel::text::quote;
use crate::feel::value::Value;
use crate::feel::warnings::{Failure, WarningKind};
use crate::feel::{limits, number};

/// What an operator makes of its operands: nothing if it does not take such types, else a value or "out of range".
type Outcome = Option<Option<Value>>;

impl Evaluator<'_> {
    pub(super) fn negate(&mut self, inner: &Node, frame: &Frame) -> Evaluated {
        Ok(match self.eval(inner, frame)? {
            Value::Number(number) => Value::Number(-number),
            other => self.mistyped("number", &other),
        })
    }

    pub(super) fn arithmetic(&mut self, first: &Node, rest: &[(Arithmetic, Node)], frame: &Frame) -> Evaluated {
        let mut left = self.eval(first, frame)?;
        for (operator, node) in rest {
            let right = self.eval(node, frame)?;
            left = self.operate(*operator, left, right)?;
        }
        Ok(left)
    }

    fn operate(&mut self, operator: Arithmetic, x: Value, y: Value) -> Evaluated {
        let outcome = match operator {
            Arithmetic::Add => match (&x, &y) {
                (Value::String(x), Value::String(y)) => return self.joined(x, y),
                _ => add(&x, &y),
            },
            Arithmetic::Subtract => subtract(&x, &y),
            Arithmetic::Multiply => multiply(&x, &y),
            Arithmetic::Divide => divide(&x, &y),
            Arithmetic::Power => match (&x, &y) {
                (Value::Number(x), Value::Number(y)) => Some(number::power(*x, *y).map(Value::Number)),
                (Value::Number(_), other) | (other, _) => return Ok(self.mistyped("number", other)),
            },
        };
        match outcome {
            Some(Some(value)) => Ok(value),
            Some(None) => {
                self.warn(WarningKind::Unknown, format!("{} is out of range", describe(operator, &x, &y)));
                Ok(Value::Null)
            }
            None => {
                let (x, y) = (quote(&x), quote(&y));
                let message = match operator {
                    Arithmetic::Add => format!("Can't add '{y}' to '{x}'"),
                    Arithmetic::Subtract => format!("Can't subtract '{y}' from '{x}'"),
                    Arithmetic::Multiply => format!("Can't multiply '{x}' by '{y}'"),
                    Arithmetic::Divide | Arithmetic::Power => format!("Can't divide '{x}' by '{y}'"),
                };
                self.warn(WarningKind::InvalidType, message);
                Ok(Value::Null)
            }
        }
    }

    fn joined(&mut self, x: &str, y: &str) -> Evaluated {
        if x.len() + y.len() > limits::STRING {
            return Err(Failure::TooLarge);
        }
        self.made(Value::string([x, y].concat()))
    }
}

fn describe(operator: Arithmetic, x: &Value, y: &Value) -> String {
    let symbol = match operator {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::Power => "**",
    };
    format!("The result of '{} {symbol} {}'", quote(x), quote(y))
}

fn add(x: &Value, y: &Value) -> Outcome {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) => Some(x.checked_add(*y).map(Value::Number)),
        (Value::Months(x), Value::Months(y)) => Some(x.checked_add(*y).map(Value::Months)),
        (Value::Duration(x), Value::Duration(y)) => Some(x.checked_add(*y).map(Value::Duration)),
        (point, Value::Months(months)) | (Value::Months(months), point) => shift_months(point, *months),
        (point, Value::Duration(duration)) | (Value::Duration(duration), point) => shift(point, *duration),
        _ => None,
    }
}

fn subtract(x: &Value, y: &Value) -> Outcome {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) => Some(x.checked_sub(*y).map(Value::Number)),
        (Value::Months(x), Value::Months(y)) => Some(x.checked_sub(*y).map(Value::Months)),
        (Value::Duration(x), Value::Duration(y)) => Some(x.checked_sub(*y).map(Value::Duration)),
        (Value::Date(x), Value::Date(y)) => Some(Some(Value::Duration(*x - *y))),
        (Value::Time(x), Value::Time(y)) if x.offset.is_some() == y.offset.is_some() => {
            Some(x.since(*y).map(Value::Duration))
        }
        (Value::DateTime(x), Value::DateTime(y)) if x.offset.is_some() == y.offset.is_some() => {
            Some(x.since(*y).map(Value::Duration))
        }
        (point, Value::Months(months)) => match months.checked_neg() {
            Some(months) => shift_months(point, months),
            None => Some(None),
        },
        (point, Value::Duration(duration)) => match Duration::ZERO.checked_sub(*duration) {
            Some(duration) => shift(point, duration),
            None => Some(None),
        },
        _ => None,
    }
}

fn shift_months(point: &Value, months: i64) -> Outcome {
    match point {
        Value::Date(date) => Some(plus_months(*date, months).map(Value::Date)),
        Value::DateTime(date_time) => Some(date_time.plus_months(months).map(Value::DateTime)),
        _ => None,
    }
}

/// A date goes through its midnight, so that less than a day leads to the same date, or back to the day before.
fn shift(point: &Value, duration: Duration) -> Outcome {
    match point {
        Value::Date(date) => {
            let midnight = PrimitiveDateTime::new(*date, time::Time::MIDNIGHT);
            Some(midnight.checked_add(duration).map(|moved| Value::Date(moved.date())))
        }
        Value::Time(time) => Some(time.plus(duration).map(Value::Time)),
        Value::DateTime(date_time) => Some(DateTime::plus(*date_time, duration).map(Value::DateTime)),
        _ => None,
    }
}

/// Durations take the whole part of a factor, as feel-scala does.
fn multiply(x: &Value, y: &Value) -> Outcome {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) => Some(number::multiply(*x, *y).map(Value::Number)),
        (Value::Number(factor), Value::Months(months)) | (Value::Months(months), Value::Number(factor)) => {
            Some(number::whole(*factor).and_then(|factor| months.checked_mul(factor)).map(Value::Months))
        }
        (Value::Number(factor), Value::Duration(duration)) | (Value::Duration(duration), Value::Number(factor)) => {
            Some(factor.trunc().to_i32().and_then(|factor| duration.checked_mul(factor)).map(Value::Duration))
        }
        _ => None,
    }
}

/// A zero divisor is not a type that division takes.
fn divide(x: &Value, y: &Value) -> Outcome {
    match (x, y) {
        (Value::Number(x), Value::Number(y)) if !y.is_zero() => Some(number::divide(*x, *y).map(Value::Number)),
        (Value::Months(x), Value::Number(y)) if !y.is_zero() => {
            Some(Decimal::from(*x).checked_div(*y).and_then(number::whole).map(Value::Months))
        }
        (Value::Months(x), Value::Months(y)) if *y != 0 => Some(x.checked_div(*y).map(Value::from)),
        (Value::Duration(x), Value::Number(y)) if !y.is_zero() => {
            let millis = i64::try_from(x.whole_milliseconds()).ok();
            Some(
                millis
                    .and_then(|x| Decimal::from(x).checked_div(*y))
                    .and_then(number::whole)
                    .map(|x| Value::Duration(Duration::milliseconds(x))),
            )
        }
        (Value::Duration(x), Value::Duration(y)) if y.whole_milliseconds() != 0 => {
            Some(i64::try_from(x.whole_milliseconds() / y.whole_milliseconds()).ok().map(Value::from))
        }
        _ => None,
    }
}
