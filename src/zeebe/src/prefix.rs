//! A prefix on process ids and job types keeps one m87 apart from everything else in a shared Zeebe cluster.

/// No prefix is longer.
const MAX: usize = 32;

/// The prefix; empty by default. Names inside m87 are without it, names on the wire with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix(String);

/// A prefix that cannot begin a process id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a prefix: write a letter, then letters, digits, `-`, `_` or `.`, {MAX} characters at most, as in \"m87-\""
)]
pub struct PrefixError(String);

impl Prefix {
    /// A prefix as configured (`zeebe.prefix`); empty for none.
    ///
    /// # Errors
    /// If a process id may not begin with it (it is an XML name).
    pub fn parse(prefix: &str) -> Result<Self, PrefixError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let named = prefix.is_empty() || prefix.starts_with(|c: char| c.is_ascii_alphabetic());
        if named && prefix.len() <= MAX && prefix.chars().all(fits) {
            Ok(Self(prefix.to_owned()))
        } else {
            Err(PrefixError(prefix.to_owned()))
        }
    }

    /// The prefix itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as the engine knows it.
    pub fn on(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// The name as m87 knows it; a name without the prefix is left as it is.
    pub fn off(&self, name: &str) -> String {
        name.strip_prefix(self.0.as_str()).unwrap_or(name).to_owned()
    }
}

impl std::str::FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_prefix_begins_a_process_id_or_is_refused() {
        for good in ["", "m87-", "blue_", "A.b-1"] {
            assert_eq!(Prefix::parse(good).unwrap().on("x"), format!("{good}x"));
        }
        for bad in ["-a", "1a", "a b", "a\"", "a<", "é", &"a".repeat(33)] {
            assert!(Prefix::parse(bad).is_err(), "{bad:?}");
        }
    }
}
