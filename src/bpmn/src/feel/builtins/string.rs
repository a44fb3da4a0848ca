//! Strings. Lengths and positions count Unicode characters. Patterns are regular expressions in linear time, so they
//! have no look-around and no back-references.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use regex::{Captures, Regex, RegexBuilder};

use super::{Answer, Builtin, Call, Refusal, Value, clamp, function, offset};
use crate::feel::limits;
use crate::feel::number::whole;
use crate::feel::warnings::Failure;

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("substring", &["string", "start position"], substring),
    function("substring", &["string", "start position", "length"], substring),
    function("string length", &["string"], |_, arguments| {
        text(arguments, |text| Value::from(i64::try_from(text.chars().count()).ok()))
    }),
    function("upper case", &["string"], |_, arguments| text(arguments, |text| Value::string(text.to_uppercase()))),
    function("lower case", &["string"], |_, arguments| text(arguments, |text| Value::string(text.to_lowercase()))),
    function("trim", &["string"], |_, arguments| {
        text(arguments, |text| Value::string(text.trim_matches(|c: char| c <= ' ')))
    }),
    function("is blank", &["string"], |_, arguments| {
        text(arguments, |text| Value::Boolean(text.chars().all(char::is_whitespace)))
    }),
    function("substring before", &["string", "match"], |_, arguments| {
        pair(arguments, |text, part| Value::string(text.split_once(part).map_or("", |(before, _)| before)))
    }),
    function("substring after", &["string", "match"], |_, arguments| {
        pair(arguments, |text, part| Value::string(text.split_once(part).map_or("", |(_, after)| after)))
    }),
    function("contains", &["string", "match"], |_, arguments| {
        pair(arguments, |text, part| Value::Boolean(text.contains(part)))
    }),
    function("starts with", &["string", "match"], |_, arguments| {
        pair(arguments, |text, part| Value::Boolean(text.starts_with(part)))
    }),
    function("ends with", &["string", "match"], |_, arguments| {
        pair(arguments, |text, part| Value::Boolean(text.ends_with(part)))
    }),
    function("matches", &["input", "pattern"], matches),
    function("matches", &["input", "pattern", "flags"], matches),
    function("replace", &["input", "pattern", "replacement"], replace),
    function("replace", &["input", "pattern", "replacement", "flags"], replace),
    function("split", &["string", "delimiter"], split),
    function("extract", &["input", "pattern"], extract),
    function("to base64", &["value"], |_, arguments| text(arguments, |text| Value::string(BASE64.encode(text)))),
    function("from base64", &["value"], from_base64),
];

fn text(arguments: &[Value], apply: impl FnOnce(&str) -> Value) -> Answer {
    match arguments {
        [Value::String(text)] => Ok(apply(text)),
        _ => Err(Refusal::Illegal),
    }
}

fn pair(arguments: &[Value], apply: impl FnOnce(&str, &str) -> Value) -> Answer {
    match arguments {
        [Value::String(text), Value::String(part)] => Ok(apply(text, part)),
        _ => Err(Refusal::Illegal),
    }
}

fn substring(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let (text, start, length) = match arguments {
        [Value::String(text), Value::Number(start)] => (text, start, None),
        [Value::String(text), Value::Number(start), Value::Number(length)] => (text, start, Some(length)),
        _ => return Err(Refusal::Illegal),
    };
    let count = text.chars().count();
    let start = whole(*start).filter(|start| *start != 0).ok_or(Refusal::Illegal)?;
    let length =
        length.map_or(Some(i64::MAX), |length| whole(*length)).filter(|length| *length >= 0).ok_or(Refusal::Illegal)?;
    let from = offset(start, count);
    if !(0..=i64::try_from(count).unwrap_or(i64::MAX)).contains(&from) {
        return Err(Refusal::Because(format!("The start position {start} is outside of the string")));
    }
    let part: String = text.chars().skip(clamp(from, count)).take(clamp(length, count)).collect();
    Ok(Value::string(part))
}

