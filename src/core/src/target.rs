//! What may be touched: targets, and the globs that match them.
//!
//! A target is a path of segments in plain ASCII, written in exactly one way. Everything that could make two spellings mean
//! one thing (`..`, `//`, `%2e`, confusable letters) or be read differently by a tool is refused instead of being tidied up.

use globset::{GlobBuilder, GlobSet};

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
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    if text.len() > MAX_TARGET {
        return Err(TargetError::TooLong);
    }
    if let Some(refused) =
        text.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '%' | '\\' | '*' | '?' | '[' | ']' | '{' | '}'))
    {
        return Err(TargetError::Character(refused));
    }
    if text.starts_with('/') || text.ends_with('/') {
        return Err(TargetError::OuterSlash);
    }
    if text.contains("//") {
        return Err(TargetError::EmptySegment);
    }
    if text.contains("..") || text.split('/').any(|segment| segment == ".") {
        return Err(TargetError::Dots);
    }
    Ok(())
}

/// Why a text is not a glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the glob {glob:?} cannot be used: {why}")]
pub struct GlobError {
    /// The glob as written.
    pub glob: String,
    /// What is wrong with it.
    pub why: String,
}

/// What the globs of a list match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Targets: `*` and `?` stay within a segment, `**` crosses segments.
    Targets,
    /// Usernames, which have no segments: `*` matches whatever is there.
    Usernames,
}

/// A list of globs, compiled. An empty list matches nothing.
#[derive(Debug, Clone)]
pub struct Globs(GlobSet);

impl Globs {
    /// Compiles a list; one bad glob makes the whole list unusable, since nobody knows what it was to mean.
    pub fn new<G: AsRef<str>>(globs: &[G], of: Of) -> Result<Self, GlobError> {
        let mut set = GlobSet::builder();
        for glob in globs {
            let glob = glob.as_ref();
            let bad = |why: String| GlobError { glob: glob.to_owned(), why };
            plain(glob, of).map_err(|why| bad(why.to_owned()))?;
            let built = GlobBuilder::new(glob)
                .literal_separator(of == Of::Targets)
                .backslash_escape(false)
                .build()
                .map_err(|error| bad(error.kind().to_string()))?;
            set.add(built);
        }
        set.build().map(Self).map_err(|error| GlobError {
            glob: error.glob().unwrap_or_default().to_owned(),
            why: error.kind().to_string(),
        })
    }

    /// Whether any of them matches.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Globs are kept to what everybody reads in the same way: `*`, `?`, `**` as a whole segment, and `{a,b}`.
fn plain(glob: &str, of: Of) -> Result<(), &'static str> {
    if glob.is_empty() {
        return Err("it is empty");
    }
    if glob.contains(['[', ']']) {
        return Err("character classes are not part of the grammar; list the names, or use {a,b}");
    }
    if of == Of::Usernames {
        return Ok(());
    }
    if let Some(star) = glob.split('/').find(|segment| segment.contains("**") && *segment != "**") {
        return Err(if star.starts_with('{') {
            "** must be a segment of its own, outside {}"
        } else {
            "** must be a segment of its own"
        });
    }
    // What is left without its wildcards must be able to match a target at all.
    if glob.chars().any(|c| !c.is_ascii_graphic() || matches!(c, '%' | '\\')) {
        return Err("it has a character that no target has (docs/targets.md)");
    }
    if glob.starts_with('/') || glob.ends_with('/') || glob.contains("//") || glob.contains("..") {
        return Err("no target is written so (docs/targets.md)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_target_has_one_spelling() {
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

    #[test]
    fn a_star_stays_within_its_segment_and_two_stars_do_not() {
        let table: &[(&str, &str, bool)] = &[
            ("reports/*", "reports/a", true),
            ("reports/*", "reports/a/b", false),
            ("reports/*", "reports", false),
            ("reports/**", "reports/a/b", true),
            ("reports/**", "reports", false),
            ("reports/**", "reportsx/a", false),
            ("**/secret", "a/b/secret", true),
            ("**/secret", "secret", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("**", "any/thing", true),
            ("*", "any/thing", false),
            ("report?", "report1", true),
            ("report?", "report/", false),
            ("{a,b}/x", "b/x", true),
            ("Reports/*", "reports/a", false),
        ];
        for &(glob, target, expected) in table {
            assert_eq!(Globs::new(&[glob], Of::Targets).unwrap().matches(target), expected, "{glob} {target}");
        }
    }

    #[test]
    fn an_empty_list_matches_nothing() {
        assert!(!Globs::new::<&str>(&[], Of::Targets).unwrap().matches("a"));
    }

    #[test]
    fn one_bad_glob_spoils_the_list() {
        for bad in
            ["", "[ab]/c", "[!a]", "a/b**", "**.json", "{a", "a}", "/a", "a//b", "../a", "a b", "a%2e", "a\\b", "é"]
        {
            assert!(Globs::new(&["fine", bad], Of::Targets).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn usernames_have_no_segments() {
        let globs = Globs::new(&["system:serviceaccount:team-a:*", "https://id.example/*"], Of::Usernames).unwrap();
        assert!(globs.matches("system:serviceaccount:team-a:bot"));
        assert!(globs.matches("https://id.example/a/b"));
        assert!(!globs.matches("system:serviceaccount:team-b:bot"));
        assert!(Globs::new(&["*"], Of::Usernames).unwrap().matches("CORP\\zoë"));
    }
}
