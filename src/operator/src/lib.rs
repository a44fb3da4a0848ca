//! m87 on Kubernetes. Reconcilers turn facts into a decision (pure) and do it; the authority's traits are implemented by
//! API objects, pods and token reviews.

pub mod admission;
pub mod config;
pub mod events;
pub mod executor;
pub mod gateway;
pub mod health;
pub mod lanes;
pub mod lease;
pub mod metrics;
pub mod objects;
pub mod receipts;
pub mod reconcile;
pub mod run;
pub mod status;
pub mod world;
