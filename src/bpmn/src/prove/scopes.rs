//! Variables: found from the inside out, written where they are, left open until read.

use super::Assigned;
use super::program::{Expression, Program};
use super::state::{ROOT, Scope, Slot, State};
use m87_core::time::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// One of several ways on, with the values that were chosen to get here.
#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub(super) state: State,
    pub(super) chosen: Vec<Assigned>,
}

impl State {
    /// Makes a scope inside another.
    pub(super) fn open(&mut self, parent: u32) -> u32 {
        let id = (ROOT..).find(|id| !self.scopes.contains_key(id)).unwrap_or(u32::MAX);
        self.scopes.insert(id, Scope { parent: Some(parent), variables: BTreeMap::new() });
        id
    }

    /// Removes a scope and everything in it, tokens too.
    pub(super) fn close(&mut self, scope: u32) {
        let mut gone = vec![scope];
        while let Some(scope) = gone.pop() {
            self.scopes.remove(&scope);
            self.tokens.retain(|token| token.scope != scope);
            gone.extend(self.scopes.iter().filter(|(_, inner)| inner.parent == Some(scope)).map(|(id, _)| *id));
        }
    }

    /// The nearest scope that has, or may have, the variable.
    fn holder(&self, from: u32, name: &str) -> Option<u32> {
        let mut next = Some(from);
        while let Some(id) = next {
            let scope = self.scopes.get(&id)?;
            if scope.variables.contains_key(name) {
                return Some(id);
            }
            next = scope.parent;
        }
        None
    }

    /// What is known of a variable of exactly this scope.
    pub(super) fn slot(&self, scope: u32, name: &str) -> Option<&Slot> {
        self.scopes.get(&scope).and_then(|scope| scope.variables.get(name))
    }

    /// Sets a variable of exactly this scope; `None` removes it.
    pub(super) fn set(&mut self, scope: u32, name: &str, slot: Option<Slot>) {
        if let Some(scope) = self.scopes.get_mut(&scope) {
            match slot {
                Some(slot) => scope.variables.insert(name.to_owned(), slot),
                None => scope.variables.remove(name),
            };
        }
    }

    /// Lets someone outside set every variable of a scope, or not.
    pub(super) fn expose(&mut self, scope: u32, from: usize, names: &[String]) {
        for name in names {
            let beneath = self.slot(scope, name).cloned().map(Box::new);
            self.set(scope, name, Some(Slot::Open { from: Some(from), beneath }));
        }
    }
}

impl Branch {
    /// Chooses each possible value of an open variable; a variable that is not open stays as it is.
    pub(super) fn split(self, program: &Program<'_>, scope: u32, name: &str) -> Vec<Self> {
        let Some(Slot::Open { from, beneath }) = self.state.slot(scope, name).cloned() else {
            return vec![self];
        };
        let who = from.and_then(|node| program.nodes.get(node)).map_or("start", |node| node.element.id.as_str());
        let known = program.values.iter().map(|value| (Some(Slot::Known(value.clone())), value.to_string()));
        let missing = (beneath.map(|slot| *slot), "missing".to_owned());
        known
            .chain([missing])
            .map(|(slot, value)| {
                let mut branch = self.clone();
                branch.state.set(scope, name, slot);
                branch.chosen.push(Assigned { from: who.to_owned(), variable: name.to_owned(), value });
                branch
            })
            .collect()
    }

    /// Every value that the expression can have in a scope.
    pub(super) fn eval(
        self,
        program: &Program<'_>,
        scope: u32,
        expression: &Expression,
    ) -> Vec<(Self, Result<Value, String>)> {
        let mut open = vec![self];
        let mut closed = Vec::new();
        while let Some(branch) = open.pop() {
            let unread = expression.reads.iter().find_map(|name| {
                let holder = branch.state.holder(scope, name)?;
                matches!(branch.state.slot(holder, name), Some(Slot::Open { .. })).then_some((holder, name))
            });
            match unread {
                Some((holder, name)) => open.extend(branch.split(program, holder, name)),
                None => {
                    let value = branch.value(scope, expression);
                    closed.push((branch, value));
                }
            }
        }
        closed
    }

    /// The value of an expression all of whose variables are known.
    fn value(&self, scope: u32, expression: &Expression) -> Result<Value, String> {
        let mut variables: BTreeMap<String, Value> = BTreeMap::new();
        for name in &expression.reads {
            if let Some(Slot::Known(value)) =
                self.state.holder(scope, name).and_then(|holder| self.state.slot(holder, name))
            {
                variables.insert(name.clone(), value.clone());
            }
        }
        // A plain expression does not ask for the time.
        let evaluation = expression.expr.eval(&variables, Timestamp::from_millis(0));
        match evaluation.failure {
            Some(failure) => Err(failure.to_string()),
            None => Ok(evaluation.value.to_json()),
        }
    }

    /// Passes a variable outwards: to the nearest scope that has it, else to the process.
    pub(super) fn pass_on(self, program: &Program<'_>, parent: u32, name: &str, new: &Passed) -> Vec<Self> {
        let mut open = vec![self];
        let mut closed = Vec::new();
        while let Some(mut branch) = open.pop() {
            let holder = branch.state.holder(parent, name).unwrap_or(ROOT);
            let old = branch.state.slot(holder, name).cloned();
            // Whether an inner scope has the variable decides where it is written.
            if holder != ROOT && matches!(old, Some(Slot::Open { beneath: None, .. })) {
                open.extend(branch.split(program, holder, name));
                continue;
            }
            let slot = match new {
                Passed::Value(value) => Slot::Known(value.clone()),
                Passed::Anything(from) => Slot::Open { from: Some(*from), beneath: old.map(Box::new) },
            };
            branch.state.set(holder, name, Some(slot));
            closed.push(branch);
        }
        closed
    }
}

/// What is passed on.
pub(super) enum Passed {
    /// This value.
    Value(Value),
    /// Whatever the element of that index was given from outside, if anything.
    Anything(usize),
}
