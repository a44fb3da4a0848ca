//! Operands: literals, names, calls, `if`, `for`, `some`, `every`, and what may follow a value (`.a`, `[b]`).

use std::sync::Arc;

use super::{OR, Parser, RESERVED, SUM};
use crate::feel::FeelError;
use crate::feel::ast::{Arguments, For, FunctionNode, Iterator, Node, Over, Quantified, Quantifier, RangeNode, Step};
use crate::feel::lexer::Kind;
use crate::feel::value::Value;
use crate::feel::{number, temporal};

/// Functions whose names hold a reserved word.
const SPECIAL_FUNCTIONS: [&[&str]; 5] =
    [&["and"], &["or"], &["date", "and", "time"], &["years", "and", "months", "duration"], &["get", "or", "else"]];

/// Functions of FEEL whose results differ from call to call.
const NOT_DETERMINISTIC: [&str; 2] = ["uuid", "random number"];

/// Properties with a space in their name.
const SPACED_PROPERTY: [&str; 2] = ["time", "offset"];

impl Parser<'_> {
    /// `if`, `for`, `some` or `every`, which reach as far right as they can; only where a whole expression may stand.
    pub(super) fn block(&mut self, least: u8) -> Result<Option<Node>, FeelError> {
        let Kind::Name(word) = self.kind() else { return Ok(None) };
        let iterates = matches!(self.kind_at(1), Kind::Name(_) | Kind::Quoted(_)) && self.is_word_at(2, "in");
        if least > OR {
            return Ok(None);
        }
        Ok(Some(match word.as_str() {
            "if" if self.starts_operand(1) => self.conditional()?,
            "for" if iterates => self.iteration()?,
            "some" if iterates => self.quantified(Quantifier::Some)?,
            "every" if iterates => self.quantified(Quantifier::Every)?,
            _ => return Ok(None),
        }))
    }

    /// Whether the token can begin an operand: tells the keyword `if` from a variable of that name.
    fn starts_operand(&self, offset: usize) -> bool {
        match self.kind_at(offset) {
            Kind::Name(name) => {
                matches!(name.as_str(), "null" | "true" | "false" | "function")
                    || !(RESERVED.contains(&name.as_str()) || name == "between" || name == "instance")
            }
            Kind::Quoted(_) | Kind::Number(_) | Kind::String(_) => true,
            Kind::Symbol(symbol) => matches!(*symbol, "(" | "[" | "{" | "@" | "-" | "?"),
            Kind::Other(_) | Kind::End => false,
        }
    }

    fn conditional(&mut self) -> Result<Node, FeelError> {
        self.advance();
        let condition = self.expression()?;
        self.expect_word("then")?;
        let met = self.expression()?;
        self.expect_word("else")?;
        let otherwise = self.expression()?;
        Ok(Node::If(Box::new((condition, met, otherwise))))
    }

    fn iteration(&mut self) -> Result<Node, FeelError> {
        self.advance();
        let iterators = self.iterators()?;
        self.expect_word("return")?;
        let body = self.expression()?;
        let reads_partial = body.reads("partial");
        Ok(Node::For(Box::new(For { iterators, body, reads_partial })))
    }

    fn quantified(&mut self, quantifier: Quantifier) -> Result<Node, FeelError> {
        self.advance();
        let iterators = self.iterators()?;
        self.expect_word("satisfies")?;
        let condition = self.expression()?;
        Ok(Node::Quantified(quantifier, Box::new(Quantified { iterators, condition })))
    }

    fn iterators(&mut self) -> Result<Vec<Iterator>, FeelError> {
        let mut iterators = Vec::new();
        loop {
            let name = self.name()?;
            self.expect_word("in")?;
            let from = self.climb(SUM)?;
            let over = if self.take("..") { Over::Count(from, self.climb(SUM)?) } else { Over::List(from) };
            iterators.push(Iterator { name, over });
            if !self.take(",") {
                return Ok(iterators);
            }
        }
    }

    /// An operand with its signs.
    pub(super) fn signed(&mut self) -> Result<Node, FeelError> {
        let mut signs = 0_usize;
        while self.take("-") {
            signs += 1;
        }
        let operand = self.postfixed()?;
        Ok(match (signs, operand) {
            (0, operand) => operand,
            (_, Node::Literal(Value::Number(number))) => {
                Node::Literal(Value::Number(if signs % 2 == 1 { -number } else { number }))
            }
            (1, operand) => Node::Negate(Box::new(operand)),
            // More signs cancel out, but still want a number.
            (_, operand) if signs % 2 == 1 => Node::Negate(Box::new(operand)),
            (_, operand) => Node::Negate(Box::new(Node::Negate(Box::new(operand)))),
        })
    }

    fn postfixed(&mut self) -> Result<Node, FeelError> {
        let base = self.primary()?;
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                steps.push(self.step()?);
            } else if self.starts_filter() && !matches!(base, Node::Range(_)) {
                self.advance();
                steps.push(Step::Filter(self.expression()?));
                self.expect("]")?;
            } else if steps.is_empty() {
                return Ok(base);
            } else {
                return Ok(Node::Chain { base: Box::new(base), steps });
            }
        }
    }

    /// A `[` with nothing to filter by behind it is the end of a range: `[1..10[`.
    fn starts_filter(&self) -> bool {
        matches!(self.kind(), Kind::Symbol("["))
            && (self.starts_operand(1) || matches!(self.kind_at(1), Kind::Symbol("]")))
    }

    fn step(&mut self) -> Result<Step, FeelError> {
        if SPACED_PROPERTY.iter().enumerate().all(|(offset, word)| self.is_word_at(offset, word)) {
            self.at += SPACED_PROPERTY.len();
            return Ok(Step::Field(SPACED_PROPERTY.join(" ").into()));
        }
        let name = self.name()?.as_ref().into();
        if self.take("(") { Ok(Step::Call { name, arguments: self.arguments()? }) } else { Ok(Step::Field(name)) }
    }

    fn primary(&mut self) -> Result<Node, FeelError> {
        let position = self.position();
        match self.kind().clone() {
            Kind::Number(text) => {
                self.advance();
                match number::parse(&text) {
                    Some(number) => Ok(Node::Literal(Value::Number(number))),
                    None => Err(FeelError::new(position, format!("the number {text} is out of range"))),
                }
            }
            Kind::String(text) => {
                self.advance();
                Ok(Node::Literal(Value::string(text)))
            }
            Kind::Quoted(name) => {
                self.advance();
                Ok(Node::Variable(name.into()))
            }
            Kind::Name(name) => self.word(&name),
            Kind::Symbol("?") => {
                self.advance();
                self.inputs += 1;
                Ok(Node::Input)
            }
            Kind::Symbol("@") => self.temporal(),
            Kind::Symbol("(") => {
                self.advance();
                let inner = self.expression()?;
                if self.take("..") {
                    return Ok(Node::Range(Box::new(self.range_to(inner, false)?)));
                }
                self.expect(")")?;
                Ok(inner)
            }
            Kind::Symbol("]") => {
                self.advance();
                let start = self.climb(SUM)?;
                self.expect("..")?;
                Ok(Node::Range(Box::new(self.range_to(start, false)?)))
            }
            Kind::Symbol("[") => self.list(),
            Kind::Symbol("{") => self.context(),
            _ => Err(self.expected("a value")),
        }
    }

    /// A literal temporal value; text that is none is null, like the functions' result.
    fn temporal(&mut self) -> Result<Node, FeelError> {
        self.advance();
        let Kind::String(text) = self.kind().clone() else { return Err(self.expected("a string after `@`")) };
        self.advance();
        Ok(Node::Literal(temporal::parse_any(&text).unwrap_or(Value::Null)))
    }

    fn word(&mut self, name: &str) -> Result<Node, FeelError> {
        if let Some(name) = self.call_name() {
            return self.call(&name);
        }
        let literal = match name {
            "null" => Value::Null,
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            "function" => return self.function(),
            _ => return Ok(Node::Variable(self.name()?)),
        };
        self.advance();
        Ok(Node::Literal(literal))
    }

    /// The name of the function called here, if words and then `(` stand here. Consumes the words.
    fn call_name(&mut self) -> Option<String> {
        for words in SPECIAL_FUNCTIONS {
            let matched = words.iter().enumerate().all(|(offset, word)| self.is_word_at(offset, word));
            if matched && matches!(self.kind_at(words.len()), Kind::Symbol("(")) {
                self.at += words.len();
                return Some(words.join(" "));
            }
        }
        let words = self.spaced_name_length()?;
        matches!(self.kind_at(words), Kind::Symbol("(")).then(|| self.take_spaced(words))
    }

    /// How many names that are not reserved stand here in a row.
    fn spaced_name_length(&self) -> Option<usize> {
        let mut words = 0;
        while let Kind::Name(name) = self.kind_at(words) {
            let is_operator = words > 0 && (name == "between" || name == "instance");
            if is_operator || RESERVED.contains(&name.as_str()) {
                break;
            }
            words += 1;
        }
        (words > 0).then_some(words)
    }

    fn take_spaced(&mut self, words: usize) -> String {
        let start = self.position();
        let mut end = start;
        for _ in 0..words {
            end = self.advance();
        }
        self.slice(start, end).to_owned()
    }

    fn call(&mut self, name: &str) -> Result<Node, FeelError> {
        if NOT_DETERMINISTIC.contains(&name) {
            return Err(FeelError::new(
                self.position(),
                format!(
                    "{name}() is refused: a process must give the same result when it is replayed; let a job make the value"
                ),
            ));
        }
        self.expect("(")?;
        Ok(Node::Call { name: name.into(), arguments: self.arguments()? })
    }

    /// Arguments after their `(`.
    fn arguments(&mut self) -> Result<Arguments, FeelError> {
        if self.take(")") {
            return Ok(Arguments::Positional(Vec::new()));
        }
        if self.parameter_length().is_some_and(|words| matches!(self.kind_at(words), Kind::Symbol(":"))) {
            let mut named: Vec<(Box<str>, Node)> = Vec::new();
            loop {
                let name = self.parameter()?;
                self.expect(":")?;
                named.push((name.as_ref().into(), self.expression()?));
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
            return Ok(Arguments::Named(named));
        }
        let mut positional = Vec::new();
        loop {
            positional.push(self.expression()?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(Arguments::Positional(positional))
    }

    fn parameter_length(&self) -> Option<usize> {
        if matches!(self.kind(), Kind::Quoted(_)) { Some(1) } else { self.spaced_name_length() }
    }

    /// The name of a parameter, which may hold spaces.
    fn parameter(&mut self) -> Result<Arc<str>, FeelError> {
        match self.spaced_name_length() {
            Some(words) if words > 1 => Ok(self.take_spaced(words).into()),
            _ => self.name(),
        }
    }

    fn function(&mut self) -> Result<Node, FeelError> {
        self.advance();
        self.expect("(")?;
        let mut parameters = Vec::new();
        if !self.take(")") {
            loop {
                parameters.push(self.parameter()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if self.is_word_at(0, "external") && matches!(self.kind_at(1), Kind::Symbol("{")) {
            return Err(FeelError::new(
                self.position(),
                "external functions are refused: an expression runs no foreign code",
            ));
        }
        let body = self.expression()?;
        Ok(Node::Function(Arc::new(FunctionNode { parameters, body })))
    }

    fn list(&mut self) -> Result<Node, FeelError> {
        self.advance();
        let mut items = Vec::new();
        if self.take("]") {
            return Ok(Node::List(items));
        }
        items.push(self.expression()?);
        if self.take("..") {
            let start = items.pop().unwrap_or(Node::Literal(Value::Null));
            let range: RangeNode = self.range_to(start, true)?;
            return Ok(Node::Range(Box::new(range)));
        }
        while self.take(",") {
            items.push(self.expression()?);
        }
        self.expect("]")?;
        Ok(Node::List(items))
    }

    fn context(&mut self) -> Result<Node, FeelError> {
        self.advance();
        let mut entries = Vec::new();
        if self.take("}") {
            return Ok(Node::Context(entries));
        }
        loop {
            let key = self.key()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if !self.take(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(Node::Context(entries))
    }

    /// A key: a string, a name in backticks, or anything up to the colon that holds no bracket, comma or quote.
    fn key(&mut self) -> Result<Arc<str>, FeelError> {
        if let Kind::String(key) | Kind::Quoted(key) = self.kind().clone() {
            self.advance();
            return Ok(key.into());
        }
        let start = self.position();
        let mut end = start;
        loop {
            match self.kind() {
                Kind::Symbol("{" | "}" | ":" | "," | "[" | "]") | Kind::String(_) | Kind::Quoted(_) | Kind::End => {
                    break;
                }
                _ => end = self.advance(),
            }
        }
        if end == start { Err(self.expected("a key")) } else { Ok(self.slice(start, end).into()) }
    }
}
