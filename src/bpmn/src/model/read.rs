//! From the XML tree to the model. Whatever does not hold together is refused here with its line; whatever holds together
//! but cannot be run is left to validation.

use super::{
    Definitions, Element, EventDefinition, Flow, Header, Kind, Lane, Listener, ListenerEvent, Mapping, Message,
    ParseError, Participant, Position, Process, TaskDefinition, TaskKind, diagram,
};
use crate::xml::{Namespace, Node};
use std::collections::HashMap;

const BPMN: Namespace = Namespace::Bpmn;
const ZEEBE: Namespace = Namespace::Zeebe;

/// Children of a scope that are no flow nodes and do nothing.
const PASSIVE: &[&str] = &[
    "documentation",
    "extensionElements",
    "auditing",
    "monitoring",
    "property",
    "ioSpecification",
    "dataObject",
    "dataObjectReference",
    "dataStoreReference",
    "textAnnotation",
    "association",
    "group",
    "laneSet",
    "incoming",
    "outgoing",
    "sequenceFlow",
    "multiInstanceLoopCharacteristics",
    "standardLoopCharacteristics",
];

/// Zeebe's extension elements that do nothing here and change nothing there.
const HARMLESS_EXTENSIONS: &[&str] =
    &["taskDefinition", "ioMapping", "taskHeaders", "executionListeners", "properties", "versionTag", "exampleData"];

pub(super) fn definitions(root: &Node) -> Result<Definitions, ParseError> {
    if !root.is(BPMN, "definitions") {
        let message = format!("the root element is <{}>, not BPMN's <definitions>", root.name);
        return Err(ParseError { line: root.line, element: None, message });
    }
    let mut ids = Ids::default();
    let errors = errors(root, &mut ids)?;
    let mut messages = Vec::new();
    for node in root.children(BPMN, "message") {
        let id = ids.take(node)?;
        let subscription = extensions(node).find(|extension| extension.name == "subscription");
        let correlation_key = subscription.and_then(|node| node.attribute("correlationKey")).map(str::to_owned);
        messages.push(Message { id, name: name(node), correlation_key });
    }
    let mut participants = Vec::new();
    for node in root.children(BPMN, "collaboration").flat_map(|node| node.children(BPMN, "participant")) {
        let id = ids.take(node)?;
        participants.push(Participant {
            id,
            name: name(node),
            process: node.attribute("processRef").map(str::to_owned),
        });
    }
    let mut processes = Vec::new();
    for node in root.children(BPMN, "process") {
        processes.push(process(node, &errors, &mut ids)?);
    }
    Ok(Definitions {
        id: root.attribute("id").map(str::to_owned),
        processes,
        messages,
        participants,
        diagram: diagram::read(root)?,
    })
}

/// The ids of a file: each is there, and once.
#[derive(Default)]
struct Ids(HashMap<String, usize>);

impl Ids {
    fn take(&mut self, node: &Node) -> Result<String, ParseError> {
        let id = match node.attribute("id").map(str::trim) {
            Some(id) if !id.is_empty() => id.to_owned(),
            Some(_) | None => return Err(refuse(node, "has no id; give it one".to_owned())),
        };
        match self.0.insert(id.clone(), node.line) {
            None => Ok(id),
            Some(line) => Err(refuse(node, format!("the id is already used on line {line}; ids must be unique"))),
        }
    }
}

/// Error codes by the id of their definition.
fn errors(root: &Node, ids: &mut Ids) -> Result<HashMap<String, Option<String>>, ParseError> {
    let mut errors = HashMap::new();
    for node in root.children(BPMN, "error") {
        errors.insert(ids.take(node)?, node.attribute("errorCode").map(str::to_owned));
    }
    Ok(errors)
}

fn process(node: &Node, errors: &HashMap<String, Option<String>>, ids: &mut Ids) -> Result<Process, ParseError> {
    let mut process = Process {
        id: ids.take(node)?,
        name: name(node),
        executable: matches!(node.attribute("isExecutable").map(str::trim), Some("true" | "1")),
        line: node.line,
        lanes: Vec::new(),
        elements: Vec::new(),
        flows: Vec::new(),
        index: HashMap::new(),
        leaving: HashMap::new(),
        entering: HashMap::new(),
        inside: HashMap::new(),
        attached: HashMap::new(),
    };
    for set in node.children(BPMN, "laneSet") {
        lanes(set, &mut process.lanes, ids)?;
    }
    scope(node, None, &mut process, errors, ids)?;
    index(&mut process);
    check_references(&process)?;
    Ok(process)
}

fn lanes(set: &Node, lanes: &mut Vec<Lane>, ids: &mut Ids) -> Result<(), ParseError> {
    for node in set.children(BPMN, "lane") {
        let elements = node.children(BPMN, "flowNodeRef").map(|reference| reference.text.trim().to_owned()).collect();
        lanes.push(Lane { id: ids.take(node)?, name: name(node), elements });
        for inner in node.children(BPMN, "childLaneSet") {
            self::lanes(inner, lanes, ids)?;
        }
    }
    Ok(())
}

