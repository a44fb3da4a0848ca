//! Globs over targets and usernames, compiled into one tree of segments.

use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A plain multiplicative hash. What is hashed into a map here was written by those who make the rules, so nobody else can
/// make it slow.
#[derive(Clone, Default)]
pub(crate) struct Plain(u64);

/// Makes [`Plain`] hashes.
pub(crate) type Plainly = BuildHasherDefault<Plain>;

impl Hasher for Plain {
    fn write(&mut self, bytes: &[u8]) {
        let mut mix = |word: u64| self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            mix(rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, _: u8) {
        // The end of a text, which is its only part.
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
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

/// How many globs one glob may stand for by its `{a,b}`.
const MAX_ALTERNATIVES: usize = 256;

/// A list of globs, compiled. An empty list matches nothing.
///
/// The globs share a tree of segments, and a target walks down it: what a thousand globs cost is what its own segments lead to.
#[derive(Debug, Clone)]
pub struct Globs {
    of: Of,
    nodes: Vec<Node>,
}

/// Nodes that are reached at one time: few, unless globs with `**` are many.
type Reached = SmallVec<[usize; 8]>;

/// A place in the tree of segments.
#[derive(Debug, Clone, Default)]
struct Node {
    /// A glob ends here.
    ends: bool,
    /// A glob ends here with `**`: anything further matches.
    ends_open: bool,
    /// Reached through `**`: it stays reached, whatever segment comes.
    stays: bool,
    literal: HashMap<Box<str>, usize, Plainly>,
    wild: Vec<(Box<str>, usize)>,
    /// The node behind a `**`, which may stand for no segment at all.
    any: Option<usize>,
}

impl Globs {
    /// Compiles a list; one bad glob makes the whole list unusable, since nobody knows what it was to mean.
    pub fn new<G: AsRef<str>>(globs: &[G], of: Of) -> Result<Self, GlobError> {
        let mut compiled = Self { of, nodes: vec![Node::default()] };
        for glob in globs {
            let glob = glob.as_ref();
            let bad = |why: &str| GlobError { glob: glob.to_owned(), why: why.to_owned() };
            let mut plain = vec![];
            expand(glob, &mut plain).map_err(bad)?;
            for plain in plain {
                readable(&plain, of).map_err(bad)?;
                compiled.insert(&plain);
            }
        }
        Ok(compiled)
    }

    /// Whether any of them matches.
    pub fn matches(&self, text: &str) -> bool {
        let (mut reached, mut next) = (Reached::new(), Reached::new());
        self.reach(0, &mut reached);
        for segment in segments(text, self.of) {
            for (at, node) in reached.drain(..).filter_map(|at| Some((at, self.nodes.get(at)?))) {
                if node.ends_open {
                    return true;
                }
                if node.stays {
                    self.reach(at, &mut next);
                }
                if let Some(&at) = node.literal.get(segment) {
                    self.reach(at, &mut next);
                }
                for (pattern, at) in &node.wild {
                    if wild(pattern, segment) {
                        self.reach(*at, &mut next);
                    }
                }
            }
            std::mem::swap(&mut reached, &mut next);
        }
        reached.into_iter().any(|at| self.nodes.get(at).is_some_and(|node| node.ends))
    }

    /// Reaches a node, and what is behind it through a `**` that stands for nothing.
    fn reach(&self, at: usize, reached: &mut Reached) {
        let mut next = Some(at);
        while let Some(at) = next {
            if reached.contains(&at) {
                return;
            }
            reached.push(at);
            next = self.nodes.get(at).and_then(|node| node.any);
        }
    }

    fn insert(&mut self, glob: &str) {
        let mut at = 0;
        let mut rest = segments(glob, self.of).peekable();
        while let Some(segment) = rest.next() {
            let many = self.of == Of::Targets && segment == "**";
            if many && rest.peek().is_none() {
                self.change(at, |node| node.ends_open = true);
                return;
            }
            at = if many { self.behind_any(at) } else { self.behind(at, segment) };
        }
        self.change(at, |node| node.ends = true);
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(at) {
            change(node);
        }
    }

    fn behind_any(&mut self, at: usize) -> usize {
        let new = self.nodes.len();
        match self.nodes.get_mut(at) {
            // `**/**` is `**`.
            Some(node) if node.stays => at,
            Some(Node { any: Some(any), .. }) => *any,
            Some(node) => {
                node.any = Some(new);
                self.nodes.push(Node { stays: true, ..Node::default() });
                new
            }
            None => at,
        }
    }

    fn behind(&mut self, at: usize, segment: &str) -> usize {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return at };
        let found = if segment.contains(['*', '?']) {
            match node.wild.iter().find(|(pattern, _)| **pattern == *segment) {
                Some((_, found)) => *found,
                None => {
                    node.wild.push((segment.into(), new));
                    new
                }
            }
        } else {
            *node.literal.entry(segment.into()).or_insert(new)
        };
        if found == new {
            self.nodes.push(Node::default());
        }
        found
    }
}

/// A username is one segment, whatever is in it.
fn segments(text: &str, of: Of) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let slash = match of {
            Of::Targets => text.bytes().position(|byte| byte == b'/'),
            Of::Usernames => None,
        };
        let cut = slash.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?)));
        rest = cut.map(|(_, rest)| rest);
        Some(cut.map_or(text, |(segment, _)| segment))
    })
}

