//! Dates, times and durations: reading and writing their ISO 8601 text, and the calendar arithmetic. Offsets from UTC
//! are numbers; names of zones (`@Europe/Berlin`) are refused, since their rules change with the machine's data and a
//! replay must give the same result.

use std::cmp::Ordering;

use time::{Date, Duration, Month, PrimitiveDateTime, UtcOffset};

use super::value::Value;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// The time on the wall.
    pub local: time::Time,
    /// The offset from UTC, if the time has one.
    pub offset: Option<UtcOffset>,
}

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    /// The date and time on the wall.
    pub local: PrimitiveDateTime,
    /// The offset from UTC, if the value has one.
    pub offset: Option<UtcOffset>,
}

fn nanos_of_day(time: time::Time) -> i128 {
    let seconds = i128::from(time.hour()) * 3600 + i128::from(time.minute()) * 60 + i128::from(time.second());
    seconds * NANOS_PER_SECOND + i128::from(time.nanosecond())
}

fn offset_nanos(offset: Option<UtcOffset>) -> i128 {
    offset.map_or(0, |offset| i128::from(offset.whole_seconds()) * NANOS_PER_SECOND)
}

fn duration_of_nanos(nanos: i128) -> Option<Duration> {
    let seconds = i64::try_from(nanos / NANOS_PER_SECOND).ok()?;
    let rest = i32::try_from(nanos % NANOS_PER_SECOND).ok()?;
    Some(Duration::new(seconds, rest))
}

impl Time {
    /// Nanoseconds since midnight in UTC; as on the wall if there is no offset.
    fn nanos(self) -> i128 {
        nanos_of_day(self.local) - offset_nanos(self.offset)
    }

    /// The same offset, `duration` later; past midnight it goes on with the next day.
    pub(super) fn plus(self, duration: Duration) -> Option<Self> {
        let nanos = (nanos_of_day(self.local) + duration.whole_nanoseconds()).rem_euclid(NANOS_PER_DAY);
        let (seconds, nano) = (nanos / NANOS_PER_SECOND, u32::try_from(nanos % NANOS_PER_SECOND).ok()?);
        let part = |value: i128| u8::try_from(value).ok();
        let local =
            time::Time::from_hms_nano(part(seconds / 3600)?, part(seconds / 60 % 60)?, part(seconds % 60)?, nano)
                .ok()?;
        Some(Self { local, ..self })
    }

    /// The time between two times of one kind. With offsets it is never negative, as in feel-scala.
    pub(super) fn since(self, earlier: Self) -> Option<Duration> {
        let nanos = self.nanos() - earlier.nanos();
        duration_of_nanos(if self.offset.is_some() { nanos.abs() } else { nanos })
    }
}

impl DateTime {
    fn nanos(self) -> i128 {
        let days = i128::from(self.local.date().to_julian_day());
        days * NANOS_PER_DAY + nanos_of_day(self.local.time()) - offset_nanos(self.offset)
    }

    /// `duration` later; `None` past the year 9999.
    pub(super) fn plus(self, duration: Duration) -> Option<Self> {
        Some(Self { local: self.local.checked_add(duration)?, ..self })
    }

    /// `months` later, on the last day of a month that has no such day.
    pub(super) fn plus_months(self, months: i64) -> Option<Self> {
        let date = plus_months(self.local.date(), months)?;
        Some(Self { local: PrimitiveDateTime::new(date, self.local.time()), ..self })
    }

    /// The time between two of one kind.
    pub(super) fn since(self, earlier: Self) -> Option<Duration> {
        duration_of_nanos(self.nanos() - earlier.nanos())
    }

    /// The same instant at another offset; a value without an offset is taken to be at that offset.
    pub(super) fn at_offset(self, offset: UtcOffset) -> Option<Self> {
        let local = match self.offset {
            Some(current) => {
                let shift = Duration::seconds(i64::from(offset.whole_seconds()) - i64::from(current.whole_seconds()));
                self.local.checked_add(shift)?
            }
            None => self.local,
        };
        Some(Self { local, offset: Some(offset) })
    }
}

/// Order of two times, if both or neither have an offset.
pub(super) fn compare_times(x: Time, y: Time) -> Option<Ordering> {
    (x.offset.is_some() == y.offset.is_some()).then(|| x.nanos().cmp(&y.nanos()))
}

/// Order of two instants, if both or neither have an offset.
pub(super) fn compare_date_times(x: DateTime, y: DateTime) -> Option<Ordering> {
    (x.offset.is_some() == y.offset.is_some()).then(|| x.nanos().cmp(&y.nanos()))
}

/// `months` later, on the last day of a month that has no such day.
pub(super) fn plus_months(date: Date, months: i64) -> Option<Date> {
    let total = i64::from(date.year())
        .checked_mul(12)?
        .checked_add(i64::from(u8::from(date.month()) - 1))?
        .checked_add(months)?;
    let year = i32::try_from(total.div_euclid(12)).ok()?;
    let month = Month::try_from(u8::try_from(total.rem_euclid(12) + 1).ok()?).ok()?;
    Date::from_calendar_date(year, month, date.day().min(month.length(year))).ok()
}

/// Whole months between two dates, towards zero.
pub(super) fn months_between(from: Date, to: Date) -> i64 {
    let count = |date: Date| i64::from(date.year()) * 12 + i64::from(u8::from(date.month()));
    let months = count(to) - count(from);
    let days = i16::from(to.day()) - i16::from(from.day());
    match months {
        1.. if days < 0 => months - 1,
        ..=-1 if days > 0 => months + 1,
        _ => months,
    }
}

// ---- reading ----

