//! Which run of the store is meant: by uid, or by the name of an object.

use super::Receipts;
use super::answer::Refused;
use super::caller::is_uid;
use m87_authority::row::Run;
use m87_core::dossier::Named;
use m87_core::json::compute_hash;
use m87_core::proposal::Proposal;

impl Receipts {
    /// The run that is meant, within the tenant: a namespace that was deleted and made again has another uid, and shows
    /// nothing of the one before.
    pub(super) async fn find(&self, tenant: &Named, run: &str) -> Result<Run, Refused> {
        if is_uid(run)
            && let Some(found) = self.of_tenant(tenant, run).await?
        {
            return Ok(found);
        }
        let object = self.cluster.run(&tenant.name, run).await.map_err(Refused::unavailable)?;
        let object = object.ok_or_else(|| {
            Refused::NotFound(format!(
                "there is no GovernedRun {run:?} in namespace {:?}; a run whose object was deleted is asked for by its uid",
                tenant.name
            ))
        })?;
        if let Some(found) = self.of_tenant(tenant, &object.uid).await? {
            return Ok(found);
        }
        let mirrored = self.mirrored(tenant, &object.idempotency_key, &object.proposal).await?;
        mirrored.ok_or_else(|| Refused::NotFound(format!("run {run:?} has not been opened yet; it has no receipt")))
    }

    async fn of_tenant(&self, tenant: &Named, uid: &str) -> Result<Option<Run>, Refused> {
        let loaded = self.authority.store().load(uid).await.map_err(Refused::unavailable)?;
        Ok(loaded.map(|loaded| loaded.run).filter(|run| run.dossier.namespace.uid == tenant.uid))
    }

    /// A run that was asked for again has no row of its own (`AlreadyDone`): what stands for it is the first one's.
    async fn mirrored(&self, tenant: &Named, key: &str, proposal: &serde_json::Value) -> Result<Option<Run>, Refused> {
        let effect = self.authority.store().effect(&tenant.uid, key).await.map_err(Refused::unavailable)?;
        let Some(effect) = effect else { return Ok(None) };
        let same = serde_json::from_value::<Proposal>(proposal.clone())
            .is_ok_and(|proposal| compute_hash(&proposal).as_ref() == Ok(&effect.proposal_hash));
        if same { self.of_tenant(tenant, &effect.run_uid).await } else { Ok(None) }
    }
}
