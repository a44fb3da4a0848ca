//! Receipts as files: `receipts/NAMESPACE/RUN.json` for each bundle, and `log.json` beside them with the namespace's log and a
//! checkpoint of it, so that anyone can see without a server that none is missing.

use anyhow::Context;
use m87_core::json::{Document, JsonError, read_document, to_canonical};
use m87_core::log::{Checkpoint, Event, Log, LogEntry, closure};
use m87_core::receipt::Bundle;
use m87_core::sign::{Envelope, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the log's file.
pub(crate) const LOG_FILE: &str = "log.json";

/// No bundle is larger; a log may be.
const MAX_BUNDLE_BYTES: u64 = 16 << 20;
const MAX_LOG_BYTES: u64 = 1 << 30;

/// A namespace's whole log with a checkpoint over it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LogFile {
    kind: String,
    spec_version: String,
    /// The signed size and root of exactly these entries.
    checkpoint: Envelope,
    /// The public key, in hex; it proves nothing by itself.
    public_key: String,
    entries: Vec<LogEntry>,
}

impl Document for LogFile {
    const KIND: &'static str = "ReceiptLog";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

impl LogFile {
    pub(crate) fn new(entries: Vec<LogEntry>, checkpoint: Envelope, key: &VerifyingKey) -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            spec_version: Self::SPEC_VERSION.to_owned(),
            checkpoint,
            public_key: key.to_hex(),
            entries,
        }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        to_canonical(self).map(String::into_bytes)
    }

    /// Checks the log against its checkpoint, and that each sealed run's receipt is among `present`.
    fn check(&self, key: Option<&VerifyingKey>, present: &BTreeSet<String>) -> Result<String, String> {
        let own = VerifyingKey::from_hex(&self.public_key).map_err(|error| error.to_string())?;
        if let Some(key) = key.filter(|key| **key != own) {
            return Err(format!("foreign key: the log has {}, {} is trusted", own.key_id(), key.key_id()));
        }
        let checkpoint = Checkpoint::open(&self.checkpoint, &own).map_err(|error| error.to_string())?;
        let mut log = Log::default();
        for entry in &self.entries {
            entry.check_kind().map_err(|error| error.to_string())?;
            log.append(entry.leaf().map_err(|error| error.to_string())?);
        }
        if (log.size(), log.root()) != (checkpoint.size, checkpoint.root) {
            let Checkpoint { size, root, .. } = checkpoint;
            return Err(format!("the checkpoint has {size} entries with root {root}, here are {} with {}", log.size(), log.root()));
        }
        let open = closure(&self.entries).map_err(|error| error.to_string())?;
        let missing: Vec<&str> = self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Sealed { receipt_hash } if !present.contains(receipt_hash) => Some(receipt_hash.as_str()),
            Event::Sealed { .. } | Event::Opened { .. } => None,
        }).collect();
        match missing.as_slice() {
            [] => Ok(format!("{} entries, no receipt is missing, {} runs are open", log.size(), open.len())),
            missing => Err(format!("{} receipts are missing: {}", missing.len(), missing.join(", "))),
        }
    }
}

/// Where a run's bundle is written. A later run of the same name gets its uid into the file's name.
pub(crate) fn bundle_file(receipts: &Path, bundle: &Bundle) -> PathBuf {
    let folder = receipts.join(&bundle.dossier.namespace.name);
    let run = &bundle.dossier.run;
    let first = folder.join(format!("{}.json", run.name));
    match read(&first) {
        Ok(other) if other.dossier.run.uid != run.uid => folder.join(format!("{}.{}.json", run.name, run.uid)),
        Ok(_) | Err(_) => first,
    }
}

/// Reads a bundle without judging it.
pub(crate) fn read(file: &Path) -> anyhow::Result<Bundle> {
    let bytes = crate::files::read(file, MAX_BUNDLE_BYTES)?;
    read_document(&bytes).with_context(|| file.display().to_string())
}

/// Replaces a file whole. The content is on the disk when this returns.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let place = || file.display().to_string();
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(place)?;
    }
    let draft = file.with_extension("new");
    fs::write(&draft, bytes).with_context(place)?;
    fs::File::open(&draft).and_then(|draft| draft.sync_all()).with_context(place)?;
    fs::rename(&draft, file).with_context(place)
}

/// Every bundle under a folder of receipts, in the order of names.
pub(crate) fn all(receipts: &Path) -> anyhow::Result<Vec<(PathBuf, Bundle)>> {
    let mut found = Vec::new();
    for file in files(receipts)?.into_iter().filter(|file| !is_log(file)) {
        let bundle = read(&file)?;
        found.push((file, bundle));
    }
    Ok(found)
}

fn is_log(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == LOG_FILE)
}

/// The `*.json` under a path, folders within included, in the order of names.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let place = || format!("{}: cannot be read", path.display());
    if !fs::metadata(path).with_context(place)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries = fs::read_dir(path).with_context(place)?.collect::<Result<Vec<_>, _>>().with_context(place)?;
    entries.sort_by_key(fs::DirEntry::path);
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        if entry.file_type().with_context(place)?.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    Ok(found)
}

/// What was found of one file.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) file: PathBuf,
    pub(crate) outcome: Result<String, Vec<String>>,
}

/// Verifies bundles, and the logs of folders that are named: then no receipt may be missing there either.
pub(crate) fn verify(paths: &[PathBuf], key: Option<&VerifyingKey>) -> anyhow::Result<Vec<Checked>> {
    let mut checked = Vec::new();
    for path in paths {
        let files = files(path)?;
        anyhow::ensure!(!files.is_empty(), "{}: holds no receipts (*.json)", path.display());
        // By folder: a log speaks of the receipts beside it.
        let mut present: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
        for file in files.iter().filter(|file| !is_log(file)) {
            let bytes = crate::files::read(file, MAX_BUNDLE_BYTES)?;
            let verification = m87_core::receipt::verify(&bytes, key);
            let outcome = match (&verification.receipt, verification.passed()) {
                (Some(receipt), true) => {
                    let hash = receipt.hash()?;
                    let beside = file.parent().map(Path::to_owned).unwrap_or_default();
                    let reason = receipt.reason.map_or(String::new(), |reason| format!(" {}", reason.name()));
                    let line = format!("{}: {}{reason}, receipt {hash}", receipt.run.name, receipt.terminal.name());
                    present.entry(beside).or_default().insert(hash);
                    Ok(line)
                }
                (_, _) => {
                    let failed = verification.checks.iter().filter(|check| !check.passed);
                    Err(failed.map(|check| format!("not so: {}: {}", check.name, check.detail)).collect())
                }
            };
            checked.push(Checked { file: file.clone(), outcome });
        }
        for file in files.iter().filter(|file| is_log(file)) {
            let bytes = crate::files::read(file, MAX_LOG_BYTES)?;
            let beside = file.parent().and_then(|folder| present.get(folder)).cloned().unwrap_or_default();
            let outcome = match read_document::<LogFile>(&bytes) {
                Ok(log) => log.check(key, &beside).map_err(|problem| vec![format!("the log: {problem}")]),
                Err(error) => Err(vec![format!("the log {error}")]),
            };
            checked.push(Checked { file: file.clone(), outcome });
        }
    }
    Ok(checked)
}
