//! The rest of the world, as traits: a cluster and a local folder implement them differently, and everything else is the
//! same code.

use crate::files::write_private;
use crate::row::Run;
use async_trait::async_trait;
use m87_core::dossier::{Dossier, Named, Pinned};
use m87_core::json::{compute_hash, from_canonical, to_canonical};
use m87_core::policy::PolicySpec;
use m87_core::resolve::candidates;
use m87_core::sign::Envelope;
use m87_core::tool::ManifestSpec;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The objects that runs refer to, read uncached. Every reference stays within the namespace.
#[async_trait]
pub trait References: Send + Sync {
    /// The policy of that name; `None` if there is none.
    async fn policy(&self, namespace: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable>;

    /// The platform's own policy, if there is one.
    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable>;

    /// The manifest of that name; `None` if there is none.
    async fn manifest(
        &self,
        namespace: &Named,
        name: &str,
    ) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable>;

    /// Whether the run, or its policy, is suspended: then nothing is contracted for or redeemed.
    async fn suspended(&self, dossier: &Dossier) -> Result<bool, ReferencesUnavailable>;

    /// Whether tools may be run in that tenant's namespace at all.
    async fn bound(&self, namespace: &Named) -> Result<bool, ReferencesUnavailable>;

    /// Whether that tenant's namespace is there no more, and with it all that was in it. Where there are none, none goes.
    async fn is_gone(&self, _namespace: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(false)
    }
}

/// Nobody knows what the references say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("references cannot be read: {0}")]
pub struct ReferencesUnavailable(pub String);

/// Whether what a run has pinned is no longer what its references say.
pub async fn drifted(references: &dyn References, dossier: &Dossier) -> Result<bool, ReferencesUnavailable> {
    let namespace = &dossier.namespace;
    let policy = async {
        let Some(pinned) = &dossier.policy else { return Ok(false) };
        let now = references.policy(namespace, &pinned.name).await?;
        Ok(now.is_none_or(|now| now.uid != pinned.uid || now.sha256 != pinned.sha256))
    };
    let baseline = async {
        let (now, pinned) = (references.baseline().await?, dossier.baseline.as_ref());
        Ok(now.map(|now| now.sha256).as_ref() != pinned.map(|pinned| &pinned.sha256))
    };
    let manifest = async {
        let Some(pinned) = &dossier.manifest else { return Ok(false) };
        let now = references.manifest(namespace, &pinned.name).await?;
        Ok(!now.is_some_and(|now| {
            let entries = compute_hash(&candidates(&dossier.proposal, &now.spec));
            now.uid == pinned.uid && entries.as_ref() == Ok(&pinned.sha256)
        }))
    };
    let (policy, baseline, manifest) = tokio::try_join!(policy, baseline, manifest)?;
    Ok(policy || baseline || manifest)
}

/// Under which epoch this authority leads.
pub trait Epoch: Send + Sync {
    /// This leader's epoch, given the last one that the store or its mark knows.
    fn epoch(&self, last: i64) -> i64;
}

/// One process that holds the store alone: each start is an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub struct EachStart;

impl Epoch for EachStart {
    fn epoch(&self, last: i64) -> i64 {
        last.saturating_add(1)
    }
}

/// Told of each change, to show it. What it shows is a projection, and is never read back.
pub trait StatusSink: Send + Sync {
    /// The run is now like this. Must not block.
    fn changed(&self, run: &Run);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStatus;

impl StatusSink for NoStatus {
    fn changed(&self, _run: &Run) {}
}

/// Where signed checkpoints are published: outside the store, so that a store that lost entries is found out.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// What is published now, by the namespace's uid. What cannot be read as a checkpoint is none.
    async fn published(&self) -> std::io::Result<BTreeMap<String, Envelope>>;

    /// Publishes these, each in place of its namespace's one before, and gives back which could not be, and why. Where others
    /// could write too, it fails if anybody has done so since it was read or written here.
    async fn publish(&self, checkpoints: &BTreeMap<String, Envelope>) -> BTreeMap<String, std::io::Error>;
}

/// Checkpoints as files in a folder, `<namespace uid>.json`.
#[derive(Debug, Clone)]
pub struct CheckpointFiles(pub PathBuf);

impl CheckpointFiles {
    /// The file of a namespace's checkpoint.
    pub fn file(&self, namespace_uid: &str) -> PathBuf {
        self.0.join(format!("{namespace_uid}.json"))
    }

    async fn write(&self, namespace_uid: &str, checkpoint: &Envelope) -> std::io::Result<()> {
        let content = to_canonical(checkpoint).map_err(std::io::Error::other)?;
        let (folder, file) = (self.0.clone(), self.file(namespace_uid));
        tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(&folder)?;
            write_private(&file, content.as_bytes())
        })
        .await?
    }
}

/// No checkpoint is longer, in bytes; they have less than 1 KiB.
pub const MAX_CHECKPOINT: usize = 8 * 1024;

/// The checkpoints in a folder, by the names of their files.
fn read_folder(folder: &Path) -> std::io::Result<BTreeMap<String, Envelope>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let file = entry?.path();
        let Some(uid) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else { continue };
        let mut content = Vec::new();
        std::fs::File::open(&file)?.take(MAX_CHECKPOINT as u64).read_to_end(&mut content)?;
        if let Ok(envelope) = from_canonical(&content) {
            found.insert(uid.to_owned(), envelope);
        }
    }
    Ok(found)
}

#[async_trait]
impl Checkpoints for CheckpointFiles {
    async fn published(&self) -> std::io::Result<BTreeMap<String, Envelope>> {
        let folder = self.0.clone();
        tokio::task::spawn_blocking(move || read_folder(&folder)).await?
    }

    async fn publish(&self, checkpoints: &BTreeMap<String, Envelope>) -> BTreeMap<String, std::io::Error> {
        let mut failed = BTreeMap::new();
        for (uid, checkpoint) in checkpoints {
            if let Err(error) = self.write(uid, checkpoint).await {
                failed.insert(uid.clone(), error);
            }
        }
        failed
    }
}
