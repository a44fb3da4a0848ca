//! The rules of elements and flows: what is supported, and what must be there once.

use super::{Problems, events};
use crate::model::{Element, Flow, Kind, ListenerEvent, Process, TaskKind};
use std::collections::{BTreeMap, HashSet};

/// The rule of the none start event of a scope.
pub(super) fn starts(process: &Process, scope: Option<&str>, id: &str, problems: &mut Problems) {
    let starts: Vec<&Element> = process.children(scope).filter(|element| element.kind == Kind::StartEvent).collect();
    let nones = starts.iter().filter(|start| start.events.is_empty()).count();
    match scope {
        Some(_) if starts.len() != 1 => problems.add(id, "Must have exactly one start event"),
        Some(_) if nones != 1 => problems.add(id, "Start events in subprocesses must be of type none"),
        None if starts.is_empty() => problems.add(id, "Must have at least one start event"),
        None if nones > 1 => problems.add(id, "Multiple none start events are not allowed"),
        Some(_) | None => {}
    }
}

/// The rules of one element.
pub(super) fn check(process: &Process, element: &Element, problems: &mut Problems) {
    let id = &element.id;
    for part in &element.unsupported {
        problems.add(id, unsupported(part));
    }
    match &element.kind {
        Kind::StartEvent => events::start(process, element, problems),
        Kind::EndEvent => events::end(process, element, problems),
        Kind::BoundaryEvent { attached_to, interrupting } => {
            events::boundary(process, element, attached_to, *interrupting, problems);
        }
        Kind::Task(TaskKind::Service) => one_job(element, None, problems),
        Kind::Task(TaskKind::Send) => one_job(element, Some("publishMessage"), problems),
        Kind::Task(TaskKind::Script) => one_job(element, Some("script"), problems),
        Kind::Task(TaskKind::BusinessRule) => one_job(element, Some("calledDecision"), problems),
        Kind::SubProcess => starts(process, Some(id), id, problems),
        Kind::Task(TaskKind::Manual | TaskKind::Undefined) | Kind::ExclusiveGateway | Kind::ParallelGateway => {}
        Kind::Task(TaskKind::Receive) => problems.add(id, unsupported("receiveTask")),
        Kind::Task(TaskKind::User) => problems.add(id, unsupported("userTask")),
        Kind::CatchEvent => problems.add(id, unsupported("intermediateCatchEvent")),
        Kind::ThrowEvent => problems.add(id, unsupported("intermediateThrowEvent")),
        Kind::Other(tag) => problems.add(id, unsupported(tag)),
    }
    if !is_job_worker_task(element) && !element.jobs.is_empty() {
        problems.add(id, unsupported("zeebe:taskDefinition at this element"));
    }
    for job in &element.jobs {
        if job.job_type.trim().is_empty() {
            problems.add(id, "Attribute 'type' must be present and not empty");
        }
    }
    events::catches(process, element, problems);
    default_flow(process, element, problems);
    headers(element, problems);
    listeners(element, problems);
}

/// A worker's task has one job. Zeebe offers some kinds another way to be done, which is not supported here.
fn one_job(element: &Element, otherwise: Option<&str>, problems: &mut Problems) {
    if element.jobs.len() == 1 {
        return;
    }
    match otherwise {
        None => problems.add(&element.id, "Must have exactly one 'zeebe:taskDefinition' extension element"),
        Some(other) => problems.add(
            &element.id,
            format!("Must have either one 'zeebe:{other}' or one 'zeebe:taskDefinition' extension element"),
        ),
    }
}

/// Whether the element is a task that a job worker may do.
fn is_job_worker_task(element: &Element) -> bool {
    matches!(element.kind, Kind::Task(TaskKind::Service | TaskKind::Send | TaskKind::Script | TaskKind::BusinessRule))
}

/// `what` by Zeebe's name of the type: as in the file, but for a capital.
fn unsupported(what: &str) -> String {
    let mut name = what.to_owned();
    if !what.contains(':')
        && let Some(first) = name.get_mut(..1)
    {
        first.make_ascii_uppercase();
    }
    format!(
        "Elements of type '{name}' are currently not supported. Please refer to the documentation for a list of supported \
         elements: https://docs.camunda.io/docs/components/modeler/bpmn/bpmn-coverage/"
    )
}

fn default_flow(process: &Process, element: &Element, problems: &mut Problems) {
    if element.kind == Kind::ExclusiveGateway
        && let Some(default) = &element.default
        && process.flow(default).is_none_or(|flow| flow.source != element.id)
    {
        problems.add(&element.id, "Default flow must start at gateway");
    }
}

fn headers(element: &Element, problems: &mut Problems) {
    let mut seen = HashSet::new();
    for header in &element.headers {
        if header.key.is_empty() {
            problems.add(&element.id, "Attribute 'key' must be present and not empty");
        } else if !seen.insert(&header.key) {
            problems.add(&element.id, format!("Duplicate task header key '{}'", header.key));
        }
    }
}

fn listeners(element: &Element, problems: &mut Problems) {
    let mut seen = BTreeMap::new();
    for listener in &element.listeners {
        if listener.job_type.trim().is_empty() {
            problems.add(&element.id, "Attribute 'type' must be present and not empty");
        }
        let event = match &listener.event {
            ListenerEvent::Start => "start",
            ListenerEvent::End => "end",
            ListenerEvent::Other(other) => other.as_str(),
        };
        let (takes, by) = match &element.kind {
            Kind::StartEvent => (listener.event == ListenerEvent::End, "start events"),
            Kind::BoundaryEvent { .. } => (listener.event == ListenerEvent::End, "boundary events"),
            Kind::ExclusiveGateway | Kind::ParallelGateway => {
                (listener.event == ListenerEvent::Start, "gateway element")
            }
            Kind::EndEvent
            | Kind::CatchEvent
            | Kind::ThrowEvent
            | Kind::Task(_)
            | Kind::SubProcess
            | Kind::Other(_) => (matches!(listener.event, ListenerEvent::Start | ListenerEvent::End), "this element"),
        };
        if !takes {
            problems.add(&element.id, format!("Execution listeners of type '{event}' are not supported by {by}"));
        }
        *seen.entry((event, listener.job_type.as_str())).or_insert(0usize) += 1;
    }
    for ((event, job_type), count) in seen.into_iter().filter(|(_, count)| *count > 1) {
        let message = format!(
            "Found '{count}' duplicates based on eventType[{event}] and type[{job_type}], these combinations should be unique."
        );
        problems.add(&element.id, message);
    }
}

/// The rules of one flow.
pub(super) fn flow(process: &Process, flow: &Flow, problems: &mut Problems) {
    let Some(source) = process.element(&flow.source) else {
        return;
    };
    if source.kind == Kind::ExclusiveGateway {
        let is_default = source.default.as_ref() == Some(&flow.id);
        if flow.condition.is_none() && !is_default && process.outgoing(&source.id).count() > 1 {
            problems.add(&flow.id, "Must have a condition or be default flow");
        }
    } else if flow.condition.is_some() {
        problems.add(&source.id, "Conditional sequence flows are only supported at exclusive or inclusive gateway");
    }
}
