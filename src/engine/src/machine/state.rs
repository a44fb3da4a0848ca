//! Everything the engine knows, as persistent collections: a copy costs nothing and shares what did not change. So a step
//! works on its own copy, a failed commit is forgotten by dropping one, and a snapshot is taken beside the running engine.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::command::{Activation, JobKind};
use super::compile::compile;
use super::graph::{Node, Process};
use crate::document::Document;
use crate::view::{IncidentKind, Load};

/// Keys carry their partition in the upper 13 bits; there is one partition, 1.
const PARTITION_BITS: i64 = 1 << 51;

/// An immutable value that copies of the state share.
#[derive(Debug, Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: Clone> Shared<T> {
    /// The value to change; copied first if another state holds it.
    pub(super) fn make_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

/// One version of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Definition {
    /// Its key.
    pub key: i64,
    /// Its version.
    pub version: i32,
    /// The name of the resource it came in.
    pub resource: String,
    /// The text of that resource.
    pub xml: String,
    /// What the text means.
    pub process: Arc<Process>,
}

/// A definition as it is written down: the process is read from the text again.
#[derive(Serialize, Deserialize)]
struct Stored {
    key: i64,
    process_id: String,
    version: i32,
    resource: String,
    xml: String,
}

impl From<Definition> for Stored {
    fn from(definition: Definition) -> Self {
        Self {
            key: definition.key,
            process_id: definition.process.id.clone(),
            version: definition.version,
            resource: definition.resource,
            xml: definition.xml,
        }
    }
}

impl TryFrom<Stored> for Definition {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let process = compile(&stored.xml)?
            .into_iter()
            .find(|process| process.id == stored.process_id)
            .ok_or_else(|| format!("resource {:?} has no process {:?}", stored.resource, stored.process_id))?;
        Ok(Self {
            key: stored.key,
            version: stored.version,
            resource: stored.resource,
            xml: stored.xml,
            process: Arc::new(process),
        })
    }
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        // The process is a function of the text and the id.
        (self.key, self.version, &self.resource, &self.xml, &self.process.id)
            == (other.key, other.version, &other.resource, &other.xml, &other.process.id)
    }
}

/// Where an element instance stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Its input mappings are due.
    Entering,
    /// This start listener (by order) is due or at work.
    Starting(usize),
    /// It does what it is for.
    Active,
    /// Its output mappings are due.
    Leaving,
    /// This end listener (by order) is due or at work.
    Ending(usize),
}

/// What an element instance waits for before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// For nothing: it is about to go on within the same command.
    Nothing,
    /// For a job.
    Job(i64),
    /// For the elements inside it.
    Children,
    /// For somebody to resolve an incident.
    Incident(i64),
}

/// An element instance; a process instance is the one without a parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Element {
    /// Its process instance (itself, at the root).
    pub instance: i64,
    /// The scope it runs in; `None` at the root.
    pub parent: Option<i64>,
    /// The process definition.
    pub definition: i64,
    /// Its id in the model.
    pub node: String,
    /// Where it stands.
    pub stage: Stage,
    /// What it waits for.
    pub wait: Wait,
    /// The element instances inside it.
    pub children: OrdSet<i64>,
    /// Tokens inside it that wait at joins, by the flow they took.
    pub tokens: OrdMap<String, u32>,
    /// Its own variables.
    pub variables: OrdMap<String, Shared<Value>>,
    /// Where inside it to start, if not at its none start event.
    pub start_at: Vec<String>,
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// It waits for a worker.
    Activatable,
    /// A worker has it until the deadline (milliseconds since the Unix epoch).
    Activated {
        /// The deadline.
        deadline: i64,
    },
    /// It failed and waits until then (milliseconds since the Unix epoch) to be offered again.
    BackingOff {
        /// The end of the wait.
        until: i64,
    },
    /// It failed for good; an incident is open.
    Failed,
    /// It threw an error that nothing caught; an incident is open.
    ErrorThrown,
}

impl JobState {
    /// The name in Zeebe's protocol.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Activatable => "ACTIVATABLE",
            Self::Activated { .. } => "ACTIVATED",
            Self::BackingOff { .. } | Self::Failed => "FAILED",
            Self::ErrorThrown => "ERROR_THROWN",
        }
    }

    /// When time alone makes the job activatable again.
    pub const fn due(&self) -> Option<i64> {
        match self {
            Self::Activated { deadline } => Some(*deadline),
            Self::BackingOff { until } => Some(*until),
            Self::Activatable | Self::Failed | Self::ErrorThrown => None,
        }
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its type.
    pub job_type: String,
    /// What it is for.
    pub kind: JobKind,
    /// The element instance it belongs to.
    pub element: i64,
    /// Tries left.
    pub retries: i32,
    /// Where it stands.
    pub state: JobState,
    /// Headers for the worker.
    pub headers: BTreeMap<String, String>,
    /// The open incident about it.
    pub incident: Option<i64>,
}

/// An open incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The element instance that is stuck.
    pub element: i64,
    /// The job that is stuck, if it is one.
    pub job: Option<i64>,
    /// The class.
    pub kind: IncidentKind,
    /// What happened.
    pub message: String,
}

/// The whole state. Changed by `apply` alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// How many keys were given out.
    pub(super) keys: i64,
    pub(super) definitions: OrdMap<i64, Shared<Definition>>,
    /// Definition keys by process id, then version.
    pub(super) versions: OrdMap<String, OrdMap<i32, i64>>,
    pub(super) elements: OrdMap<i64, Shared<Element>>,
    /// Keys of the running process instances.
    pub(super) instances: OrdSet<i64>,
    pub(super) jobs: OrdMap<i64, Shared<Job>>,
    /// Activatable jobs with retries by type, oldest first.
    pub(super) ready: OrdMap<String, OrdSet<i64>>,
    /// Jobs that time will make activatable, by when.
    pub(super) due: OrdSet<(i64, i64)>,
    pub(super) incidents: OrdMap<i64, Shared<Incident>>,
}

