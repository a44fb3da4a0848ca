//! What may be read of the engine from outside: jobs, incidents, instances, and a feed of what became of them.
//!
//! Zeebe's gateway lists none of these; they are for the program that embeds the engine and for the gateway's own checks.

use serde::{Deserialize, Serialize};

use crate::machine::JobKind;

/// How much there is to do of one type of job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Jobs that wait for a worker.
    pub waiting: usize,
    /// Jobs that are with one.
    pub held: usize,
}

/// A job, whoever has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
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
    /// The element's id in the model.
    pub element_id: String,
    /// The element instance.
    pub element: i64,
    /// Tries left.
    pub retries: i32,
}

/// A running process instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceView {
    /// The instance's key.
    pub key: i64,
    /// The process definition's key.
    pub definition: i64,
    /// The process id of the model.
    pub process_id: String,
    /// The definition's version.
    pub version: i32,
}

/// Why an instance is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IncidentKind {
    /// A job has no retries left.
    JobNoRetries,
    /// A listener's job has no retries left.
    ExecutionListenerNoRetries,
    /// An expression gave a value of the wrong type.
    ExtractValueError,
    /// No condition was true and there is no default flow.
    ConditionError,
    /// A mapping could not be evaluated.
    IoMappingError,
    /// A BPMN error that nothing catches.
    UnhandledErrorEvent,
    /// A job is larger than a message may be.
    MessageSizeExceeded,
    /// One command moved tokens more often than any sound process does.
    Unknown,
}

impl IncidentKind {
    /// The name in Zeebe's protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobNoRetries => "JOB_NO_RETRIES",
            Self::ExecutionListenerNoRetries => "EXECUTION_LISTENER_NO_RETRIES",
            Self::ExtractValueError => "EXTRACT_VALUE_ERROR",
            Self::ConditionError => "CONDITION_ERROR",
            Self::IoMappingError => "IO_MAPPING_ERROR",
            Self::UnhandledErrorEvent => "UNHANDLED_ERROR_EVENT",
            Self::MessageSizeExceeded => "MESSAGE_SIZE_EXCEEDED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// An open incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentView {
    /// The incident's key, for resolving it.
    pub key: i64,
    /// The process instance.
    pub instance: i64,
    /// The element instance.
    pub element: i64,
    /// The element's id in the model.
    pub element_id: String,
    /// The job, if the incident is about one.
    pub job: Option<i64>,
    /// The class.
    pub kind: IncidentKind,
    /// What happened, for people.
    pub message: String,
}

/// How an instance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ending {
    /// It reached its end.
    Completed,
    /// It was cancelled.
    Terminated,
}

/// Something the embedding program waits for; sent when it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An instance ended.
    Ended {
        /// The process instance.
        instance: i64,
        /// How.
        ending: Ending,
    },
    /// An incident was raised.
    Raised(IncidentView),
    /// An incident is no more.
    Resolved {
        /// The incident.
        incident: i64,
        /// Its process instance.
        instance: i64,
    },
}
