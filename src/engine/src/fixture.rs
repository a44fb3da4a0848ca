//! Models and a machine for tests. A model is a list of XML fragments; a [`Lab`] runs commands and checks with each that the
//! events alone give the same state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_core::time::Timestamp;
use serde_json::{Value, json};

use crate::document::Document;
use crate::machine::{
    ActivateRequest, ActivatedJob, Answer, Command, CreateRequest, Created, Event, Now, Reach, Resource, State, Target,
    process,
};
use crate::rejection::{Rejection, RejectionKind};
use crate::view::{Ending, IncidentView};

/// A BPMN file with one executable process.
pub(crate) fn model(id: &str, parts: &[String]) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" id="definitions" targetNamespace="test">
<bpmn:error id="oops" errorCode="oops"/>
<bpmn:process id="{id}" isExecutable="true">{}</bpmn:process>
</bpmn:definitions>"#,
        parts.concat()
    )
}

pub(crate) fn start(id: &str) -> String {
    format!(r#"<bpmn:startEvent id="{id}"/>"#)
}

pub(crate) fn end(id: &str) -> String {
    format!(r#"<bpmn:endEvent id="{id}"/>"#)
}

pub(crate) fn end_with(id: &str, inside: &str) -> String {
    format!(r#"<bpmn:endEvent id="{id}">{inside}</bpmn:endEvent>"#)
}

pub(crate) fn task(id: &str, job_type: &str) -> String {
    task_with(id, job_type, "3", "")
}

/// A service task with more extension elements.
pub(crate) fn task_with(id: &str, job_type: &str, retries: &str, more: &str) -> String {
    format!(
        r#"<bpmn:serviceTask id="{id}"><bpmn:extensionElements><zeebe:taskDefinition type="{job_type}" retries="{retries}"/>{more}</bpmn:extensionElements></bpmn:serviceTask>"#
    )
}

pub(crate) fn exclusive(id: &str, default: &str) -> String {
    let default = if default.is_empty() { String::new() } else { format!(r#" default="{default}""#) };
    format!(r#"<bpmn:exclusiveGateway id="{id}"{default}/>"#)
}

pub(crate) fn parallel(id: &str) -> String {
    format!(r#"<bpmn:parallelGateway id="{id}"/>"#)
}

/// A flow, named `from_to`.
pub(crate) fn flow(from: &str, to: &str) -> String {
    format!(r#"<bpmn:sequenceFlow id="{from}_{to}" sourceRef="{from}" targetRef="{to}"/>"#)
}

/// A flow with a condition, named `from_to`.
pub(crate) fn flow_if(from: &str, to: &str, condition: &str) -> String {
    format!(
        r#"<bpmn:sequenceFlow id="{from}_{to}" sourceRef="{from}" targetRef="{to}"><bpmn:conditionExpression xsi:type="bpmn:tFormalExpression">{condition}</bpmn:conditionExpression></bpmn:sequenceFlow>"#
    )
}

/// An error boundary event; it catches the code `oops`, or any.
pub(crate) fn boundary(id: &str, at: &str, any: bool) -> String {
    let reference = if any { "" } else { r#" errorRef="oops""# };
    format!(
        r#"<bpmn:boundaryEvent id="{id}" attachedToRef="{at}"><bpmn:errorEventDefinition{reference}/></bpmn:boundaryEvent>"#
    )
}

pub(crate) fn subprocess(id: &str, parts: &[String]) -> String {
    format!(r#"<bpmn:subProcess id="{id}">{}</bpmn:subProcess>"#, parts.concat())
}

/// Input (`in`) or output (`out`) mappings: `(direction, source, target)`.
pub(crate) fn mappings(list: &[(&str, &str, &str)]) -> String {
    let entries: String = list
        .iter()
        .map(|(direction, source, target)| format!(r#"<zeebe:{direction}put source="{source}" target="{target}"/>"#))
        .collect();
    format!("<zeebe:ioMapping>{entries}</zeebe:ioMapping>")
}

/// Execution listeners: `(event, type)`.
pub(crate) fn listeners(list: &[(&str, &str)]) -> String {
    let entries: String = list
        .iter()
        .map(|(event, job_type)| format!(r#"<zeebe:executionListener eventType="{event}" type="{job_type}"/>"#))
        .collect();
    format!("<zeebe:executionListeners>{entries}</zeebe:executionListeners>")
}

/// Start, one task of type `work`, end.
pub(crate) fn one_task(id: &str) -> String {
    model(id, &[start("s"), task("t", "work"), end("e"), flow("s", "t"), flow("t", "e")])
}

/// `s` → gateway `g` → `a` by `condition`, else `b` if `default`; each a task of its own type.
pub(crate) fn choice(condition: &str, default: bool) -> String {
    let mut parts = vec![start("s"), exclusive("g", if default { "g_b" } else { "" }), flow("s", "g")];
    parts.extend([task("a", "a"), task("b", "b"), end("e"), flow_if("g", "a", condition)]);
    parts.push(if default { flow("g", "b") } else { flow_if("g", "b", "= 1 = 2") });
    parts.extend([flow("a", "e"), flow("b", "e")]);
    model("p", &parts)
}

pub(crate) fn document(value: Value) -> Document {
    match value {
        Value::Object(map) => Document::from_map(map),
        other => panic!("{other} is not an object"),
    }
}

pub(crate) fn create(id: &str, variables: Value) -> Command {
    Command::Create(CreateRequest {
        target: Target::Latest(id.to_owned()),
        variables: document(variables),
        start_at: Vec::new(),
    })
}

pub(crate) fn activate(job_type: &str, max_jobs: usize) -> ActivateRequest {
    ActivateRequest {
        job_type: job_type.to_owned(),
        worker: "w".to_owned(),
        timeout: 1_000,
        max_jobs,
        fetch: Vec::new(),
    }
}

pub(crate) fn resource(name: &str, xml: &str) -> Resource {
    Resource { name: name.to_owned(), content: xml.as_bytes().to_vec() }
}

/// A machine on a table.
pub(crate) struct Lab {
    pub(crate) state: State,
    pub(crate) now: Now,
    pub(crate) events: Vec<Event>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let now = Now { seen: Timestamp::from_millis(0), millis: 1_000_000 };
        Self { state: State::default(), now, events: Vec::new() }
    }

    /// With these models deployed.
    pub(crate) fn with(models: &[String]) -> Self {
        let mut lab = Self::new();
        for (at, xml) in models.iter().enumerate() {
            lab.run(Command::Deploy(vec![resource(&format!("{at}.bpmn"), xml)])).unwrap();
        }
        lab
    }

    pub(crate) fn run(&mut self, command: Command) -> Result<Answer, Rejection> {
        let step = process(&self.state, command, self.now)?;
        let mut replayed = self.state.clone();
        for event in &step.events {
            // As it comes back from the journal.
            let written = serde_json::to_string(event).unwrap();
            replayed.apply(&serde_json::from_str(&written).unwrap()).unwrap();
        }
        assert_eq!(replayed, step.state, "the events alone give another state");
        self.state = step.state;
        self.events.extend(step.events);
        Ok(step.answer)
    }

    pub(crate) fn create(&mut self, variables: Value) -> Created {
        match self.run(create("p", variables)).unwrap() {
            Answer::Created(created) => created,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn activate(&mut self, job_type: &str, max: usize) -> Vec<ActivatedJob> {
        match self.run(Command::Activate(activate(job_type, max))).unwrap() {
            Answer::Activated(jobs) => jobs,
            other => panic!("{other:?}"),
        }
    }

    /// The only job of the type on offer, activated.
    pub(crate) fn job(&mut self, job_type: &str) -> ActivatedJob {
        let mut jobs = self.activate(job_type, 10);
        assert_eq!(jobs.len(), 1, "jobs of type {job_type:?}");
        jobs.remove(0)
    }

    pub(crate) fn complete(&mut self, job: i64, variables: Value) {
        self.run(Command::Complete { job, variables: document(variables) }).unwrap();
    }

    pub(crate) fn fail(&mut self, job: i64, retries: i32, back_off: i64) -> Result<Answer, Rejection> {
        let message = "broken".to_owned();
        self.run(Command::Fail { job, retries, back_off, message, variables: Document::default() })
    }

    pub(crate) fn throw(&mut self, job: i64, code: &str, variables: Value) -> Result<Answer, Rejection> {
        let (code, message) = (code.to_owned(), "why".to_owned());
        self.run(Command::ThrowError { job, code, message, variables: document(variables) })
    }

    pub(crate) fn set(&mut self, scope: i64, variables: Value, reach: Reach) -> Result<Answer, Rejection> {
        self.run(Command::SetVariables { scope, variables: document(variables), reach })
    }

    pub(crate) fn pass(&mut self, millis: i64) {
        self.now.millis += millis;
        self.run(Command::Tick).unwrap();
    }

    /// The only open incident.
    pub(crate) fn incident(&self) -> IncidentView {
        let mut incidents = self.state.incidents();
        assert_eq!(incidents.len(), 1, "{incidents:?}");
        incidents.remove(0)
    }

    pub(crate) fn endings(&self, instance: i64) -> Vec<Ending> {
        let ending = |event: &Event| match event {
            Event::Ended { key, ending } if *key == instance => Some(*ending),
            _ => None,
        };
        self.events.iter().filter_map(ending).collect()
    }

    /// The ids of the elements entered, in order, without the processes.
    pub(crate) fn path(&self) -> Vec<&str> {
        let node = |event: &'_ Event| match event {
            Event::Entered { node, parent: Some(_), .. } => Some(node.clone()),
            _ => None,
        };
        let names: Vec<String> = self.events.iter().filter_map(node).collect();
        names.into_iter().map(|name| &*name.leak()).collect()
    }

    pub(crate) fn variables(&self, scope: i64) -> Value {
        json!(self.state.visible(scope, &[]))
    }
}

#[track_caller]
pub(crate) fn assert_rejected<T: std::fmt::Debug>(result: Result<T, Rejection>, kind: RejectionKind, message: &str) {
    let rejection = result.expect_err("it was accepted");
    assert_eq!((rejection.kind, rejection.to_string().as_str()), (kind, message));
}
