//! Tokens to tree, by precedence climbing. One loop reads all chained operators, so only nesting recurses, and
//! nesting is bounded. Precedence, from loose to tight: `or`; `and`; comparisons, `between`, `in`, `instance of`
//! (one only); `+ -`; `* /`; `**`; the sign; paths, filters and calls.

use std::sync::Arc;

use super::FeelError;
use super::ast::{Arithmetic, Comparison, Node, RangeNode, Test};
use super::lexer::{Kind, Token, tokens};
use super::limits;

mod primary;

/// Words that are never a variable.
const RESERVED: [&str; 11] =
    ["null", "true", "false", "function", "in", "return", "then", "else", "satisfies", "and", "or"];

const OR: u8 = 1;
const AND: u8 = 2;
const COMPARISON: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;
const POWER: u8 = 6;

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// How many `?` were read: tells a test over `?` from a value to match.
    inputs: usize,
}

/// Reads a whole expression.
pub(super) fn parse(text: &str) -> Result<Node, FeelError> {
    if text.len() > limits::TEXT {
        return Err(FeelError::new(limits::TEXT, format!("the expression is longer than {} bytes", limits::TEXT)));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0, inputs: 0 };
    let node = parser.expression()?;
    match parser.kind() {
        Kind::End => Ok(node),
        _ => Err(parser.expected("an operator or the end")),
    }
}

enum Operator {
    Arithmetic(Arithmetic),
    Compare(Comparison),
    Between,
    In,
    InstanceOf,
    And,
    Or,
}

