//! The objects that people write: `GovernancePolicy`, `ToolManifest` and `GovernedRun` of the group `m87.dev`.
//!
//! A type tolerates fields that it does not know, since an operator may read objects newer than itself. Files on a disk
//! have no such excuse: [`local`] reads them strictly and refuses by name what is not known.

pub mod conditions;
pub mod crd;
pub mod local;
mod metadata;
mod names;
mod object;
mod policy;
mod run;
pub mod schema;
pub mod status;

pub use conditions::Condition;
pub use metadata::Metadata;
pub use names::{NameProblem, label, subdomain};
pub use object::{API_VERSION, GROUP, GovernancePolicy, GovernedRun, Object, Spec, ToolManifest, VERSION};
pub use policy::{GovernancePolicySpec, Retention};
pub use run::{EXPECT_TERMINAL, GovernedRunSpec, Reference, StampedActor};
pub use status::{GovernancePolicyStatus, GovernedRunStatus, ToolManifestStatus};
