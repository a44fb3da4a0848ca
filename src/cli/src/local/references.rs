//! What runs refer to, from the files of this invocation.

use crate::local::names::Names;
use async_trait::async_trait;
use m87_api::local::{Key, Objects};
use m87_api::{GovernancePolicySpec, Spec};
use m87_authority::world::{References, ReferencesUnavailable};
use m87_core::dossier::{Dossier, Named, Pinned};
use m87_core::json::compute_hash;
use m87_core::policy::PolicySpec;
use m87_core::tool::ManifestSpec;
use serde::Serialize;
use std::sync::Arc;

/// The policies and manifests that were read. There is no baseline without a platform.
pub(crate) struct Files {
    objects: Arc<Objects>,
    names: Names,
}

impl Files {
    pub(crate) fn new(objects: Arc<Objects>, names: Names) -> Self {
        Self { objects, names }
    }

    /// What is judged of an object of kind `S`.
    fn pin<S: Spec, T: Clone + Serialize>(&self, key: &Key, spec: &T) -> Result<Pinned<T>, ReferencesUnavailable> {
        let sha256 = compute_hash(spec).map_err(|error| ReferencesUnavailable(format!("{} {error}", key.name)))?;
        Ok(Pinned { name: key.name.clone(), uid: self.names.object(S::KIND, key), sha256, spec: spec.clone() })
    }
}

#[async_trait]
impl References for Files {
    async fn policy(&self, namespace: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        let key = Key { namespace: namespace.name.clone(), name: name.to_owned() };
        self.objects
            .policies
            .get(&key)
            .map(|policy| self.pin::<GovernancePolicySpec, _>(&key, &policy.spec.rules))
            .transpose()
    }

    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(None)
    }

    async fn manifest(
        &self,
        namespace: &Named,
        name: &str,
    ) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        let key = Key { namespace: namespace.name.clone(), name: name.to_owned() };
        self.objects.manifests.get(&key).map(|manifest| self.pin::<ManifestSpec, _>(&key, &manifest.spec)).transpose()
    }

    async fn suspended(&self, _dossier: &Dossier) -> Result<bool, ReferencesUnavailable> {
        Ok(false)
    }

    async fn bound(&self, _namespace: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(true)
    }
}
