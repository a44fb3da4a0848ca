//! One shape for every kind: `{apiVersion, kind, metadata, spec}` around the core's own types.

use crate::metadata::Metadata;
use crate::run::{EXPECT_TERMINAL, GovernedRunSpec};
use m87_core::policy::PolicySpec;
use m87_core::reason::Terminal;
use m87_core::tool::ManifestSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
pub type GovernancePolicy = Object<PolicySpec>;
/// The tools of a namespace.
pub type ToolManifest = Object<ManifestSpec>;
/// One proposal to be judged and, if it passes, run.
pub type GovernedRun = Object<GovernedRunSpec>;

/// What makes a spec a kind.
pub trait Spec {
    /// As written in `kind`.
    const KIND: &'static str;
    /// As messages call an object of it.
    const WORD: &'static str;
}

impl Spec for PolicySpec {
    const KIND: &'static str = "GovernancePolicy";
    const WORD: &'static str = "policy";
}

impl Spec for ManifestSpec {
    const KIND: &'static str = "ToolManifest";
    const WORD: &'static str = "manifest";
}

impl Spec for GovernedRunSpec {
    const KIND: &'static str = "GovernedRun";
    const WORD: &'static str = "run";
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