impl State {
    /// The key that the next event with a new key will carry, `ahead` keys from now.
    pub(super) const fn key_ahead(&self, ahead: i64) -> i64 {
        PARTITION_BITS + self.keys + 1 + ahead
    }

    /// Remembers that `key` was given out.
    pub(super) fn used(&mut self, key: i64) {
        self.keys = self.keys.max(key - PARTITION_BITS);
    }

    /// The definition with this key.
    pub fn definition(&self, key: i64) -> Option<&Definition> {
        self.definitions.get(&key).map(Deref::deref)
    }

    /// The latest version of a process.
    pub fn latest(&self, process_id: &str) -> Option<&Definition> {
        self.versions.get(process_id).and_then(|versions| versions.get_max()).and_then(|(_, key)| self.definition(*key))
    }

    /// One version of a process.
    pub fn version(&self, process_id: &str, version: i32) -> Option<&Definition> {
        self.versions.get(process_id).and_then(|versions| versions.get(&version)).and_then(|key| self.definition(*key))
    }

    /// The element instance with this key.
    pub fn element(&self, key: i64) -> Option<&Element> {
        self.elements.get(&key).map(Deref::deref)
    }

    /// The model's node of an element instance.
    pub fn node(&self, element: &Element) -> Option<&Node> {
        self.definition(element.definition).and_then(|definition| definition.process.node(&element.node))
    }

    /// The job with this key.
    pub fn job(&self, key: i64) -> Option<&Job> {
        self.jobs.get(&key).map(Deref::deref)
    }

    /// The incident with this key.
    pub fn incident(&self, key: i64) -> Option<&Incident> {
        self.incidents.get(&key).map(Deref::deref)
    }

    /// How many process instances are running.
    pub fn running(&self) -> usize {
        self.instances.len()
    }

    /// How many jobs of each type wait for a worker, and how many are with one. A job without retries is neither: it waits
    /// for a person.
    pub fn load(&self) -> BTreeMap<String, Load> {
        let waiting =
            self.ready.iter().map(|(job_type, keys)| (job_type.clone(), Load { waiting: keys.len(), held: 0 }));
        let mut by_type: BTreeMap<String, Load> = waiting.collect();
        for job in self.jobs.values().filter(|job| matches!(job.state, JobState::Activated { .. })) {
            match by_type.get_mut(&job.job_type) {
                Some(load) => load.held += 1,
                None => drop(by_type.insert(job.job_type.clone(), Load { waiting: 0, held: 1 })),
            }
        }
        by_type
    }

    /// Activatable jobs of a type, oldest first.
    pub fn ready(&self, job_type: &str) -> impl Iterator<Item = i64> + '_ {
        self.ready.get(job_type).into_iter().flat_map(|keys| keys.iter().copied())
    }

    /// When the next deadline or back-off passes (milliseconds since the Unix epoch).
    pub fn next_due(&self) -> Option<i64> {
        self.due.get_min().map(|(at, _)| *at)
    }

    /// The nearest value of a variable, from a scope upward.
    pub fn variable(&self, scope: i64, name: &str) -> Option<&Value> {
        let mut at = Some(scope);
        while let Some(element) = at.and_then(|key| self.element(key)) {
            if let Some(value) = element.variables.get(name) {
                return Some(value);
            }
            at = element.parent;
        }
        None
    }

    /// The scope that a variable set at `scope` belongs to: the nearest that has it, else the root.
    pub(super) fn home(&self, scope: i64, name: &str) -> i64 {
        let mut at = scope;
        while let Some(element) = self.element(at) {
            match element.parent {
                Some(parent) if !element.variables.contains_key(name) => at = parent,
                Some(_) | None => return at,
            }
        }
        at
    }

    /// The variables of this very scope.
    pub(super) fn local(&self, scope: i64) -> Map<String, Value> {
        let variables = self.element(scope).map(|element| &element.variables);
        variables.into_iter().flatten().map(|(name, value)| (name.clone(), Value::clone(value))).collect()
    }

    /// Is the job on offer?
    pub(super) fn is_ready(&self, job_type: &str, key: i64) -> bool {
        self.ready.get(job_type).is_some_and(|keys| keys.contains(&key))
    }

    /// Jobs whose deadline or back-off has passed, at most `limit`.
    pub(super) fn overdue(&self, now: i64, limit: usize) -> Vec<i64> {
        self.due.iter().take_while(|(at, _)| *at <= now).take(limit).map(|(_, job)| *job).collect()
    }

    /// Every job that is in somebody's hands.
    pub fn activations(&self) -> Vec<Activation> {
        let held = |(_, job): &(i64, i64)| match self.job(*job)?.state {
            JobState::Activated { deadline } => Some(Activation { job: *job, deadline }),
            _ => None,
        };
        self.due.iter().filter_map(held).collect()
    }

    /// The variables visible from a scope; only those named, unless none is.
    pub fn visible(&self, scope: i64, fetch: &[String]) -> Document {
        let mut visible = Map::new();
        let mut at = Some(scope);
        while let Some(element) = at.and_then(|key| self.element(key)) {
            for (name, value) in &element.variables {
                if (fetch.is_empty() || fetch.contains(name)) && !visible.contains_key(name) {
                    visible.insert(name.clone(), Value::clone(value));
                }
            }
            at = element.parent;
        }
        Document::of(visible)
    }

    /// The keys of the running process instances, oldest first.
    pub fn instances(&self) -> impl Iterator<Item = i64> + '_ {
        self.instances.iter().copied()
    }
}
