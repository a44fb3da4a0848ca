//! The rules of start, end and boundary events.

use super::Problems;
use crate::model::{Element, EventDefinition, Kind, Process};

const NOT_SUPPORTED: &str = "Event definition of this type is not supported";

pub(super) fn start(process: &Process, element: &Element, problems: &mut Problems) {
    if element.events.len() > 1 {
        problems.add(&element.id, "Start event can't have more than one type");
    }
    if process.incoming(&element.id).next().is_some() {
        problems.add(&element.id, "Start events must not have incoming sequence flows");
    }
    if !element.events.is_empty() {
        problems.add(&element.id, NOT_SUPPORTED);
    }
}

pub(super) fn end(process: &Process, element: &Element, problems: &mut Problems) {
    if process.outgoing(&element.id).next().is_some() {
        problems.add(&element.id, "End events must not have outgoing sequence flows to other elements.");
    }
    if element.events.len() > 1 {
        problems.add(&element.id, "Must have exactly one event definition");
    }
    for event in &element.events {
        match event {
            EventDefinition::Terminate => {}
            EventDefinition::Error { code } => match code.as_deref().map(str::trim) {
                None | Some("") => problems.add(&element.id, "ErrorCode must be present and not empty"),
                Some(code) if code.starts_with('=') => {
                    problems.add(&element.id, format!("Expected static error code, but found expression '{code}'"));
                }
                Some(_) => {}
            },
            EventDefinition::Timer { .. } | EventDefinition::Message { .. } | EventDefinition::Other(_) => {
                problems.add(&element.id, NOT_SUPPORTED);
            }
        }
    }
}

pub(super) fn boundary(
    process: &Process,
    element: &Element,
    attached_to: &str,
    interrupting: bool,
    problems: &mut Problems,
) {
    let id = &element.id;
    if !process.element(attached_to).is_some_and(|host| matches!(host.kind, Kind::Task(_) | Kind::SubProcess)) {
        problems.add(id, "Must be attached to an activity");
    }
    if process.incoming(id).next().is_some() {
        problems.add(id, "Cannot have incoming sequence flows");
    }
    if process.outgoing(id).next().is_none() {
        problems.add(id, "Must have at least one outgoing sequence flow or association");
    }
    let [event] = element.events.as_slice() else {
        problems.add(id, "Must have exactly one event definition");
        return;
    };
    match event {
        EventDefinition::Error { code } => {
            if !interrupting {
                problems.add(id, "Non-Interrupting events of this type are not allowed");
            }
            if code.as_deref().is_some_and(|code| code.trim().starts_with('=')) {
                problems.add(id, "Expected static error code, but found expression");
            }
            let twin = process.boundary_events(attached_to).find(|other| other.events.first() == Some(event));
            if twin.is_some_and(|twin| twin.id != *id) {
                let code = code.as_deref().unwrap_or_default();
                problems.add(
                    id,
                    format!("Multiple error boundary events with the same error code '{code}' are not allowed"),
                );
            }
        }
        EventDefinition::Terminate => {
            problems.add(id, "Boundary events must be one of: timer, message, error, signal, escalation");
        }
        EventDefinition::Timer { .. } | EventDefinition::Message { .. } | EventDefinition::Other(_) => {
            problems.add(id, NOT_SUPPORTED)
        }
    }
}
