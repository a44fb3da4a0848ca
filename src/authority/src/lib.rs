//! The authority: the service that owns every run's state, evidence and receipts, and is the only signer.
//!
//! One row per run is the truth. Everything else (the engine, a resource's status) is written from it and never read
//! back as fact.

pub mod artifacts;
mod attempts;
pub mod authority;
pub mod callers;
pub mod client;
pub mod clock;
mod contract;
pub mod driver;
mod end;
pub mod entropy;
pub mod event;
pub mod executor;
pub mod export;
mod files;
mod log_book;
pub mod mark;
pub mod publish;
pub mod row;
pub mod service;
pub mod step;
pub mod store;
pub mod tls;
pub mod world;

/// The gRPC messages and service of `proto/authority.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod proto {
    tonic::include_proto!("m87.authority.v1");
}

pub use authority::{Authority, Options, World};
pub use callers::Principal;
pub use client::{AuthorityClient, AuthorityError, Credentials, Denial, GrpcClient, InProcess, Reach};
pub use driver::{Driver, DriverOptions, Opened, RunRequest};
pub use executor::{AttemptKind, AttemptName, AttemptOrder, Executor, ExecutorError, Handle};
pub use service::Service;
