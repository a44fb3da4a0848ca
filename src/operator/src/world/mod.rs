//! The authority's traits, implemented by objects of the API server.

pub mod call;
pub mod callers;
pub mod checkpoints;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod fake_config_maps;
pub mod keys;
pub mod mark;
pub mod references;
pub mod shared_read;
pub mod tls;
pub mod token_review;

/// Names of what m87 keeps in its own namespace.
pub mod names {
    /// The Lease that says who leads.
    pub const LEASE: &str = "m87";
    /// The ConfigMap of the high-water mark.
    pub const MARK: &str = "m87-high-water-mark";
    /// The ConfigMaps of signed checkpoints; the chart's Role names each of them.
    pub fn checkpoints() -> impl Iterator<Item = String> {
        (0..16).map(|at| format!("m87-checkpoints-{at:x}"))
    }
    /// The Secret of the signing key.
    pub const SIGNING_KEY: &str = "m87-signing-key";
    /// The Secret of the servers' TLS.
    pub const TLS: &str = "m87-tls";
    /// The ConfigMap of what everybody may know: the certificate authority and the public signing key.
    pub const PUBLIC: &str = "m87-ca";
    /// The platform's own policy.
    pub const BASELINE: &str = "baseline";
    /// The audience of every token that is meant for m87.
    pub const AUDIENCE: &str = "m87.dev";
}

/// No ConfigMap has room for more, in bytes.
const ROOM: usize = 1 << 20;

/// What is known of an object that is only written as it was read or written here last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known<T> {
    /// Nothing: it is to be read before it is written.
    NotRead,
    /// There is none.
    Absent,
    /// This.
    Object(T),
}

/// What every object that m87 makes carries.
pub(crate) fn labels() -> std::collections::BTreeMap<String, String> {
    [("app.kubernetes.io/managed-by".to_owned(), "m87".to_owned())].into()
}