/// Whether a pattern of `*` and `?` matches a whole segment.
fn wild(pattern: &str, segment: &str) -> bool {
    let (mut pattern, mut rest) = (pattern.chars(), segment.chars());
    // Behind the last `*`, and the text that it may still swallow.
    let mut star = None;
    loop {
        let before = rest.clone();
        match (pattern.next(), rest.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                rest = before;
                star = Some((pattern.clone(), rest.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(p), Some(c)) if p == c => {}
            (_, _) => match star.take() {
                Some((after, mut swallow)) => {
                    if swallow.next().is_none() {
                        return false;
                    }
                    (pattern, rest) = (after.clone(), swallow.clone());
                    star = Some((after, swallow));
                }
                None => return false,
            },
        }
    }
}

/// Writes out `{a,b}`, nested ones too.
fn expand(glob: &str, out: &mut Vec<String>) -> Result<(), &'static str> {
    let Some(open) = glob.find('{') else {
        if glob.contains('}') {
            return Err("a } has no {");
        }
        if out.len() >= MAX_ALTERNATIVES {
            return Err("it stands for too many globs; write them out");
        }
        out.push(glob.to_owned());
        return Ok(());
    };
    let (before, inside) = glob.split_at(open);
    let (mut depth, mut starts, mut close) = (0_usize, vec![1], None);
    for (at, c) in inside.char_indices() {
        match (c, depth) {
            ('{', _) => depth += 1,
            (',', 1) => starts.push(at + 1),
            ('}', 1) => {
                close = Some(at);
                break;
            }
            ('}', _) => depth -= 1,
            (_, _) => {}
        }
    }
    let close = close.ok_or("a { is not closed")?;
    if before.contains('}') {
        return Err("a } has no {");
    }
    let after = inside.get(close + 1..).unwrap_or_default();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(close, |next| next - 1);
        let alternative = inside.get(start..end).unwrap_or_default();
        if alternative.is_empty() {
            return Err("an alternative in {} is empty");
        }
        expand(&format!("{before}{alternative}{after}"), out)?;
    }
    Ok(())
}

/// Globs are kept to what everybody reads in the same way: `*`, `?`, `**` as a whole segment, and `{a,b}`.
fn readable(glob: &str, of: Of) -> Result<(), &'static str> {
    if glob.is_empty() {
        return Err("it is empty");
    }
    if glob.contains(['[', ']']) {
        return Err("character classes are not part of the grammar; list the names, or use {a,b}");
    }
    if of == Of::Usernames {
        return Ok(());
    }
    if glob.split('/').any(|segment| segment.contains("**") && segment != "**") {
        return Err("** must be a segment of its own");
    }
    // Without its wildcards it must be able to match a target at all.
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
    // That no glob takes long is measured.
    #![allow(clippy::disallowed_methods)]
    use super::*;

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
            ("{a,b{c,d}}/x", "bd/x", true),
            ("{a/b,c}/x", "a/b/x", true),
            ("{a,b}/x", "c/x", false),
            ("**/a/**/a/**", "a/x/a/y", true),
            ("**/a/**/a/**", "a/x/a", false),
            ("**/**", "a", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("Reports/*", "reports/a", false),
        ];
        for &(glob, target, expected) in table {
            assert_eq!(Globs::new(&[glob], Of::Targets).unwrap().matches(target), expected, "{glob} {target}");
        }
    }

    /// Globs mean what they mean everywhere: a well-known implementation agrees on everything that both take.
    #[test]
    fn globs_mean_what_they_mean_elsewhere() {
        use proptest::prelude::*;
        let part = prop::sample::select(vec!["a", "b", "ab", "*", "**", "?", "a*", "*b", "a?", "{a,b}", "{a,*b}"]);
        let glob = prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"));
        let target = prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "aab", "c"]), 1..6);
        proptest!(ProptestConfig::with_cases(3000), |(globs in prop::collection::vec(glob, 1..4), target in target)| {
            let target = target.join("/");
            let mut theirs = globset::GlobSet::builder();
            for glob in &globs {
                theirs.add(globset::GlobBuilder::new(glob).literal_separator(true).build().unwrap());
            }
            prop_assert_eq!(
                Globs::new(&globs, Of::Targets).unwrap().matches(&target),
                theirs.build().unwrap().is_match(&target),
                "{:?} {}", globs, target
            );
        });
    }

    #[test]
    fn no_glob_takes_long() {
        let globs = vec!["**/a/".repeat(200).trim_end_matches('/').to_owned(), format!("{}b", "a*".repeat(400))];
        let target = "a/".repeat(500) + "b";
        let started = std::time::Instant::now();
        assert!(!Globs::new(&globs, Of::Targets).unwrap().matches(&target));
        assert!(!Globs::new(&globs[1..], Of::Targets).unwrap().matches(&"a".repeat(1024)));
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
        assert!(Globs::new(&["{a,b}".repeat(20)], Of::Targets).is_err());
    }

    #[test]
    fn an_empty_list_matches_nothing() {
        assert!(!Globs::new::<&str>(&[], Of::Targets).unwrap().matches("a"));
    }

    #[test]
    fn one_bad_glob_spoils_the_list() {
        for bad in [
            "", "[ab]/c", "[!a]", "a/b**", "**.json", "{a", "a}", "/a", "a//b", "../a", "a b", "a%2e", "a\\b", "é",
            "{a,}", "a}{b", "{a}}",
        ] {
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
