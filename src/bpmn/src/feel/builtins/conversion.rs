//! From one type to another.

use time::{Date, Month, PrimitiveDateTime, UtcOffset};

use super::{Answer, Builtin, Call, Refusal, Value, function};
use crate::feel::number::{self, whole};
use crate::feel::temporal::{
    DateTime, Time, months_between, parse_date, parse_date_time, parse_duration, parse_offset, parse_time,
};

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("date", &["from"], date),
    function("date", &["year", "month", "day"], date_of),
    function("date and time", &["from"], date_and_time),
    function("date and time", &["date", "time"], date_and_time_of),
    function("date and time", &["date", "timezone"], date_and_time_of),
    function("time", &["from"], time_from),
    function("time", &["hour", "minute", "second"], time_of),
    function("time", &["hour", "minute", "second", "offset"], time_of),
    function("duration", &["from"], duration),
    function("years and months duration", &["from", "to"], months),
    function("number", &["from"], to_number),
    function("number", &["from", "grouping separator"], to_number),
    function("number", &["from", "grouping separator", "decimal separator"], to_number),
    function("string", &["from"], string),
    function("from json", &["json"], from_json),
    function("to json", &["value"], to_json),
];

fn unreadable(what: &str, text: &str) -> Refusal {
    Refusal::Because(format!("Failed to parse {what} from '{text}'"))
}

fn date(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::String(text)] => parse_date(text).map(Value::Date).ok_or_else(|| unreadable("date", text)),
        [Value::DateTime(from)] => Ok(Value::Date(from.local.date())),
        [Value::Date(from)] => Ok(Value::Date(*from)),
        _ => Err(Refusal::Illegal),
    }
}

fn date_of(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::Number(year), Value::Number(month), Value::Number(day)] = arguments else {
        return Err(Refusal::Illegal);
    };
    let date = || {
        let month = Month::try_from(u8::try_from(whole(*month)?).ok()?).ok()?;
        Date::from_calendar_date(i32::try_from(whole(*year)?).ok()?, month, u8::try_from(whole(*day)?).ok()?).ok()
    };
    let reason = || Refusal::Because(format!("Failed to parse date from: year={year}, month={month}, day={day}"));
    date().map(Value::Date).ok_or_else(reason)
}

fn date_and_time(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::String(text)] = arguments else { return Err(Refusal::Illegal) };
    parse_date_time(text).map(Value::DateTime).ok_or_else(|| unreadable("date-time", text))
}

fn date_and_time_of(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::Date(date), Value::Time(time)] => Ok(Value::DateTime(at(*date, *time))),
        [Value::DateTime(date), Value::Time(time)] => Ok(Value::DateTime(at(date.local.date(), *time))),
        [Value::DateTime(date_time), Value::String(zone)] => {
            let offset = parse_offset(zone).ok_or_else(|| {
                Refusal::Because(format!(
                    "The time zone '{zone}' is not supported: only offsets such as '+02:00' and 'Z' are"
                ))
            })?;
            date_time.at_offset(offset).map(Value::DateTime).ok_or(Refusal::Illegal)
        }
        _ => Err(Refusal::Illegal),
    }
}

fn at(date: Date, time: Time) -> DateTime {
    DateTime { local: PrimitiveDateTime::new(date, time.local), offset: time.offset }
}

fn time_from(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::String(text)] => parse_time(text).map(Value::Time).ok_or_else(|| unreadable("time", text)),
        [Value::DateTime(from)] => Ok(Value::Time(Time { local: from.local.time(), offset: from.offset })),
        [Value::Date(_)] => Ok(Value::Time(Time { local: time::Time::MIDNIGHT, offset: Some(UtcOffset::UTC) })),
        _ => Err(Refusal::Illegal),
    }
}

