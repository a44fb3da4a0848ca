//! The clock that the evaluation was given, and questions about dates.

use time::{Date, OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::{Answer, Builtin, Call, Refusal, Value, function};
use crate::feel::temporal::DateTime;

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("now", &[], |call, _| now(call).map(Value::DateTime)),
    function("today", &[], |call, _| now(call).map(|now| Value::Date(now.local.date()))),
    function("day of year", &["date"], |_, arguments| {
        of_date(arguments, |date| Value::from(i64::from(date.ordinal())))
    }),
    function("day of week", &["date"], |_, arguments| {
        of_date(arguments, |date| Value::string(date.weekday().to_string()))
    }),
    function("month of year", &["date"], |_, arguments| {
        of_date(arguments, |date| Value::string(date.month().to_string()))
    }),
    function("week of year", &["date"], |_, arguments| {
        of_date(arguments, |date| Value::from(i64::from(date.iso_week())))
    }),
    function("last day of month", &["date"], |_, arguments| {
        of_date(arguments, |date| date.replace_day(date.month().length(date.year())).map_or(Value::Null, Value::Date))
    }),
];

/// The injected instant, in UTC.
fn now(call: &mut Call<'_, '_>) -> Result<DateTime, Refusal> {
    let nanos = i128::from(call.evaluator.now.millis()) * 1_000_000;
    let instant = OffsetDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| Refusal::Illegal)?;
    Ok(DateTime { local: PrimitiveDateTime::new(instant.date(), instant.time()), offset: Some(UtcOffset::UTC) })
}

fn of_date(arguments: &[Value], apply: impl FnOnce(Date) -> Value) -> Answer {
    match arguments {
        [Value::Date(date)] => Ok(apply(*date)),
        [Value::DateTime(date_time)] => Ok(apply(date_time.local.date())),
        _ => Err(Refusal::Illegal),
    }
}
