//! Booleans, and what to do about null.

use super::{Answer, Builtin, Call, Refusal, Value, function};
use crate::feel::warnings::Failure;

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("not", &["negand"], not),
    function("is defined", &["value"], |_, arguments| Ok(Value::Boolean(!matches!(arguments, [Value::Null])))),
    function("get or else", &["value", "default"], get_or_else),
    function("assert", &["value", "condition"], assert),
    function("assert", &["value", "condition", "cause"], assert),
];

fn not(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    Ok(match arguments {
        [Value::Boolean(value)] => Value::Boolean(!value),
        _ => Value::Null,
    })
}

fn get_or_else(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::Null, default] => Ok(default.clone()),
        [value, _] => Ok(value.clone()),
        _ => Err(Refusal::Illegal),
    }
}

fn assert(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [value, Value::Boolean(true), ..] => Ok(value.clone()),
        [_, _, Value::String(cause)] => Err(Failure::Assertion(cause.as_ref().to_owned()).into()),
        _ => Err(Failure::Assertion("The condition is not fulfilled".to_owned()).into()),
    }
}
