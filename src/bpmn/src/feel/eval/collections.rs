//! Lists and contexts: literals, paths, filters and `for`.

use std::sync::Arc;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::{Evaluated, Evaluator};
use crate::feel::ast::{For, Node, Over, Step};
use crate::feel::scope::Frame;
use crate::feel::text::quote;
use crate::feel::value::{List, Value};
use crate::feel::warnings::{Failure, WarningKind};

/// What an iterator goes over; counting makes no list.
pub(super) enum Items {
    List(Arc<List>),
    Count { from: i64, step: i64, length: usize },
}

impl Items {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.items().len(),
            Self::Count { length, .. } => *length,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, at: usize) -> Value {
        match self {
            Self::List(list) => list.items().get(at).cloned().unwrap_or(Value::Null),
            Self::Count { from, step, .. } => Value::from(from + step * i64::try_from(at).unwrap_or(0)),
        }
    }
}

impl Evaluator<'_> {
    pub(super) fn list_literal(&mut self, nodes: &[Node], frame: &Frame) -> Evaluated {
        let mut items = Vec::with_capacity(nodes.len());
        for node in nodes {
            items.push(self.eval(node, frame)?);
        }
        self.made(Value::list(items))
    }

    /// Later entries see earlier ones.
    pub(super) fn context_literal(&mut self, nodes: &[(Arc<str>, Node)], frame: &Frame) -> Evaluated {
        let mut entries: Vec<(Arc<str>, Value)> = Vec::with_capacity(nodes.len());
        for (key, node) in nodes {
            self.spend(entries.len())?;
            // Newest first, so that the later of two with one key is seen.
            let bound = entries.iter().rev().cloned().collect();
            let inner = self.framed(frame.bind(bound))?;
            let value = self.eval(node, &inner)?;
            entries.push((Arc::clone(key), value));
        }
        self.made(Value::context(entries))
    }

    pub(super) fn chain(&mut self, base: &Node, steps: &[Step], frame: &Frame) -> Evaluated {
        let mut value = self.eval(base, frame)?;
        for step in steps {
            value = match step {
                Step::Field(key) => self.field(&value, key)?,
                Step::Filter(filter) => self.filter(&value, filter, frame)?,
                Step::Call { name, arguments } => self.call_entry(&value, name, arguments, frame)?,
            };
        }
        Ok(value)
    }

    /// An entry of a context, a property of a temporal value, or the list of those of a list's items.
    fn field(&mut self, value: &Value, key: &str) -> Evaluated {
        self.spend(1)?;
        match value {
            Value::List(list) => {
                let mut items = Vec::with_capacity(list.items().len());
                for item in list.items() {
                    items.push(self.field(item, key)?);
                }
                return self.made(Value::list(items));
            }
            Value::Context(context) => {
                if let Some(found) = context.get(key) {
                    return Ok(found.clone());
                }
                let keys: Vec<_> = context.entries().iter().take(32).map(|(key, _)| format!("'{key}'")).collect();
                let available = if keys.is_empty() {
                    "The context is empty".to_owned()
                } else {
                    format!("Available keys: {}", keys.join(", "))
                };
                self.warn(
                    WarningKind::NoContextEntryFound,
                    format!("No context entry found with key '{key}'. {available}"),
                );
            }
            Value::Null => {
                self.warn(
                    WarningKind::NoContextEntryFound,
                    format!("No context entry found with key '{key}'. The context is null"),
                );
            }
            other => {
                let properties = super::super::properties::of(other);
                if let Some((_, found)) = properties.iter().find(|(name, _)| *name == key) {
                    return Ok(found.clone());
                }
                let names: Vec<_> = properties.iter().map(|(name, _)| format!("'{name}'")).collect();
                let message = format!(
                    "No property found with name '{key}' of value '{}'. Available properties: {}",
                    quote(other),
                    names.join(", ")
                );
                self.warn(WarningKind::NoPropertyFound, message);
            }
        }
        Ok(Value::Null)
    }

    /// `list[n]` is the n-th item, from the end if negative; `list[condition]` the items for which it is true.
    fn filter(&mut self, value: &Value, filter: &Node, frame: &Frame) -> Evaluated {
        let Value::List(list) = value else { return Ok(self.mistyped("list", value)) };
        let per_item = matches!(
            filter,
            Node::Compare(..) | Node::Between(_) | Node::Call { .. } | Node::And(_) | Node::Or(_) | Node::In(..)
        );
        if !per_item {
            // It may be a position; if not, what it warned of without an item does not count.
            let kept = self.warnings.len();
            if let Value::Number(position) = self.eval(filter, frame)? {
                return Ok(item_at(list.items(), position));
            }
            self.warnings.truncate(kept);
        }
        let mut found = Vec::new();
        for (at, item) in list.items().iter().enumerate() {
            let inner = frame.bind(vec![("item".into(), item.clone())]);
            let inner = match item {
                Value::Context(context) => inner.bind_entries(context),
                _ => inner,
            };
            let inner = self.framed(inner)?;
            match self.eval(filter, &inner)? {
                Value::Number(position) if at == 0 => return Ok(item_at(list.items(), position)),
                Value::Boolean(true) => found.push(item.clone()),
                _ => {}
            }
        }
        self.made(Value::list(found))
    }

    pub(super) fn items(&mut self, over: &Over, frame: &Frame) -> Result<Option<Items>, Failure> {
        match over {
            Over::List(node) => match self.eval(node, frame)? {
                Value::List(list) => Ok(Some(Items::List(list))),
                other => {
                    self.mistyped("list", &other);
                    Ok(None)
                }
            },
            Over::Count(from, to) => {
                let (from, to) = (self.eval(from, frame)?, self.eval(to, frame)?);
                let (Value::Number(first), Value::Number(last)) = (&from, &to) else {
                    self.mistyped("number", if matches!(from, Value::Number(_)) { &to } else { &from });
                    return Ok(None);
                };
                match count(*first, *last) {
                    Some(items) => Ok(Some(items)),
                    None => Err(Failure::TooLong),
                }
            }
        }
    }

    pub(super) fn iterate(&mut self, node: &For, frame: &Frame) -> Evaluated {
        let mut results: Vec<Value> = Vec::new();
        let complete = self.each_combination(&node.iterators, frame, &mut |evaluator, frame| {
            let value = if node.reads_partial {
                let partial = evaluator.made(Value::list(results.clone()))?;
                let inner = frame.bind(vec![("partial".into(), partial)]);
                let inner = evaluator.framed(inner)?;
                evaluator.eval(&node.body, &inner)?
            } else {
                evaluator.eval(&node.body, frame)?
            };
            results.push(value);
            Ok(true)
        })?;
        if complete { self.made(Value::list(results)) } else { Ok(Value::Null) }
    }
}

/// Whole steps from `first` towards `last`; `None` if they are too many to count.
fn count(first: Decimal, last: Decimal) -> Option<Items> {
    let from = first.to_i64()?;
    let (step, distance) = if first < last { (1, last.checked_sub(first)?) } else { (-1, first.checked_sub(last)?) };
    let length = distance.trunc().to_i64()?.checked_add(1)?;
    // The last one is in range too.
    from.checked_add(step * (length - 1))?;
    Some(Items::Count { from, step, length: usize::try_from(length).ok()? })
}

fn item_at(items: &[Value], position: Decimal) -> Value {
    let Some(position) = position.trunc().to_i64() else { return Value::Null };
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let at = if position > 0 { position - 1 } else { length.saturating_add(position) };
    if position == 0 {
        Value::Null
    } else {
        usize::try_from(at).ok().and_then(|at| items.get(at)).cloned().unwrap_or(Value::Null)
    }
}
