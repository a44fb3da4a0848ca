//! The authority: the service that owns every run's state, evidence and receipts, and is the only signer.
//!
//! One row per run is the truth. Everything else (the engine, a resource's status) is written from it and never read
//! back as fact.

pub mod artifacts;
pub mod callers;
pub mod client;
pub mod clock;
pub mod entropy;
pub mod event;
pub mod executor;
mod files;
pub mod mark;
pub mod row;
pub mod step;
pub mod tls;

/// The gRPC messages and service of `proto/authority.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod proto {
    tonic::include_proto!("m87.authority.v1");
}

pub use client::{AuthorityClient, AuthorityError, Credentials, Denial, GrpcClient};
pub use executor::{AttemptKind, AttemptOrder, Executor, ExecutorError, Handle};
