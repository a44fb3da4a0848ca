//! What the machine can be asked to do, and what it answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Document;

/// A resource to deploy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The file's name; `*.bpmn`.
    pub name: String,
    /// The file's bytes.
    pub content: Vec<u8>,
}

/// Which process definition to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The definition with this key.
    Key(i64),
    /// The latest version of the process with this id.
    Latest(String),
    /// One version of the process with this id.
    Version(String, i32),
}

/// A process instance to create.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateRequest {
    /// The process definition.
    pub target: Target,
    /// The instance's first variables.
    pub variables: Document,
    /// Ids of the elements to start at, instead of the none start event; usually empty.
    pub start_at: Vec<String>,
}

/// Jobs to hand out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivateRequest {
    /// The job type.
    pub job_type: String,
    /// Who works on them; may be empty.
    pub worker: String,
    /// Milliseconds until an unfinished job is offered again.
    pub timeout: i64,
    /// The most jobs to hand out.
    pub max_jobs: usize,
    /// Names of the variables to send along; empty sends all that are visible.
    pub fetch: Vec<String>,
}

/// Equal streams (same job type) take turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRequest {
    /// The job type.
    pub job_type: String,
    /// Who works on them; may be empty.
    pub worker: String,
    /// Milliseconds until an unfinished job is offered again.
    pub timeout: i64,
    /// Names of the variables to send along; empty sends all that are visible.
    pub fetch: Vec<String>,
}

/// One activation of a job: its key and the deadline it was given. A later activation has another deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activation {
    /// The job.
    pub job: i64,
    /// The deadline of this activation, in milliseconds since the Unix epoch.
    pub deadline: i64,
}

/// A command. All times are relative milliseconds; the machine is told the present with each command.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Deploy resources: all or none.
    Deploy(Vec<Resource>),
    /// Create a process instance and run it to its first waits.
    Create(CreateRequest),
    /// Hand out jobs that wait.
    Activate(ActivateRequest),
    /// Hand one waiting job to a stream.
    Push {
        /// The job.
        job: i64,
        /// The stream.
        stream: StreamRequest,
    },
    /// Take jobs back that never reached their worker; those handed out again since stay where they are.
    HandBack(Vec<Activation>),
    /// A worker is done.
    Complete {
        /// The job.
        job: i64,
        /// Its results.
        variables: Document,
    },
    /// A worker could not do it.
    Fail {
        /// The job.
        job: i64,
        /// Retries left, as the worker says; none raises an incident.
        retries: i32,
        /// Milliseconds before the next try.
        back_off: i64,
        /// Why.
        message: String,
        /// Variables for the task's own scope.
        variables: Document,
    },
    /// A worker throws a BPMN error.
    ThrowError {
        /// The job.
        job: i64,
        /// The code that boundary events catch.
        code: String,
        /// Why.
        message: String,
        /// Variables for the event that catches.
        variables: Document,
    },
    /// Give a job retries.
    UpdateRetries {
        /// The job.
        job: i64,
        /// More than zero.
        retries: i32,
    },
    /// Move the deadline of an activated job.
    UpdateTimeout {
        /// The job.
        job: i64,
        /// Milliseconds from now.
        timeout: i64,
    },
    /// End an instance and all that it waits for.
    Cancel {
        /// The process instance.
        instance: i64,
    },
    /// Set variables.
    SetVariables {
        /// The element instance (or process instance) whose scope it is.
        scope: i64,
        /// The variables.
        variables: Document,
        /// Where they go.
        reach: Reach,
    },
    /// Try again what raised an incident.
    Resolve {
        /// The incident.
        incident: i64,
    },
    /// Let the deadlines and back-offs that have passed take effect.
    Tick,
}

/// How far set variables travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// They stay in the scope named.
    Local,
    /// Each goes up to the nearest scope that has it, else to the process instance.
    Propagated,
}

/// What an accepted command answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// A deployment.
    Deployed(Deployment),
    /// A process instance.
    Created(Created),
    /// Jobs, now the caller's until their deadlines.
    Activated(Vec<ActivatedJob>),
    /// The key of the change.
    Key(i64),
}

/// What was deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The deployment's key.
    pub key: i64,
    /// Each process of the resources, in their order; an unchanged one with its old version and key.
    pub processes: Vec<DeployedProcess>,
}

/// One process of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployedProcess {
    /// The definition's key.
    pub key: i64,
    /// The process id of the model.
    pub process_id: String,
    /// 1, 2, …
    pub version: i32,
    /// The file's name.
    pub resource: String,
}

/// A process instance that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The instance's key.
    pub instance: i64,
    /// The definition's key.
    pub definition: i64,
    /// The process id of the model.
    pub process_id: String,
    /// The definition's version.
    pub version: i32,
}

/// What a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobKind {
    /// The work of the element itself.
    Element,
    /// A listener on the element's start: after its input mappings, before its work.
    StartListener,
    /// A listener on the element's end: after its output mappings.
    EndListener,
}

/// A job in a worker's hands.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivatedJob {
    /// The job's key.
    pub key: i64,
    /// The job type.
    pub job_type: String,
    /// What it is for.
    pub kind: JobKind,
    /// The process instance.
    pub instance: i64,
    /// The process definition's key.
    pub definition: i64,
    /// The process id of the model.
    pub process_id: String,
    /// The definition's version.
    pub version: i32,
    /// The element's id in the model.
    pub element_id: String,
    /// The element instance.
    pub element: i64,
    /// The task's headers.
    pub headers: BTreeMap<String, String>,
    /// Who was given the job.
    pub worker: String,
    /// Tries left, this one included.
    pub retries: i32,
    /// When it is offered again, in milliseconds since the Unix epoch.
    pub deadline: i64,
    /// The variables asked for, as visible at the element.
    pub variables: Document,
}

impl ActivatedJob {
    /// This activation, for handing it back.
    pub const fn activation(&self) -> Activation {
        Activation { job: self.key, deadline: self.deadline }
    }
}
