//! What leaves the store as files: each run's bundle when it is over, and at the end of an invocation whatever is still missing
//! (an earlier invocation may have died before it wrote) and each namespace's log.

use crate::local::folder::Folder;
use crate::receipt::outputs;
use crate::receipts;
use anyhow::Context;
use m87_authority::Authority;
use m87_core::decide::{Verdict, decide};
use m87_core::log::LogExport;
use m87_core::receipt::Bundle;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Writes bundles and logs of an authority into an out folder.
pub(crate) struct Export {
    authority: Arc<Authority>,
    folder: Folder,
    /// The runs whose bundles are there for certain. Held while a file's name is chosen and written: two runs of one name must not
    /// choose the same.
    written: Mutex<HashSet<String>>,
}

/// A bundle as it was written, judged again.
pub(crate) struct Exported {
    pub(crate) file: PathBuf,
    pub(crate) verdict: Verdict,
    /// What tool and validation said, line by line.
    pub(crate) said: Vec<String>,
    pub(crate) receipt_hash: String,
}

impl Export {
    pub(crate) fn new(authority: Arc<Authority>, folder: Folder) -> Self {
        Self { authority, folder, written: Mutex::default() }
    }

    /// The bundle of a run that is over; written unless it had been.
    pub(crate) async fn bundle(&self, uid: &str) -> anyhow::Result<Exported> {
        let loaded = self.authority.load(uid).await?;
        let sealed = loaded.run.row.sealed().with_context(|| format!("run {uid} has no receipt"))?;
        let receipt_hash = sealed.receipt_hash.clone();
        let mut written = self.written.lock().await;
        let dossier = &loaded.run.dossier;
        let (file, is_there) = receipts::bundle_file(&self.folder.receipts(), dossier, &receipt_hash);
        if !is_there {
            let bundle: Bundle = self.authority.bundle(uid).await?;
            receipts::write(&file, &bundle.to_bytes()?)?;
        }
        written.insert(uid.to_owned());
        let evidence = &loaded.run.row.evidence;
        Ok(Exported { file, verdict: decide(dossier, evidence), said: outputs(evidence), receipt_hash })
    }

    /// Writes every bundle that is missing, and every log.
    pub(crate) async fn catch_up(&self) -> anyhow::Result<()> {
        let store = self.authority.store();
        for namespace in store.namespaces().await? {
            let mut known = None;
            for loaded in store.runs(Some(&namespace)).await? {
                let dossier = loaded.run.dossier.clone();
                let is_there = self.written.lock().await.contains(&dossier.run.uid);
                if loaded.run.row.sealed().is_some() && !is_there {
                    self.bundle(&dossier.run.uid).await?;
                }
                known = Some(dossier);
            }
            let Some(dossier) = known else { continue };
            let closure = self.authority.closure(&dossier.cluster_uid, &namespace).await?;
            let log = LogExport::new(closure.entries, closure.checkpoint, &self.authority.verifying_key());
            let file = self.folder.log().join(format!("{}.json", dossier.namespace.name));
            receipts::write(&file, &log.to_bytes()?)?;
        }
        Ok(())
    }
}
