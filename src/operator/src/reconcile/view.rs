//! What the reconcilers keep of each kind's objects. An object whose spec cannot be read is a view like any other, with the reason
//! in the place of the spec, so that it never stops the others.

use super::index::{Key, View};
use crate::objects::Readable;
use kube::api::DynamicObject;
use m87_api::{GovernancePolicySpec, GovernedRunSpec};
use m87_core::json::compute_hash;
use m87_core::time::Timestamp;
use m87_core::tool::ManifestSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A spec, or why it cannot be read.
pub type Read<S> = Result<S, String>;

/// What every object says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Its place.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// The version that was seen.
    pub resource_version: String,
    /// Raised by the API server with every change of the spec.
    pub generation: i64,
    /// When the API server made it.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Meta {
    fn of(object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        let created = meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_millisecond());
        Self {
            key: Key::of(object),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created: Timestamp::from_millis(created),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

/// A policy.
pub type PolicyView = SpecView<GovernancePolicySpec>;
/// A manifest.
pub type ManifestView = SpecView<ManifestSpec>;

/// An object whose spec is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecView<S> {
    /// What it says of itself.
    pub meta: Meta,
    /// What it asks for.
    pub spec: Read<S>,
    /// What is said of it; `None` if nobody has said anything.
    pub status: Option<Value>,
}

impl<S: Readable + Send + Sync + 'static> View for SpecView<S> {
    fn of(mut object: DynamicObject) -> Self {
        let status = object.data.get_mut("status").map(Value::take);
        Self { meta: Meta::of(&object), spec: spec(&object.data), status }
    }

    fn key(&self) -> &Key {
        &self.meta.key
    }

    fn uid(&self) -> &str {
        &self.meta.uid
    }

    fn resource_version(&self) -> &str {
        &self.meta.resource_version
    }
}

/// A run. What its status says is kept as a hash, to be compared; its spec only until the run is over, for thousands of runs
/// stay when they are over.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// What it says of itself.
    pub meta: Meta,
    /// What it asks for; `None` if it looks as if it were over.
    pub spec: Option<Read<Arc<GovernedRunSpec>>>,
    /// The name of its policy; `None` if it cannot be read. It stays when the run is over.
    pub policy: Option<String>,
    /// Whether a GitOps tool takes care of it.
    pub tracked: Tracked,
    /// `compute_hash` of its status; `None` if there is none.
    pub status: Option<String>,
    /// Whether its status says that it is over.
    pub shown_over: bool,
}

/// Whether a GitOps tool takes care of an object: what it tracks it would make again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracked {
    /// By Argo CD, Flux or Helm.
    Yes,
    /// By none that is known.
    No,
}

impl RunView {
    /// Reads an object wholly, its spec too.
    pub fn whole(object: &DynamicObject) -> Self {
        let spec = spec::<GovernedRunSpec>(&object.data).map(Arc::new);
        let status = object.data.get("status");
        let says = |field: &str| status.and_then(|status| status.get(field)).is_some_and(|value| !value.is_null());
        Self {
            shown_over: says("terminal") && says("receipt"),
            status: status.and_then(|status| compute_hash(status).ok()),
            policy: spec.as_ref().ok().map(|spec| spec.policy_ref.name.clone()),
            tracked: tracked(object),
            meta: Meta::of(object),
            spec: Some(spec),
        }
    }
}

impl View for RunView {
    fn of(object: DynamicObject) -> Self {
        let mut view = Self::whole(&object);
        if view.shown_over {
            view.spec = None;
        }
        view
    }

    fn key(&self) -> &Key {
        &self.meta.key
    }

    fn uid(&self) -> &str {
        &self.meta.uid
    }

    fn resource_version(&self) -> &str {
        &self.meta.resource_version
    }
}

fn spec<S: Readable>(data: &Value) -> Read<S> {
    S::read(data.get("spec").unwrap_or(&Value::Null))
}

/// Labels and annotations by which GitOps tools know what they made.
const TRACKING: [&str; 6] = [
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/instance",
    "app.kubernetes.io/instance",
    "kustomize.toolkit.fluxcd.io/name",
    "helm.toolkit.fluxcd.io/name",
    "meta.helm.sh/release-name",
];

fn tracked(object: &DynamicObject) -> Tracked {
    let has = |notes: &Option<BTreeMap<String, String>>| {
        notes.as_ref().is_some_and(|notes| TRACKING.iter().any(|name| notes.contains_key(*name)))
    };
    if has(&object.metadata.labels) || has(&object.metadata.annotations) { Tracked::Yes } else { Tracked::No }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_spec_that_cannot_be_read_is_a_view_that_says_so() {
        let view = RunView::of(object(json!({
            "apiVersion": "m87.dev/v1alpha1", "kind": "GovernedRun",
            "metadata": {"name": "r", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"policyRef": 7},
        })));
        assert_eq!((view.key().to_string().as_str(), view.uid(), view.resource_version()), ("n/r", "u", "7"));
        assert!(view.spec.unwrap().unwrap_err().contains("policyRef"), "it does not say where");
    }

    #[test]
    fn what_a_gitops_tool_made_is_known_by_its_marks() {
        let with = |labels: Value, annotations: Value| {
            tracked(&object(json!({
                "apiVersion": "m87.dev/v1alpha1", "kind": "GovernedRun",
                "metadata": {"name": "r", "labels": labels, "annotations": annotations},
            })))
        };
        assert_eq!(with(json!({}), json!({})), Tracked::No);
        assert_eq!(with(json!({"argocd.argoproj.io/instance": "app"}), json!({})), Tracked::Yes);
        assert_eq!(with(json!({}), json!({"argocd.argoproj.io/tracking-id": "app:x"})), Tracked::Yes);
        assert_eq!(with(json!({"kustomize.toolkit.fluxcd.io/name": "x"}), json!({})), Tracked::Yes);
    }

    /// Of thousands of runs, most of them over, hardly more than a name is to be remembered.
    #[test]
    fn of_an_object_that_is_watched_only_what_is_of_use_is_kept() {
        let long = "x".repeat(100_000);
        let run = |status: Value| {
            RunView::of(object(json!({
                "apiVersion": "m87.dev/v1alpha1", "kind": "GovernedRun",
                "metadata": {
                    "name": "r", "namespace": "n", "uid": "u", "resourceVersion": "7",
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": long},
                    "managedFields": [{"manager": long, "operation": "Apply", "fieldsV1": {"f:spec": {long.as_str(): {}}}}],
                },
                "spec": {
                    "policyRef": {"name": "rules"}, "manifestRef": {"name": "tools"},
                    "proposal": m87_core::fixtures::proposal(),
                },
                "status": status,
            })))
        };
        let going = run(json!({"message": long}));
        assert!(going.spec.as_ref().unwrap().is_ok(), "{:?}", going.spec);
        let over = run(json!({"message": long, "terminal": "COMPLETE", "receipt": {"hash": "h", "logIndex": 1}}));
        assert_eq!((&over.spec, over.policy.as_deref()), (&None, Some("rules")));
        for view in [going, over] {
            let kept = format!("{view:?}").len();
            assert!(kept < 4096, "{kept} bytes");
        }
    }
}