fn scope(
    node: &Node,
    scope: Option<&str>,
    process: &mut Process,
    errors: &HashMap<String, Option<String>>,
    ids: &mut Ids,
) -> Result<(), ParseError> {
    for child in node.children.iter().filter(|child| child.namespace == BPMN) {
        if child.name == "sequenceFlow" {
            process.flows.push(flow(child, scope, ids)?);
        } else if !PASSIVE.contains(&child.name.as_str()) {
            let element = element(child, scope, errors, ids)?;
            let id = element.id.clone();
            let nested = element.kind == Kind::SubProcess;
            process.elements.push(element);
            if nested {
                self::scope(child, Some(&id), process, errors, ids)?;
            }
        }
    }
    Ok(())
}

fn flow(node: &Node, scope: Option<&str>, ids: &mut Ids) -> Result<Flow, ParseError> {
    let id = ids.take(node)?;
    let end = |key: &str| match node.attribute(key) {
        Some(reference) => Ok(reference.to_owned()),
        None => Err(refuse(node, format!("the sequence flow has no {key}"))),
    };
    let condition = node.child(BPMN, "conditionExpression").map(|condition| condition.text.trim().to_owned());
    Ok(Flow {
        id,
        name: name(node),
        line: node.line,
        scope: scope.map(str::to_owned),
        source: end("sourceRef")?,
        target: end("targetRef")?,
        condition,
    })
}

fn element(
    node: &Node,
    scope: Option<&str>,
    errors: &HashMap<String, Option<String>>,
    ids: &mut Ids,
) -> Result<Element, ParseError> {
    let mut element = Element {
        id: ids.take(node)?,
        name: name(node),
        line: node.line,
        scope: scope.map(str::to_owned),
        kind: kind(node)?,
        events: events(node, errors),
        default: node.attribute("default").map(str::to_owned),
        jobs: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        headers: Vec::new(),
        listeners: Vec::new(),
        unsupported: Vec::new(),
    };
    for characteristics in ["multiInstanceLoopCharacteristics", "standardLoopCharacteristics"] {
        if node.child(BPMN, characteristics).is_some() {
            element.unsupported.push(characteristics.to_owned());
        }
    }
    if node.attribute("isForCompensation") == Some("true") {
        element.unsupported.push("isForCompensation".to_owned());
    }
    if node.attribute("triggeredByEvent") == Some("true") {
        element.unsupported.push("triggeredByEvent (event sub-process)".to_owned());
    }
    for extension in extensions(node) {
        extend(&mut element, extension)?;
    }
    Ok(element)
}

fn kind(node: &Node) -> Result<Kind, ParseError> {
    Ok(match node.name.as_str() {
        "startEvent" => Kind::StartEvent,
        "endEvent" => Kind::EndEvent,
        "boundaryEvent" => Kind::BoundaryEvent {
            attached_to: node
                .attribute("attachedToRef")
                .map(str::to_owned)
                .ok_or_else(|| refuse(node, "the boundary event has no attachedToRef".to_owned()))?,
            interrupting: !matches!(node.attribute("cancelActivity").map(str::trim), Some("false" | "0")),
        },
        "intermediateCatchEvent" => Kind::CatchEvent,
        "intermediateThrowEvent" => Kind::ThrowEvent,
        "serviceTask" => Kind::Task(TaskKind::Service),
        "sendTask" => Kind::Task(TaskKind::Send),
        "scriptTask" => Kind::Task(TaskKind::Script),
        "businessRuleTask" => Kind::Task(TaskKind::BusinessRule),
        "receiveTask" => Kind::Task(TaskKind::Receive),
        "userTask" => Kind::Task(TaskKind::User),
        "manualTask" => Kind::Task(TaskKind::Manual),
        "task" => Kind::Task(TaskKind::Undefined),
        "exclusiveGateway" => Kind::ExclusiveGateway,
        "parallelGateway" => Kind::ParallelGateway,
        "subProcess" => Kind::SubProcess,
        other => Kind::Other(other.to_owned()),
    })
}

fn events(node: &Node, errors: &HashMap<String, Option<String>>) -> Vec<EventDefinition> {
    let text = |node: &Node, name: &str| node.child(BPMN, name).map(|child| child.text.trim().to_owned());
    let mut events = Vec::new();
    for child in node.children.iter().filter(|child| child.namespace == BPMN) {
        events.push(match child.name.as_str() {
            "errorEventDefinition" => EventDefinition::Error {
                code: child.attribute("errorRef").and_then(|id| errors.get(id).cloned().flatten()),
            },
            "terminateEventDefinition" => EventDefinition::Terminate,
            "timerEventDefinition" => EventDefinition::Timer {
                duration: text(child, "timeDuration"),
                date: text(child, "timeDate"),
                cycle: text(child, "timeCycle"),
            },
            "messageEventDefinition" => {
                EventDefinition::Message { message: child.attribute("messageRef").map(str::to_owned) }
            }
            other if other.ends_with("EventDefinition") => EventDefinition::Other(other.to_owned()),
            // An event by reference is an event all the same: it must not pass for a none event.
            "eventDefinitionRef" => EventDefinition::Other("eventDefinitionRef".to_owned()),
            _ => continue,
        });
    }
    events
}

