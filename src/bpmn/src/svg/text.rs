//! Text in a picture: escaped, wrapped, cut.

use super::px;
use crate::model::Bounds;
use std::fmt::Write;

/// The height of a line, in pixels.
const LINE: f64 = 14.0;
/// The width of an average character in pixels, in the widest of the fonts that may be used.
const CHARACTER: f64 = 6.6;

/// Text that cannot be taken for markup; what XML forbids is left out.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => {}
            other => escaped.push(other),
        }
    }
    escaped
}

/// Writes `text` into the middle of an area, on as many lines as its words need.
pub(super) fn block(svg: &mut String, class: &str, text: &str, area: Bounds) {
    // A label's box is as wide as its author's font made it; a little more room avoids a needless second line.
    let most = if class.starts_with("label") { area.width * 1.25 + 12.0 } else { area.width };
    let lines = wrap(text, most);
    let middle = area.x + area.width / 2.0;
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let first = area.y + area.height / 2.0 - (f64::from(count) - 1.0) * LINE / 2.0 + 4.0;
    let _ = write!(svg, "<text class=\"{class}\" x=\"{}\" y=\"{}\">", px(middle), px(first));
    for (at, line) in lines.iter().enumerate() {
        let down = if at == 0 { 0.0 } else { LINE };
        let _ = write!(svg, "<tspan x=\"{}\" dy=\"{down}\">{}</tspan>", px(middle), escape(line));
    }
    svg.push_str("</text>\n");
}

/// Writes `text` upwards along the left edge of an area.
pub(super) fn upright(svg: &mut String, class: &str, text: &str, area: Bounds) {
    let (x, y) = (px(area.x + 19.0), px(area.y + area.height / 2.0));
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\">{}</text>",
        escape(text)
    );
}

/// Words on lines no wider than `width` pixels; at most four lines, the last cut with an ellipsis.
pub(super) fn wrap(text: &str, width: f64) -> Vec<String> {
    const MOST: usize = 4;
    const LONGEST: usize = 256;
    // Bounded by the widest shape that is read, so the cast cannot lose anything that matters.
    let most = ((width / CHARACTER).clamp(4.0, 400.0)) as usize;
    let text: String = text.chars().take(LONGEST).collect();
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace().flat_map(|word| pieces(word, most)) {
        let full = lines.len() >= MOST;
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(line) if full => {
                line.push('…');
                break;
            }
            Some(_) | None => lines.push(word),
        }
    }
    lines
}

/// A word that is too long for a line, in pieces that are not: before a capital if there is one, else anywhere.
fn pieces(word: &str, most: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest: Vec<char> = word.chars().collect();
    while rest.len() > most {
        let hump = (1..=most).rev().find(|at| {
            let before = rest.get(at.wrapping_sub(1)).is_some_and(|character| character.is_lowercase());
            before && rest.get(*at).is_some_and(|character| character.is_uppercase())
        });
        let tail = rest.split_off(hump.unwrap_or(most));
        pieces.push(std::mem::replace(&mut rest, tail).into_iter().collect());
    }
    pieces.push(rest.into_iter().collect());
    pieces
}
