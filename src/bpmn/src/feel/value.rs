//! The values of FEEL. They are immutable and cheap to clone; lists and contexts know their size and nesting, so that
//! an expression cannot build (by sharing) a value that is too large to write out or too deep to walk.

use std::collections::BTreeMap;
use std::sync::Arc;

use rust_decimal::Decimal;
use time::Date;

use super::ast::FunctionNode;
use super::scope::Frame;
use super::temporal::{DateTime, Time};

/// A value.
#[derive(Debug, Clone)]
pub enum Value {
    /// Nothing: missing, or the result of what could not be done.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A decimal of 28 digits.
    Number(Decimal),
    /// Text.
    String(Arc<str>),
    /// A calendar date between the years -9999 and 9999.
    Date(Date),
    /// A time of day, with or without an offset from UTC.
    Time(Time),
    /// A date and time, with or without an offset from UTC.
    DateTime(DateTime),
    /// A days and time duration.
    Duration(time::Duration),
    /// A years and months duration, in months.
    Months(i64),
    /// Values in order.
    List(Arc<List>),
    /// Values by name.
    Context(Arc<Context>),
    /// The values between two ends.
    Range(Arc<Range>),
    /// A function that the expression defined.
    Function(Arc<Function>),
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// A list of `items`.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List::new(items)))
    }

    /// A context of `entries`; of two with one key the later counts.
    pub fn context<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Context(Arc::new(Context::new(entries)))
    }

    /// The name of the type, as `instance of` and messages have it.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Date(_) => "date",
            Self::Time(_) => "time",
            Self::DateTime(_) => "date and time",
            Self::Duration(_) => "days and time duration",
            Self::Months(_) => "years and months duration",
            Self::List(_) => "list",
            Self::Context(_) => "context",
            Self::Range(_) => "range",
            Self::Function(_) => "function",
        }
    }

    /// Whether this is null.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The boolean, if it is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// What the value costs to walk or write: one a value, and one per 16 bytes of text.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::String(text) => 1 + text.len() / 16,
            Self::List(list) => list.size,
            Self::Context(context) => context.size,
            Self::Range(range) => range.start.size().saturating_add(range.end.size()),
            _ => 1,
        }
    }

    /// How deep the value nests; scalars are 0.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth,
            Self::Context(context) => context.depth,
            Self::Range(range) => 1 + range.start.depth().max(range.end.depth()),
            Self::Function(function) => 1 + function.scope.depth(),
            _ => 0,
        }
    }
}

/// Values in order.
#[derive(Debug)]
pub struct List {
    items: Vec<Value>,
    size: usize,
    depth: usize,
}

impl List {
    fn new(items: Vec<Value>) -> Self {
        let size = items.iter().fold(1, |size: usize, item| size.saturating_add(item.size()));
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        Self { items, size, depth }
    }

    /// The items.
    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

/// Values by name, in the order in which they were given.
#[derive(Debug)]
pub struct Context {
    entries: Vec<(Arc<str>, Value)>,
    index: BTreeMap<Arc<str>, usize>,
    size: usize,
    depth: usize,
}

impl Context {
    /// Without entries.
    pub(super) fn empty() -> Self {
        Self::new::<&str>([])
    }

    fn new<K: Into<Arc<str>>>(given: impl IntoIterator<Item = (K, Value)>) -> Self {
        let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
        let mut index = BTreeMap::new();
        for (key, value) in given {
            let key = key.into();
            match index.get(&key).and_then(|at: &usize| entries.get_mut(*at)) {
                Some(entry) => entry.1 = value,
                None => {
                    index.insert(Arc::clone(&key), entries.len());
                    entries.push((key, value));
                }
            }
        }
        let size = entries
            .iter()
            .fold(1, |size: usize, (key, value)| size.saturating_add(1 + key.len() / 16).saturating_add(value.size()));
        let depth = 1 + entries.iter().map(|(_, value)| value.depth()).max().unwrap_or(0);
        Self { entries, index, size, depth }
    }

    /// The value of `key`, if there is such an entry.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).and_then(|at| self.entries.get(*at)).map(|(_, value)| value)
    }

    /// The entries in their order.
    pub fn entries(&self) -> &[(Arc<str>, Value)] {
        &self.entries
    }

    /// A copy in which `key` has `value`.
    pub(super) fn with(&self, key: &str, value: Value) -> Self {
        Self::new(self.entries.iter().cloned().chain([(Arc::from(key), value)]))
    }
}

/// The values between two ends.
#[derive(Debug)]
pub struct Range {
    /// The lower end.
    pub start: Value,
    /// The upper end.
    pub end: Value,
    /// Whether the lower end belongs to the range.
    pub start_included: bool,
    /// Whether the upper end belongs to the range.
    pub end_included: bool,
}

/// A function that the expression defined, with the names that were bound where it was.
#[derive(Debug)]
pub struct Function {
    pub(super) node: Arc<FunctionNode>,
    pub(super) scope: Frame,
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<Decimal> for Value {
    fn from(value: Decimal) -> Self {
        Self::Number(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::string(value)
    }
}

/// `None` is a result that is out of range; FEEL has null for it.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