/// Any temporal text: date, time, date and time, or duration.
pub(super) fn parse_any(text: &str) -> Option<Value> {
    parse_date(text)
        .map(Value::Date)
        .or_else(|| parse_date_time(text).map(Value::DateTime))
        .or_else(|| parse_duration(text))
        .or_else(|| parse_time(text).map(Value::Time))
}

/// `2026-01-31`, with a sign before Christ.
pub(super) fn parse_date(text: &str) -> Option<Date> {
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let mut parts = rest.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 {
        return None;
    }
    let month = Month::try_from(u8::try_from(digits(month, 2)?).ok()?).ok()?;
    let year = i32::try_from(digits(year, 4)?).ok()? * sign;
    Date::from_calendar_date(year, month, u8::try_from(digits(day, 2)?).ok()?).ok()
}

fn digits(text: &str, length: usize) -> Option<u32> {
    (text.len() == length && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// `10:30`, `10:30:00.5`, `T10:30:00+02:00`, `10:30:00Z`.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    let text = text.strip_prefix('T').unwrap_or(text);
    let clock_length = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, zone) = text.split_at_checked(clock_length)?;
    let offset = if zone.is_empty() { None } else { Some(parse_offset(zone)?) };
    Some(Time { local: parse_clock(clock)?, offset })
}

fn parse_clock(text: &str) -> Option<time::Time> {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, fraction)| (clock, Some(fraction)));
    let mut parts = clock.split(':');
    let part = |text: Option<&str>| u8::try_from(digits(text?, 2)?).ok();
    let (hour, minute) = (part(parts.next())?, part(parts.next())?);
    let second = match parts.next() {
        Some(second) => part(Some(second))?,
        None => 0,
    };
    if parts.next().is_some() {
        return None;
    }
    let nanos = match fraction {
        Some(fraction) => {
            digits(fraction, fraction.len()).filter(|_| (1..=9).contains(&fraction.len()))?
                * 10_u32.pow(9 - u32::try_from(fraction.len()).ok()?)
        }
        None => 0,
    };
    time::Time::from_hms_nano(hour, minute, second, nanos).ok()
}

/// `Z`, `+02:00`, `-02:30:15`. An offset is at most 18 hours.
pub(super) fn parse_offset(text: &str) -> Option<UtcOffset> {
    if matches!(text, "Z" | "@Z" | "UTC" | "@UTC" | "Etc/UTC" | "@Etc/UTC") {
        return Some(UtcOffset::UTC);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let parts = rest.split(':').map(|part| digits(part, 2)).collect::<Option<Vec<_>>>()?;
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let total = i32::try_from(hours * 3600 + minutes * 60 + seconds).ok()?;
    let in_range = minutes < 60 && seconds < 60 && total <= 18 * 3600;
    if in_range { UtcOffset::from_whole_seconds(total * sign).ok() } else { None }
}

/// A date, `T` and a time; or a date alone, which is its midnight.
pub(super) fn parse_date_time(text: &str) -> Option<DateTime> {
    let Some((date, time)) = text.split_once('T') else {
        return Some(DateTime { local: PrimitiveDateTime::new(parse_date(text)?, time::Time::MIDNIGHT), offset: None });
    };
    let time = if time.starts_with('T') { None } else { parse_time(time) }?;
    Some(DateTime { local: PrimitiveDateTime::new(parse_date(date)?, time.local), offset: time.offset })
}

/// `P1Y6M` is years and months, `P1DT12H30M0.5S` days and time; each part may have its own sign.
pub(super) fn parse_duration(text: &str) -> Option<Value> {
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let mut rest = rest.strip_prefix('P')?;
    let mut units: &[char] = &['Y', 'M', 'D'];
    let (mut months, mut nanos): (Option<i64>, Option<i128>) = (None, None);
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            if units.contains(&'S') || time.is_empty() {
                return None;
            }
            (rest, units) = (time, &['H', 'M', 'S']);
            continue;
        }
        let length = rest.find(|c: char| !(c.is_ascii_digit() || c == '-' || c == '.'))?;
        let (amount, tail) = rest.split_at_checked(length)?;
        let unit = tail.chars().next()?;
        let at = units.iter().position(|known| *known == unit)?;
        let in_time = units.contains(&'S');
        units = units.get(at + 1..)?;
        // The time marker stays among the units until the seconds are read.
        rest = tail.get(1..)?;
        match (in_time, unit) {
            (false, 'Y') => {
                months = Some(months.unwrap_or(0).checked_add(amount.parse::<i64>().ok()?.checked_mul(12)?)?)
            }
            (false, 'M') => months = Some(months.unwrap_or(0).checked_add(amount.parse::<i64>().ok()?)?),
            _ => {
                let seconds = match unit {
                    'D' => 86_400,
                    'H' => 3_600,
                    'M' => 60,
                    _ => 1,
                };
                let part = if unit == 'S' {
                    fraction_nanos(amount)?
                } else {
                    i128::from(amount.parse::<i64>().ok()?) * seconds * NANOS_PER_SECOND
                };
                nanos = Some(nanos.unwrap_or(0).checked_add(part)?);
                if unit == 'S' && !rest.is_empty() {
                    return None;
                }
            }
        }
    }
    match (months, nanos) {
        (Some(months), None) => Some(Value::Months(months.checked_mul(sign)?)),
        (None, Some(nanos)) => duration_of_nanos(nanos * i128::from(sign)).map(Value::Duration),
        _ => None,
    }
}

fn fraction_nanos(amount: &str) -> Option<i128> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let negative = whole.starts_with('-');
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let below = format!("{fraction:0<9}").parse::<i128>().ok()?;
    let whole = i128::from(whole.parse::<i64>().ok()?) * NANOS_PER_SECOND;
    Some(if negative { whole - below } else { whole + below })
}
