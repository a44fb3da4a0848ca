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
    /// There is no such part of the log.
    #[error("the log has {has} entries: there is no page from {from} of {size}")]
    NoSuchPage {
        /// From which entry on.
        from: u64,
        /// Of a log of how many.
        size: u64,
        /// How many there are.
        has: u64,
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

/// A part of a namespace's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The whole that it is a part of, signed; `None` if that was asked for by its size. Nobody gets an earlier whole signed as if
    /// it were the present one: what came after it would be hidden.
    pub checkpoint: Option<Envelope>,
    /// So many entries of it, in order, at most [`crate::Options::log_page`].
    pub entries: Vec<LogEntry>,
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
        let mut entries = Vec::new();
        while (entries.len() as u64) < checkpoint.size {
            entries.extend(self.entries(namespace_uid, entries.len() as u64, checkpoint.size).await?);
        }
        let checkpoint = checkpoint.seal(&self.key)?;
        Ok(Closure { checkpoint, open: closure(&entries)?, entries })
    }

    /// A page of the log as it was with that many entries; as it is now, under its checkpoint, if none are named. Whoever asks for
    /// the next page names the size of that checkpoint, and so gets the parts of one whole however the log grows meanwhile.
    pub async fn page(
        &self,
        cluster_uid: &str,
        namespace_uid: &str,
        from: u64,
        size: Option<u64>,
    ) -> Result<Page, ExportError> {
        self.logs.catch_up_one(&*self.store, namespace_uid).await?;
        let head = self.checkpoint(cluster_uid, namespace_uid);
        let (has, is_head) = (head.size, size.is_none());
        let size = size.unwrap_or(has);
        if from > size || size > has {
            return Err(ExportError::NoSuchPage { from, size, has });
        }
        let checkpoint = is_head.then(|| head.seal(&self.key)).transpose()?;
        Ok(Page { checkpoint, entries: self.entries(namespace_uid, from, size).await? })
    }

    /// At most a page of the entries from there on, of so many: as many as there must be.
    async fn entries(&self, namespace_uid: &str, from: u64, size: u64) -> Result<Vec<LogEntry>, ExportError> {
        let end = size.min(from.saturating_add(self.options.log_page.max(1)));
        let entries = self.store.log(namespace_uid, from..end).await?;
        if entries.len() as u64 != end.saturating_sub(from) {
            let what = format!("every entry from {from} to {end}");
            return Err(ExportError::Log { namespace: namespace_uid.to_owned(), what });
        }
        Ok(entries)
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
