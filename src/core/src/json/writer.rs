//! Writes anything that serialises as canonical JSON, in one pass and without a tree in between.
//!
//! The members of an object are written as they come and put into their order when the object ends.

use super::{JsonError, MAX_DEPTH, MAX_SAFE_INTEGER};
use serde::ser::{self, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;
use std::ops::Range;

impl ser::Error for JsonError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Unwritable(message.to_string())
    }
}

/// Writes one value at the end of `out`.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut String,
    pub(super) depth: usize,
}

/// A list that is being written.
pub(super) struct List<'o> {
    out: &'o mut String,
    depth: usize,
    empty: bool,
    /// What stands behind the list: the end of a variant around it.
    after: &'static str,
}

/// An object that is being written.
pub(super) struct Object<'o> {
    out: &'o mut String,
    depth: usize,
    start: usize,
    members: Vec<(Cow<'static, str>, Range<usize>)>,
    key: Option<String>,
    after: &'static str,
}

impl<'o> Writer<'o> {
    fn deeper(&self) -> Result<usize, JsonError> {
        if self.depth < MAX_DEPTH { Ok(self.depth + 1) } else { Err(JsonError::TooDeep) }
    }

    fn list(self, after: &'static str) -> Result<List<'o>, JsonError> {
        let depth = self.deeper()?;
        self.out.push('[');
        Ok(List { out: self.out, depth, empty: true, after })
    }

    fn object(self, members: usize, after: &'static str) -> Result<Object<'o>, JsonError> {
        let depth = self.deeper()?;
        let start = self.out.len();
        self.out.push('{');
        Ok(Object { out: self.out, depth, start, members: Vec::with_capacity(members), key: None, after })
    }

    /// `{"variant":` and then a value, which ends with `}`.
    fn variant(self, variant: &str) -> Result<Self, JsonError> {
        let depth = self.deeper()?;
        self.out.push('{');
        write_string(variant, self.out);
        self.out.push(':');
        Ok(Writer { out: self.out, depth })
    }
}

/// An integer is written as it is, if every reader's double holds it.
///
/// A double that has no fraction may have been read back as an integer; then it is written as it was, digit for digit.
pub(super) fn write_integer(integer: i128, out: &mut String) -> Result<(), JsonError> {
    let unwritable = |error: std::fmt::Error| JsonError::Unwritable(error.to_string());
    // What is written most is small, and small integers are written faster.
    if let Ok(small) = i64::try_from(integer)
        && small.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs()
    {
        return write!(out, "{small}").map_err(unwritable);
    }
    #[allow(clippy::cast_precision_loss)]
    let nearest = integer as f64;
    if ryu_js::Buffer::new().format_finite(nearest) == integer.to_string() {
        return write!(out, "{integer}").map_err(unwritable);
    }
    Err(JsonError::Integer(integer.to_string()))
}

/// Where the first byte is that cannot be copied as it stands. Most pieces have none, which is seen of a whole piece at once.
fn first_special(text: &[u8]) -> Option<usize> {
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let (pieces, _) = text.as_chunks::<16>();
    let is_plain = |piece: &&[u8; 16]| !piece.iter().fold(false, |any, byte| any | is_special(*byte));
    let plain = 16 * pieces.iter().take_while(is_plain).count();
    text.get(plain..)?.iter().position(|byte| is_special(*byte)).map(|at| plain + at)
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    // Everything but quotes, backslashes and C0 controls is copied in runs.
    while let Some(at) = first_special(rest.as_bytes()) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = special.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            Some(control) => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// RFC 8785, 3.2.3: keys are compared as arrays of UTF-16 code units. For ASCII that is the order of the bytes.
fn by_utf16(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(fn $name(self, value: $type) -> Result<(), JsonError> {
            write_integer(i128::from(value), self.out)
        })*
    };
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = List<'o>;
    type SerializeTuple = List<'o>;
    type SerializeTupleStruct = List<'o>;
    type SerializeTupleVariant = List<'o>;
    type SerializeMap = Object<'o>;
    type SerializeStruct = Object<'o>;
    type SerializeStructVariant = Object<'o>;

    integers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_u128(self, value: u128) -> Result<(), JsonError> {
        i128::try_from(value)
            .map_err(|_| JsonError::Integer(value.to_string()))
            .and_then(|value| write_integer(value, self.out))
    }

    fn serialize_bool(self, value: bool) -> Result<(), JsonError> {
        self.out.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), JsonError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), JsonError> {
        if !value.is_finite() {
            return Err(JsonError::NotFinite);
        }
        self.out.push_str(ryu_js::Buffer::new().format_finite(value));
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), JsonError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), JsonError> {
        write_string(value, self.out);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), JsonError> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), JsonError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), JsonError> {
        self.out.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), JsonError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), JsonError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), JsonError> {
        let Writer { out, depth } = self.variant(variant)?;
        value.serialize(Writer { out: &mut *out, depth })?;
        out.push('}');
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<List<'o>, JsonError> {
        self.list("")
    }

    fn serialize_tuple(self, _length: usize) -> Result<List<'o>, JsonError> {
        self.list("")
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<List<'o>, JsonError> {
        self.list("")
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<List<'o>, JsonError> {
        self.variant(variant)?.list("}")
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Object<'o>, JsonError> {
        self.object(length.unwrap_or_default(), "")
    }

    fn serialize_struct(self, _name: &'static str, length: usize) -> Result<Object<'o>, JsonError> {
        self.object(length, "")
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Object<'o>, JsonError> {
        self.variant(variant)?.object(length, "}")
    }
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(',');
        }
        value.serialize(Writer { out: self.out, depth: self.depth })
    }

    fn finish(self) {
        self.out.push(']');
        self.out.push_str(self.after);
    }
}

