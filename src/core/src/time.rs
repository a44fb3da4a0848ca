//! Instants, always injected: the core never asks what time it is.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A point in time, in whole milliseconds since the Unix epoch; written as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 instant between the years 0 and 9999.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 instant such as 2026-01-31T12:00:00Z")]
pub struct NotAnInstant(String);

impl Timestamp {
    /// From milliseconds since the Unix epoch; out-of-range values are clamped to what RFC 3339 can write.
    pub fn from_millis(millis: i64) -> Self {
        // 0001-01-01 and 9999-12-31, in milliseconds.
        Self(millis.clamp(-62_135_596_800_000, 253_402_300_799_999))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This instant and `millis` more (fewer, if negative).
    pub fn plus_millis(self, millis: i64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Reads RFC 3339.
    pub fn parse(text: &str) -> Result<Self, NotAnInstant> {
        let instant = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| NotAnInstant(text.to_owned()))?;
        let millis = instant.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(millis).map(Self::from_millis).map_err(|_| NotAnInstant(text.to_owned()))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .ok()
            .and_then(|instant| instant.format(&Rfc3339).ok());
        f.write_str(text.as_deref().unwrap_or("0001-01-01T00:00:00Z"))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}
