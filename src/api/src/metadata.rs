//! What every object says of itself. Only what m87 reads is a field; what an API server adds is let through unread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name, tenant and notes of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Its name, unique for its kind in the namespace: a DNS-1123 subdomain.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The tenant: a DNS-1123 label; `default` if absent.
    #[serde(default = "default_namespace")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Notes for programs; m87 itself reads `m87.dev/expect-terminal`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Notes to select by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What an API server writes into `metadata`, so that the output of `kubectl get -o yaml` can be read back.
pub(crate) const WRITTEN_BY_SERVERS: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

fn default_namespace() -> String {
    "default".to_owned()
}
