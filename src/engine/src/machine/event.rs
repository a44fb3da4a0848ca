//! What can happen. An event holds all that applying it needs, so that applying never evaluates, decides or fails on a
//! sound journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::command::{DeployedProcess, JobKind};
use super::state::Stage;
use crate::view::{Ending, IncidentKind};

/// The version of the events this build writes. Reading any other is refused: guessing at history loses it.
pub const EVENT_VERSION: u32 = 1;

/// A resource and the new versions it brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployedResource {
    /// The text.
    pub xml: String,
    /// Its processes, in document order.
    pub processes: Vec<DeployedProcess>,
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// New versions exist.
    Deployed {
        /// The deployment's key.
        key: i64,
        /// The resources, in order.
        resources: Vec<DeployedResource>,
    },
    /// An element instance exists; at the root, a process instance.
    Entered {
        /// Its key.
        key: i64,
        /// The scope it runs in.
        parent: Option<i64>,
        /// The process definition.
        definition: i64,
        /// Its id in the model.
        node: String,
        /// Where inside it to start, if not at its none start event.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        start_at: Vec<String>,
    },
    /// An element instance has come so far.
    Reached {
        /// Which.
        key: i64,
        /// Where it stands now.
        stage: Stage,
    },
    /// A scope runs what is inside it.
    Opened {
        /// Which.
        key: i64,
    },
    /// A token waits at a join.
    TokenArrived {
        /// The scope.
        scope: i64,
        /// The flow it took.
        flow: String,
    },
    /// Waiting tokens are used up: a join let them through, or their scope was ended.
    TokensConsumed {
        /// The scope.
        scope: i64,
        /// The flows.
        flows: Vec<String>,
    },
    /// Variables of this very scope have these values.
    VariablesSet {
        /// The scope.
        scope: i64,
        /// The values by name.
        values: Map<String, Value>,
    },
    /// Variables were set from outside, under this key.
    VariablesUpdated {
        /// The key of the change.
        key: i64,
    },
    /// An element instance is no more.
    Left {
        /// Which.
        key: i64,
    },
    /// A process instance is no more: its last event.
    Ended {
        /// Which.
        key: i64,
        /// How.
        ending: Ending,
    },
    /// An element instance waits for a job.
    JobCreated {
        /// The job.
        key: i64,
        /// The element instance.
        element: i64,
        /// Its type.
        job_type: String,
        /// What it is for.
        kind: JobKind,
        /// Tries left.
        retries: i32,
        /// Headers for the worker.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
    },
    /// Jobs are in a worker's hands.
    JobsActivated {
        /// The jobs.
        jobs: Vec<i64>,
        /// Until when.
        deadline: i64,
    },
    /// A job is on offer again: its deadline or back-off passed, or it was handed back.
    JobReoffered {
        /// The job.
        job: i64,
    },
    /// A job's deadline moved.
    JobDeadlineMoved {
        /// The job.
        job: i64,
        /// The new deadline.
        deadline: i64,
    },
    /// A job failed. With retries left it is on offer again, at once or later.
    JobFailed {
        /// The job.
        job: i64,
        /// Tries left.
        retries: i32,
        /// When it is on offer again, if not at once.
        until: Option<i64>,
    },
    /// A job threw an error that nothing caught.
    JobThrew {
        /// The job.
        job: i64,
    },
    /// A job has other retries.
    JobRetriesSet {
        /// The job.
        job: i64,
        /// Tries left.
        retries: i32,
    },
    /// A job is done; its element goes on.
    JobCompleted {
        /// The job.
        job: i64,
    },
    /// A job is void: what it was for has ended.
    JobCanceled {
        /// The job.
        job: i64,
    },
    /// Something is stuck.
    IncidentRaised {
        /// The incident.
        key: i64,
        /// The element instance that is stuck.
        element: i64,
        /// The job that is stuck, if it is one.
        job: Option<i64>,
        /// The class.
        kind: IncidentKind,
        /// What happened.
        message: String,
    },
    /// An incident is no more.
    IncidentResolved {
        /// The incident.
        key: i64,
    },
}

impl Event {
    /// The job that this event may have put on offer.
    pub const fn offers(&self) -> Option<i64> {
        match self {
            Self::JobCreated { key: job, .. }
            | Self::JobReoffered { job }
            | Self::JobFailed { job, until: None, .. } => Some(*job),
            _ => None,
        }
    }
}
