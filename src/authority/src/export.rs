//! What leaves the store: bundles that anyone can verify offline, signed checkpoints, and the statement that no receipt is
//! missing.

use crate::authority::Authority;
use crate::store::StoreError;
use m87_core::json::{JsonError, from_canonical};
use m87_core::log::{Checkpoint, ClosureError, Event, LogEntry, closure};
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
    /// A checkpoint cannot be published.
    #[error("the checkpoint cannot be published: {0}")]
    Publish(#[from] std::io::Error),
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
        self.logs.catch_up(&*self.store).await?;
        let tree = self.logs.tree(&namespace);
        let entries = self.store.log(&namespace, 0).await?;
        let missing = |what: String| ExportError::Log { namespace: namespace.clone(), what };
        let is_this = |entry: &LogEntry| {
            entry.run == uid && matches!(&entry.event, Event::Sealed { receipt_hash } if *receipt_hash == receipt.hash)
        };
        let index = entries.iter().position(is_this).ok_or_else(|| missing(format!("the receipt of run {uid}")))?;
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        let path = tree.inclusion(index, tree.size()).ok_or_else(|| missing(format!("a proof of entry {index}")))?;
        let timestamp = match &loaded.run.row.state {
            crate::row::State::Sealed(closing, _) => closing.at,
            crate::row::State::Open(_)
            | crate::row::State::Claimed(_)
            | crate::row::State::Contracted(..)
            | crate::row::State::Dispatched(..)
            | crate::row::State::Closing(_) => return Err(ExportError::NotSealed(uid.to_owned())),
        };
        let timestamp = timestamp.max(self.now().at);
        let checkpoint = Checkpoint::new(&dossier.cluster_uid, &namespace, &tree, timestamp).seal(&self.key)?;
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
        self.logs.catch_up(&*self.store).await?;
        let mut entries = self.store.log(namespace_uid, 0).await?;
        let tree = self.logs.tree(namespace_uid);
        entries.truncate(usize::try_from(tree.size()).unwrap_or(usize::MAX));
        let checkpoint = Checkpoint::new(cluster_uid, namespace_uid, &tree, self.now().at).seal(&self.key)?;
        Ok(Closure { checkpoint, open: closure(&entries)?, entries })
    }

    /// Publishes a namespace's checkpoint outside the store.
    pub(crate) async fn publish(&self, cluster_uid: &str, namespace_uid: &str) -> Result<(), ExportError> {
        self.logs.catch_up(&*self.store).await?;
        let tree = self.logs.tree(namespace_uid);
        let checkpoint = Checkpoint::new(cluster_uid, namespace_uid, &tree, self.now().at).seal(&self.key)?;
        Ok(self.world.checkpoints.publish(namespace_uid, &checkpoint).await?)
    }
}
