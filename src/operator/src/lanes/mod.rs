//! The lanes' Deployments, in the operator's own namespace: what each should look like, how many pods it should have, and
//! the loop that makes it so.
//!
//! A lane has no right on the cluster. It has its own ServiceAccount, a token that only m87 takes, and the certificate
//! authority of m87. The Deployments belong to the operator's StatefulSet, so that they go with it.

mod deployment;
mod plan;
mod run;
mod scale;

pub use deployment::deployment;
pub use plan::{Action, Facts, Found, plan};
pub use run::{Loads, Report, Reports, run};
pub use scale::{Bounds, Seen, Track, step};

use m87_core::lane::Lane;
use m87_zeebe::Prefix;
use std::time::Duration;

/// The field manager of everything here.
pub const FIELD_MANAGER: &str = "m87-lanes";
/// The label that names a pod's lane.
pub const LANE_LABEL: &str = "m87.dev/lane";
/// The folder of the Secret for a real Zeebe, in the operator's pod and in the lanes'.
pub const ZEEBE_FOLDER: &str = "/m87/zeebe";

/// What the Deployments are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The operator's namespace.
    pub namespace: String,
    /// The operator's StatefulSet, to which the Deployments belong.
    pub owner: Owner,
    /// The operator's own image.
    pub image: String,
    /// When the image is pulled; `None` leaves it to the cluster.
    pub pull_policy: Option<String>,
    /// The Secrets by which the image is pulled.
    pub pull_secrets: Vec<String>,
    /// The operator's Service.
    pub service: String,
    /// How many pods a lane has.
    pub replicas: Bounds,
    /// What a pod of a lane may use.
    pub resources: Resources,
    /// How long a job stays with a lane without a sign of life; `None` leaves it to the lane.
    pub job_timeout: Option<Duration>,
    /// The real Zeebe that is used instead of the embedded engine.
    pub zeebe: Option<Zeebe>,
}

/// The operator's StatefulSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// What a pod may use, as Kubernetes writes quantities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// Processor time that is set aside.
    pub cpu_request: String,
    /// Memory that is set aside.
    pub memory_request: String,
    /// Memory that is not exceeded.
    pub memory_limit: String,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu_request: "10m".to_owned(), memory_request: "32Mi".to_owned(), memory_limit: "128Mi".to_owned() }
    }
}

/// A real Zeebe (`zeebe.address`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zeebe {
    /// host:port.
    pub address: String,
    /// What process ids and job types begin with there.
    pub prefix: Prefix,
    /// The Secret that is mounted at [`ZEEBE_FOLDER`], where it is needed.
    pub secret: Option<ZeebeSecret>,
}

/// What a real Zeebe is reached with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZeebeSecret {
    /// The Secret's name.
    pub name: String,
    /// It holds the certificate authority of the gateway, under `ca.pem`; without it, plain text is spoken.
    pub ca: bool,
    /// It holds a bearer token, under `token`.
    pub token: bool,
}

impl Zeebe {
    /// The file of the gateway's certificate authority.
    pub fn ca_file(&self) -> Option<String> {
        self.secret.as_ref().filter(|secret| secret.ca).map(|_| format!("{ZEEBE_FOLDER}/ca.pem"))
    }

    /// The file of the token.
    pub fn token_file(&self) -> Option<String> {
        self.secret.as_ref().filter(|secret| secret.token).map(|_| format!("{ZEEBE_FOLDER}/token"))
    }
}

/// The name of a lane's Deployment.
pub fn name(lane: Lane) -> String {
    format!("m87-lane-{}", lane.name())
}

/// The name of a lane's ServiceAccount.
pub fn service_account(lane: Lane) -> String {
    name(lane)
}
