//! The one strict reader of JSON and YAML.
//!
//! What two readers could understand differently is refused before any type sees it: repeated keys, NaN and infinities,
//! integers that would lose digits, keys that are no strings, tags of one's own, texts that are not UTF-8, and what is too large, too deep
//! or grows when it is read. Errors say line, column and the path of keys.
//!
//! YAML's own tags decide nothing but the type of plain scalars (`!!int "1"`): `!!binary` is read as the text that stands there. A
//! plain number that no double holds (`1e999`) is a text in YAML, and no field for numbers takes it.

#[cfg(test)]
mod tests;

use crate::json::MAX_SAFE_INTEGER;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::{Cell, RefCell};
use std::fmt;

/// How much is read at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the whole text.
    pub bytes: usize,
    /// Levels of nesting.
    pub depth: usize,
}

impl Bounds {
    /// 4 MiB, 64 levels: room for any policy, manifest and process.
    pub const DEFAULT: Self = Self { bytes: 4 << 20, depth: 64 };
}

/// Why a text is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {at}{message}", at = if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct StrictError {
    /// From 1; 0 where the text as a whole is meant.
    pub line: usize,
    /// From 1, in bytes; 0 where the text as a whole is meant.
    pub column: usize,
    /// The keys that lead there, such as `spec.tools[2].name`; empty at the top.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Reads one JSON document within [`Bounds::DEFAULT`].
pub fn json(bytes: &[u8]) -> Result<Value, StrictError> {
    json_within(bytes, Bounds::DEFAULT)
}

/// Reads all documents of a YAML stream within [`Bounds::DEFAULT`]; empty ones are left out.
pub fn yaml(bytes: &[u8]) -> Result<Vec<Value>, StrictError> {
    yaml_within(bytes, Bounds::DEFAULT)
}

/// Reads one JSON document.
pub fn json_within(bytes: &[u8], bounds: Bounds) -> Result<Value, StrictError> {
    let text = text(bytes, bounds)?;
    let reading = Reading::new(text, bounds, Format::Json);
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = reading.seed().deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    let value = read.map_err(|error| reading.error(Some((error.line(), error.column())), &error))?;
    integer_literals(text)?;
    Ok(value)
}

/// Documents of one YAML stream, at most.
const MAX_DOCUMENTS: usize = 100_000;

/// Reads all documents of a YAML stream; empty ones are left out.
pub fn yaml_within(bytes: &[u8], bounds: Bounds) -> Result<Vec<Value>, StrictError> {
    let text = text(bytes, bounds)?;
    control_characters(text)?;
    flow_nesting(text)?;
    let reading = Reading::new(text, bounds, Format::Yaml);
    let mut documents = vec![];
    for (at, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        if at == MAX_DOCUMENTS {
            return Err(whole(format!("more than {MAX_DOCUMENTS} documents; put them into several files")));
        }
        let value = reading.seed().deserialize(document).map_err(|error| {
            let place = error.location().map(|location| (location.line(), location.column()));
            reading.error(place, &error)
        })?;
        if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

/// An error of the text as a whole.
fn whole(message: String) -> StrictError {
    StrictError { line: 0, column: 0, path: String::new(), message }
}

fn text(bytes: &[u8], bounds: Bounds) -> Result<&str, StrictError> {
    if bytes.len() > bounds.bytes {
        return Err(whole(format!("{} bytes are more than the {} that are read at most", bytes.len(), bounds.bytes)));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(bytes, error.valid_up_to());
        StrictError {
            line,
            column,
            path: String::new(),
            message: "this is not UTF-8; save the file as UTF-8".to_owned(),
        }
    })
}

/// Line and column, both from 1, of a byte.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
    (line, column)
}

/// YAML has no control characters but tabs and line ends; its scanner says that without a place.
fn control_characters(text: &str) -> Result<(), StrictError> {
    let refused = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    match text.char_indices().find(|(_, c)| refused(*c)) {
        None => Ok(()),
        Some((at, control)) => {
            let (line, column) = place(text.as_bytes(), at);
            let message = format!(
                "the control character U+{:04X} is refused; write it as an escape in double quotes",
                u32::from(control)
            );
            Err(StrictError { line, column, path: String::new(), message })
        }
    }
}

/// The YAML scanner takes time by depth × length in nested `[` and `{`, before any visitor can count levels. So what is plainly
/// nested beyond reason is refused here, and so is what could be, however it hides its brackets in strings and comments.
fn flow_nesting(text: &str) -> Result<(), StrictError> {
    let (mut opened, mut depth) = (0_usize, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' => (opened, depth) = (opened + 1, depth + 1),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 512 || opened.saturating_mul(text.len()) > 1 << 34 {
            let (line, column) = place(text.as_bytes(), at);
            let message =
                "too many [ and { are nested or stand in this text; write lists and mappings line by line".to_owned();
            return Err(StrictError { line, column, path: String::new(), message });
        }
    }
    Ok(())
}

