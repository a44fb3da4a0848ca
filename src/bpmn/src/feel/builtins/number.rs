//! Numbers.

use rust_decimal::{Decimal, RoundingStrategy};

use super::{Answer, Builtin, Call, Refusal, Value, function};
use crate::feel::number::{from_f64, round, square_root, to_f64, whole};

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("decimal", &["n", "scale"], |_, arguments| rounded(arguments, RoundingStrategy::MidpointNearestEven)),
    function("decimal", &["n", "scale", "mode"], decimal),
    function("floor", &["n"], |_, arguments| rounded(arguments, RoundingStrategy::ToNegativeInfinity)),
    function("floor", &["n", "scale"], |_, arguments| rounded(arguments, RoundingStrategy::ToNegativeInfinity)),
    function("ceiling", &["n"], |_, arguments| rounded(arguments, RoundingStrategy::ToPositiveInfinity)),
    function("ceiling", &["n", "scale"], |_, arguments| rounded(arguments, RoundingStrategy::ToPositiveInfinity)),
    function("round up", &["n", "scale"], |_, arguments| rounded(arguments, RoundingStrategy::AwayFromZero)),
    function("round down", &["n", "scale"], |_, arguments| rounded(arguments, RoundingStrategy::ToZero)),
    function("round half up", &["n", "scale"], |_, arguments| {
        rounded(arguments, RoundingStrategy::MidpointAwayFromZero)
    }),
    function("round half down", &["n", "scale"], |_, arguments| {
        rounded(arguments, RoundingStrategy::MidpointTowardZero)
    }),
    function("abs", &["number"], absolute),
    function("abs", &["n"], absolute),
    function("modulo", &["dividend", "divisor"], modulo),
    function("sqrt", &["number"], |_, arguments| number(arguments, |n| in_range(square_root(n)))),
    function("log", &["number"], |_, arguments| number(arguments, |n| in_range(from_f64(to_f64(n).ln())))),
    function("exp", &["number"], |_, arguments| number(arguments, |n| in_range(from_f64(to_f64(n).exp())))),
    function("odd", &["number"], |_, arguments| {
        number(arguments, |n| Ok(Value::Boolean((n % Decimal::TWO).abs() == Decimal::ONE)))
    }),
    function("even", &["number"], |_, arguments| {
        number(arguments, |n| Ok(Value::Boolean((n % Decimal::TWO).is_zero())))
    }),
];

fn number(arguments: &[Value], apply: impl FnOnce(Decimal) -> Answer) -> Answer {
    match arguments {
        [Value::Number(number)] => apply(*number),
        _ => Err(Refusal::Illegal),
    }
}

fn out_of_range() -> Refusal {
    Refusal::Because("The result is out of range".to_owned())
}

fn in_range(number: Option<Decimal>) -> Answer {
    number.map(Value::Number).ok_or_else(out_of_range)
}

fn rounded(arguments: &[Value], strategy: RoundingStrategy) -> Answer {
    let (number, scale) = match arguments {
        [Value::Number(number)] => (*number, Decimal::ZERO),
        [Value::Number(number), Value::Number(scale)] => (*number, *scale),
        _ => return Err(Refusal::Illegal),
    };
    let scale = whole(scale).ok_or_else(out_of_range)?;
    in_range(round(number, scale, strategy))
}

fn decimal(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [number, scale, Value::String(mode)] = arguments else { return Err(Refusal::Illegal) };
    let strategy = match mode.to_uppercase().as_str() {
        "UP" => RoundingStrategy::AwayFromZero,
        "DOWN" => RoundingStrategy::ToZero,
        "CEILING" => RoundingStrategy::ToPositiveInfinity,
        "FLOOR" => RoundingStrategy::ToNegativeInfinity,
        "HALF_UP" => RoundingStrategy::MidpointAwayFromZero,
        "HALF_DOWN" => RoundingStrategy::MidpointTowardZero,
        "HALF_EVEN" => RoundingStrategy::MidpointNearestEven,
        "UNNECESSARY" => return unrounded(number, scale),
        _ => {
            return Err(Refusal::Because(format!(
                "Illegal argument '{mode}' for rounding mode. Must be one of: UP, DOWN, CEILING, FLOOR, HALF_UP, HALF_DOWN, HALF_EVEN, UNNECESSARY"
            )));
        }
    };
    rounded(&[number.clone(), scale.clone()], strategy)
}

/// The number, if it needs no rounding.
fn unrounded(number: &Value, scale: &Value) -> Answer {
    let rounded = rounded(&[number.clone(), scale.clone()], RoundingStrategy::ToZero)?;
    match (number, &rounded) {
        (Value::Number(before), Value::Number(after)) if before == after => Ok(rounded),
        _ => Err(Refusal::Because("Failed to apply rounding mode 'UNNECESSARY': Rounding necessary".to_owned())),
    }
}

fn absolute(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::Number(number)] => Ok(Value::Number(number.abs())),
        [Value::Months(months)] => months.checked_abs().map(Value::Months).ok_or_else(out_of_range),
        [Value::Duration(duration)] => Ok(Value::Duration(duration.abs())),
        _ => Err(Refusal::Illegal),
    }
}

/// The remainder with the sign of the divisor.
fn modulo(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::Number(dividend), Value::Number(divisor)] = arguments else { return Err(Refusal::Illegal) };
    if divisor.is_zero() {
        return Err(Refusal::Because("Division by zero".to_owned()));
    }
    let remainder = dividend.checked_rem(*divisor).ok_or_else(out_of_range)?;
    let crosses = !remainder.is_zero() && remainder.is_sign_negative() != divisor.is_sign_negative();
    let remainder = if crosses { remainder.checked_add(*divisor).ok_or_else(out_of_range)? } else { remainder };
    Ok(Value::Number(remainder))
}
