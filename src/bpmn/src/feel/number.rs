//! Decimals of 28 significant digits. Everything is checked: out of range is `None`, never a wrong number.

use rust_decimal::prelude::{FromStr, ToPrimitive};
use rust_decimal::{Decimal, MathematicalOps, RoundingStrategy};

/// Reads `1`, `-1.50`, `.5`, `1e3`. Digits past the 28th decimal place are rounded; a non-zero number that would
/// become zero is out of range.
pub(super) fn parse(text: &str) -> Option<Decimal> {
    let well_formed =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if !well_formed {
        return None;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let mantissa_value = Decimal::from_str(mantissa).ok()?;
    let is_zero = !mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    if is_zero {
        return Some(mantissa_value);
    }
    let value = scale_by_ten(mantissa_value, exponent)?;
    (!value.is_zero()).then_some(value)
}

fn scale_by_ten(value: Decimal, exponent: i32) -> Option<Decimal> {
    if exponent == 0 {
        return Some(value);
    }
    // A mantissa has at most 29 digits on either side of its point; past that the result is out of range anyway.
    let mut left = exponent.unsigned_abs();
    if left > 60 {
        return None;
    }
    let mut value = value.normalize();
    while left > 0 {
        let step = left.min(9);
        let factor = Decimal::from(10_u64.pow(step));
        value = if exponent > 0 { value.checked_mul(factor)? } else { value.checked_div(factor)? };
        left -= step;
    }
    Some(value)
}

/// The decimal that the shortest text of `number` names; `None` if it is not finite or out of range.
pub(super) fn from_f64(number: f64) -> Option<Decimal> {
    if !number.is_finite() {
        return None;
    }
    parse(&format!("{number:e}"))
}

/// The closest double.
pub(super) fn to_f64(number: Decimal) -> f64 {
    number.normalize().to_string().parse().unwrap_or(f64::NAN)
}

/// As JSON: an integer if it is one of 64 bits, else a double.
pub(super) fn to_json(number: Decimal) -> serde_json::Value {
    if number.is_integer() {
        if let Some(integer) = number.to_i64() {
            return integer.into();
        }
        if let Some(integer) = number.to_u64() {
            return integer.into();
        }
    }
    serde_json::Number::from_f64(to_f64(number)).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

/// The whole part, if it has 64 bits.
pub(super) fn whole(number: Decimal) -> Option<i64> {
    number.trunc().to_i64()
}

/// The product; a result that underflows to zero is out of range.
pub(super) fn multiply(x: Decimal, y: Decimal) -> Option<Decimal> {
    let product = x.checked_mul(y)?;
    (!product.is_zero() || x.is_zero() || y.is_zero()).then_some(product)
}

/// The quotient; `None` for a zero divisor.
pub(super) fn divide(x: Decimal, y: Decimal) -> Option<Decimal> {
    let quotient = x.checked_div(y)?;
    (!quotient.is_zero() || x.is_zero()).then_some(quotient)
}

/// `base` to the power of `exponent`: exactly for whole exponents, else by doubles.
pub(super) fn power(base: Decimal, exponent: Decimal) -> Option<Decimal> {
    if !exponent.is_integer() {
        return from_f64(to_f64(base).powf(to_f64(exponent)));
    }
    let exponent = exponent.to_i64()?;
    let mut left = exponent.unsigned_abs();
    let mut square = base;
    let mut result = Decimal::ONE;
    while left > 0 {
        if left & 1 == 1 {
            result = multiply(result, square)?;
        }
        left >>= 1;
        if left > 0 {
            square = multiply(square, square)?;
        }
    }
    if exponent < 0 { divide(Decimal::ONE, result) } else { Some(result) }
}

/// The square root to the precision of decimals; `None` for a negative number.
pub(super) fn square_root(number: Decimal) -> Option<Decimal> {
    number.sqrt()
}

/// Rounds to `scale` decimal places; a negative scale rounds to tens, hundreds, and so on.
pub(super) fn round(number: Decimal, scale: i64, strategy: RoundingStrategy) -> Option<Decimal> {
    if scale >= 0 {
        let scale = u32::try_from(scale.min(28)).ok()?;
        return Some(number.round_dp_with_strategy(scale, strategy));
    }
    let places = i32::try_from(scale.checked_neg()?).ok()?;
    if places > 28 {
        // The unit exceeds every decimal: the number rounds to zero or out of range.
        let unit_up = number.round_dp_with_strategy(0, strategy);
        let goes_up = match strategy {
            RoundingStrategy::AwayFromZero => !unit_up.is_zero(),
            RoundingStrategy::ToPositiveInfinity => number.is_sign_positive() && !number.is_zero(),
            RoundingStrategy::ToNegativeInfinity => number.is_sign_negative() && !number.is_zero(),
            _ => false,
        };
        return (!goes_up).then_some(Decimal::ZERO);
    }
    let rounded = scale_by_ten(number, -places)?.round_dp_with_strategy(0, strategy);
    scale_by_ten(rounded, places)
}
