//! How values are written: in messages, by `string()`, and (temporal ones) in JSON.

use std::fmt::{self, Display, Formatter, Write as _};

use time::{Date, Duration, UtcOffset};

use super::limits;
use super::temporal::{DateTime, Time};
use super::value::Value;

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::String(text) => write!(f, "\"{text}\""),
            Self::Date(date) => write_date(f, *date),
            Self::Time(time) => write!(f, "{time}"),
            Self::DateTime(date_time) => write!(f, "{date_time}"),
            Self::Duration(duration) => write_duration(f, *duration),
            Self::Months(months) => write_months(f, *months),
            Self::List(list) => {
                f.write_char('[')?;
                for (at, item) in list.items().iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Self::Context(context) => {
                f.write_char('{')?;
                for (at, (key, value)) in context.entries().iter().enumerate() {
                    write!(f, "{}{key}:{value}", if at == 0 { "" } else { ", " })?;
                }
                f.write_char('}')
            }
            Self::Range(range) => {
                let (open, close) =
                    (if range.start_included { '[' } else { '(' }, if range.end_included { ']' } else { ')' });
                write!(f, "{open}{}..{}{close}", range.start, range.end)
            }
            Self::Function(function) => write!(f, "function({})", function.node.parameters.join(", ")),
        }
    }
}

/// The text of a value for a message, cut after a bound.
pub(super) fn quote(value: &Value) -> String {
    let mut text = Bounded { text: String::new(), left: limits::QUOTE };
    if write!(text, "{value}").is_err() {
        text.text.push('…');
    }
    text.text
}

/// Takes text until the bound, then refuses, so that a huge value is not written out only to be cut.
struct Bounded {
    text: String,
    left: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(self.left);
        self.text.push_str(text.get(..fits).unwrap_or_default());
        self.left = self.left.saturating_sub(fits.max(1));
        if fits < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

fn write_date(f: &mut Formatter<'_>, date: Date) -> fmt::Result {
    let sign = if date.year() < 0 { "-" } else { "" };
    write!(f, "{sign}{:04}-{:02}-{:02}", date.year().unsigned_abs(), u8::from(date.month()), date.day())
}

fn write_clock(f: &mut Formatter<'_>, time: time::Time) -> fmt::Result {
    write!(f, "{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
    if time.nanosecond() == 0 {
        return Ok(());
    }
    let fraction = format!("{:09}", time.nanosecond());
    write!(f, ".{}", fraction.trim_end_matches('0'))
}

fn write_offset(f: &mut Formatter<'_>, offset: Option<UtcOffset>) -> fmt::Result {
    let Some(offset) = offset else { return Ok(()) };
    if offset.is_utc() {
        return f.write_char('Z');
    }
    let (hours, minutes, seconds) = offset.as_hms();
    let sign = if offset.is_negative() { '-' } else { '+' };
    write!(f, "{sign}{:02}:{:02}", hours.unsigned_abs(), minutes.unsigned_abs())?;
    if seconds == 0 { Ok(()) } else { write!(f, ":{:02}", seconds.unsigned_abs()) }
}

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_clock(f, self.local)?;
        write_offset(f, self.offset)
    }
}

impl Display for DateTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_date(f, self.local.date())?;
        f.write_char('T')?;
        write_clock(f, self.local.time())?;
        write_offset(f, self.offset)
    }
}

/// Days, hours, minutes, seconds; parts of a second are kept, so that nothing is lost.
fn write_duration(f: &mut Formatter<'_>, duration: Duration) -> fmt::Result {
    if duration.is_zero() {
        return f.write_str("P0D");
    }
    let seconds = duration.whole_seconds().unsigned_abs();
    let nanos = duration.subsec_nanoseconds().unsigned_abs();
    f.write_str(if duration.is_negative() { "-P" } else { "P" })?;
    let (days, hours, minutes, seconds) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    if days > 0 {
        write!(f, "{days}D")?;
    }
    if hours > 0 || minutes > 0 || seconds > 0 || nanos > 0 {
        f.write_char('T')?;
    }
    if hours > 0 {
        write!(f, "{hours}H")?;
    }
    if minutes > 0 {
        write!(f, "{minutes}M")?;
    }
    match nanos {
        0 if seconds == 0 => Ok(()),
        0 => write!(f, "{seconds}S"),
        _ => {
            let fraction = format!("{nanos:09}");
            write!(f, "{seconds}.{}S", fraction.trim_end_matches('0'))
        }
    }
}

fn write_months(f: &mut Formatter<'_>, months: i64) -> fmt::Result {
    if months == 0 {
        return f.write_str("P0Y");
    }
    f.write_str(if months < 0 { "-P" } else { "P" })?;
    let (years, months) = (months.unsigned_abs() / 12, months.unsigned_abs() % 12);
    if years > 0 {
        write!(f, "{years}Y")?;
    }
    if months > 0 { write!(f, "{months}M") } else { Ok(()) }
}
