//! Names as Kubernetes allows them (DNS-1123), so that the same files work with and without a cluster.

use std::fmt;

/// Why a name is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// More bytes than allowed.
    #[error("is longer than {0} characters")]
    TooLong(usize),
    /// Another character than `a`–`z`, `0`–`9`, `-` (and `.` between labels).
    #[error("may hold only {0}, and each part begins and ends with a letter or a digit")]
    Character(Alphabet),
}

/// The characters of a name, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// Of one label.
    Label,
    /// Of labels joined by dots.
    Subdomain,
}

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Label => "lower-case letters, digits and '-'",
            Self::Subdomain => "lower-case letters, digits, '-' and '.'",
        })
    }
}

/// Checks a DNS-1123 label: a namespace's name.
pub fn label(name: &str) -> Result<(), NameProblem> {
    bounded(name, 63)?;
    if is_label(name) { Ok(()) } else { Err(NameProblem::Character(Alphabet::Label)) }
}

/// Checks a DNS-1123 subdomain: the name of an object.
pub fn subdomain(name: &str) -> Result<(), NameProblem> {
    bounded(name, 253)?;
    if name.split('.').all(is_label) { Ok(()) } else { Err(NameProblem::Character(Alphabet::Subdomain)) }
}

fn bounded(name: &str, most: usize) -> Result<(), NameProblem> {
    match name.len() {
        0 => Err(NameProblem::Empty),
        length if length > most => Err(NameProblem::TooLong(most)),
        _ => Ok(()),
    }
}

fn is_label(part: &str) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.as_bytes().iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        for good in ["a", "refund-7", "a.b-c.9", &"a".repeat(253)] {
            assert_eq!(subdomain(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", ".a", "a_b", "a/b", "ä", &"a".repeat(254)] {
            assert!(subdomain(bad).is_err(), "{bad}");
        }
        assert_eq!(label("default"), Ok(()));
        for bad in ["a.b", "", "..", &"a".repeat(64)] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