/// JSON's readers turn long integer literals into doubles; their digits are looked at here, in a text that is known to be JSON.
fn integer_literals(text: &str) -> Result<(), StrictError> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        at += match byte {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => {
                let literal: Vec<u8> = rest
                    .iter()
                    .copied()
                    .take_while(|c| matches!(c, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
                    .collect();
                let literal = String::from_utf8_lossy(&literal);
                let whole = !literal.contains(['.', 'e', 'E']);
                if whole && !literal.parse().is_ok_and(|integer: i64| is_safe(i128::from(integer))) {
                    let (line, column) = place(bytes, at);
                    return Err(StrictError { line, column, path: String::new(), message: loses_digits(&literal) });
                }
                literal.len()
            }
            _ => 1,
        };
    }
    Ok(())
}

fn string_length(quoted: &[u8]) -> usize {
    let mut escaped = false;
    for (index, &byte) in quoted.iter().enumerate().skip(1) {
        match (escaped, byte) {
            (false, b'"') => return index + 1,
            (false, b'\\') => escaped = true,
            (true | false, _) => escaped = false,
        }
    }
    quoted.len()
}

fn is_safe(integer: i128) -> bool {
    integer.unsigned_abs() <= u128::from(MAX_SAFE_INTEGER.unsigned_abs())
}

fn loses_digits(integer: &dyn fmt::Display) -> String {
    format!("the integer {integer} is beyond ±(2^53−1) and could lose digits; write it as a string")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
}

/// One reading of one text.
struct Reading {
    format: Format,
    depth: usize,
    /// Each node takes at least a byte of the text; what exceeds that has grown out of aliases.
    nodes_left: Cell<usize>,
    path: RefCell<Vec<Step>>,
    /// The first thing that was refused here, rather than by the format's own reader.
    refused: RefCell<Option<(String, String)>>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Reading {
    fn new(text: &str, bounds: Bounds, format: Format) -> Self {
        Self {
            format,
            depth: bounds.depth,
            nodes_left: Cell::new(text.len() + 1),
            path: RefCell::default(),
            refused: RefCell::default(),
        }
    }

    const fn seed(&self) -> Node<'_> {
        Node { reading: self, depth: 0 }
    }

    fn refuse<E: de::Error>(&self, message: String) -> E {
        let error = E::custom(&message);
        self.refused.borrow_mut().get_or_insert_with(|| (self.path(), message));
        error
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.path.borrow().iter() {
            match step {
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => path.extend([".", key]),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    fn error(&self, place: Option<(usize, usize)>, error: &dyn fmt::Display) -> StrictError {
        let (line, column) = place.unwrap_or_default();
        let (path, message) = self.refused.take().unwrap_or_else(|| {
            let text = error.to_string();
            // The place is said already.
            let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
            (self.path(), message)
        });
        StrictError { line, column, path, message }
    }
}

/// Reads one node of a document.
#[derive(Clone, Copy)]
struct Node<'r> {
    reading: &'r Reading,
    depth: usize,
}

impl Node<'_> {
    fn count<E: de::Error>(&self) -> Result<(), E> {
        match self.reading.nodes_left.get().checked_sub(1) {
            Some(left) => {
                self.reading.nodes_left.set(left);
                Ok(())
            }
            None => Err(self.reading.refuse("aliases make this larger than its text; write it out".to_owned())),
        }
    }

    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth >= self.reading.depth {
            return Err(self.reading.refuse(format!("nested deeper than {} levels", self.reading.depth)));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn integer<E: de::Error>(&self, integer: i128) -> Result<Value, E> {
        self.count()?;
        match i64::try_from(integer) {
            Ok(small) if is_safe(integer) => Ok(Value::from(small)),
            Ok(_) | Err(_) => Err(self.reading.refuse(loses_digits(&integer))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a boolean, a number, a string, a list or a mapping without tags")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        self.count()?;
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        self.count()?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(i128::from(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.integer(i128::from(value))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Value, E> {
        self.integer(value)
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Value, E> {
        self.integer(i128::try_from(value).unwrap_or(i128::MAX))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.count()?;
        // YAML's reader takes a very long integer for a double; there is no telling them apart here.
        if self.reading.format == Format::Yaml && value.fract() == 0.0 && value.abs() > MAX_SAFE_INTEGER as f64 {
            let message = "a number beyond ±(2^53−1) could have lost digits in YAML; write it as a string";
            return Err(self.reading.refuse(message.to_owned()));
        }
        match Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(self.reading.refuse("NaN and infinities are no numbers here".to_owned())),
        }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.count()?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.count()?;
        let inner = self.deeper()?;
        let mut list = vec![];
        loop {
            self.reading.path.borrow_mut().push(Step::Index(list.len()));
            let Some(item) = items.next_element_seed(inner)? else { break };
            self.reading.path.borrow_mut().pop();
            list.push(item);
        }
        self.reading.path.borrow_mut().pop();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.count()?;
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = members.next_key_seed(Key { reading: self.reading, before: &map })? {
            self.reading.path.borrow_mut().push(Step::Key(key.clone()));
            let value = members.next_value_seed(inner)?;
            self.reading.path.borrow_mut().pop();
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Reads a key: a string that was not there before.
struct Key<'r> {
    reading: &'r Reading,
    before: &'r Map<String, Value>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is a string; put it in quotes")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        if self.before.contains_key(key) {
            return Err(self.reading.refuse(format!("the key {key:?} is there twice")));
        }
        Ok(key.to_owned())
    }
}
