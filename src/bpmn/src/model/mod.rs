//! A BPMN file as the engine, the prover and the drawing see it.
//!
//! A process is kept flat: every element and flow of every nested scope, in document order, each naming the scope it is in.
//! Order matters: an exclusive gateway tries its flows in the order in which the file lists them. What this crate does not
//! understand is kept by name (`Kind::Other`, `Element::unsupported`), so that validation can refuse it by name.

mod diagram;
mod read;
#[cfg(test)]
mod tests;

pub use diagram::{Bounds, Diagram, Edge, Point, Shape};

use std::collections::HashMap;
use std::fmt;

/// Everything that one BPMN file defines.
#[derive(Debug, Clone, PartialEq)]
pub struct Definitions {
    /// The id of the file's root element, if it has one.
    pub id: Option<String>,
    /// In document order.
    pub processes: Vec<Process>,
    /// In document order.
    pub messages: Vec<Message>,
    /// The pools, if there is a collaboration.
    pub participants: Vec<Participant>,
    /// The picture, if there is one.
    pub diagram: Option<Diagram>,
}

/// A pool: a drawn frame around a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The process inside; `None` for a black box.
    pub process: Option<String>,
}

/// A message that events refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// The name by which it is published; may be an expression.
    pub name: Option<String>,
    /// What tells which instance it is for; an expression.
    pub correlation_key: Option<String>,
}

/// One process with everything in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The process id, by which instances are created.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Whether it may be deployed.
    pub executable: bool,
    /// Its line in the file.
    pub line: usize,
    /// In document order.
    pub lanes: Vec<Lane>,
    /// Every element of every scope, in document order.
    pub elements: Vec<Element>,
    /// Every flow of every scope, in document order.
    pub flows: Vec<Flow>,
    index: HashMap<String, Position>,
    leaving: HashMap<String, Vec<usize>>,
    entering: HashMap<String, Vec<usize>>,
    inside: HashMap<String, Vec<usize>>,
    attached: HashMap<String, Vec<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Element(usize),
    Flow(usize),
}

/// Who does what is inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The ids of the elements in it.
    pub elements: Vec<String>,
}

/// A sequence flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Its line in the file.
    pub line: usize,
    /// The sub-process it is in; `None` for the process itself.
    pub scope: Option<String>,
    /// The id of the element it leaves.
    pub source: String,
    /// The id of the element it enters.
    pub target: String,
    /// The condition as written, with its leading `=`.
    pub condition: Option<String>,
}

/// A flow node: an event, a task, a gateway or a sub-process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Its line in the file.
    pub line: usize,
    /// The sub-process it is in; `None` for the process itself.
    pub scope: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// The events it waits for or raises; empty for a none event.
    pub events: Vec<EventDefinition>,
    /// The flow that is taken if no condition holds.
    pub default: Option<String>,
    /// The job it creates. More than one is an error that validation reports.
    pub jobs: Vec<TaskDefinition>,
    /// What goes into its own scope before it starts.
    pub inputs: Vec<Mapping>,
    /// What leaves its scope when it is done.
    pub outputs: Vec<Mapping>,
    /// Static key-value pairs handed to its worker.
    pub headers: Vec<Header>,
    /// Jobs created before it starts or after it is done, in document order.
    pub listeners: Vec<Listener>,
    /// Parts of it that this engine does not run, by name.
    pub unsupported: Vec<String>,
}

/// What an element is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Where a scope starts.
    StartEvent,
    /// Where a token of a scope ends.
    EndEvent,
    /// An event on the edge of an activity.
    BoundaryEvent {
        /// The id of the activity.
        attached_to: String,
        /// Whether it ends the activity.
        interrupting: bool,
    },
    /// An event that waits in the flow.
    CatchEvent,
    /// An event that is raised in the flow.
    ThrowEvent,
    /// Work.
    Task(TaskKind),
    /// One way out: the first whose condition holds, else the default.
    ExclusiveGateway,
    /// All ways out; waits for all ways in.
    ParallelGateway,
    /// A scope of its own, with its own variables.
    SubProcess,
    /// An element that this crate knows by its BPMN name only, such as `complexGateway`.
    Other(String),
}

/// The kinds of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// A job for a worker.
    Service,
    /// A job for a worker.
    Send,
    /// A job for a worker.
    Script,
    /// A job for a worker.
    BusinessRule,
    /// Waits for a message.
    Receive,
    /// For people.
    User,
    /// Done outside the engine: passed through.
    Manual,
    /// Of no kind: passed through.
    Undefined,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventDefinition {
    /// A BPMN error; no code catches all.
    Error {
        /// The code by which it is thrown and caught.
        code: Option<String>,
    },
    /// Ends everything in its scope.
    Terminate,
    /// A time; each is an expression or ISO 8601 text.
    Timer {
        /// After so long.
        duration: Option<String>,
        /// At that instant.
        date: Option<String>,
        /// Again and again.
        cycle: Option<String>,
    },
    /// A message, by the id of its definition.
    Message {
        /// The id.
        message: Option<String>,
    },
    /// A definition that this crate knows by its BPMN name only.
    Other(String),
}

