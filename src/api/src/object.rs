//! One shape for every kind: `{apiVersion, kind, metadata, spec}` around the core's own types.

use crate::metadata::Metadata;
use crate::policy::GovernancePolicySpec;
use crate::run::{EXPECT_TERMINAL, GovernedRunSpec};
use crate::status::{GovernancePolicyStatus, GovernedRunStatus, Status, ToolManifestStatus};
use m87_core::reason::Terminal;
use m87_core::tool::ManifestSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The group of every kind here.
pub const GROUP: &str = "m87.dev";
/// The version of every kind here.
pub const VERSION: &str = "v1alpha1";
/// Group and version of every kind here.
pub const API_VERSION: &str = "m87.dev/v1alpha1";

/// An object as it is applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Object<S> {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`Spec::KIND`].
    pub kind: String,
    /// What it says of itself.
    pub metadata: Metadata,
    /// What it asks for.
    pub spec: S,
}

/// The rules of a namespace.
pub type GovernancePolicy = Object<GovernancePolicySpec>;
/// The tools of a namespace.
pub type ToolManifest = Object<ManifestSpec>;
/// One proposal to be judged and, if it passes, run.
pub type GovernedRun = Object<GovernedRunSpec>;

/// What makes a spec a kind.
pub trait Spec {
    /// As written in `kind`.
    const KIND: &'static str;
    /// As the API server calls many of it, in paths and roles.
    const PLURAL: &'static str;
    /// As messages call an object of it.
    const WORD: &'static str;
    /// What the operator says of an object of it.
    type Status: Status;
}

impl Spec for GovernancePolicySpec {
    const KIND: &'static str = "GovernancePolicy";
    const PLURAL: &'static str = "governancepolicies";
    const WORD: &'static str = "policy";
    type Status = GovernancePolicyStatus;
}

impl Spec for ManifestSpec {
    const KIND: &'static str = "ToolManifest";
    const PLURAL: &'static str = "toolmanifests";
    const WORD: &'static str = "manifest";
    type Status = ToolManifestStatus;
}

impl Spec for GovernedRunSpec {
    const KIND: &'static str = "GovernedRun";
    const PLURAL: &'static str = "governedruns";
    const WORD: &'static str = "run";
    type Status = GovernedRunStatus;
}

impl<S: Spec> Object<S> {
    /// An object of this kind.
    pub fn new(metadata: Metadata, spec: S) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: S::KIND.to_owned(), metadata, spec }
    }
}

impl GovernedRun {
    /// How its author says that it should end; `None` if nothing, or no terminal, is written.
    pub fn expected_terminal(&self) -> Option<Terminal> {
        let name = self.metadata.annotations.get(EXPECT_TERMINAL)?;
        Terminal::ALL.into_iter().find(|terminal| terminal.name() == name)
    }
}
