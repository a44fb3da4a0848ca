//! What may be touched: targets, and the globs that match them.
//!
//! A target is a path of segments in plain ASCII, written in exactly one way. Everything that could make two spellings mean
//! one thing (`..`, `//`, `%2e`, confusable letters) or be read differently by a tool is refused instead of being tidied up.

pub use crate::globs::{GlobError, Globs, Of};

/// How long a target may be, in bytes.
pub const MAX_TARGET: usize = 1024;

/// Why a text is not a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// Longer than [`MAX_TARGET`].
    #[error("it is longer than {MAX_TARGET} bytes")]
    TooLong,
    /// It starts or ends with `/`.
    #[error("it starts or ends with \"/\"; write the path from the root, without a slash at its ends")]
    OuterSlash,
    /// It has an empty segment.
    #[error("\"//\" is refused; write each segment once")]
    EmptySegment,
    /// It has a segment `.`, or two dots one after the other.
    #[error("\".\" as a segment and \"..\" anywhere are refused; write the path from the root")]
    Dots,
    /// It has a character that targets do not have.
    #[error("the character {0:?} is refused; targets are visible ASCII without % \\ * ? [ ] {{ }} and spaces")]
    Character(char),
}

/// Refuses what is not a target (docs/targets.md).
pub fn validate(text: &str) -> Result<(), TargetError> {
    if text.len() <= MAX_TARGET && is_plain(text) { Ok(()) } else { judge(text) }
}

/// Whether a text is a target at first sight, as nearly all are.
fn is_plain(text: &str) -> bool {
    let mut before = b'/';
    let all = text.bytes().all(|byte| {
        let follows = match before {
            b'/' => byte != b'/' && byte != b'.',
            b'.' => byte != b'.',
            _ => true,
        };
        before = byte;
        follows && may_stand(byte)
    });
    all && before != b'/'
}

/// The rules one by one, and which of them a text breaks.
fn judge(text: &str) -> Result<(), TargetError> {
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    if text.len() > MAX_TARGET {
        return Err(TargetError::TooLong);
    }
    if !text.bytes().all(may_stand) {
        let refused = text.chars().find(|c| !u8::try_from(*c).is_ok_and(may_stand));
        return Err(TargetError::Character(refused.unwrap_or_default()));
    }
    if text.starts_with('/') || text.ends_with('/') {
        return Err(TargetError::OuterSlash);
    }
    let twice = |of: u8| text.as_bytes().array_windows().any(|[a, b]| *a == of && *b == of);
    if twice(b'/') {
        return Err(TargetError::EmptySegment);
    }
    if twice(b'.') || text.split('/').any(|segment| segment == ".") {
        return Err(TargetError::Dots);
    }
    Ok(())
}

/// Whether a byte may stand in a target.
const fn may_stand(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\' | b'*' | b'?' | b'[' | b']' | b'{' | b'}')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_target_has_one_spelling() {
        for text in [
            "", "/", ".", "a/", "/a", "a//b", "a/./b", "a/.", "./a", "..", "a..b", "a.b", ".a", "a/.b", "a b", "é",
            "a%b", "a/b.c",
        ] {
            assert!(!is_plain(text) || judge(text).is_ok(), "{text:?}");
            assert_eq!(validate(text), judge(text), "{text:?}");
        }
        for good in ["reports/2026/totals.json", "a", "prod", "svc:billing/db@main", ".hidden/x", "a-b_c~d"] {
            assert_eq!(validate(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", TargetError::Empty),
            ("/a", TargetError::OuterSlash),
            ("a/", TargetError::OuterSlash),
            ("/", TargetError::OuterSlash),
            ("a//b", TargetError::EmptySegment),
            ("../prod", TargetError::Dots),
            ("a/../b", TargetError::Dots),
            ("a..b", TargetError::Dots),
            ("./a", TargetError::Dots),
            ("a/.", TargetError::Dots),
            ("a%2eb", TargetError::Character('%')),
            ("a\\b", TargetError::Character('\\')),
            ("a b", TargetError::Character(' ')),
            ("a\n", TargetError::Character('\n')),
            ("a\0", TargetError::Character('\0')),
            ("\u{440}rod", TargetError::Character('\u{440}')),
            ("a\u{200b}", TargetError::Character('\u{200b}')),
            ("reports/*", TargetError::Character('*')),
        ] {
            assert_eq!(validate(bad), Err(why), "{bad:?}");
        }
        assert_eq!(validate(&"a".repeat(1025)), Err(TargetError::TooLong));
        assert_eq!(validate(&"a".repeat(1024)), Ok(()));
    }
}
