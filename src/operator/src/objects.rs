//! The objects of people, read one by one: an object that this version cannot read is told of, and stops no other.
//!
//! Objects arrive untyped, and each part is then read by itself: what cannot be read is data ([`Part::Unreadable`]), with the
//! field that is to blame.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use m87_api::{API_VERSION, GROUP, GovernancePolicySpec, GovernedRunSpec, Spec, VERSION};
use m87_core::policy::PolicySpec;
use m87_core::tool::ManifestSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// How the API server calls a kind.
pub fn resource<S: Spec>() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: S::KIND.to_owned(),
        plural: S::PLURAL.to_owned(),
    }
}

/// The objects of a kind in one namespace.
pub fn within<S: Spec>(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &resource::<S>())
}

/// The objects of a kind in every namespace.
pub fn everywhere<S: Spec>(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &resource::<S>())
}

/// What the API server says of every object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The tenant.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid: one made again under the same name has another.
    pub uid: String,
    /// For compare-and-set.
    pub resource_version: String,
    /// Raised when the spec changes.
    pub generation: i64,
    /// Notes to select by.
    pub labels: BTreeMap<String, String>,
    /// Notes for programs.
    pub annotations: BTreeMap<String, String>,
    /// When it was made, by the API server's clock.
    pub created: Option<Time>,
    /// When its deletion was asked for; `None` while nobody has.
    pub deleting: Option<Time>,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Part<T> {
    /// Read.
    Readable(T),
    /// Another version may be able to; this one is not.
    Unreadable {
        /// The field, what is wrong with it, and what to do.
        why: String,
    },
}

impl<T> Part<T> {
    /// The part, if it can be read.
    pub fn readable(self) -> Result<T, String> {
        match self {
            Self::Readable(part) => Ok(part),
            Self::Unreadable { why } => Err(why),
        }
    }

    /// The part, if it can be read.
    pub const fn as_readable(&self) -> Option<&T> {
        match self {
            Self::Readable(part) => Some(part),
            Self::Unreadable { .. } => None,
        }
    }
}

/// An object as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct View<S: Spec> {
    /// What the API server says of it.
    pub head: Head,
    /// What its author asks for.
    pub spec: Part<S>,
    /// What the operator said of it last; `None` before it has said anything.
    pub status: Part<Option<S::Status>>,
}

/// What came from the API server is no stored object: it has no uid, name, namespace or version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?} has no {missing}: it does not come from an API server")]
pub struct Incomplete {
    kind: &'static str,
    name: String,
    missing: &'static str,
}

/// A spec that is read from JSON.
pub trait Readable: Spec + DeserializeOwned {
    /// Reads it, or says which field is to blame.
    fn read(spec: &Value) -> Result<Self, String> {
        read_part("spec", spec)
    }
}

impl Readable for ManifestSpec {}
impl Readable for GovernedRunSpec {}

impl Readable for GovernancePolicySpec {
    fn read(spec: &Value) -> Result<Self, String> {
        // Alone first: where one type lies flat within another, nobody can say which field is to blame.
        read_part::<PolicySpec>("spec", spec)?;
        read_part("spec", spec)
    }
}

impl<S: Readable> View<S>
where
    S::Status: DeserializeOwned,
{
    /// Reads an object.
    pub fn of(object: &DynamicObject) -> Result<Self, Incomplete> {
        let head = head(object, S::KIND)?;
        let whose = |why: String| format!("{} {}/{}: {why}", S::KIND, head.namespace, head.name);
        let spec = match S::read(object.data.get("spec").unwrap_or(&Value::Null)) {
            Ok(spec) => Part::Readable(spec),
            Err(why) => Part::Unreadable { why: whose(why) },
        };
        // The default that the CRDs write before anybody has said anything is one of these too.
        let status = match object.data.get("status") {
            None | Some(Value::Null) => Part::Readable(None),
            Some(status) => match read_part("status", status) {
                Ok(status) => Part::Readable(Some(status)),
                Err(why) => Part::Unreadable { why: whose(why) },
            },
        };
        Ok(Self { head, spec, status })
    }
}

/// What the API server says of an object, whatever its kind.
pub fn head(object: &DynamicObject, kind: &'static str) -> Result<Head, Incomplete> {
    let name = object.name_any();
    let incomplete = |missing| Incomplete { kind, name: name.clone(), missing };
    Ok(Head {
        namespace: object.namespace().ok_or_else(|| incomplete("namespace"))?,
        uid: object.uid().ok_or_else(|| incomplete("uid"))?,
        resource_version: object.resource_version().ok_or_else(|| incomplete("resourceVersion"))?,
        generation: object.metadata.generation.unwrap_or(0),
        labels: object.labels().clone(),
        annotations: object.annotations().clone(),
        created: object.creation_timestamp(),
        deleting: object.metadata.deletion_timestamp.clone(),
        name: object.metadata.name.clone().ok_or_else(|| incomplete("name"))?,
    })
}

fn read_part<T: DeserializeOwned>(part: &str, value: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { part.to_owned() } else { format!("{part}.{path}") };
        format!("{place}: {}; correct it, or use the version of m87 that it was written for", error.inner())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::fixtures;
    use serde_json::json;

    fn object(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": API_VERSION, "kind": "GovernancePolicy",
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2},
            "spec": spec,
        }))
        .unwrap()
    }

    fn policy() -> Value {
        serde_json::to_value(fixtures::policy()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_what_is_newer_is_let_through() {
        let mut spec = policy();
        spec["suspend"] = json!(true);
        spec["ofANewerVersion"] = json!({"x": 1.5});
        let view = View::<GovernancePolicySpec>::of(&object(spec)).unwrap();
        assert_eq!((view.head.name.as_str(), view.head.generation), ("p", 2));
        assert_eq!(view.status, Part::Readable(None));
        let spec = view.spec.readable().unwrap();
        assert_eq!(spec.rules, fixtures::policy());
        assert!(spec.is_suspended());
    }

    #[test]
    fn an_unreadable_object_is_data_that_names_object_and_field() {
        let mut spec = policy();
        spec["constraints"]["risksAllowed"] = json!(["low", "harmless"]);
        let view = View::<GovernancePolicySpec>::of(&object(spec)).unwrap();
        let why = view.spec.readable().unwrap_err();
        assert!(why.starts_with("GovernancePolicy ns/p: spec.constraints.risksAllowed[1]: "), "{why}");
        let view = View::<GovernancePolicySpec>::of(&object(Value::Null)).unwrap();
        assert!(matches!(view.spec, Part::Unreadable { .. }));
        let view = View::<GovernedRunSpec>::of(&object(json!({"policyRef": {"name": "p"}}))).unwrap();
        let why = view.spec.readable().unwrap_err();
        assert!(why.contains("manifestRef"), "{why}");
    }

    #[test]
    fn an_object_that_no_api_server_has_stored_is_refused() {
        for field in ["uid", "resourceVersion", "namespace"] {
            let mut value = serde_json::to_value(object(policy())).unwrap();
            value["metadata"].as_object_mut().unwrap().remove(field);
            let object = serde_json::from_value(value).unwrap();
            let error = View::<GovernancePolicySpec>::of(&object).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }

    #[test]
    fn no_number_changes_on_the_way() {
        let mut value = serde_json::to_value(object(policy())).unwrap();
        let numbers = json!([0.1, 1e300, -0.5, 9_007_199_254_740_993_u64, 1, 1.25e-7]);
        value["spec"]["inputSchema"] = numbers.clone();
        let object: DynamicObject = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(object.data["spec"]["inputSchema"], numbers);
    }
}