impl Parser<'_> {
    /// Any expression, as far as it reaches.
    fn expression(&mut self) -> Result<Node, FeelError> {
        self.climb(OR)
    }

    /// An operand and all operators after it that bind at least as tightly as `least`.
    fn climb(&mut self, least: u8) -> Result<Node, FeelError> {
        self.depth += 1;
        if self.depth > limits::SYNTAX_DEPTH {
            return Err(FeelError::new(
                self.position(),
                format!("the expression nests deeper than {} levels", limits::SYNTAX_DEPTH),
            ));
        }
        let mut left = match self.block(least)? {
            Some(block) => block,
            None => self.signed()?,
        };
        let mut compared = false;
        while let Some((operator, binding)) = self.operator() {
            if binding < least {
                break;
            }
            if compared && binding >= COMPARISON {
                return Err(FeelError::new(
                    self.position(),
                    "comparisons cannot be chained; join them with `and`, or use parentheses",
                ));
            }
            compared = binding == COMPARISON;
            self.advance();
            left = self.apply(left, operator, binding)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self) -> Option<(Operator, u8)> {
        Some(match self.kind() {
            Kind::Symbol("+") => (Operator::Arithmetic(Arithmetic::Add), SUM),
            Kind::Symbol("-") => (Operator::Arithmetic(Arithmetic::Subtract), SUM),
            Kind::Symbol("*") => (Operator::Arithmetic(Arithmetic::Multiply), PRODUCT),
            Kind::Symbol("/") => (Operator::Arithmetic(Arithmetic::Divide), PRODUCT),
            Kind::Symbol("**") => (Operator::Arithmetic(Arithmetic::Power), POWER),
            Kind::Symbol(symbol) => (Operator::Compare(comparison(symbol)?), COMPARISON),
            Kind::Name(name) => match name.as_str() {
                "or" => (Operator::Or, OR),
                "and" => (Operator::And, AND),
                "between" => (Operator::Between, COMPARISON),
                "in" => (Operator::In, COMPARISON),
                "instance" => (Operator::InstanceOf, COMPARISON),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn apply(&mut self, left: Node, operator: Operator, binding: u8) -> Result<Node, FeelError> {
        Ok(match operator {
            Operator::Arithmetic(operator) => {
                let right = self.climb(binding + 1)?;
                match left {
                    Node::Arithmetic { first, mut rest } => {
                        rest.push((operator, right));
                        Node::Arithmetic { first, rest }
                    }
                    first => Node::Arithmetic { first: Box::new(first), rest: vec![(operator, right)] },
                }
            }
            Operator::And => match left {
                Node::And(mut nodes) => {
                    nodes.push(self.climb(AND + 1)?);
                    Node::And(nodes)
                }
                first => Node::And(vec![first, self.climb(AND + 1)?]),
            },
            Operator::Or => match left {
                Node::Or(mut nodes) => {
                    nodes.push(self.climb(OR + 1)?);
                    Node::Or(nodes)
                }
                first => Node::Or(vec![first, self.climb(OR + 1)?]),
            },
            Operator::Compare(comparison) => Node::Compare(comparison, Box::new((left, self.climb(SUM)?))),
            Operator::Between => {
                let low = self.climb(SUM)?;
                self.expect_word("and")?;
                Node::Between(Box::new((left, low, self.climb(SUM)?)))
            }
            Operator::In => Node::In(Box::new(left), self.tests()?),
            Operator::InstanceOf => {
                self.expect_word("of")?;
                Node::InstanceOf(Box::new(left), self.type_name()?.into())
            }
        })
    }

    /// The right side of `in`: one test, or several in parentheses.
    fn tests(&mut self) -> Result<Vec<Test>, FeelError> {
        let open = self.position();
        if !self.take("(") {
            return Ok(vec![self.test(COMPARISON)?]);
        }
        let mut tests = vec![self.test(OR)?];
        if self.take("..") {
            return match tests.pop() {
                Some(Test::Matches(start)) => Ok(vec![Test::Within(self.range_to(start, false)?)]),
                _ => Err(FeelError::new(open, "the start of a range must be a value")),
            };
        }
        while self.take(",") {
            tests.push(self.test(OR)?);
        }
        self.expect(")")?;
        Ok(tests)
    }

    fn test(&mut self, least: u8) -> Result<Test, FeelError> {
        if let Kind::Symbol(symbol @ ("<" | "<=" | ">" | ">=")) = *self.kind()
            && let Some(comparison) = comparison(symbol)
        {
            self.advance();
            return Ok(Test::Compare(comparison, self.climb(SUM)?));
        }
        let inputs = self.inputs;
        let node = self.climb(least)?;
        Ok(match node {
            Node::Range(range) => Test::Within(*range),
            node if self.inputs > inputs => Test::Condition(node),
            node => Test::Matches(node),
        })
    }

    /// The rest of a range, after its `..`.
    fn range_to(&mut self, start: Node, start_included: bool) -> Result<RangeNode, FeelError> {
        let end = self.climb(SUM)?;
        let end_included = match self.kind() {
            Kind::Symbol("]") => true,
            Kind::Symbol(")" | "[") => false,
            _ => return Err(self.expected("`]`, `)` or `[` at the end of the range")),
        };
        self.advance();
        Ok(RangeNode { start, end, start_included, end_included })
    }

    fn type_name(&mut self) -> Result<String, FeelError> {
        const SPACED: [&[&str]; 3] =
            [&["years", "and", "months", "duration"], &["days", "and", "time", "duration"], &["date", "and", "time"]];
        for words in SPACED {
            if words.iter().enumerate().all(|(offset, word)| self.is_word_at(offset, word)) {
                self.at += words.len();
                return Ok(words.join(" "));
            }
        }
        let start = self.position();
        let mut end = start;
        while let Kind::Name(_) = self.kind() {
            // A type is one name, or several with hyphens: `day-time-duration`; `date time` is the one with a space.
            let is_date = self.is_word_at(0, "date");
            end = self.advance();
            if is_date && self.is_word_at(0, "time") {
                continue;
            }
            if !(matches!(self.kind(), Kind::Symbol("-" | "."))
                && matches!(self.kind_at(1), Kind::Name(_))
                && self.position() == end)
            {
                break;
            }
            self.advance();
        }
        if end == start { Err(self.expected("the name of a type")) } else { Ok(self.slice(start, end).to_owned()) }
    }

    // ---- tokens ----

    fn kind(&self) -> &Kind {
        self.kind_at(0)
    }

    fn kind_at(&self, offset: usize) -> &Kind {
        self.tokens.get(self.at + offset).map_or(&Kind::End, |token| &token.kind)
    }

    fn position(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |token| token.start)
    }

    /// Goes past one token, and says where it ended.
    fn advance(&mut self) -> usize {
        let end = self.tokens.get(self.at).map_or(self.text.len(), |token| token.end);
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        end
    }

    fn slice(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn is_word_at(&self, offset: usize, word: &str) -> bool {
        matches!(self.kind_at(offset), Kind::Name(name) if name == word)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.kind(), Kind::Symbol(found) if *found == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), FeelError> {
        if self.take(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), FeelError> {
        if !self.is_word_at(0, word) {
            return Err(self.expected(&format!("`{word}`")));
        }
        self.advance();
        Ok(())
    }

    fn expected(&self, what: &str) -> FeelError {
        let found = match self.kind() {
            Kind::End => "the end".to_owned(),
            _ => format!("`{}`", self.tokens.get(self.at).map_or("", |token| self.slice(token.start, token.end))),
        };
        FeelError::new(self.position(), format!("expected {what}, found {found}"))
    }

    /// A variable, key or parameter: a name that is not reserved, or one in backticks.
    fn name(&mut self) -> Result<Arc<str>, FeelError> {
        let name: Arc<str> = match self.kind() {
            Kind::Name(name) if !RESERVED.contains(&name.as_str()) => name.as_str().into(),
            Kind::Quoted(name) => name.as_str().into(),
            _ => return Err(self.expected("a name")),
        };
        self.advance();
        Ok(name)
    }
}

fn comparison(symbol: &str) -> Option<Comparison> {
    Some(match symbol {
        "=" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
