//! The embedded workflow engine: a pure state machine over a durable journal, speaking Zeebe's gateway protocol.
//!
//! The machine (`machine`) turns commands into events and nothing else; the journal (`journal`) keeps events; the shell
//! (`shell`) is one task that commits commands in batches and then answers. [`Engine`] is the handle.

mod clock;
mod document;
mod engine;
#[cfg(test)]
mod fixture;
pub mod gateway;
mod journal;
pub mod machine;
mod rejection;
mod shell;
mod view;

pub use clock::Clock;
pub use document::Document;
pub use engine::{Engine, EngineOptions, JobStream, Workers};
pub use journal::OpenError;
pub use machine::{
    ActivateRequest, ActivatedJob, Activation, CreateRequest, Created, DeployedProcess, Deployment, JobKind, Reach,
    Resource, StreamRequest, Target,
};
pub use rejection::{Intent, Rejection, RejectionKind};
pub use view::{Ending, IncidentKind, IncidentView, InstanceView, JobView, Load, Notice};
