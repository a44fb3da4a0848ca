//! What runs refer to, read from the API server, each time anew and never from a cache.
//!
//! What is not there is `None`, and nobody's answer is nobody's: a 403, a time-out or a failing server is
//! [`ReferencesUnavailable`]. Between the two stands an object that is there and cannot be read:
//!
//! - A policy or manifest counts as not there *yet*. It is waited for as long as one that does not exist, and then missing,
//!   which refuses; once pinned, it has drifted. The log and the object's own condition say which field is to blame.
//! - The baseline is never taken for absent, since that would be a weaker rule: no run is opened until it can be read.
//! - Whatever says "suspended" in any form but `false` is suspended.

use super::call::{CallError, call, found};
use super::names::BASELINE;
use crate::objects::{Head, Part, Readable, View, within};
use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use m87_api::{GovernancePolicySpec, GovernedRunSpec, Spec};
use m87_authority::world::{References, ReferencesUnavailable};
use m87_core::dossier::{Dossier, Named, Pinned};
use m87_core::json::compute_hash;
use m87_core::policy::PolicySpec;
use m87_core::tool::ManifestSpec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the operator must be able to do with pods in a tenant's namespace.
pub const TENANT_VERBS: [&str; 3] = ["create", "get", "delete"];

/// References on a cluster.
#[derive(Clone)]
pub struct ClusterReferences {
    client: Client,
    own_namespace: String,
}

impl From<CallError> for ReferencesUnavailable {
    fn from(error: CallError) -> Self {
        Self(error.to_string())
    }
}

/// What became of looking for an object.
enum Found<S> {
    /// There is none.
    Nothing,
    /// It is there and cannot be read.
    Unreadable(String),
    /// It is there.
    Object(Head, S),
}

impl ClusterReferences {
    /// Reads with this client; the baseline is in the operator's own namespace.
    pub fn new(client: Client, own_namespace: impl Into<String>) -> Self {
        Self { client, own_namespace: own_namespace.into() }
    }

    async fn find<S: Readable>(&self, namespace: &str, name: &str) -> Result<Found<S>, ReferencesUnavailable>
    where
        S::Status: DeserializeOwned,
    {
        let what = format!("reading {} {namespace}/{name}", S::KIND);
        let api = within::<S>(self.client.clone(), namespace);
        let Some(object) = found(&what, api.get(name)).await? else { return Ok(Found::Nothing) };
        let view = View::<S>::of(&object).map_err(|error| ReferencesUnavailable(error.to_string()))?;
        Ok(match view.spec {
            Part::Readable(spec) => Found::Object(view.head, spec),
            Part::Unreadable { why } => Found::Unreadable(why),
        })
    }

    /// Finds an object of a tenant, if the namespace is still the one that is meant.
    async fn find_of<S: Readable>(&self, tenant: &Named, name: &str) -> Result<Found<S>, ReferencesUnavailable>
    where
        S::Status: DeserializeOwned,
    {
        let (is_same, object) = tokio::try_join!(self.is_same(tenant), self.find::<S>(&tenant.name, name))?;
        Ok(if is_same { object } else { Found::Nothing })
    }

