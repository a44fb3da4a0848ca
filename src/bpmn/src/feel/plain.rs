//! Plain expressions: those whose result depends on a variable only through comparisons with literals and boolean logic.
//!
//! For them a few values stand for all: between two neighbouring literals no other value can give another result. The
//! prover accepts no other expression, which is what makes its finite search a proof.

use super::Expr;
use super::ast::{Arguments, Node};
use super::value::Value;
use rust_decimal::Decimal;

impl Expr {
    /// The literals that a plain expression compares with or results in.
    ///
    /// # Errors
    /// What else the expression uses, in words.
    pub fn plain_literals(&self) -> Result<Vec<Value>, &'static str> {
        let mut found = Vec::new();
        plain(&self.root, &mut found)?;
        Ok(found)
    }
}

fn plain(node: &Node, found: &mut Vec<Value>) -> Result<(), &'static str> {
    if let Some(value) = literal(node) {
        found.push(value);
        return Ok(());
    }
    match node {
        Node::Variable(_) => Ok(()),
        Node::Compare(_, sides) if literal(&sides.0).is_some() || literal(&sides.1).is_some() => {
            plain(&sides.0, found)?;
            plain(&sides.1, found)
        }
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().try_for_each(|node| plain(node, found)),
        Node::If(parts) => [&parts.0, &parts.1, &parts.2].into_iter().try_for_each(|node| plain(node, found)),
        Node::Call { name, arguments: Arguments::Positional(nodes) }
            if matches!((&**name, nodes.len()), ("not" | "is defined", 1) | ("get or else", 2)) =>
        {
            nodes.iter().try_for_each(|node| plain(node, found))
        }
        Node::Compare(..) => Err("a comparison without a literal"),
        Node::Call { .. } => Err("a function other than not, is defined, get or else"),
        Node::Literal(_) => Err("a literal that is no null, boolean, number or string"),
        Node::Negate(_) | Node::Arithmetic { .. } => Err("arithmetic"),
        Node::Input => Err("?"),
        Node::Chain { .. } => Err("a path, filter or method"),
        Node::Between(_) | Node::In(..) | Node::Range(_) => Err("between, in or a range"),
        Node::InstanceOf(..) => Err("instance of"),
        Node::For(_) | Node::Quantified(..) => Err("for, some or every"),
        Node::List(_) | Node::Context(_) => Err("a list or context"),
        Node::Function(_) => Err("a function of its own"),
    }
}

/// A scalar that is written out, with its sign.
fn literal(node: &Node) -> Option<Value> {
    match node {
        Node::Literal(value @ (Value::Null | Value::Boolean(_) | Value::Number(_) | Value::String(_))) => {
            Some(value.clone())
        }
        Node::Negate(inner) => match literal(inner)? {
            Value::Number(number) => Some(Value::Number(Decimal::ZERO - number)),
            _ => None,
        },
        _ => None,
    }
}
