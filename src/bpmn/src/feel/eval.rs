//! Evaluation. A part that cannot be computed is null and leaves a warning; only an assertion, `?` out of place and
//! the bounds of `limits` end the evaluation with a failure. The clock is given, so the same input gives the same value.

use std::collections::BTreeMap;
use std::sync::Arc;

use m87_core::time::Timestamp;

use super::ast::{Node, Quantifier, RangeNode};
use super::compare::order;
use super::limits;
use super::scope::{Frame, Scope};
use super::text::quote;
use super::value::{Function, Range, Value};
use super::warnings::{Failure, Warning, WarningKind};

mod arithmetic;
mod calls;
mod collections;
mod conditions;

pub(super) use calls::{Call, Refusal};

/// The name under which `?` is bound; no expression can write it as a variable.
const INPUT: &str = "?";

pub(super) type Evaluated = Result<Value, Failure>;

/// One evaluation in progress.
pub(super) struct Evaluator<'a> {
    scope: &'a dyn Scope,
    pub(super) now: Timestamp,
    warnings: Vec<Warning>,
    steps: usize,
    depth: usize,
    /// Variables that were read; reading converts them, so it is done once.
    read: BTreeMap<Arc<str>, Option<Value>>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(scope: &'a dyn Scope, now: Timestamp) -> Self {
        Self { scope, now, warnings: Vec::new(), steps: limits::STEPS, depth: 0, read: BTreeMap::new() }
    }

    pub(super) fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }

    pub(super) fn eval(&mut self, node: &Node, frame: &Frame) -> Evaluated {
        self.spend(1)?;
        self.depth += 1;
        if self.depth > limits::EVALUATION_DEPTH {
            return Err(Failure::TooDeep);
        }
        let value = self.dispatch(node, frame);
        self.depth -= 1;
        value
    }

    // Each arm is a call, so that this frame, which nesting repeats, stays small.
    fn dispatch(&mut self, node: &Node, frame: &Frame) -> Evaluated {
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Input => frame.get(INPUT).cloned().ok_or(Failure::NoInput),
            Node::Variable(name) => self.variable(name, frame),
            Node::Chain { base, steps } => self.chain(base, steps, frame),
            Node::Negate(inner) => self.negate(inner, frame),
            Node::Arithmetic { first, rest } => self.arithmetic(first, rest, frame),
            Node::Compare(comparison, sides) => self.compare(*comparison, &sides.0, &sides.1, frame),
            Node::Between(parts) => self.between(parts, frame),
            Node::In(value, tests) => self.is_in(value, tests, frame),
            Node::InstanceOf(value, name) => self.instance_of(value, name, frame),
            Node::And(nodes) => self.connect(Quantifier::Every, nodes, frame),
            Node::Or(nodes) => self.connect(Quantifier::Some, nodes, frame),
            Node::If(parts) => self.conditional(parts, frame),
            Node::For(node) => self.iterate(node, frame),
            Node::Quantified(quantifier, node) => self.quantify(*quantifier, node, frame),
            Node::List(nodes) => self.list_literal(nodes, frame),
            Node::Context(entries) => self.context_literal(entries, frame),
            Node::Range(node) => self.range_literal(node, frame),
            Node::Call { name, arguments } => self.call(name, arguments, frame),
            Node::Function(node) => {
                self.made(Value::Function(Arc::new(Function { node: Arc::clone(node), scope: frame.clone() })))
            }
        }
    }

    fn variable(&mut self, name: &Arc<str>, frame: &Frame) -> Evaluated {
        match self.lookup(name, frame)? {
            Some(value) => Ok(value),
            None => {
                self.warn(WarningKind::NoVariableFound, format!("No variable found with name '{name}'"));
                Ok(Value::Null)
            }
        }
    }

    /// A name that the expression bound, else a variable. One that FEEL cannot hold is null with a warning.
    fn lookup(&mut self, name: &str, frame: &Frame) -> Result<Option<Value>, Failure> {
        if let Some(value) = frame.get(name) {
            return Ok(Some(value.clone()));
        }
        if let Some(value) = self.read.get(name) {
            return Ok(value.clone());
        }
        let value = match self.scope.variable(name) {
            None => None,
            Some(Ok(value)) => Some(self.given(value)?),
            Some(Err(refused)) => {
                self.warn(WarningKind::Unknown, format!("The variable '{name}' cannot be read: {refused}"));
                Some(Value::Null)
            }
        };
        self.read.insert(name.into(), value.clone());
        Ok(value)
    }

    fn range(&mut self, node: &RangeNode, frame: &Frame) -> Result<Range, Failure> {
        let (start, end) = (self.eval(&node.start, frame)?, self.eval(&node.end, frame)?);
        Ok(Range { start, end, start_included: node.start_included, end_included: node.end_included })
    }

    /// A range as a value. Strings have an order, but no ranges; they can only be tested with `in`.
    fn range_literal(&mut self, node: &RangeNode, frame: &Frame) -> Evaluated {
        let range = self.range(node, frame)?;
        let valid = order(&range.start, &range.end).is_some() && !matches!(range.start, Value::String(_));
        let range = Value::Range(Arc::new(range));
        if !valid {
            self.warn(WarningKind::InvalidType, format!("Invalid range definition '{}'", quote(&range)));
            return Ok(Value::Null);
        }
        self.made(range)
    }

    // ---- bounds and warnings ----

    /// Pays for work that is about to be done.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Failure> {
        self.steps = self.steps.checked_sub(steps).ok_or(Failure::TooLong)?;
        Ok(())
    }

    /// Pays for a value that was made, and refuses one that nests too deeply.
    pub(super) fn made(&mut self, value: Value) -> Evaluated {
        self.spend(value.size())?;
        if value.depth() > limits::VALUE_DEPTH { Err(Failure::TooDeep) } else { Ok(value) }
    }

    /// Pays for a value that came from outside: it exists already, so only for walking it.
    fn given(&mut self, value: Value) -> Evaluated {
        self.spend(value.size() / 16)?;
        if value.depth() > limits::VALUE_DEPTH { Err(Failure::TooDeep) } else { Ok(value) }
    }

    /// Refuses a frame that nests too deeply.
    fn framed(&mut self, frame: Frame) -> Result<Frame, Failure> {
        if frame.depth() > limits::VALUE_DEPTH { Err(Failure::TooDeep) } else { Ok(frame) }
    }

    /// Keeps a warning, once.
    pub(super) fn warn(&mut self, kind: WarningKind, message: String) {
        let warning = Warning { kind, message };
        if self.warnings.len() < limits::WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Warns that `value` has the wrong type; the result is null.
    fn mistyped(&mut self, expected: &str, value: &Value) -> Value {
        self.warn(WarningKind::InvalidType, format!("Expected {expected} but found '{}'", quote(value)));
        Value::Null
    }
}
