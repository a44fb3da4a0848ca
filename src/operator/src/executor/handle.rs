//! How a pod is found again: by namespace and name, and as the same one by its uid.

use m87_authority::Handle;
use serde::{Deserialize, Serialize};

/// A pod that was made; [`Handle`] holds it as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodHandle {
    /// The tenant's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid: one made again under the same name has another.
    pub uid: String,
}

/// The handle was not written by this executor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the handle {0:?} is not that of a pod")]
pub struct NoPodHandle(String);

impl PodHandle {
    /// Reads a handle.
    pub fn parse(handle: &Handle) -> Result<Self, NoPodHandle> {
        serde_json::from_str(&handle.0).map_err(|_| NoPodHandle(handle.0.clone()))
    }

    /// Writes a handle.
    pub fn to_handle(&self) -> Handle {
        Handle(serde_json::json!({"namespace": self.namespace, "name": self.name, "uid": self.uid}).to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_pod_survives_its_handle() {
        let pod = PodHandle { namespace: "ns".to_owned(), name: "m87-tool-u-1".to_owned(), uid: "7".to_owned() };
        assert_eq!(PodHandle::parse(&pod.to_handle()).unwrap(), pod);
        assert!(PodHandle::parse(&Handle("4711 123".to_owned())).is_err());
    }
}
