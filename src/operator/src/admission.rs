//! Whether the API server vouches for the actor that a run names.
//!
//! Admission policies of the chart let nobody write an actor but the requester's own. They bind only while they are installed,
//! word for word as this operator knows them, denying, and old enough that every API server has taken them in: a policy that
//! was away and has come back lets objects pass for a moment more. What cannot be seen to hold does not: the actor is then
//! unattested, which is a non-human one.
//!
//! The policies that are expected are the chart's own files, compiled in.

use crate::world::call::{CallError, found};
use crate::world::shared_read::SharedRead;
use futures::future::try_join_all;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use m87_core::strict::{self, StrictError};
use m87_core::time::Timestamp;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// How much older than a run the policies must be. (Seen: up to 0.7 s until a policy that came back was in force.)
pub const SETTLING: Duration = Duration::from_secs(30);
/// How old what is known of policies that do not concern the actor may be.
const FRESH: Duration = Duration::from_secs(5);

/// Stamps actors where the cluster can; what it writes is checked by the others.
/// Lets nobody name another as the actor.
const RUN: &str = include_str!("../../../charts/m87/files/admission/run.yaml");
/// Keep the rest of what the operator relies on: suspension, status, its pods and their network.
const OTHERS: [&str; 4] = [
    include_str!("../../../charts/m87/files/admission/resume.yaml"),
    include_str!("../../../charts/m87/files/admission/status.yaml"),
    include_str!("../../../charts/m87/files/admission/pods.yaml"),
    include_str!("../../../charts/m87/files/admission/network.yaml"),
];
/// What the files say instead of the operator's user name.
const OPERATOR: &str = "OPERATOR";

/// A policy or binding as it should be installed.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// `ValidatingAdmissionPolicy`, for example.
    pub kind: String,
    /// Its name, which is fixed.
    pub name: String,
    /// All of its spec, defaults written out.
    pub spec: Value,
}

/// A policy or binding as the API server has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Installed {
    /// Its spec.
    pub spec: Value,
    /// Since when it has been so; `None` if the API server does not say.
    pub since: Option<Timestamp>,
    /// Whether its deletion has begun.
    pub deleting: bool,
}

/// What was found where a policy or binding should be.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Nothing.
    Absent,
    /// The operator may not look.
    Forbidden(String),
    /// An object.
    Found(Installed),
}

/// What is so, of one policy or binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is none.
    Absent,
    /// The operator may not read it.
    Forbidden(String),
    /// It is being deleted.
    Deleting,
    /// Its spec is another.
    Changed,
    /// The API server does not say since when it is so.
    Ageless,
    /// It is not [`SETTLING`] older.
    Young {
        /// Since when it has been so.
        since: Timestamp,
    },
}

/// Whether an actor was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The API server has checked who it is.
    Attested,
    /// Nobody knows.
    Unattested {
        /// Which policy, what is wrong with it, and what to do.
        why: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("is not installed; install the chart m87 again"),
            Self::Forbidden(message) => write!(f, "cannot be read: {message}"),
            Self::Deleting => f.write_str("is being deleted; install the chart m87 again"),
            Self::Changed => {
                f.write_str("is not the one of this version of m87; install the chart of the same version again")
            }
            Self::Ageless => f.write_str("has no time of its last change; delete it and install the chart m87 again"),
            Self::Young { since } => {
                write!(f, "is in force since {since}; it counts for runs made {} s later", SETTLING.as_secs())
            }
        }
    }
}

/// What is wrong with one policy or binding, for something made at that instant.
pub fn fault(expected: &Expected, finding: &Finding, at: Timestamp) -> Option<Fault> {
    let installed = match finding {
        Finding::Absent => return Some(Fault::Absent),
        Finding::Forbidden(message) => return Some(Fault::Forbidden(message.clone())),
        Finding::Found(installed) => installed,
    };
    if installed.deleting {
        return Some(Fault::Deleting);
    }
    if installed.spec != expected.spec {
        return Some(Fault::Changed);
    }
    let Some(since) = installed.since else { return Some(Fault::Ageless) };
    let settled = since.plus_millis(i64::try_from(SETTLING.as_millis()).unwrap_or(i64::MAX));
    (at < settled).then_some(Fault::Young { since })
}

/// Judges what was found, for something made at that instant: one fault is enough.
pub fn judge<'a>(found: impl IntoIterator<Item = (&'a Expected, &'a Finding)>, at: Timestamp) -> Judgement {
    for (expected, finding) in found {
        if let Some(fault) = fault(expected, finding, at) {
            return Judgement::Unattested { why: format!("{} {} {fault}", expected.kind, expected.name) };
        }
    }
    Judgement::Attested
}

