//! Text to tokens. Names hold no spaces or operators (write `` `a b` `` for such a name), so tokens do not depend on
//! what is declared. A character that starts no token is kept as one, because a context key may contain it.

use super::FeelError;

/// A token and the bytes that it covers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A bare name; keywords are names too, the parser tells them apart.
    Name(String),
    /// A name in backticks.
    Quoted(String),
    Number(String),
    String(String),
    /// An operator or bracket, of one or two characters.
    Symbol(&'static str),
    /// A character that starts no token.
    Other(char),
    End,
}

const SYMBOLS: [&str; 29] = [
    "**", "..", "!=", "<=", ">=", "+", "-", "*", "/", "=", "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", "?",
    "@", "|", ";", "%", "!", "&", "^",
];

/// Splits an expression. The last token is always `End`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, FeelError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at = skip_blank(text, at)?;
        let rest = text.get(at..).unwrap_or_default();
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { kind: Kind::End, start: at, end: at });
            return Ok(tokens);
        };
        let (kind, length) = match first {
            '"' => string(rest, at)?,
            '`' => quoted(rest, at)?,
            '0'..='9' => number(rest),
            '.' if rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit()) => number(rest),
            c if starts_name(c) => {
                let length = rest.find(|c| !continues_name(c)).unwrap_or(rest.len());
                (Kind::Name(rest.get(..length).unwrap_or_default().to_owned()), length)
            }
            c => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Kind::Symbol(symbol), symbol.len()),
                None => (Kind::Other(c), c.len_utf8()),
            },
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The white space of the DMN grammar (rules 61 and 62).
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{180e}' | '\u{200b}' | '\u{feff}')
}

fn skip_blank(text: &str, mut at: usize) -> Result<usize, FeelError> {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let Some(close) = rest.get(2..).and_then(|body| body.find("*/")) else {
                return Err(FeelError::new(at, "this comment is not closed; add `*/`"));
            };
            at += close + 4;
        } else {
            match rest.chars().next() {
                Some(c) if is_blank(c) => at += c.len_utf8(),
                _ => return Ok(at),
            }
        }
    }
}

fn number(rest: &str) -> (Kind, usize) {
    let digits = |from: usize| rest.bytes().skip(from).take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    let fraction = if rest.as_bytes().get(length) == Some(&b'.') { digits(length + 1) } else { 0 };
    if fraction > 0 {
        length += 1 + fraction;
    }
    (Kind::Number(rest.get(..length).unwrap_or_default().to_owned()), length)
}

fn quoted(rest: &str, at: usize) -> Result<(Kind, usize), FeelError> {
    let name = rest.get(1..).unwrap_or_default();
    match name.find('`') {
        Some(0) => Err(FeelError::new(at, "a name in backticks must not be empty")),
        Some(length) => Ok((Kind::Quoted(name.get(..length).unwrap_or_default().to_owned()), length + 2)),
        None => Err(FeelError::new(at, "this name is not closed; add a backtick")),
    }
}

/// A string with its escapes resolved. An unknown escape keeps its backslash, so that patterns such as `\d` need no doubling.
fn string(rest: &str, at: usize) -> Result<(Kind, usize), FeelError> {
    let mut value = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((offset, c)) = characters.next() {
        match c {
            '"' => return Ok((Kind::String(value), offset + 1)),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some('b') => value.push('\u{8}'),
                Some('f') => value.push('\u{c}'),
                Some(c @ ('\'' | '"' | '\\')) => value.push(c),
                Some(c) => value.extend(['\\', c]),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err(FeelError::new(at, "this string is not closed; add a double quote"))
}
