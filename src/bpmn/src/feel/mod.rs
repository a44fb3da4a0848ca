//! FEEL, the language of conditions and mappings, with the meaning that Zeebe gives it (feel-scala 1.17 and later).
//!
//! [`parse`] gives an [`Expr`]; [`Expr::eval`] gives a value for some variables at some instant, and the warnings that
//! Zeebe prints into incidents. What is missing or has the wrong type is null, never an error: `x = true` with `x`
//! missing is false, `x > 1` is null. Numbers are decimals. Nothing here reads a clock, a random source or a zone
//! database, and every evaluation is bounded in depth, time and memory, so any text and any data may be passed in.
//!
//! Semantics: the feel-scala test suite (a checked-in copy of its cases is run against this module) and, where
//! feel-scala is silent, the DMN specification.

use std::collections::BTreeSet;
use std::sync::Arc;

use m87_core::time::Timestamp;

mod ast;
mod builtins;
mod compare;
mod eval;
mod json;
mod lexer;
mod limits;
mod number;
mod parser;
mod plain;
mod properties;
mod scope;
mod temporal;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod warnings;

pub use json::NotAValue;
pub use scope::Scope;
pub use temporal::{DateTime, Time};
pub use value::{Context, Function, List, Range, Value};
pub use warnings::{Failure, Warning, WarningKind};

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {position})")]
pub struct FeelError {
    /// Where, in characters from the start of the text.
    pub position: usize,
    /// What is wrong there, and what to write instead.
    pub message: String,
}

impl FeelError {
    fn new(position: usize, message: impl Into<String>) -> Self {
        Self { position, message: message.into() }
    }
}

/// A parsed expression; cheap to clone.
#[derive(Debug, Clone)]
pub struct Expr {
    text: Arc<str>,
    root: Arc<ast::Node>,
}

/// What an evaluation gave.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The value; null if the evaluation failed.
    pub value: Value,
    /// Why parts of it are null.
    pub warnings: Vec<Warning>,
    /// Why there is no value at all. Whoever needs the value must treat this as an error.
    pub failure: Option<Failure>,
}

/// Reads an expression (without a leading `=`).
///
/// # Errors
/// Text that is no expression, nests too deeply, is too long, or calls a function whose result is not determined by
/// its arguments.
pub fn parse(text: &str) -> Result<Expr, FeelError> {
    // The parser counts bytes, people count characters.
    let in_characters = |error: FeelError| FeelError {
        position: text.get(..error.position).map_or(error.position, |before| before.chars().count()),
        ..error
    };
    Ok(Expr { root: Arc::new(parser::parse(text).map_err(in_characters)?), text: text.into() })
}

impl Expr {
    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value for these variables at this instant.
    pub fn eval(&self, scope: &dyn Scope, now: Timestamp) -> Evaluation {
        let mut evaluator = eval::Evaluator::new(scope, now);
        let result = evaluator.eval(&self.root, &scope::Frame::default());
        let warnings = evaluator.into_warnings();
        match result {
            Ok(value) => Evaluation { value, warnings, failure: None },
            Err(failure) => Evaluation { value: Value::Null, warnings, failure: Some(failure) },
        }
    }

    /// The names of the variables that the expression may read. Inside of a filter a name may turn out to be an entry
    /// of the item; it is counted too.
    pub fn variables(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.root.free(&mut Vec::new(), &mut found);
        found
    }
}

/// The text of an attribute in a model: an expression if it starts with `=`, else itself.
#[derive(Debug, Clone)]
pub enum Attribute {
    /// A fixed text.
    Static(String),
    /// An expression.
    Expression(Expr),
}

impl Attribute {
    /// Reads the text of an attribute.
    ///
    /// # Errors
    /// The text starts with `=` and the rest is no expression; positions count from after the `=`.
    pub fn parse(text: &str) -> Result<Self, FeelError> {
        match text.trim_start().strip_prefix('=') {
            Some(expression) => parse(expression.trim()).map(Self::Expression),
            None => Ok(Self::Static(text.to_owned())),
        }
    }

    /// The value: the text, or what the expression gives.
    pub fn eval(&self, scope: &dyn Scope, now: Timestamp) -> Evaluation {
        match self {
            Self::Static(text) => {
                Evaluation { value: Value::string(text.as_str()), warnings: Vec::new(), failure: None }
            }
            Self::Expression(expression) => expression.eval(scope, now),
        }
    }
}
