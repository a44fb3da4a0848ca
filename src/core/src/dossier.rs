//! What is known of a run before anything happens: the pinned inputs of every judgement.

use crate::actor::Actor;
use crate::json::Document;
use crate::policy::PolicySpec;
use crate::proposal::Proposal;
use crate::time::Timestamp;
use crate::tool::ToolEntry;
use serde::{Deserialize, Serialize};

/// All that `plan`, `decide` and the gates judge before execution. It is frozen when the run is opened and goes into the
/// receipt's bundle, so that anyone can judge again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dossier {
    /// `Dossier`; checked on read like `spec_version`.
    pub kind: String,
    /// Raised when the meaning or the fields change.
    pub spec_version: String,
    /// The uid of the cluster (locally: of the out folder's authority).
    pub cluster_uid: String,
    /// The tenant.
    pub namespace: Named,
    /// The run.
    pub run: RunIdentity,
    /// Who asks.
    pub actor: Actor,
    /// How far the surroundings can be trusted.
    pub trust: Trust,
    /// Where instants come from.
    pub clock: ClockSource,
    /// When the snapshot was taken.
    pub opened_at: Timestamp,
    /// What is asked for.
    pub proposal: Proposal,
    /// The policy named by the run; `None` if there is none.
    pub policy: Option<Pinned<PolicySpec>>,
    /// The platform's own policy, intersected into every plan; `None` if there is none.
    pub baseline: Option<Pinned<PolicySpec>>,
    /// The manifest named by the run; `None` if there is none.
    pub manifest: Option<Pinned<Candidates>>,
    /// The process that the run goes through; `None` where there can be none (then the operator seals alone).
    pub process: Option<ProcessPin>,
}

impl Document for Dossier {
    const KIND: &'static str = "Dossier";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

/// An object's name and uid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Which run this is, and which effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunIdentity {
    /// The object's name.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// With the namespace's uid, the identity of the effect. The object's name, unless the run says otherwise.
    pub idempotency_key: String,
}

/// An object as it was when the run was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pinned<T> {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// `compute_hash` of the spec that is pinned (of a manifest: of the entries in `spec`).
    pub sha256: String,
    /// What it said.
    pub spec: T,
}

/// The entries of a manifest that the proposal could mean: by the tool's name, or every provider of the capability.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    /// In the manifest's order.
    pub tools: Vec<ToolEntry>,
}

/// The bytes of the process and what the engine calls them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessPin {
    /// The BPMN process id.
    pub id: String,
    /// SHA-256 of the deployed bytes.
    pub bpmn_sha256: String,
}

/// How far the surroundings can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// One machine, one user: no boundary against that user.
    Local,
    /// A cluster, with admission.
    Cluster,
}

/// Where instants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockSource {
    /// The machine's clock.
    System,
    /// Given on the command line and frozen, so that receipts can be made again byte for byte.
    Injected,
}
