//! The parts of temporal values that a path can read.

use time::{Date, UtcOffset};

use super::value::Value;

/// Names and values, in the order in which messages list them.
pub(super) fn of(value: &Value) -> Vec<(&'static str, Value)> {
    match value {
        Value::Date(date) => of_date(*date),
        Value::Time(time) => of_time(time.local, time.offset),
        Value::DateTime(date_time) => {
            let mut properties = of_date(date_time.local.date());
            properties.extend(of_time(date_time.local.time(), date_time.offset));
            properties
        }
        Value::Duration(duration) => {
            let seconds = duration.whole_seconds();
            let part = |value: i64| Value::from(value);
            vec![
                ("days", part(seconds / 86_400)),
                ("hours", part(seconds / 3_600 % 24)),
                ("minutes", part(seconds / 60 % 60)),
                ("seconds", part(seconds % 60)),
            ]
        }
        Value::Months(months) => vec![("years", Value::from(months / 12)), ("months", Value::from(months % 12))],
        Value::Range(range) => vec![
            ("start", range.start.clone()),
            ("end", range.end.clone()),
            ("start included", Value::Boolean(range.start_included)),
            ("end included", Value::Boolean(range.end_included)),
        ],
        _ => Vec::new(),
    }
}

fn of_date(date: Date) -> Vec<(&'static str, Value)> {
    let part = |value: i64| Value::from(value);
    vec![
        ("year", part(date.year().into())),
        ("month", part(u8::from(date.month()).into())),
        ("day", part(date.day().into())),
        ("weekday", part(date.weekday().number_from_monday().into())),
    ]
}

fn of_time(time: time::Time, offset: Option<UtcOffset>) -> Vec<(&'static str, Value)> {
    let part = |value: u8| Value::from(i64::from(value));
    let offset = offset.map(|offset| Value::Duration(time::Duration::seconds(offset.whole_seconds().into())));
    vec![
        ("hour", part(time.hour())),
        ("minute", part(time.minute())),
        ("second", part(time.second())),
        ("time offset", offset.unwrap_or(Value::Null)),
        ("timezone", Value::Null),
    ]
}
