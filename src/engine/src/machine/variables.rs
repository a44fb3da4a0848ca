//! Where variables go: into one scope, or up to the scope that has them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::command::{Answer, Reach};
use super::event::Event;
use super::process::{Stop, Walk, reject};
use crate::document::Document;
use crate::rejection::RejectionKind;

impl Walk {
    /// Sets variables in this very scope.
    pub(super) fn set_local(&mut self, scope: i64, values: Map<String, Value>) -> Result<(), Stop> {
        if values.is_empty() { Ok(()) } else { self.emit(Event::VariablesSet { scope, values }) }
    }

    /// Sets each variable in the nearest scope that has it, from `scope` upward; what no scope has goes to the root.
    pub(super) fn propagate(&mut self, scope: i64, values: Map<String, Value>) -> Result<(), Stop> {
        let mut by_scope: BTreeMap<i64, Map<String, Value>> = BTreeMap::new();
        for (name, value) in values {
            by_scope.entry(self.state.home(scope, &name)).or_default().insert(name, value);
        }
        by_scope.into_iter().try_for_each(|(scope, values)| self.set_local(scope, values))
    }

    pub(super) fn set_variables(&mut self, scope: i64, variables: Document, reach: Reach) -> Result<Answer, Stop> {
        if self.state.element(scope).is_none() {
            let reason =
                format!("Expected to update variables for element with key '{scope}', but no such element was found");
            return reject(RejectionKind::NotFound, reason);
        }
        let key = self.new_key();
        self.emit(Event::VariablesUpdated { key })?;
        match reach {
            Reach::Local => self.set_local(scope, variables.into_map())?,
            Reach::Propagated => self.propagate(scope, variables.into_map())?,
        }
        Ok(Answer::Key(key))
    }
}