/// A job: its type and how often it may fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDefinition {
    /// The job type as written; may be an expression.
    pub job_type: String,
    /// Retries as written; `3` if the file says nothing; may be an expression.
    pub retries: String,
}

/// An execution listener: a job around an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// When.
    pub event: ListenerEvent,
    /// The job type as written; may be an expression.
    pub job_type: String,
    /// Retries as written; `3` if the file says nothing; may be an expression.
    pub retries: String,
}

/// When a listener's job is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerEvent {
    /// After the input mappings, before the element does anything.
    Start,
    /// After the output mappings, before the element is left.
    End,
    /// Any other word.
    Other(String),
}

/// One variable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The expression as written, with its leading `=`.
    pub source: String,
    /// The variable; a dot makes it a path into a context.
    pub target: String,
}

/// A static header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Why a file is not a BPMN model, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The id of the element that is wrong, if it has one.
    pub element: Option<String>,
    /// What is wrong and how to put it right.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.element {
            Some(id) => write!(f, "line {}: {id}: {}", self.line, self.message),
            None => write!(f, "line {}: {}", self.line, self.message),
        }
    }
}

impl std::error::Error for ParseError {}

/// Reads a BPMN file.
///
/// # Errors
/// The text is not well-formed XML within the bounds of this crate, is not BPMN, or does not hold together: a missing or doubled id, a
/// flow from or to nowhere, a flow across scopes.
pub fn parse(bytes: &[u8]) -> Result<Definitions, ParseError> {
    let root = crate::xml::read(bytes).map_err(|error| ParseError {
        line: error.line,
        element: None,
        message: error.message,
    })?;
    read::definitions(&root)
}

impl Definitions {
    /// The process of that id.
    pub fn process(&self, id: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.id == id)
    }

    /// The processes that may be deployed, in document order.
    pub fn executable(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.executable)
    }

    /// The message of that id.
    pub fn message(&self, id: &str) -> Option<&Message> {
        self.messages.iter().find(|message| message.id == id)
    }
}

impl Process {
    /// The element of that id, in whatever scope.
    pub fn element(&self, id: &str) -> Option<&Element> {
        match self.index.get(id) {
            Some(Position::Element(at)) => self.elements.get(*at),
            Some(Position::Flow(_)) | None => None,
        }
    }

    /// The flow of that id, in whatever scope.
    pub fn flow(&self, id: &str) -> Option<&Flow> {
        match self.index.get(id) {
            Some(Position::Flow(at)) => self.flows.get(*at),
            Some(Position::Element(_)) | None => None,
        }
    }

    /// The elements directly in a scope: a sub-process, or the process itself for `None`.
    pub fn children<'a>(&'a self, scope: Option<&str>) -> impl Iterator<Item = &'a Element> + use<'a> {
        self.elements_at(self.inside.get(scope.unwrap_or(&self.id)))
    }

    /// Where a scope starts without an event.
    pub fn none_start(&self, scope: Option<&str>) -> Option<&Element> {
        self.children(scope).find(|element| element.kind == Kind::StartEvent && element.events.is_empty())
    }

    /// The flows that leave an element, in document order.
    pub fn outgoing<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a Flow> + use<'a> {
        self.flows_at(self.leaving.get(id))
    }

    /// The flows that enter an element, in document order.
    pub fn incoming<'a>(&'a self, id: &str) -> impl Iterator<Item = &'a Flow> + use<'a> {
        self.flows_at(self.entering.get(id))
    }

    /// The events on the edge of an activity, in document order.
    pub fn boundary_events<'a>(&'a self, activity: &str) -> impl Iterator<Item = &'a Element> + use<'a> {
        self.elements_at(self.attached.get(activity))
    }

    fn elements_at<'a>(&'a self, at: Option<&'a Vec<usize>>) -> impl Iterator<Item = &'a Element> + use<'a> {
        at.into_iter().flatten().filter_map(|at| self.elements.get(*at))
    }

    fn flows_at<'a>(&'a self, at: Option<&'a Vec<usize>>) -> impl Iterator<Item = &'a Flow> + use<'a> {
        at.into_iter().flatten().filter_map(|at| self.flows.get(*at))
    }

    /// The lane an element is drawn in.
    pub fn lane_of(&self, id: &str) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.elements.iter().any(|element| element == id))
    }
}

impl Element {
    /// Its name, or its id if it has none.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    /// The job it creates, if it is one that a worker does.
    pub fn job(&self) -> Option<&TaskDefinition> {
        self.jobs.first()
    }

    /// The listeners of one moment, in document order.
    pub fn listeners(&self, event: &ListenerEvent) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(move |listener| listener.event == *event)
    }
}