    /// Whether the tenant's namespace is there, and has not been made again.
    async fn is_same(&self, tenant: &Named) -> Result<bool, ReferencesUnavailable> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let what = format!("reading namespace {}", tenant.name);
        let namespace = found(&what, api.get_metadata(&tenant.name)).await?;
        Ok(namespace.is_some_and(|namespace| namespace.metadata.uid.as_deref() == Some(tenant.uid.as_str())))
    }

    /// Whether an object says that it is suspended; `None` if it is gone or has been made again.
    async fn says_suspended<S: Spec>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Option<bool>, ReferencesUnavailable> {
        let what = format!("reading {} {namespace}/{name}", S::KIND);
        let object = found(&what, within::<S>(self.client.clone(), namespace).get(name)).await?;
        let object = object.filter(|object| object.metadata.uid.as_deref() == Some(uid));
        Ok(object.map(|object| is_suspended(&object.data)))
    }

    async fn may(&self, verb: &str, namespace: &str) -> Result<bool, ReferencesUnavailable> {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            verb: Some(verb.to_owned()),
            resource: Some("pods".to_owned()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let what = format!("asking for the right to {verb} pods in namespace {namespace}");
        let answer = call(&what, api.create(&PostParams::default(), &review)).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// Missing, null or `false` is no; everything else is yes, also what is no boolean.
fn is_suspended(object: &Value) -> bool {
    let suspend = object.get("spec").and_then(|spec| spec.get("suspend"));
    !matches!(suspend, None | Some(Value::Null | Value::Bool(false)))
}

/// Pins what was read; what has no hash cannot be read either.
fn pin<S: Serialize>(head: Head, spec: S) -> Result<Pinned<S>, String> {
    match compute_hash(&spec) {
        Ok(sha256) => Ok(Pinned { name: head.name, uid: head.uid, sha256, spec }),
        Err(error) => Err(format!("{}/{}: spec {error}", head.namespace, head.name)),
    }
}

/// An object that cannot be read is not there yet.
fn pinned<S: Serialize>(found: Found<S>) -> Option<Pinned<S>> {
    let result = match found {
        Found::Nothing => return None,
        Found::Unreadable(why) => Err(why),
        Found::Object(head, spec) => pin(head, spec),
    };
    result.inspect_err(|why| tracing::warn!("{why}: until it is corrected it counts as missing")).ok()
}

/// Core's part of a policy: what is judged and hashed.
fn rules(found: Found<GovernancePolicySpec>) -> Found<PolicySpec> {
    match found {
        Found::Nothing => Found::Nothing,
        Found::Unreadable(why) => Found::Unreadable(why),
        Found::Object(head, spec) => Found::Object(head, spec.rules),
    }
}

#[async_trait]
impl References for ClusterReferences {
    async fn policy(&self, namespace: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(pinned(rules(self.find_of(namespace, name).await?)))
    }

    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        match rules(self.find(&self.own_namespace, BASELINE).await?) {
            Found::Nothing => Ok(None),
            Found::Unreadable(why) => Err(ReferencesUnavailable(why)),
            Found::Object(head, spec) => pin(head, spec).map(Some).map_err(ReferencesUnavailable),
        }
    }

    async fn manifest(
        &self,
        namespace: &Named,
        name: &str,
    ) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        Ok(pinned(self.find_of(namespace, name).await?))
    }

    /// A run or policy that is gone, or was made again, asks for nothing any more: that is as good as suspended. A baseline
    /// that is suspended stops the whole platform.
    async fn suspended(&self, dossier: &Dossier) -> Result<bool, ReferencesUnavailable> {
        let namespace = &dossier.namespace.name;
        let run = self
            .says_suspended::<GovernedRunSpec>(namespace, &dossier.run.name, &dossier.run.uid)
            .await?
            .unwrap_or(true);
        let policy = match &dossier.policy {
            Some(policy) => {
                self.says_suspended::<GovernancePolicySpec>(namespace, &policy.name, &policy.uid).await?.unwrap_or(true)
            }
            None => false,
        };
        let baseline = match &dossier.baseline {
            Some(pinned) => self
                .says_suspended::<GovernancePolicySpec>(&self.own_namespace, &pinned.name, &pinned.uid)
                .await?
                .unwrap_or(true),
            None => false,
        };
        Ok(run || policy || baseline)
    }

    async fn bound(&self, namespace: &Named) -> Result<bool, ReferencesUnavailable> {
        let name = &namespace.name;
        let [create, get, delete] = TENANT_VERBS.map(|verb| self.may(verb, name));
        let (is_same, create, get, delete) = tokio::try_join!(self.is_same(namespace), create, get, delete)?;
        Ok(is_same && create && get && delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whatever_is_not_plainly_false_is_suspended() {
        for no in
            [json!({}), json!({"spec": {}}), json!({"spec": {"suspend": null}}), json!({"spec": {"suspend": false}})]
        {
            assert!(!is_suspended(&no), "{no}");
        }
        for yes in [json!(true), json!("false"), json!(0), json!({}), json!([])] {
            assert!(is_suspended(&json!({"spec": {"suspend": yes}})), "{yes}");
        }
    }
}
