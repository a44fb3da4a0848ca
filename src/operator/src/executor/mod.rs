//! Where attempts run on a cluster: pods. What a pod looks like ([`pod`]), whether it still does ([`compare`]) and what it
//! says ([`look`]) are pure; [`PodExecutor`] creates, reads and deletes.

pub mod compare;
pub mod handle;
pub mod look;
pub mod pod;
mod pods;

pub use pod::{PodSettings, Requests};
pub use pods::{CurrentCa, PodExecutor};
