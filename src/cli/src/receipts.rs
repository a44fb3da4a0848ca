//! Receipts as files: `receipts/NAMESPACE/RUN.json` for each bundle, and `log/NAMESPACE.json` with the namespace's log and a
//! checkpoint over it, so that anyone can see without a server that none is missing.

use anyhow::Context;
use m87_core::dossier::Dossier;
use m87_core::json::{Document, JsonError, from_canonical, read_document, to_canonical};
use m87_core::log::{CHECKPOINT_TYPE, Checkpoint, Event, Log, LogEntry, closure};
use m87_core::receipt::{self, Bundle};
use m87_core::sign::{Envelope, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// No bundle is larger, and no log that is read whole.
const MAX_BYTES: u64 = 1 << 30;

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

    /// Checks the log against its checkpoint, and that each sealed run's receipt is among `present`. What is returned is a line
    /// about it, and what a checkpoint that somebody kept is held against.
    fn check(&self, key: Option<&VerifyingKey>, present: &BTreeSet<String>) -> Result<(String, Known), String> {
        let own = VerifyingKey::from_hex(&self.public_key).map_err(|error| error.to_string())?;
        if own.to_hex() != self.public_key {
            return Err("the key is not written in lower-case hex".to_owned());
        }
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
            return Err(format!(
                "the checkpoint has {size} entries with root {root}, here are {} with {}",
                log.size(),
                log.root()
            ));
        }
        let open = closure(&self.entries).map_err(|error| error.to_string())?;
        let missing: Vec<&str> = self
            .entries
            .iter()
            .filter_map(|entry| match &entry.event {
                Event::Sealed { receipt_hash } if !present.contains(receipt_hash) => Some(receipt_hash.as_str()),
                Event::Sealed { .. } | Event::Opened { .. } => None,
            })
            .collect();
        match missing.as_slice() {
            [] => {
                let line = format!("{} entries, no receipt is missing, {} runs are open", log.size(), open.len());
                Ok((line, Known { key: own, checkpoint, log }))
            }
            missing => Err(format!("{} receipts are missing: {}", missing.len(), missing.join(", "))),
        }
    }
}

/// A log that holds, with whose it is.
struct Known {
    key: VerifyingKey,
    checkpoint: Checkpoint,
    log: Log,
}

impl Known {
    /// Whether the log still begins with what a checkpoint has; `None` if that is another log's, or signed by another key.
    fn begins_with(&self, held: &Envelope) -> Option<Result<String, String>> {
        let held = Checkpoint::open(held, &self.key).ok()?;
        let of = |checkpoint: &Checkpoint| (checkpoint.cluster_uid.clone(), checkpoint.namespace_uid.clone());
        if of(&held) != of(&self.checkpoint) {
            return None;
        }
        Some(match self.log.root_at(held.size) {
            Some(root) if root == held.root => {
                Ok(format!("the log still begins with its {} entries, signed at {}", held.size, held.timestamp))
            }
            Some(_) => Err(format!("the log has others than its {} entries", held.size)),
            None => Err(format!("it has {} entries, the log {}: some are missing", held.size, self.log.size())),
        })
    }
}

/// The longest run's name, in bytes, that is a file's name as it stands; with a uid and an ending it must stay below 255.
const PLAIN_NAME: usize = 200;

/// Where a run's bundle is, and whether it is there. A later run of the same name gets its uid into the file's name, and so
/// does a run whose name is too long for a file's.
pub(crate) fn bundle_file(receipts: &Path, dossier: &Dossier) -> (PathBuf, bool) {
    let folder = receipts.join(&dossier.namespace.name);
    let run = &dossier.run;
    let of = |file: &Path| read(file).ok().map(|bundle| bundle.dossier.run.uid);
    let with_uid = || {
        let name: String = run.name.chars().take(PLAIN_NAME).collect();
        let own = folder.join(format!("{name}.{}.json", run.uid));
        let is_there = of(&own).is_some();
        (own, is_there)
    };
    if run.name.len() > PLAIN_NAME {
        return with_uid();
    }
    let first = folder.join(format!("{}.json", run.name));
    match of(&first) {
        Some(uid) if uid != run.uid => with_uid(),
        Some(_) => (first, true),
        None => (first, false),
    }
}

