//! Where names come from: first what the expression binds itself, then the variables of whoever evaluates it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::json::NotAValue;
use super::value::{Context, Value};

/// The variables that an expression can read.
pub trait Scope {
    /// The variable of this name. `None`: there is none. An error: there is one, but FEEL cannot hold it.
    fn variable(&self, name: &str) -> Option<Result<Value, NotAValue>>;
}

impl Scope for serde_json::Map<String, serde_json::Value> {
    fn variable(&self, name: &str) -> Option<Result<Value, NotAValue>> {
        self.get(name).map(Value::from_json)
    }
}

impl Scope for BTreeMap<String, serde_json::Value> {
    fn variable(&self, name: &str) -> Option<Result<Value, NotAValue>> {
        self.get(name).map(Value::from_json)
    }
}

impl Scope for BTreeMap<String, Value> {
    fn variable(&self, name: &str) -> Option<Result<Value, NotAValue>> {
        self.get(name).cloned().map(Ok)
    }
}

/// No variables.
impl Scope for () {
    fn variable(&self, _name: &str) -> Option<Result<Value, NotAValue>> {
        None
    }
}

/// The names that the expression has bound so far, innermost first.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame(Option<Arc<Link>>);

#[derive(Debug)]
struct Link {
    bound: Bound,
    parent: Frame,
    depth: usize,
}

#[derive(Debug)]
enum Bound {
    Names(Vec<(Arc<str>, Value)>),
    /// Every entry of a context: the item that a filter looks at.
    Entries(Arc<Context>),
}

impl Frame {
    /// This frame and, in front of it, `names`.
    pub(super) fn bind(&self, names: Vec<(Arc<str>, Value)>) -> Self {
        let depth = names.iter().map(|(_, value)| value.depth()).max().unwrap_or(0);
        self.push(Bound::Names(names), depth)
    }

    /// This frame and, in front of it, the entries of `context`.
    pub(super) fn bind_entries(&self, context: &Arc<Context>) -> Self {
        let depth = Value::Context(Arc::clone(context)).depth();
        self.push(Bound::Entries(Arc::clone(context)), depth)
    }

    fn push(&self, bound: Bound, depth: usize) -> Self {
        let depth = 1 + depth.max(self.depth());
        Self(Some(Arc::new(Link { bound, parent: self.clone(), depth })))
    }

    /// The value of `name`, if the expression bound it.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let mut frame = self;
        while let Some(link) = &frame.0 {
            let found = match &link.bound {
                Bound::Names(names) => names.iter().find(|(bound, _)| &**bound == name).map(|(_, value)| value),
                Bound::Entries(context) => context.get(name),
            };
            if found.is_some() {
                return found;
            }
            frame = &link.parent;
        }
        None
    }

    /// How deep the frame and what it holds nest.
    pub(super) fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |link| link.depth)
    }
}
