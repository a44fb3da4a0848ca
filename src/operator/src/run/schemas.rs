//! Whether the custom resources that are installed are those of this version.
//!
//! What an API server does not know of a kind it drops from the objects that are applied, without a word: a restriction that is
//! written down would not be there. Helm upgrades the operator and its definitions apart from each other, so that is looked at.

use super::Shared;
use crate::health::{Part, PartState};
use crate::world::call::{CallError, found};
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use m87_api::crd::{SCHEMA_HASH, Served, name, schema_hash};
use m87_api::{GovernancePolicySpec, GovernedRunSpec};
use m87_core::tool::ManifestSpec;
use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(60);

/// Says in readiness whether they are, until stopped.
pub(super) async fn watch(shared: Shared) {
    loop {
        shared.health.set(Part::Crds, look(&shared).await);
        if shared.stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
            return;
        }
    }
}

async fn look(shared: &Shared) -> PartState {
    let found = tokio::try_join!(
        installed::<GovernancePolicySpec>(shared),
        installed::<ManifestSpec>(shared),
        installed::<GovernedRunSpec>(shared),
    );
    match found {
        Ok((policy, manifest, run)) => of([policy, manifest, run]),
        Err(error) => PartState::Degraded(format!("whether they are of this version is not known: {error}")),
    }
}

/// A definition's name, and whether its schema is this version's.
type Installed = (String, bool);

async fn installed<S: Served>(shared: &Shared) -> Result<Installed, CallError> {
    let resource = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let api: Api<DynamicObject> = Api::all_with(shared.client.clone(), &resource);
    let name = name::<S>();
    let definition = found(&format!("reading the definition {name}"), api.get_metadata(&name)).await?;
    let hash = definition.and_then(|definition| definition.metadata.annotations?.remove(SCHEMA_HASH));
    Ok((name, hash == Some(schema_hash::<S>())))
}

fn of(installed: [Installed; 3]) -> PartState {
    let others: Vec<String> = installed.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect();
    if others.is_empty() {
        return PartState::Well;
    }
    PartState::Degraded(format!(
        "{} of another version are installed: fields that they do not know are dropped from what is applied; \
         install the chart m87-crds of this version",
        others.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn definitions_of_another_version_are_named() {
        let standing = |[a, b, c]: [bool; 3]| of([("a".to_owned(), a), ("b".to_owned(), b), ("c".to_owned(), c)]);
        assert_eq!(standing([true; 3]), PartState::Well);
        let PartState::Degraded(why) = standing([true, false, false]) else { panic!("of another version") };
        assert!(why.starts_with("b, c of another version"), "{why}");
    }
}