/// Reads a bundle without judging it.
pub(crate) fn read(file: &Path) -> anyhow::Result<Bundle> {
    let bytes = crate::files::read(file, MAX_BYTES)?;
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
    for file in files(receipts)? {
        let bundle = read(&file)?;
        found.push((file, bundle));
    }
    Ok(found)
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

/// Verifies bundles, logs, and checkpoints that somebody kept. A log fails if a receipt that it has is not among the bundles that
/// are named with it; a checkpoint, if no log that is named with it begins with what it has.
pub(crate) fn verify(paths: &[PathBuf], key: Option<&VerifyingKey>) -> anyhow::Result<Vec<Checked>> {
    let (mut checked, mut logs, mut held, mut present) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
    for path in paths {
        let files = files(path)?;
        anyhow::ensure!(!files.is_empty(), "{}: holds no *.json", path.display());
        for file in files {
            let bytes = crate::files::read(&file, MAX_BYTES)?;
            match says(&bytes) {
                Says::Log => logs.push((file, bytes)),
                Says::Checkpoint => held.push((file, bytes)),
                Says::Other => {
                    let outcome = bundle(&bytes, key).map(|(hash, line)| {
                        present.insert(hash);
                        line
                    });
                    checked.push(Checked { file, outcome });
                }
            }
        }
    }
    let mut known = Vec::new();
    for (file, bytes) in logs {
        let outcome = match read_document::<LogFile>(&bytes) {
            Ok(log) => log.check(key, &present).map_err(|problem| vec![format!("the log: {problem}")]),
            Err(error) => Err(vec![format!("the log {error}")]),
        };
        let outcome = outcome.map(|(line, log)| {
            known.push(log);
            line
        });
        checked.push(Checked { file, outcome });
    }
    for (file, bytes) in held {
        let outcome = checkpoint(&bytes, &known).map_err(|problem| vec![format!("the checkpoint: {problem}")]);
        checked.push(Checked { file, outcome });
    }
    Ok(checked)
}

/// A checkpoint that was kept, against the logs that hold.
fn checkpoint(bytes: &[u8], known: &[Known]) -> Result<String, String> {
    let held: Envelope = from_canonical(bytes).map_err(|error| error.to_string())?;
    known.iter().find_map(|log| log.begins_with(&held)).unwrap_or_else(|| {
        Err("no log that holds and is named with it is of its namespace, and signed by its key; name log/NAMESPACE.json".into())
    })
}

/// What a file says that it is. What lies about it is then none.
enum Says {
    Log,
    Checkpoint,
    Other,
}

fn says(bytes: &[u8]) -> Says {
    let value = serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
    if value.get("kind").is_some_and(|kind| kind == LogFile::KIND) {
        Says::Log
    } else if value.get("payloadType").is_some_and(|payload| payload == CHECKPOINT_TYPE) {
        Says::Checkpoint
    } else {
        Says::Other
    }
}

/// The hash of the receipt in a bundle that holds, and a line about it; or what does not hold.
fn bundle(bytes: &[u8], key: Option<&VerifyingKey>) -> Result<(String, String), Vec<String>> {
    let verification = receipt::verify(bytes, key);
    match verification.receipt.as_ref().filter(|_| verification.passed()) {
        Some(receipt) => {
            let hash = receipt.hash().map_err(|error| vec![error.to_string()])?;
            let reason = receipt.reason.map_or(String::new(), |reason| format!(" {}", reason.name()));
            let line = format!("{}: {}{reason}, receipt {hash}", receipt.run.name, receipt.terminal.name());
            Ok((hash, line))
        }
        None => {
            let failed = verification.checks.iter().filter(|check| !check.passed);
            Err(failed.map(|check| format!("not so: {}: {}", check.name, check.detail)).collect())
        }
    }
}
