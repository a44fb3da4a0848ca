//! From the model to the graph that the machine walks. A resource that cannot be walked is refused here, in Zeebe's words.

use std::collections::{BTreeMap, HashMap};

use m87_bpmn::feel::{Attribute, Expr};
use m87_bpmn::model::{self, Element, EventDefinition, ListenerEvent, TaskKind};
use m87_bpmn::validate;

use super::command::Resource;
use super::graph::{Catch, Flow, JobSource, Kind, Mapping, Node, Process};

/// The text of a resource and the ids of its executable processes, if it may be deployed; else what is wrong, as a part of
/// the rejection.
pub(super) fn read(resource: &Resource) -> Result<(String, Vec<String>), String> {
    let name = &resource.name;
    let wrong = |reason: String| format!("'{name}': {reason}\n");
    if !name.ends_with(".bpmn") {
        return Err(wrong("unknown resource type; this engine deploys '*.bpmn'".to_owned()));
    }
    let definitions = model::parse(&resource.content).map_err(|error| wrong(error.to_string()))?;
    validate::deployable(&definitions).map_err(|problems| validate::report(name, &problems))?;
    let xml = String::from_utf8(resource.content.clone()).map_err(|error| wrong(error.to_string()))?;
    let ids = definitions.executable().map(process).map(|process| process.map(|process| process.id));
    let ids = ids.collect::<Result<_, _>>().map_err(wrong)?;
    Ok((xml, ids))
}

/// Every executable process of a text that was deployed.
pub(super) fn compile(xml: &str) -> Result<Vec<Process>, String> {
    let definitions = model::parse(xml.as_bytes()).map_err(|error| error.to_string())?;
    definitions.executable().map(process).collect()
}

fn process(model: &model::Process) -> Result<Process, String> {
    let mut nodes = HashMap::with_capacity(model.elements.len() + 1);
    let root = Node {
        id: model.id.clone(),
        kind: Kind::Scope { start: model.none_start(None).map(|start| start.id.clone()) },
        scope: None,
        incoming: Vec::new(),
        outgoing: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        start_listeners: Vec::new(),
        end_listeners: Vec::new(),
        catches: Vec::new(),
    };
    nodes.insert(model.id.clone(), root);
    for element in &model.elements {
        let node = node(model, element).map_err(|reason| format!("{}: {reason}", element.id))?;
        nodes.insert(element.id.clone(), node);
    }
    let mut flows = HashMap::with_capacity(model.flows.len());
    for flow in &model.flows {
        let condition = flow.condition.as_deref().map(condition).transpose();
        let condition = condition.map_err(|reason| format!("{}: {reason}", flow.id))?;
        flows.insert(flow.id.clone(), Flow { target: flow.target.clone(), condition });
    }
    Ok(Process { id: model.id.clone(), nodes, flows })
}

fn node(process: &model::Process, element: &Element) -> Result<Node, String> {
    let mappings = |mappings: &[model::Mapping]| mappings.iter().map(mapping).collect::<Result<Vec<_>, _>>();
    let listeners = |event: ListenerEvent| {
        element
            .listeners(&event)
            .map(|listener| job_source(&listener.job_type, &listener.retries, BTreeMap::new()))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(Node {
        id: element.id.clone(),
        kind: kind(process, element)?,
        scope: Some(element.scope.clone().unwrap_or_else(|| process.id.clone())),
        incoming: process.incoming(&element.id).map(|flow| flow.id.clone()).collect(),
        outgoing: process.outgoing(&element.id).map(|flow| flow.id.clone()).collect(),
        inputs: mappings(&element.inputs)?,
        outputs: mappings(&element.outputs)?,
        start_listeners: listeners(ListenerEvent::Start)?,
        end_listeners: listeners(ListenerEvent::End)?,
        catches: process.boundary_events(&element.id).filter_map(catch).collect(),
    })
}

fn kind(process: &model::Process, element: &Element) -> Result<Kind, String> {
    Ok(match (&element.kind, element.events.as_slice()) {
        (model::Kind::StartEvent | model::Kind::EndEvent, [])
        | (model::Kind::Task(TaskKind::Manual | TaskKind::Undefined), _) => Kind::Pass,
        (model::Kind::EndEvent, [EventDefinition::Error { code: Some(code) }]) => {
            Kind::ErrorEnd { code: attribute(code)? }
        }
        (model::Kind::EndEvent, [EventDefinition::Terminate]) => Kind::TerminateEnd,
        (model::Kind::BoundaryEvent { interrupting: true, .. }, [EventDefinition::Error { .. }]) => Kind::Catch,
        (model::Kind::Task(_), _) => {
            let job = element.job().ok_or("this kind of task is not supported")?;
            let headers = element.headers.iter().map(|header| (header.key.clone(), header.value.clone())).collect();
            Kind::Job(job_source(&job.job_type, &job.retries, headers)?)
        }
        (model::Kind::ExclusiveGateway, _) => Kind::Exclusive { default: element.default.clone() },
        (model::Kind::ParallelGateway, _) => Kind::Parallel,
        (model::Kind::SubProcess, _) => {
            Kind::Scope { start: process.none_start(Some(&element.id)).map(|start| start.id.clone()) }
        }
        (
            model::Kind::StartEvent
            | model::Kind::EndEvent
            | model::Kind::BoundaryEvent { .. }
            | model::Kind::CatchEvent
            | model::Kind::ThrowEvent
            | model::Kind::Other(_),
            _,
        ) => return Err("this kind of element or event is not supported".to_owned()),
    })
}

fn job_source(job_type: &str, retries: &str, headers: BTreeMap<String, String>) -> Result<JobSource, String> {
    Ok(JobSource { job_type: attribute(job_type)?, retries: attribute(retries)?, headers })
}

fn mapping(mapping: &model::Mapping) -> Result<Mapping, String> {
    let target = mapping.target.split('.').map(str::to_owned).collect();
    Ok(Mapping { source: attribute(&mapping.source)?, target })
}

fn condition(text: &str) -> Result<Expr, String> {
    match attribute(text)? {
        Attribute::Expression(expression) => Ok(expression),
        Attribute::Static(text) => Err(format!("the condition {text:?} is not an expression; start it with '='")),
    }
}

fn attribute(text: &str) -> Result<Attribute, String> {
    Attribute::parse(text).map_err(|error| format!("expression {text:?}: {error}"))
}

fn catch(event: &Element) -> Option<Catch> {
    match event.events.as_slice() {
        [EventDefinition::Error { code }] => Some(Catch { event: event.id.clone(), code: code.clone() }),
        _ => None,
    }
}
