//! What leaves the store: bundles that anyone can verify offline, signed checkpoints, and the statement that no receipt is
//! missing.

use crate::authority::Authority;
use crate::store::StoreError;
use m87_core::json::{JsonError, from_canonical};
use m87_core::log::{Checkpoint, ClosureError, LogEntry, closure};
use m87_core::receipt::{Bundle, Inclusion};
use m87_core::sign::{Envelope, VerifyingKey};
use std::collections::BTreeMap;

/// Something cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no such run.
    #[error("there is no run {0}")]
    UnknownRun(String),
    /// The run has no receipt yet.
    #[error("run {0} has not ended; it has no receipt yet")]
    NotSealed(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is stored has no canonical form.
    #[error("what is stored {0}")]
    Json(#[from] JsonError),
    /// The log does not hold what it must.
    #[error("the log of namespace {namespace} does not hold {what}")]
    Log {
        /// The namespace's uid.
        namespace: String,
        /// What.
        what: String,
    },
    /// The log contradicts itself.
    #[error(transparent)]
    Closure(#[from] ClosureError),
}

/// What a namespace's log says of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The log as it is, signed.
    pub checkpoint: Envelope,
    /// Every entry, in order.
    pub entries: Vec<LogEntry>,
    /// Runs that were opened and are not sealed: uid and proposal hash. Every other run that was opened is sealed.
    pub open: BTreeMap<String, String>,
}

impl Authority {
    /// The key that receipts are verified with.
    pub fn verifying_key(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    /// The bundle of a run's receipt: all that is needed to judge again, without a server.
    pub async fn bundle(&self, uid: &str) -> Result<Bundle, ExportError> {
        let loaded = self.store.load(uid).await?.ok_or_else(|| ExportError::UnknownRun(uid.to_owned()))?;
        let receipt = self.store.receipt(uid).await?.ok_or_else(|| ExportError::NotSealed(uid.to_owned()))?;
        let dossier = loaded.run.dossier.as_ref().clone();
        let namespace = dossier.namespace.uid.clone();
        self.logs.catch_up_one(&*self.store, &namespace).await?;
        let missing = || ExportError::Log { namespace: namespace.clone(), what: format!("the receipt of run {uid}") };
        let index = self.store.log_index(uid).await?.ok_or_else(missing)?;
        let leaf = LogEntry::sealed(uid, &receipt.hash).leaf()?;
        let crate::row::State::Sealed(closing, _) = &loaded.run.row.state else {
            return Err(ExportError::NotSealed(uid.to_owned()));
        };
        let timestamp = closing.at.max(self.now().at);
        let (path, checkpoint) = self.logs.with(&namespace, |tree| {
            let path = tree.inclusion(index, tree.size()).filter(|_| tree.leaf(index) == Some(leaf));
            (path, Checkpoint::new(&dossier.cluster_uid, &namespace, tree, timestamp))
        });
        let (path, checkpoint) = (path.ok_or_else(missing)?, checkpoint.seal(&self.key)?);
        Ok(Bundle::new(
            from_canonical(receipt.envelope.as_bytes())?,
            &self.verifying_key(),
            Inclusion { index, path },
            checkpoint,
            dossier,
            loaded.run.row.evidence,
        ))
    }

    /// The statement that every run of the namespace that was opened is sealed, or is listed as open.
    pub async fn closure(&self, cluster_uid: &str, namespace_uid: &str) -> Result<Closure, ExportError> {
        self.logs.catch_up_one(&*self.store, namespace_uid).await?;
        let checkpoint = self.checkpoint(cluster_uid, namespace_uid);
        let entries = self.store.log(namespace_uid, 0..checkpoint.size).await?;
        let checkpoint = checkpoint.seal(&self.key)?;
        Ok(Closure { checkpoint, open: closure(&entries)?, entries })
    }

    /// The signed size and root of a namespace's log as it is now.
    pub async fn signed_checkpoint(&self, cluster_uid: &str, namespace_uid: &str) -> Result<Envelope, ExportError> {
        self.logs.catch_up_one(&*self.store, namespace_uid).await?;
        Ok(self.checkpoint(cluster_uid, namespace_uid).seal(&self.key)?)
    }

    pub(crate) fn checkpoint(&self, cluster_uid: &str, namespace_uid: &str) -> Checkpoint {
        let now = self.now().at;
        self.logs.with(namespace_uid, |tree| Checkpoint::new(cluster_uid, namespace_uid, tree, now))
    }
}
