//! The rules of start, end and boundary events.

use super::Problems;
use crate::model::{Element, EventDefinition, Kind, Process};
use std::collections::BTreeMap;

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
        problems.add(&element.id, "Must have at most one event definition");
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
            EventDefinition::Timer { .. } => problems.add(
                &element.id,
                "End events must be one of: none, error, message, terminate, signal, escalation or compensation",
            ),
            EventDefinition::Message { .. } | EventDefinition::Other(_) => problems.add(&element.id, NOT_SUPPORTED),
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
                problems.add(id, "Non-Interrupting event of this type is not allowed");
            }
            if code.as_deref().is_some_and(|code| code.trim().starts_with('=')) {
                problems.add(id, "Expected static error code, but found expression");
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

/// The rule of all the errors that are caught at one activity.
pub(super) fn catches(process: &Process, activity: &Element, problems: &mut Problems) {
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for event in process.boundary_events(&activity.id) {
        if let Some(EventDefinition::Error { code }) = event.events.first() {
            *codes.entry(code.as_deref().unwrap_or_default()).or_insert(0) += 1;
        }
    }
    for code in codes.into_iter().filter(|(_, count)| *count > 1).map(|(code, _)| code) {
        let message = if code.is_empty() {
            "The same scope can not contain more than one error catch event without error code. An error catch event \
             without error code catches all errors."
                .to_owned()
        } else {
            format!(
                "Multiple error catch events with the same error code '{code}' are not supported on the same scope."
            )
        };
        problems.add(&activity.id, message);
    }
}