fn extensions(node: &Node) -> impl Iterator<Item = &Node> {
    node.children(BPMN, "extensionElements")
        .flat_map(|extensions| extensions.children.iter())
        .filter(|child| child.namespace == ZEEBE)
}

fn extend(element: &mut Element, extension: &Node) -> Result<(), ParseError> {
    let text = |node: &Node, key: &str| node.attribute(key).unwrap_or_default().to_owned();
    let retries = |node: &Node| node.attribute("retries").unwrap_or("3").to_owned();
    let mapping = |node: &Node| Mapping { source: text(node, "source"), target: text(node, "target") };
    match extension.name.as_str() {
        "taskDefinition" => {
            element.jobs.push(TaskDefinition { job_type: text(extension, "type"), retries: retries(extension) })
        }
        "ioMapping" => {
            element.inputs.extend(extension.children(ZEEBE, "input").map(mapping));
            element.outputs.extend(extension.children(ZEEBE, "output").map(mapping));
        }
        "taskHeaders" => {
            let headers = extension.children(ZEEBE, "header");
            element.headers.extend(headers.map(|node| Header { key: text(node, "key"), value: text(node, "value") }));
        }
        "executionListeners" => {
            for node in extension.children(ZEEBE, "executionListener") {
                let event = match node.attribute("eventType") {
                    Some("start") => ListenerEvent::Start,
                    Some("end") => ListenerEvent::End,
                    Some(other) => ListenerEvent::Other(other.to_owned()),
                    None => return Err(refuse(node, "the listener has no eventType; write start or end".to_owned())),
                };
                element.listeners.push(Listener { event, job_type: text(node, "type"), retries: retries(node) });
            }
        }
        harmless if HARMLESS_EXTENSIONS.contains(&harmless) => {}
        other => element.unsupported.push(format!("zeebe:{other}")),
    }
    Ok(())
}

fn index(process: &mut Process) {
    for (at, element) in process.elements.iter().enumerate() {
        process.index.insert(element.id.clone(), Position::Element(at));
        let scope = element.scope.as_ref().unwrap_or(&process.id).clone();
        process.inside.entry(scope).or_default().push(at);
        if let Kind::BoundaryEvent { attached_to, .. } = &element.kind {
            process.attached.entry(attached_to.clone()).or_default().push(at);
        }
    }
    for (at, flow) in process.flows.iter().enumerate() {
        process.index.insert(flow.id.clone(), Position::Flow(at));
        process.leaving.entry(flow.source.clone()).or_default().push(at);
        process.entering.entry(flow.target.clone()).or_default().push(at);
    }
}

/// Each reference leads somewhere, and within its scope.
fn check_references(process: &Process) -> Result<(), ParseError> {
    let wrong = |line: usize, id: &str, message: String| ParseError { line, element: Some(id.to_owned()), message };
    for flow in &process.flows {
        for (side, reference) in [("sourceRef", &flow.source), ("targetRef", &flow.target)] {
            match process.element(reference) {
                None => {
                    return Err(wrong(
                        flow.line,
                        &flow.id,
                        format!("{side} names {reference:?}, which is no element of this process"),
                    ));
                }
                Some(end) if end.scope != flow.scope => {
                    let message = format!(
                        "{side} names {reference:?}, which is in another sub-process; a flow stays in its scope"
                    );
                    return Err(wrong(flow.line, &flow.id, message));
                }
                Some(_) => {}
            }
        }
    }
    for element in &process.elements {
        if let Kind::BoundaryEvent { attached_to, .. } = &element.kind {
            match process.element(attached_to) {
                Some(activity) if activity.scope == element.scope => {}
                Some(_) | None => {
                    let message = format!("attachedToRef names {attached_to:?}, which is no element of its scope");
                    return Err(wrong(element.line, &element.id, message));
                }
            }
        }
        if let Some(default) = &element.default
            && process.flow(default).is_none()
        {
            let message = format!("default names {default:?}, which is no sequence flow of this process");
            return Err(wrong(element.line, &element.id, message));
        }
    }
    for lane in &process.lanes {
        if let Some(stranger) = lane.elements.iter().find(|id| process.element(id).is_none()) {
            let message = format!("the lane names {stranger:?}, which is no element of this process");
            return Err(wrong(process.line, &lane.id, message));
        }
    }
    Ok(())
}

fn name(node: &Node) -> Option<String> {
    node.attribute("name").filter(|name| !name.trim().is_empty()).map(str::to_owned)
}

fn refuse(node: &Node, message: String) -> ParseError {
    let element = node.attribute("id").filter(|id| !id.is_empty()).map(str::to_owned);
    ParseError { line: node.line, element, message: format!("<{}>: {message}", node.name) }
}
