//! The Zeebe gateway protocol: our own `.proto` of it, a client, and the loop of a job worker.
//!
//! It speaks to the embedded engine and to a real Zeebe from 8.6 alike, and knows nothing of governed runs. Every error
//! says what to do next: ask again, take the absence for the answer, or accept the refusal ([`Error`]).

pub mod back_off;
pub mod client;
pub mod connect;
pub mod error;
pub mod job;
pub mod keys;
pub mod local;
pub mod prefix;
#[rustfmt::skip]
pub mod proto;
pub mod secure;
#[cfg(test)]
mod tests;
pub mod token;
pub mod worker;

pub use back_off::BackOff;
pub use client::{Activation, Client, Definition, Deployed, Instance, Scope};
pub use connect::{ConnectError, Tls, connect};
pub use error::{Error, absent_is_done, exists_is_done};
pub use job::{Job, JobStream};
pub use keys::{DefinitionKey, ElementKey, IncidentKey, InstanceKey, JobKey};
pub use prefix::{Prefix, PrefixError};
pub use secure::{Leaf, TlsError};
pub use token::{Token, TokenSource};
pub use worker::{Handler, JobWorker, Listener, Outcome, WorkerOptions};