/// Reads the policies of one of the chart's files.
fn parse(file: &str, operator: &str) -> Result<Vec<Expected>, StrictError> {
    let text = file.replace(OPERATOR, operator);
    let text_of =
        |object: &Value, pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(strict::yaml(text.as_bytes())?
        .into_iter()
        .map(|object| Expected {
            kind: text_of(&object, "/kind"),
            name: text_of(&object, "/metadata/name"),
            spec: object.get("spec").cloned().unwrap_or_default(),
        })
        .collect())
}

/// Since when an object has been as it is: it was made so, or else somebody's latest change.
fn since(object: &DynamicObject) -> Option<Timestamp> {
    let instant =
        |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| Timestamp::from_millis(time.0.as_millisecond());
    if object.metadata.generation == Some(1) {
        return object.metadata.creation_timestamp.as_ref().map(instant);
    }
    object.managed_fields().iter().filter_map(|entry| entry.time.as_ref()).map(instant).max()
}

/// Some policies and bindings, and what is known of them.
struct Shelf {
    expected: Vec<Expected>,
    last: SharedRead<Vec<Finding>>,
}

impl Shelf {
    fn new(expected: Vec<Expected>) -> Self {
        Self { expected, last: SharedRead::default() }
    }

    /// What is there, or was at most so long ago.
    async fn read(&self, client: &Client, age: Duration) -> Result<Vec<Finding>, CallError> {
        let looks = self.expected.iter().map(|expected| look(client, expected));
        self.last.read(age, try_join_all(looks)).await
    }

    fn with<'a>(&'a self, findings: &'a [Finding]) -> impl Iterator<Item = (&'a Expected, &'a Finding)> {
        self.expected.iter().zip(findings)
    }
}

async fn look(client: &Client, expected: &Expected) -> Result<Finding, CallError> {
    let resource = ApiResource {
        group: "admissionregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "admissionregistration.k8s.io/v1".to_owned(),
        kind: expected.kind.clone(),
        plural: plural(&expected.kind),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let what = format!("reading {} {}", expected.kind, expected.name);
    match found(&what, api.get(&expected.name)).await {
        Ok(None) => Ok(Finding::Absent),
        Ok(Some(object)) => Ok(Finding::Found(Installed {
            since: since(&object),
            deleting: object.metadata.deletion_timestamp.is_some(),
            spec: object.data.get("spec").cloned().unwrap_or_default(),
        })),
        // The right is missing, not the answer: to wait would be to wait for ever.
        Err(CallError::Forbidden(message)) => Ok(Finding::Forbidden(message)),
        Err(error) => Err(error),
    }
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}

/// The admission policies of this cluster.
pub struct Admission {
    client: Client,
    /// Checks the actor. Read anew for each run.
    actor: Shelf,
    /// The others that must be there.
    others: Shelf,
}

impl Admission {
    /// Of an operator that runs in this namespace, under this ServiceAccount.
    ///
    /// # Errors
    /// If a file of the chart was compiled in that cannot be read; the tests see to it that none is.
    pub fn new(client: Client, namespace: &str, service_account: &str) -> Result<Self, StrictError> {
        let operator = format!("system:serviceaccount:{namespace}:{service_account}");
        let mut others = Vec::new();
        for file in OTHERS {
            others.extend(parse(file, &operator)?);
        }
        Ok(Self { client, actor: Shelf::new(parse(RUN, &operator)?), others: Shelf::new(others) })
    }

    /// Whether the actor of a run was checked that was made at that instant, by the API server's clock.
    ///
    /// The run has been seen before this is called. What is read afterwards tells of every change from [`SETTLING`] before the run
    /// was made until now, so that no policy was away when it passed.
    ///
    /// # Errors
    /// If the API server gives no answer; ask again.
    pub async fn attest(&self, created: Timestamp) -> Result<Judgement, CallError> {
        self.judge(created, Duration::ZERO).await
    }

    /// Whether the actors of runs made now are checked; cached for some seconds. For `/readyz` and conditions.
    ///
    /// # Errors
    /// If the API server gives no answer; ask again.
    pub async fn standing(&self, now: Timestamp) -> Result<Judgement, CallError> {
        self.judge(now, FRESH).await
    }

    async fn judge(&self, at: Timestamp, age: Duration) -> Result<Judgement, CallError> {
        let actor = self.actor.read(&self.client, age).await?;
        let others = self.others.read(&self.client, FRESH).await?;
        Ok(judge(self.actor.with(&actor).chain(self.others.with(&others)), at))
    }
}

#[cfg(test)]
mod tests;
