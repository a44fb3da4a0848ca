//! Runs whose objects are gone. There are no finalizers: whatever deletes an object, and whether or not anybody watched, the run
//! that the authority has is found out here and ended.

use super::{Runs, observe};
use crate::objects::within;
use crate::reconcile::index::{Key, View};
use crate::reconcile::queue::Next;
use crate::reconcile::{Failure, Work};
use crate::world::call::found;
use m87_api::{GovernedRunSpec, Spec};
use m87_core::reason::Reason;

impl Runs {
    /// Ends the run of an object that is gone. The API server is asked once more: a cache alone ends nothing.
    pub async fn reconcile_gone(&self, key: &Key, uid: &str) -> Result<Next, Failure> {
        observe::forget(&self.first_seen, uid);
        if self.index.get(key).is_none() {
            self.call(self.open.give_up(key));
        }
        let run = self.book.load(uid).await?;
        if run.is_none_or(|run| run.row.sealed().is_some()) {
            return Ok(Next::Await);
        }
        let api = within::<GovernedRunSpec>(self.client.clone(), &key.namespace);
        let object = found(&format!("reading {} {key}", GovernedRunSpec::KIND), api.get_metadata(&key.name)).await?;
        if object.is_some_and(|object| object.metadata.uid.as_deref() == Some(uid)) {
            return Ok(Next::Await);
        }
        self.book.end(uid, Reason::Deleted).await?;
        tracing::info!("the object is gone: its run was ended");
        Ok(Next::Await)
    }

    /// Looks for runs of the authority that no object asks for any more, as after a time when nobody watched.
    pub async fn look_for_gone(&self) -> Result<(), Failure> {
        if !self.index.is_synced() {
            return Ok(());
        }
        for uid in self.book.unsealed().await? {
            let Some(run) = self.book.load(&uid).await? else { continue };
            let key = Key { namespace: run.dossier.namespace.name.clone(), name: run.dossier.run.name.clone() };
            if self.index.get(&key).is_none_or(|view| view.uid() != uid) {
                self.queue.add(Work::RunGone(key, uid));
            }
        }
        Ok(())
    }
}