macro_rules! lists {
    ($($trait:ident: $item:ident),*) => {
        $(impl ser::$trait for List<'_> {
            type Ok = ();
            type Error = JsonError;

            fn $item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
                self.item(value)
            }

            fn end(self) -> Result<(), JsonError> {
                self.finish();
                Ok(())
            }
        })*
    };
}

lists!(SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field);

impl Object<'_> {
    fn member<T: Serialize + ?Sized>(&mut self, key: Cow<'static, str>, value: &T) -> Result<(), JsonError> {
        if !self.members.is_empty() {
            self.out.push(',');
        }
        let start = self.out.len();
        write_string(&key, self.out);
        self.out.push(':');
        value.serialize(Writer { out: self.out, depth: self.depth })?;
        self.members.push((key, start..self.out.len()));
        Ok(())
    }

    fn finish(mut self) -> Result<(), JsonError> {
        if !self.members.is_sorted_by(|(a, _), (b, _)| by_utf16(a, b) == Ordering::Less) {
            self.members.sort_by(|(a, _), (b, _)| by_utf16(a, b));
            if let Some([(twice, _), _]) = self.members.array_windows().find(|[(a, _), (b, _)]| a == b) {
                return Err(JsonError::Unwritable(format!("the key {twice:?} is there twice")));
            }
            let mut sorted = String::with_capacity(self.out.len() - self.start);
            for (_, range) in &self.members {
                sorted.push(if sorted.is_empty() { '{' } else { ',' });
                sorted.push_str(self.out.get(range.clone()).unwrap_or_default());
            }
            self.out.truncate(self.start);
            self.out.push_str(&sorted);
        }
        self.out.push('}');
        self.out.push_str(self.after);
        Ok(())
    }
}

impl ser::SerializeMap for Object<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), JsonError> {
        let mut text = String::new();
        key.serialize(Writer { out: &mut text, depth: self.depth })?;
        // A key is a string; numbers and booleans are written in one, as everywhere in serde's JSON.
        let key = match text.as_bytes().first() {
            Some(b'"') if !text.contains('\\') => text.trim_matches('"').to_owned(),
            Some(b'"') => serde_json::from_str(&text).map_err(|error| JsonError::Unwritable(error.to_string()))?,
            Some(b'{' | b'[' | b'n') | None => return Err(JsonError::Unwritable("a key must be a string".to_owned())),
            Some(_) => text,
        };
        self.key = Some(key);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        let key = self.key.take().ok_or_else(|| JsonError::Unwritable("a value without a key".to_owned()))?;
        self.member(Cow::Owned(key), value)
    }

    fn end(self) -> Result<(), JsonError> {
        self.finish()
    }
}

macro_rules! objects {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Object<'_> {
            type Ok = ();
            type Error = JsonError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
                self.member(Cow::Borrowed(key), value)
            }

            fn end(self) -> Result<(), JsonError> {
                self.finish()
            }
        })*
    };
}

objects!(SerializeStruct, SerializeStructVariant);
