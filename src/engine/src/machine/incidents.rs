//! Errors that are caught, and incidents that are resolved.

use serde_json::{Map, Value};

use super::command::Answer;
use super::event::Event;
use super::process::{Stop, Walk, reject};
use crate::rejection::RejectionKind;

/// A boundary event that catches, and the element instance it is attached to.
pub(super) struct Catcher {
    attached_to: i64,
    event: String,
}

impl Walk {
    /// Who catches an error thrown by an element instance: from there outwards; in one place, the code itself before any.
    pub(super) fn catcher(&self, thrower: i64, code: &str) -> Option<Catcher> {
        let mut at = Some(thrower);
        while let Some((key, element)) = at.and_then(|key| self.state.element(key).map(|element| (key, element))) {
            let catches = self.state.node(element).map(|node| node.catches.as_slice()).unwrap_or_default();
            let exact = catches.iter().find(|catch| catch.code.as_deref() == Some(code));
            if let Some(catch) = exact.or_else(|| catches.iter().find(|catch| catch.code.is_none())) {
                return Some(Catcher { attached_to: key, event: catch.event.clone() });
            }
            at = element.parent;
        }
        None
    }

    /// Ends what the boundary event is attached to and goes on at the event.
    pub(super) fn catch(&mut self, catcher: Catcher, variables: Map<String, Value>) -> Result<(), Stop> {
        let Some(scope) = self.state.element(catcher.attached_to).and_then(|element| element.parent) else {
            return Ok(());
        };
        self.terminate(catcher.attached_to)?;
        let event = self.enter(scope, &catcher.event, Vec::new())?;
        self.set_local(event, variables)
    }

    pub(super) fn resolve(&mut self, key: i64) -> Result<Answer, Stop> {
        let Some(incident) = self.state.incident(key).cloned() else {
            let reason = format!("Expected to resolve incident with key '{key}', but no such incident was found");
            return reject(RejectionKind::NotFound, reason);
        };
        match incident.job {
            Some(job) => {
                if self.state.job(job).is_some_and(|job| job.retries <= 0) {
                    let reason = format!(
                        "Expected to resolve incident with key '{key}', but its job with key '{job}' has no retries left; \
                         update the retries first"
                    );
                    return reject(RejectionKind::InvalidState, reason);
                }
                self.emit(Event::IncidentResolved { key })?;
                self.emit(Event::JobReoffered { job })?;
            }
            None => {
                self.emit(Event::IncidentResolved { key })?;
                if let Some(element) = self.state.element(incident.element) {
                    self.todo.push_back((incident.element, element.stage));
                }
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn cancel(&mut self, instance: i64) -> Result<Answer, Stop> {
        if self.state.element(instance).is_none_or(|element| element.parent.is_some()) {
            let reason =
                format!("Expected to cancel a process instance with key '{instance}', but no such process was found");
            return reject(RejectionKind::NotFound, reason);
        }
        self.terminate(instance)?;
        Ok(Answer::Done)
    }
}
