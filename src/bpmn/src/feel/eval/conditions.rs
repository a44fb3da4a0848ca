//! Truth with three values. A comparison of values that do not compare is null; `and` and `or` go on past null if the
//! other side can decide; `if` takes only true for true.

use super::{Evaluated, Evaluator, INPUT};
use crate::feel::ast::{Comparison, Node, Quantified, Quantifier, Test};
use crate::feel::compare::{equal, order, same};
use crate::feel::scope::Frame;
use crate::feel::text::quote;
use crate::feel::value::{Range, Value};
use crate::feel::warnings::{Failure, WarningKind};

/// The result so far of `and`, `or`, `every` or `some`.
struct Verdict {
    quantifier: Quantifier,
    /// `None` is null.
    state: Option<bool>,
}

impl Verdict {
    fn new(quantifier: Quantifier) -> Self {
        Self { quantifier, state: Some(quantifier == Quantifier::Every) }
    }

    /// The value that settles the question: true for `some`, false for `every`.
    fn settling(&self) -> bool {
        self.quantifier == Quantifier::Some
    }

    fn is_settled(&self) -> bool {
        self.state == Some(self.settling())
    }

    fn value(&self) -> Value {
        Value::from(self.state)
    }
}

impl Evaluator<'_> {
    fn consider(&mut self, verdict: &mut Verdict, value: &Value) {
        match (verdict.state, value.as_bool()) {
            (_, Some(value)) if value == verdict.settling() => verdict.state = Some(value),
            (Some(_), Some(value)) => verdict.state = Some(value),
            (Some(_), None) => {
                self.mistyped("boolean", value);
                verdict.state = None;
            }
            (None, _) => {}
        }
    }

    pub(super) fn connect(&mut self, quantifier: Quantifier, nodes: &[Node], frame: &Frame) -> Evaluated {
        let mut verdict = Verdict::new(quantifier);
        for node in nodes {
            let value = self.eval(node, frame)?;
            self.consider(&mut verdict, &value);
            if verdict.is_settled() {
                break;
            }
        }
        Ok(verdict.value())
    }

    pub(super) fn quantify(&mut self, quantifier: Quantifier, node: &Quantified, frame: &Frame) -> Evaluated {
        let mut verdict = Verdict::new(quantifier);
        let complete = self.each_combination(&node.iterators, frame, &mut |evaluator, frame| {
            let value = evaluator.eval(&node.condition, frame)?;
            evaluator.consider(&mut verdict, &value);
            Ok(!verdict.is_settled())
        })?;
        Ok(if complete { verdict.value() } else { Value::Null })
    }

    pub(super) fn conditional(&mut self, parts: &(Node, Node, Node), frame: &Frame) -> Evaluated {
        let condition = self.eval(&parts.0, frame)?;
        let met = condition.as_bool().unwrap_or_else(|| {
            self.mistyped("boolean", &condition);
            false
        });
        self.eval(if met { &parts.1 } else { &parts.2 }, frame)
    }

    pub(super) fn compare(&mut self, comparison: Comparison, x: &Node, y: &Node, frame: &Frame) -> Evaluated {
        let (x, y) = (self.eval(x, frame)?, self.eval(y, frame)?);
        self.compared(comparison, &x, &y)
    }

    fn compared(&mut self, comparison: Comparison, x: &Value, y: &Value) -> Evaluated {
        self.spend(x.size().min(y.size()) / 16)?;
        let result = match comparison {
            Comparison::Equal => equal(x, y),
            Comparison::NotEqual => equal(x, y).map(|equal| !equal),
            Comparison::Less => order(x, y).map(|order| order.is_lt()),
            Comparison::LessOrEqual => order(x, y).map(|order| order.is_le()),
            Comparison::Greater => order(x, y).map(|order| order.is_gt()),
            Comparison::GreaterOrEqual => order(x, y).map(|order| order.is_ge()),
        };
        if result.is_none() {
            self.warn(WarningKind::NotComparable, format!("Can't compare '{}' with '{}'", quote(x), quote(y)));
        }
        Ok(Value::from(result))
    }

    pub(super) fn between(&mut self, parts: &(Node, Node, Node), frame: &Frame) -> Evaluated {
        let value = self.eval(&parts.0, frame)?;
        let mut verdict = Verdict::new(Quantifier::Every);
        for (comparison, node) in [(Comparison::GreaterOrEqual, &parts.1), (Comparison::LessOrEqual, &parts.2)] {
            let end = self.eval(node, frame)?;
            let holds = self.compared(comparison, &value, &end)?;
            self.consider(&mut verdict, &holds);
            if verdict.is_settled() {
                break;
            }
        }
        Ok(verdict.value())
    }

    pub(super) fn instance_of(&mut self, value: &Node, name: &str, frame: &Frame) -> Evaluated {
        let value = self.eval(value, frame)?;
        let name = match name {
            "Any" => return Ok(Value::Boolean(!value.is_null())),
            "date time" => "date and time",
            "year-month-duration" => "years and months duration",
            "day-time-duration" => "days and time duration",
            name => name,
        };
        Ok(Value::Boolean(value.type_name() == name))
    }

    pub(super) fn is_in(&mut self, value: &Node, tests: &[Test], frame: &Frame) -> Evaluated {
        let input = self.eval(value, frame)?;
        let inner = frame.bind(vec![(INPUT.into(), input.clone())]);
        let inner = self.framed(inner)?;
        let mut verdict = Verdict::new(Quantifier::Some);
        for test in tests {
            let holds = self.test(test, &input, frame, &inner)?;
            if tests.len() == 1 {
                return Ok(holds);
            }
            self.consider(&mut verdict, &holds);
            if verdict.is_settled() {
                break;
            }
        }
        Ok(verdict.value())
    }

    fn test(&mut self, test: &Test, input: &Value, frame: &Frame, inner: &Frame) -> Evaluated {
        match test {
            Test::Compare(comparison, node) => {
                let end = self.eval(node, frame)?;
                self.compared(*comparison, input, &end)
            }
            Test::Within(node) => {
                let range = self.range(node, frame)?;
                Ok(self.within(&range, input))
            }
            Test::Condition(node) => Ok(Value::from(self.eval(node, inner)?.as_bool())),
            Test::Matches(node) => {
                let expected = self.eval(node, frame)?;
                self.matches(input, &expected)
            }
        }
    }

    fn within(&mut self, range: &Range, input: &Value) -> Value {
        let included = range.includes(input);
        if included.is_none() {
            let message =
                format!("Can't compare '{}' with '{}' and '{}'", quote(input), quote(&range.start), quote(&range.end));
            self.warn(WarningKind::NotComparable, message);
        }
        Value::from(included)
    }

    /// Whether the left side is the right side, or in it. An expression that is itself true, such as `x > 1`, holds.
    fn matches(&mut self, input: &Value, expected: &Value) -> Evaluated {
        match expected {
            Value::Boolean(true) => Ok(Value::Boolean(true)),
            Value::Range(range) => Ok(self.within(range, input)),
            Value::List(list) => {
                self.spend(list.items().len() / 16)?;
                let found = list.items().iter().any(|item| {
                    same(item, input) || matches!(item, Value::Range(range) if range.includes(input) == Some(true))
                });
                Ok(Value::Boolean(found || same(input, expected)))
            }
            Value::Boolean(false) => Ok(Value::Boolean(same(input, expected))),
            _ => self.compared(Comparison::Equal, input, expected),
        }
    }

    /// Runs `body` for every combination of the iterators, the first one slowest, until it says stop. `false`: an
    /// iterator has no list.
    pub(super) fn each_combination(
        &mut self,
        iterators: &[crate::feel::ast::Iterator],
        frame: &Frame,
        body: &mut dyn FnMut(&mut Self, &Frame) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let mut lists = Vec::with_capacity(iterators.len());
        for iterator in iterators {
            match self.items(&iterator.over, frame)? {
                Some(items) => lists.push(items),
                None => return Ok(false),
            }
        }
        if lists.iter().any(super::collections::Items::is_empty) {
            return Ok(true);
        }
        let mut at = vec![0; lists.len()];
        loop {
            self.spend(1)?;
            let names = iterators.iter().zip(&lists).zip(&at);
            let names = names.map(|((iterator, items), at)| (iterator.name.clone(), items.get(*at))).collect();
            let inner = self.framed(frame.bind(names))?;
            if !body(self, &inner)? || !advance(&mut at, &lists) {
                return Ok(true);
            }
        }
    }
}

/// Counts up like the digits of a number; `false` after the last combination.
fn advance(at: &mut [usize], lists: &[super::collections::Items]) -> bool {
    for (position, items) in at.iter_mut().zip(lists).rev() {
        *position += 1;
        if *position < items.len() {
            return true;
        }
        *position = 0;
    }
    false
}
