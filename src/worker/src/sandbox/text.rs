//! The end of what a tool printed, made fit to be shown: no control characters, no terminal escapes, nothing that
//! turns the reading direction around.

use std::collections::VecDeque;

/// Bytes of text that are kept for people.
pub const SHOWN: usize = 2048;

/// Raw bytes that are kept to make them from; escapes and bad UTF-8 shrink.
const KEPT: usize = 4 * SHOWN;

/// Counts all that was printed and keeps the end.
#[derive(Debug, Default)]
pub struct Tail {
    kept: VecDeque<u8>,
    total: u64,
}

impl Tail {
    /// Adds what was printed next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let last = bytes.get(bytes.len().saturating_sub(KEPT)..).unwrap_or(bytes);
        self.kept.extend(last);
        let surplus = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..surplus);
    }

    /// Bytes printed in all.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The end of it, for people; at most [`SHOWN`] bytes.
    pub fn readable(&mut self) -> String {
        readable(self.kept.make_contiguous())
    }
}

/// The end of a text, cleaned; at most [`SHOWN`] bytes of UTF-8.
pub fn readable(raw: &[u8]) -> String {
    let text = clean(&String::from_utf8_lossy(raw));
    let mut start = text.len().saturating_sub(SHOWN);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default().trim_end().to_owned()
}

/// Without escape sequences (ECMA-48), control characters but line feed and tab, and bidirectional overrides: it cannot steer a terminal.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                // CSI: parameters and intermediates, then one final byte.
                Some('[') => {
                    while characters.next_if(|c| (' '..='?').contains(c)).is_some() {}
                    characters.next_if(|c| ('@'..='~').contains(c));
                }
                // OSC, DCS, SOS, PM, APC: a string up to BEL or ESC \.
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(next) = characters.next_if(|c| *c != '\n') {
                        if next == '\u{7}' || (next == '\u{1b}' && characters.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                // Two-character sequences; those with an intermediate have one more.
                Some(' '..='/') => {
                    characters.next();
                }
                Some(_) | None => {}
            },
            '\n' | '\t' => clean.push(character),
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            _ if character.is_control() => {}
            _ => clean.push(character),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_controls_are_gone_and_text_stays() {
        for (raw, shown) in [
            ("plain\ttext\nsecond", "plain\ttext\nsecond"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{1b}(Bx\u{1b}cy", "xy"),
            ("a\rb\u{8}c\u{0}d\u{9b}e", "abcde"),
            ("\u{202e}evil\u{2066}", "evil"),
            ("end\u{1b}", "end"),
            ("grüße ✓", "grüße ✓"),
        ] {
            assert_eq!(readable(raw.as_bytes()), shown);
        }
        assert_eq!(readable(b"\xff\xfe ok"), "\u{fffd}\u{fffd} ok");
    }

    #[test]
    fn only_the_end_is_kept_and_all_is_counted() {
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.push(&[b'x'; 1000]);
        }
        tail.push(b"the end\n");
        assert_eq!(tail.total(), 1_000_008);
        let shown = tail.readable();
        assert!(shown.len() <= SHOWN && shown.ends_with("xthe end"));
    }

    proptest! {
        #[test]
        fn anything_becomes_short_harmless_text(raw: Vec<u8>) {
            let mut tail = Tail::default();
            tail.push(&raw);
            let shown = tail.readable();
            prop_assert!(shown.len() <= SHOWN);
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
