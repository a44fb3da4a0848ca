//! Uids of what has none on a disk. They follow from the store's own id and the names, so that the same files read again mean
//! the same objects, and a run is the same run only if it asks for the same.

use m87_api::GovernedRun;
use m87_api::local::Key;
use m87_authority::entropy::{DerivedEntropy, Entropy};
use m87_core::actor::Actor;
use m87_core::dossier::{Named, RunIdentity};
use m87_core::json::{JsonError, compute_hash};
use m87_core::time::Timestamp;

/// Derives uids within one store.
#[derive(Debug, Clone)]
pub(crate) struct Names(DerivedEntropy);

impl Names {
    /// For the store with this id.
    pub(crate) fn of(store_id: &str) -> Self {
        Self(DerivedEntropy { clock: Timestamp::from_millis(0), key_id: store_id.to_owned() })
    }

    /// The tenant.
    pub(crate) fn namespace(&self, name: &str) -> Named {
        Named { name: name.to_owned(), uid: self.0.id(&["namespace", name]) }
    }

    /// The uid of an object that runs refer to.
    pub(crate) fn object(&self, kind: &str, key: &Key) -> String {
        self.0.id(&["object", kind, &key.namespace, &key.name])
    }

    /// Which run this is: another proposal or another actor under the same name is another run.
    pub(crate) fn run(&self, key: &Key, run: &GovernedRun, actor: &Actor) -> Result<RunIdentity, JsonError> {
        let idempotency_key = run.spec.idempotency_key.clone().unwrap_or_else(|| key.name.clone());
        let (proposal, actor) = (compute_hash(&run.spec.proposal)?, compute_hash(actor)?);
        let uid = self.0.id(&["run", &key.namespace, &key.name, &idempotency_key, &proposal, &actor]);
        Ok(RunIdentity { name: key.name.clone(), uid, idempotency_key })
    }
}