fn time_of(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let (hour, minute, second, offset) = match arguments {
        [Value::Number(hour), Value::Number(minute), Value::Number(second)] => (hour, minute, second, None),
        [Value::Number(hour), Value::Number(minute), Value::Number(second), Value::Null] => {
            (hour, minute, second, None)
        }
        [Value::Number(hour), Value::Number(minute), Value::Number(second), Value::Duration(offset)] => {
            (hour, minute, second, Some(offset))
        }
        _ => return Err(Refusal::Illegal),
    };
    let time = || {
        let part = |number: &rust_decimal::Decimal| u8::try_from(whole(*number)?).ok();
        let nanos = whole(second.fract().checked_mul(1_000_000_000.into())?)?;
        let local =
            time::Time::from_hms_nano(part(hour)?, part(minute)?, part(second)?, u32::try_from(nanos).ok()?).ok()?;
        let offset = match offset {
            Some(offset) => {
                let seconds =
                    i32::try_from(offset.whole_seconds()).ok().filter(|seconds| seconds.abs() <= 18 * 3600)?;
                Some(UtcOffset::from_whole_seconds(seconds).ok()?)
            }
            None => None,
        };
        Some(Time { local, offset })
    };
    let reason =
        || Refusal::Because(format!("Failed to parse time from: hour={hour}, minute={minute}, second={second}"));
    time().map(Value::Time).ok_or_else(reason)
}

fn duration(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::String(text)] = arguments else { return Err(Refusal::Illegal) };
    parse_duration(text).ok_or_else(|| unreadable("duration", text))
}

fn months(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let date = |value: &Value| match value {
        Value::Date(date) => Some(*date),
        Value::DateTime(date_time) => Some(date_time.local.date()),
        _ => None,
    };
    match arguments {
        [from, to] => match (date(from), date(to)) {
            (Some(from), Some(to)) => Ok(Value::Months(months_between(from, to))),
            _ => Err(Refusal::Illegal),
        },
        _ => Err(Refusal::Illegal),
    }
}

fn to_number(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::String(text), separators @ ..] = arguments else { return Err(Refusal::Illegal) };
    let separator = |at: usize| match separators.get(at) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(separator)) => Ok(Some(separator.as_ref())),
        Some(_) => Err(Refusal::Illegal),
    };
    let (grouping, decimal) = (separator(0)?, separator(1)?);
    let valid = grouping.is_none_or(|grouping| matches!(grouping, " " | "," | "."))
        && decimal.is_none_or(|decimal| matches!(decimal, "," | "."))
        && (grouping.is_none() || grouping != decimal);
    if !valid {
        return Err(Refusal::Because(
            "illegal arguments for grouping or decimal. Must be one of ' ' (grouping only), ',' or '.'".to_owned(),
        ));
    }
    let mut plain = text.as_ref().to_owned();
    if let Some(grouping) = grouping {
        plain = plain.replace(grouping, "");
    }
    if let Some(decimal) = decimal {
        plain = plain.replace(decimal, ".");
    }
    number::parse(&plain)
        .map(Value::Number)
        .ok_or_else(|| Refusal::Because(format!("Can't parse '{text}' as a number")))
}

/// A string as it is; null stays null.
fn string(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [value @ (Value::Null | Value::String(_))] => Ok(value.clone()),
        [value] => Ok(Value::string(value.to_string())),
        _ => Err(Refusal::Illegal),
    }
}

fn from_json(call: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::Null] => Ok(Value::Null),
        [Value::String(text)] => {
            // Two bytes can be one item.
            call.evaluator.spend(text.len() / 2)?;
            let json = serde_json::from_str(text)
                .map_err(|_| Refusal::Because(format!("Failed to parse JSON from '{text}'")))?;
            Value::from_json(&json).map_err(|refused| Refusal::Because(refused.to_string()))
        }
        _ => Err(Refusal::Illegal),
    }
}

fn to_json(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [value] => Ok(Value::string(value.to_json().to_string())),
        _ => Err(Refusal::Illegal),
    }
}