/// A compiled pattern; pays for compiling it and for one pass over the text.
fn pattern(call: &mut Call<'_, '_>, text: &str, pattern: &str, flags: &str) -> Result<Regex, Refusal> {
    call.evaluator.spend(100 + pattern.len() + limits::MATCHING * text.len())?;
    RegexBuilder::new(pattern)
        .dot_matches_new_line(flags.contains('s'))
        .multi_line(flags.contains('m'))
        .case_insensitive(flags.contains('i'))
        .ignore_whitespace(flags.contains('x'))
        .size_limit(limits::PATTERN)
        .build()
        .map_err(|_| Refusal::Because(format!("Invalid pattern '{pattern}'")))
}

fn matches(call: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    match arguments {
        [Value::String(input), Value::String(expression)] => {
            Ok(Value::Boolean(pattern(call, input, expression, "")?.is_match(input)))
        }
        [Value::String(input), Value::String(expression), Value::String(flags)] => {
            Ok(Value::Boolean(pattern(call, input, expression, flags)?.is_match(input)))
        }
        _ => Err(Refusal::Illegal),
    }
}

fn replace(call: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let (input, expression, replacement, flags) = match arguments {
        [Value::String(input), Value::String(expression), Value::String(replacement)] => {
            (input, expression, replacement, "")
        }
        [Value::String(input), Value::String(expression), Value::String(replacement), Value::String(flags)] => {
            (input, expression, replacement, flags.as_ref())
        }
        _ => return Err(Refusal::Illegal),
    };
    let regex = pattern(call, input, expression, flags)?;
    let mut result = String::new();
    let mut copied = 0;
    for captures in regex.captures_iter(input) {
        let Some(found) = captures.get(0) else { continue };
        result.push_str(input.get(copied..found.start()).unwrap_or_default());
        expand(replacement, &captures, &mut result)
            .ok_or_else(|| Refusal::Because(format!("Invalid replacement '{replacement}'")))?;
        copied = found.end();
        if result.len() > limits::STRING {
            return Err(Failure::TooLarge.into());
        }
    }
    result.push_str(input.get(copied..).unwrap_or_default());
    Ok(Value::string(result))
}

/// `$1` is a group (as many digits as name one), `${name}` a named group, `\$` a dollar.
fn expand(replacement: &str, captures: &Captures<'_>, result: &mut String) -> Option<()> {
    let mut rest = replacement;
    while let Some(at) = rest.find(['$', '\\']) {
        result.push_str(rest.get(..at)?);
        let is_escape = rest.get(at..)?.starts_with('\\');
        rest = rest.get(at + 1..)?;
        if is_escape {
            let escaped = rest.chars().next()?;
            result.push(escaped);
            rest = rest.get(escaped.len_utf8()..)?;
        } else if let Some(named) = rest.strip_prefix('{') {
            let (name, tail) = named.split_once('}')?;
            result.push_str(captures.name(name).map_or("", |group| group.as_str()));
            rest = tail;
        } else {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let length = (1..=digits.min(4)).rev().find(|length| {
                rest.get(..*length)
                    .and_then(|digits| digits.parse::<usize>().ok())
                    .is_some_and(|group| group < captures.len())
            })?;
            let group = rest.get(..length)?.parse().ok()?;
            result.push_str(captures.get(group).map_or("", |group| group.as_str()));
            rest = rest.get(length..)?;
        }
    }
    result.push_str(rest);
    Some(())
}

fn split(call: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::String(input), Value::String(delimiter)] = arguments else { return Err(Refusal::Illegal) };
    Ok(Value::list(pattern(call, input, delimiter, "")?.split(input).map(Value::from).collect()))
}

fn extract(call: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::String(input), Value::String(expression)] = arguments else { return Err(Refusal::Illegal) };
    Ok(Value::list(
        pattern(call, input, expression, "")?.find_iter(input).map(|found| Value::from(found.as_str())).collect(),
    ))
}

fn from_base64(_: &mut Call<'_, '_>, arguments: &[Value]) -> Answer {
    let [Value::String(text)] = arguments else { return Err(Refusal::Illegal) };
    let decoded = BASE64.decode(text.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map(Value::string).ok_or_else(|| Refusal::Because(format!("Invalid Base64 value '{text}'")))
}
