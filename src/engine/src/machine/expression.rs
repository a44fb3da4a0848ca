//! Values for the machine: what an attribute of the model gives in a scope, of the type that is due, or a failure that
//! becomes an incident.

use m87_bpmn::feel::{self, Attribute, Evaluation, Expr, NotAValue};
use serde_json::{Map, Value};

use super::Now;
use super::state::State;
use crate::view::IncidentKind;

/// Why an element instance cannot go on: the incident to be raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: IncidentKind,
    pub(super) message: String,
}

/// The variables that an expression sees: those made just before it, then those of the scope and outwards.
pub(super) struct Scope<'a> {
    pub(super) state: &'a State,
    pub(super) at: i64,
    pub(super) before: Option<&'a Map<String, Value>>,
}

impl feel::Scope for Scope<'_> {
    fn variable(&self, name: &str) -> Option<Result<feel::Value, NotAValue>> {
        let before = self.before.and_then(|before| before.get(name));
        before.or_else(|| self.state.variable(self.at, name)).map(feel::Value::from_json)
    }
}

/// Where and when a value is due.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) state: &'a State,
    pub(super) at: i64,
    pub(super) now: Now,
}

impl Site<'_> {
    /// The value of a condition.
    pub(super) fn condition(&self, condition: &Expr) -> Result<bool, Failure> {
        let evaluation = condition.eval(&self.scope(), self.now.seen);
        expect(condition.text(), &evaluation, "BOOLEAN", |value| match value {
            feel::Value::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    /// A text.
    pub(super) fn string(&self, attribute: &Attribute) -> Result<String, Failure> {
        self.read(attribute, "STRING", |value| value.as_str().map(str::to_owned))
    }

    /// A text that is not blank.
    pub(super) fn name(&self, attribute: &Attribute) -> Result<String, Failure> {
        let name = self.string(attribute)?;
        if !name.trim().is_empty() {
            return Ok(name);
        }
        let message =
            format!("Expected result of the expression '{}' to be a name, but it was blank.", text(attribute));
        Err(Failure { kind: IncidentKind::ExtractValueError, message })
    }

    /// A whole number of 32 bits.
    pub(super) fn integer(&self, attribute: &Attribute) -> Result<i32, Failure> {
        self.read(attribute, "NUMBER", |value| match value {
            feel::Value::Number(number) => i32::try_from(number.trunc()).ok(),
            // A number that the model states.
            feel::Value::String(digits) if matches!(attribute, Attribute::Static(_)) => digits.trim().parse().ok(),
            _ => None,
        })
    }

    /// Any value, for a mapping that follows on `before`.
    pub(super) fn mapped(&self, attribute: &Attribute, before: &Map<String, Value>) -> Result<Value, Failure> {
        let scope = Scope { before: Some(before), ..self.scope() };
        let evaluation = attribute.eval(&scope, self.now.seen);
        match &evaluation.failure {
            None => Ok(evaluation.value.to_json()),
            Some(failure) => Err(failed(text(attribute), failure, IncidentKind::IoMappingError)),
        }
    }

    fn read<T>(
        &self,
        attribute: &Attribute,
        due: &str,
        read: impl Fn(&feel::Value) -> Option<T>,
    ) -> Result<T, Failure> {
        expect(text(attribute), &attribute.eval(&self.scope(), self.now.seen), due, read)
    }

    const fn scope(&self) -> Scope<'_> {
        Scope { state: self.state, at: self.at, before: None }
    }
}

fn text(attribute: &Attribute) -> &str {
    match attribute {
        Attribute::Static(text) => text,
        Attribute::Expression(expression) => expression.text(),
    }
}

fn expect<T>(
    text: &str,
    evaluation: &Evaluation,
    due: &str,
    read: impl Fn(&feel::Value) -> Option<T>,
) -> Result<T, Failure> {
    if let Some(failure) = &evaluation.failure {
        return Err(failed(text, failure, IncidentKind::ExtractValueError));
    }
    read(&evaluation.value).ok_or_else(|| {
        let found = type_name(&evaluation.value);
        let mut message = format!("Expected result of the expression '{text}' to be '{due}', but was '{found}'.");
        if !evaluation.warnings.is_empty() {
            message.push_str(" The evaluation reported the following warnings:");
            evaluation.warnings.iter().for_each(|warning| message.push_str(&format!("\n{warning}")));
        }
        Failure { kind: IncidentKind::ExtractValueError, message }
    })
}

fn failed(text: &str, failure: &feel::Failure, kind: IncidentKind) -> Failure {
    Failure { kind, message: format!("Failed to evaluate expression '{text}': {failure}") }
}

/// A type in Zeebe's words.
const fn type_name(value: &feel::Value) -> &'static str {
    match value {
        feel::Value::Null => "NULL",
        feel::Value::Boolean(_) => "BOOLEAN",
        feel::Value::Number(_) => "NUMBER",
        feel::Value::String(_) => "STRING",
        feel::Value::List(_) => "ARRAY",
        feel::Value::Context(_) => "OBJECT",
        feel::Value::Date(_) => "DATE",
        feel::Value::Time(_) => "TIME",
        feel::Value::DateTime(_) => "DATE_TIME",
        feel::Value::Duration(_) => "DURATION",
        feel::Value::Months(_) => "PERIOD",
        feel::Value::Range(_) => "RANGE",
        feel::Value::Function(_) => "FUNCTION",
    }
}
