//! Random input: texts and bytes that are nearly right.

use serde_json::{Map, Value};

/// A small generator, so that a seed means the same everywhere (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.draw() as u8).collect()
    }
}

/// What readers stumble over.
const PIECES: &[&str] = &[
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    ": ",
    "- ",
    "#",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "!!str ",
    "!x ",
    "|\n",
    ">\n",
    "---\n",
    "...\n",
    "? ",
    "~",
    "null",
    "true",
    ".nan",
    ".inf",
    "-.inf",
    "0x10",
    "0o7",
    "1_000",
    "1e999",
    "-0",
    "1.0e18",
    "9007199254740993",
    "18446744073709551616",
    "1.7976931348623157e308",
    "5e-324",
    "\u{feff}",
    "\u{2028}",
    "é",
    "𝄞",
    "</",
    "/>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&amp;",
    "&#0;",
    "&#x10ffff;",
    "<!DOCTYPE x [<!ENTITY e \"e\">]>",
    "=",
    "= true",
    "..",
    "//",
    "%2e",
    "**",
    "*",
    "?",
    "{a,b}",
    "..",
    "/",
];

/// A copy with a few things wrong with it; `other` is something of the same kind.
pub fn mutated(random: &mut Random, text: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(out.len() + 1);
        let length = random.below(1 + out.len().saturating_sub(at).min(40));
        match random.below(9) {
            0 if !out.is_empty() => {
                let at = random.below(out.len());
                out[at] ^= 1 << random.below(8);
            }
            1 if !out.is_empty() => {
                let at = random.below(out.len());
                out[at] = random.draw() as u8;
            }
            2 => drop(out.drain(at..at + length)),
            3 => {
                let piece = out[at..at + length].to_vec();
                let to = random.below(out.len() + 1);
                out.splice(to..to, piece);
            }
            4 => {
                let from = random.below(other.len() + 1);
                let piece = other[from..(from + random.below(80)).min(other.len())].to_vec();
                out.splice(at..at + length, piece);
            }
            5 => {
                let piece = random.pick(PIECES).repeat(1 + random.below(3));
                out.splice(at..at, piece.into_bytes());
            }
            6 => {
                // Deeper than anybody means.
                let piece = random.pick(&["[", "{\"a\":", "(", "- ", "<a>", "not("]).repeat(random.below(300));
                out.splice(at..at, piece.into_bytes());
            }
            7 => out.truncate(at),
            _ => {
                let piece = random.pick(PIECES).as_bytes().to_vec();
                out.splice(at..at + length, piece);
            }
        }
    }
    out
}

/// Pieces in random order, which find what random characters do not.
pub fn soup(random: &mut Random, pieces: &[&str], most: usize) -> String {
    let mut out = String::new();
    for _ in 0..random.below(most) {
        out.push_str(pieces[random.below(pieces.len())]);
        if random.one_in(2) {
            out.push(' ');
        }
    }
    out
}

/// Any JSON value.
pub fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Bool(random.one_in(2)),
        2 => Value::from(random.draw() as i64 >> random.below(64)),
        3 => Value::from(f64::from_bits(random.draw())),
        4 => Value::from((random.draw() as i64 >> random.below(64)) as f64 / 10_f64.powi(random.below(40) as i32)),
        5 => Value::String(text(random)),
        6 => (0..random.below(6)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            Value::Object((0..random.below(6)).map(|_| (text(random), value(random, depth - 1))).collect::<Map<_, _>>())
        }
    }
}

pub fn text(random: &mut Random) -> String {
    (0..random.below(12))
        .map(|_| match random.below(4) {
            0 => char::from_u32(random.below(0x11_0000) as u32).unwrap_or('\u{fffd}'),
            1 => char::from(random.below(0x20) as u8),
            _ => char::from(0x20 + random.below(0x5f) as u8),
        })
        .collect()
}
