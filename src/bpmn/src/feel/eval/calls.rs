//! Calls: functions that the expression defined come first, then the built-in ones, chosen by name and parameters.

use std::sync::Arc;

use super::{Evaluated, Evaluator};
use crate::feel::ast::{Arguments, Node};
use crate::feel::builtins::{self, Builtin};
use crate::feel::scope::Frame;
use crate::feel::text::quote;
use crate::feel::value::{Function, Value};
use crate::feel::warnings::{Failure, WarningKind};

/// Why a built-in function gives no value.
#[derive(Debug)]
pub(in crate::feel) enum Refusal {
    /// It does not take arguments of these types.
    Illegal,
    /// It takes them, but this cannot be done.
    Because(String),
    /// The whole evaluation ends.
    Fatal(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Fatal(failure)
    }
}

/// What a built-in function is called with.
pub(in crate::feel) struct Call<'e, 's> {
    pub(in crate::feel) evaluator: &'e mut Evaluator<'s>,
}

impl Evaluator<'_> {
    pub(super) fn call(&mut self, name: &str, arguments: &Arguments, frame: &Frame) -> Evaluated {
        if let Some(Value::Function(function)) = self.lookup(name, frame)?
            && let Some(values) = self.arguments_for(&function, arguments, frame)?
        {
            return self.invoke(&function, values);
        }
        let found = match arguments {
            Arguments::Positional(nodes) => builtins::by_position(name, nodes.len()),
            Arguments::Named(nodes) => {
                builtins::by_name(name, &nodes.iter().map(|(name, _)| &**name).collect::<Vec<_>>())
            }
        };
        match found {
            Some(builtin) => self.call_builtin(builtin, arguments, frame),
            None => Ok(self.no_function(name, arguments)),
        }
    }

    /// `a.b.f(x)`: a function that is an entry of a context.
    pub(super) fn call_entry(&mut self, target: &Value, name: &str, arguments: &Arguments, frame: &Frame) -> Evaluated {
        let Value::Context(context) = target else { return Ok(self.mistyped("context", target)) };
        if let Some(Value::Function(function)) = context.get(name)
            && let Some(values) = self.arguments_for(function, arguments, frame)?
        {
            return self.invoke(function, values);
        }
        Ok(self.no_function(name, arguments))
    }

    fn no_function(&mut self, name: &str, arguments: &Arguments) -> Value {
        let parameters = match arguments {
            Arguments::Positional(nodes) => format!("{} parameters", nodes.len()),
            Arguments::Named(nodes) => {
                format!("parameters: {}", nodes.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(","))
            }
        };
        self.warn(WarningKind::NoFunctionFound, format!("No function found with name '{name}' and {parameters}"));
        Value::Null
    }

    /// The values for the function's parameters; nothing if they do not fit it. A parameter that is not named is null.
    fn arguments_for(
        &mut self,
        function: &Function,
        arguments: &Arguments,
        frame: &Frame,
    ) -> Result<Option<Vec<Value>>, Failure> {
        let parameters = &function.node.parameters;
        match arguments {
            Arguments::Positional(nodes) if nodes.len() == parameters.len() => {
                Ok(Some(self.values(nodes.iter(), frame)?))
            }
            Arguments::Named(nodes)
                if nodes.iter().all(|(name, _)| parameters.iter().any(|parameter| **parameter == **name)) =>
            {
                let mut values = Vec::with_capacity(parameters.len());
                for parameter in parameters {
                    values.push(self.named(nodes, parameter, frame)?);
                }
                Ok(Some(values))
            }
            _ => Ok(None),
        }
    }

    fn values<'n>(&mut self, nodes: impl Iterator<Item = &'n Node>, frame: &Frame) -> Result<Vec<Value>, Failure> {
        nodes.map(|node| self.eval(node, frame)).collect()
    }

    fn named(&mut self, nodes: &[(Box<str>, Node)], parameter: &str, frame: &Frame) -> Evaluated {
        match nodes.iter().find(|(name, _)| **name == *parameter) {
            Some((_, node)) => self.eval(node, frame),
            None => Ok(Value::Null),
        }
    }

    /// Calls a function that the expression defined.
    pub(in crate::feel) fn invoke(&mut self, function: &Arc<Function>, values: Vec<Value>) -> Evaluated {
        let bound = function.node.parameters.iter().cloned().zip(values).collect();
        let frame = self.framed(function.scope.bind(bound))?;
        self.eval(&function.node.body, &frame)
    }

    fn call_builtin(&mut self, builtin: &Builtin, arguments: &Arguments, frame: &Frame) -> Evaluated {
        let mut values = match arguments {
            Arguments::Positional(nodes) => self.values(nodes.iter(), frame)?,
            Arguments::Named(nodes) => {
                let mut values = Vec::with_capacity(builtin.parameters.len());
                for parameter in builtin.parameters {
                    values.push(self.named(nodes, parameter, frame)?);
                }
                values
            }
        };
        if builtin.variadic && matches!(arguments, Arguments::Positional(_)) {
            gather(&mut values, builtin.parameters.len() - 1);
        }
        let size = values.iter().fold(0, |sum: usize, value| sum.saturating_add(value.size()));
        self.spend(1 + size / 16)?;
        let result = (builtin.call)(&mut Call { evaluator: self }, &values);
        let reason = match result {
            Ok(value) => return self.made_by_builtin(value),
            Err(Refusal::Fatal(failure)) => return Err(failure),
            Err(Refusal::Because(reason)) => reason,
            Err(Refusal::Illegal) => {
                let values: Vec<_> = values.iter().map(|value| format!("'{}'", quote(value))).collect();
                format!("Illegal arguments: {}", values.join(", "))
            }
        };
        let message = format!("Failed to invoke function '{}': {reason}", builtin.name);
        self.warn(WarningKind::FunctionInvocationFailure, message);
        Ok(Value::Null)
    }

    /// Scalars cost nothing more; they were paid for with the call.
    fn made_by_builtin(&mut self, value: Value) -> Evaluated {
        match value {
            Value::String(_) | Value::List(_) | Value::Context(_) => self.made(value),
            value => Ok(value),
        }
    }
}

/// Puts the arguments after the first `fixed` into one list, unless they are the list already.
fn gather(values: &mut Vec<Value>, fixed: usize) {
    let rest = values.split_off(fixed.min(values.len()));
    let list = match rest.as_slice() {
        [list @ Value::List(_)] if fixed == 0 => list.clone(),
        _ => Value::list(rest),
    };
    values.push(list);
}
