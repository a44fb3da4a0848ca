//! What runs refer to, read from the API server and never from a cache; runs that ask at the same time share a read.
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
use super::shared_read::SharedReads;
use crate::objects::{Head, Readable, View, within};
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
use std::sync::Arc;

/// What the operator must be able to do with pods in a tenant's namespace.
pub const TENANT_VERBS: [&str; 3] = ["create", "get", "delete"];

/// References on a cluster.
#[derive(Clone)]
pub struct ClusterReferences {
    client: Client,
    own_namespace: String,
    reads: Arc<Reads>,
}

/// What is being read now.
#[derive(Default)]
struct Reads {
    /// The uid of each namespace that is there.
    namespaces: SharedReads<Option<String>>,
    policies: SharedReads<Option<Arc<Seen<PolicySpec>>>>,
    manifests: SharedReads<Option<Arc<Seen<ManifestSpec>>>>,
    /// Whether the operator may do all of [`TENANT_VERBS`] in a namespace.
    rights: SharedReads<bool>,
}

/// An object that is there.
struct Seen<S> {
    uid: String,
    suspended: bool,
    /// What is judged of it, or why it cannot be read.
    pinned: Result<Pinned<S>, String>,
}

impl<S: Clone> Seen<S> {
    /// An object that cannot be read is not there yet.
    fn pinned(&self) -> Option<Pinned<S>> {
        let warn = |why: &String| tracing::warn!("{why}: until it is corrected it counts as missing");
        self.pinned.as_ref().inspect_err(|why| warn(why)).ok().cloned()
    }
}

impl From<CallError> for ReferencesUnavailable {
    fn from(error: CallError) -> Self {
        Self(error.to_string())
    }
}

impl ClusterReferences {
    /// Reads with this client; the baseline is in the operator's own namespace.
    pub fn new(client: Client, own_namespace: impl Into<String>) -> Self {
        Self { client, own_namespace: own_namespace.into(), reads: Arc::default() }
    }

    /// The uid of the namespace of that name; `None` if there is none.
    pub async fn namespace(&self, name: &str) -> Result<Option<String>, CallError> {
        let read = async {
            let api: Api<Namespace> = Api::all(self.client.clone());
            let namespace = found(&format!("reading namespace {name}"), api.get_metadata(name)).await?;
            Ok(namespace.and_then(|namespace| namespace.metadata.uid))
        };
        self.reads.namespaces.read(name, read).await
    }

    /// Whether the tenant's namespace is there, and has not been made again.
    async fn is_same(&self, tenant: &Named) -> Result<bool, CallError> {
        Ok(self.namespace(&tenant.name).await?.is_some_and(|uid| uid == tenant.uid))
    }

    async fn find_policy(&self, namespace: &str, name: &str) -> Result<Option<Arc<Seen<PolicySpec>>>, CallError> {
        let read = self.see(namespace, name, |spec: GovernancePolicySpec| spec.rules);
        self.reads.policies.read(&format!("{namespace}/{name}"), read).await
    }

    async fn find_manifest(&self, namespace: &str, name: &str) -> Result<Option<Arc<Seen<ManifestSpec>>>, CallError> {
        let read = self.see(namespace, name, |spec: ManifestSpec| spec);
        self.reads.manifests.read(&format!("{namespace}/{name}"), read).await
    }

    /// Reads an object, and pins the part of its spec that is judged and hashed.
    async fn see<S: Readable, P: Serialize>(
        &self,
        namespace: &str,
        name: &str,
        part: impl FnOnce(S) -> P + Send,
    ) -> Result<Option<Arc<Seen<P>>>, CallError>
    where
        S::Status: DeserializeOwned,
    {
        let what = format!("reading {} {namespace}/{name}", S::KIND);
        let api = within::<S>(self.client.clone(), namespace);
        let Some(object) = found(&what, api.get(name)).await? else { return Ok(None) };
        let view = View::<S>::of(&object).map_err(|error| CallError::Unavailable(error.to_string()))?;
        let uid = view.head.uid.clone();
        let pinned = view.spec.readable().and_then(|spec| pin(view.head, part(spec)));
        Ok(Some(Arc::new(Seen { uid, suspended: is_suspended(&object.data), pinned })))
    }

    /// A run's own object is nobody else's to read.
    async fn is_run_suspended(&self, dossier: &Dossier) -> Result<bool, CallError> {
        let (namespace, run) = (&dossier.namespace.name, &dossier.run);
        let what = format!("reading {} {namespace}/{}", GovernedRunSpec::KIND, run.name);
        let api = within::<GovernedRunSpec>(self.client.clone(), namespace);
        let object = found(&what, api.get(&run.name)).await?;
        let own = object.filter(|object| object.metadata.uid.as_deref() == Some(&run.uid));
        Ok(own.is_none_or(|object| is_suspended(&object.data)))
    }

    async fn is_policy_suspended<S>(&self, namespace: &str, pinned: Option<&Pinned<S>>) -> Result<bool, CallError> {
        let Some(pinned) = pinned else { return Ok(false) };
        let seen = self.find_policy(namespace, &pinned.name).await?;
        Ok(seen.filter(|seen| seen.uid == pinned.uid).is_none_or(|seen| seen.suspended))
    }

    async fn may_run_tools(&self, namespace: &str) -> Result<bool, CallError> {
        let [create, get, delete] = TENANT_VERBS.map(|verb| self.may(verb, namespace));
        let (create, get, delete) = tokio::try_join!(create, get, delete)?;
        Ok(create && get && delete)
    }

    async fn may(&self, verb: &str, namespace: &str) -> Result<bool, CallError> {
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

#[async_trait]
impl References for ClusterReferences {
    async fn policy(&self, namespace: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        let (is_same, seen) = tokio::try_join!(self.is_same(namespace), self.find_policy(&namespace.name, name))?;
        Ok(seen.filter(|_| is_same).and_then(|seen| seen.pinned()))
    }

    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        let Some(seen) = self.find_policy(&self.own_namespace, BASELINE).await? else { return Ok(None) };
        seen.pinned.clone().map(Some).map_err(ReferencesUnavailable)
    }

    async fn manifest(
        &self,
        namespace: &Named,
        name: &str,
    ) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        let (is_same, seen) = tokio::try_join!(self.is_same(namespace), self.find_manifest(&namespace.name, name))?;
        Ok(seen.filter(|_| is_same).and_then(|seen| seen.pinned()))
    }

    /// A run or policy that is gone, or was made again, asks for nothing any more: that is as good as suspended. A baseline
    /// that is suspended stops the whole platform.
    async fn suspended(&self, dossier: &Dossier) -> Result<bool, ReferencesUnavailable> {
        let (run, policy, baseline) = tokio::try_join!(
            self.is_run_suspended(dossier),
            self.is_policy_suspended(&dossier.namespace.name, dossier.policy.as_ref()),
            self.is_policy_suspended(&self.own_namespace, dossier.baseline.as_ref()),
        )?;
        Ok(run || policy || baseline)
    }

    async fn bound(&self, namespace: &Named) -> Result<bool, ReferencesUnavailable> {
        let rights = self.reads.rights.read(&namespace.name, self.may_run_tools(&namespace.name));
        let (is_same, may) = tokio::try_join!(self.is_same(namespace), rights)?;
        Ok(is_same && may)
    }

    async fn is_gone(&self, namespace: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(!self.is_same(namespace).await?)
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
