//! A process as the machine walks it: nodes and flows by id, every expression parsed. It is made from the model once, at
//! deployment, so that walking it can fail only on values.

use std::collections::{BTreeMap, HashMap};

use m87_bpmn::feel::{Attribute, Expr};

/// An executable process.
#[derive(Debug, Clone)]
pub struct Process {
    /// The process id of the model; also the id of the node that is the process itself.
    pub id: String,
    pub(super) nodes: HashMap<String, Node>,
    pub(super) flows: HashMap<String, Flow>,
}

impl Process {
    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The flow with this id.
    pub(super) fn flow(&self, id: &str) -> Option<&Flow> {
        self.flows.get(id)
    }
}

/// A sequence flow.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) target: String,
    pub(super) condition: Option<Expr>,
}

/// Whatever can have an element instance: the process, a sub-process, an event, a task, a gateway.
#[derive(Debug, Clone)]
pub struct Node {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// The node whose scope it is in; `None` for the process.
    pub(super) scope: Option<String>,
    /// Ids of its flows, in document order.
    pub(super) incoming: Vec<String>,
    pub(super) outgoing: Vec<String>,
    pub(super) inputs: Vec<Mapping>,
    pub(super) outputs: Vec<Mapping>,
    pub(super) start_listeners: Vec<JobSource>,
    pub(super) end_listeners: Vec<JobSource>,
    /// Error boundary events attached to it, in document order.
    pub(super) catches: Vec<Catch>,
}

/// What a node does when it is active.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// The process or an embedded sub-process: runs what is inside, from its none start event.
    Scope { start: Option<String> },
    /// Passes through: none start event, none end event, manual and undefined task.
    Pass,
    /// A boundary event that caught: passes through, with the variables that came with what it caught.
    Catch,
    /// Work for a job worker.
    Job(JobSource),
    /// Takes the first flow whose condition is true.
    Exclusive { default: Option<String> },
    /// Waits for a token on each incoming flow; takes each outgoing flow.
    Parallel,
    /// Ends the path and throws.
    ErrorEnd { code: Attribute },
    /// Ends its whole scope.
    TerminateEnd,
}

/// What a job is made from.
#[derive(Debug, Clone)]
pub(super) struct JobSource {
    pub(super) job_type: Attribute,
    pub(super) retries: Attribute,
    pub(super) headers: BTreeMap<String, String>,
}

/// An input or output mapping.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    pub(super) source: Attribute,
    /// The path of the target: a name, or names of nested contexts.
    pub(super) target: Vec<String>,
}

/// An error boundary event: catches one code, or any.
#[derive(Debug, Clone)]
pub(super) struct Catch {
    pub(super) event: String,
    pub(super) code: Option<String>,
}
