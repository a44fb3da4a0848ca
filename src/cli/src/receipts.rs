//! Receipts as files: `receipts/NAMESPACE/RUN.json` for each bundle, and `log/NAMESPACE.json` with the namespace's log and a
//! checkpoint over it, so that anyone can see without a server that none is missing.

use crate::exit::Exit;
use crate::local::folder::Folder;
use crate::local::report::printable;
use crate::say::{counted, tell};
use anyhow::Context;
use m87_core::dossier::Dossier;
use m87_core::json::{Document, from_canonical, read_document};
use m87_core::log::{CHECKPOINT_TYPE, Checkpoint, Event, Log, LogExport, closure};
use m87_core::receipt::{self, Bundle, Receipt, Statement};
use m87_core::sign::{Envelope, VerifyingKey};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// No bundle is larger, and no log that is read whole.
const MAX_BYTES: u64 = 1 << 30;

/// Checks a log against its checkpoint, and that each sealed run's receipt is among `present`. What is returned is a line about
/// it, and what a checkpoint that somebody kept is held against.
fn check_log(
    export: &LogExport,
    key: Option<&VerifyingKey>,
    present: &BTreeSet<String>,
) -> Result<(String, WholeLog), String> {
    let own = VerifyingKey::from_hex(&export.public_key).map_err(|error| error.to_string())?;
    if own.to_hex() != export.public_key {
        return Err("the key is not written in lower-case hex".to_owned());
    }
    if let Some(key) = key.filter(|key| **key != own) {
        return Err(format!("foreign key: the log has {}, {} is trusted", own.key_id(), key.key_id()));
    }
    let checkpoint = Checkpoint::open(&export.checkpoint, &own).map_err(|error| error.to_string())?;
    let mut log = Log::default();
    for entry in &export.entries {
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
    let open = closure(&export.entries).map_err(|error| error.to_string())?;
    let sealed: BTreeSet<String> = export
        .entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Sealed { receipt_hash } => Some(receipt_hash.clone()),
            Event::Opened { .. } => None,
        })
        .collect();
    let missing: Vec<&str> = sealed.difference(present).map(String::as_str).collect();
    match missing.as_slice() {
        [] => {
            let entries = counted(export.entries.len(), "entry");
            let are = if open.len() == 1 { "is" } else { "are" };
            let line = format!("{entries}, no receipt is missing, {} {are} open", counted(open.len(), "run"));
            Ok((line, WholeLog { key: own, checkpoint, log, sealed }))
        }
        [one] => Err(format!("1 receipt is missing: {one}")),
        missing => Err(format!("{} receipts are missing: {}", missing.len(), missing.join(", "))),
    }
}

/// A log that holds, with whose it is.
struct WholeLog {
    key: VerifyingKey,
    checkpoint: Checkpoint,
    log: Log,
    /// The hashes of the receipts that it has.
    sealed: BTreeSet<String>,
}

impl WholeLog {
    /// Whether a receipt of this log's namespace is missing in it: it was sealed in another history, which a store that was
    /// restored has left.
    fn lacks(&self, receipt: &Receipt, hash: &str) -> bool {
        let of = (self.checkpoint.cluster_uid.as_str(), self.checkpoint.namespace_uid.as_str());
        of == (receipt.cluster_uid.as_str(), receipt.namespace.uid.as_str()) && !self.sealed.contains(hash)
    }

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

/// The longest run's name, in bytes, that is a file's name as it stands; with a hash and an ending it must stay below 255.
const PLAIN_NAME: usize = 180;

/// Where a run's bundle is, and whether it is there. Another receipt of the same name gets its hash into the file's name, and so
/// does a run whose name is too long for a file's: nothing that was written is ever replaced.
pub(crate) fn bundle_file(receipts: &Path, dossier: &Dossier, receipt_hash: &str) -> (PathBuf, bool) {
    let folder = receipts.join(&dossier.namespace.name);
    let name = &dossier.run.name;
    let held = |file: &Path| read(file).and_then(|bundle| Ok(unverified(&bundle)?.hash()?)).ok();
    if name.len() <= PLAIN_NAME {
        let plain = folder.join(format!("{name}.json"));
        match held(&plain) {
            Some(hash) if hash == receipt_hash => return (plain, true),
            Some(_) => {}
            None => return (plain, false),
        }
    }
    let name: String = name.chars().take(PLAIN_NAME).collect();
    let own = folder.join(format!("{name}.{receipt_hash}.json"));
    let is_there = held(&own).is_some_and(|hash| hash == receipt_hash);
    (own, is_there)
}

/// The hashes of the receipts in a folder, unverified; none if there is no folder.
pub(crate) fn hashes(folder: &Path) -> BTreeSet<String> {
    let hash = |file: &Path| read(file).and_then(|bundle| Ok(unverified(&bundle)?.hash()?)).ok();
    files(folder).unwrap_or_default().iter().filter_map(|(file, _)| hash(file)).collect()
}

/// The receipt in a bundle, unverified.
pub(crate) fn unverified(bundle: &Bundle) -> anyhow::Result<Receipt> {
    let key = VerifyingKey::from_hex(&bundle.public_key)?;
    let payload = bundle.envelope.open(receipt::PAYLOAD_TYPE, &key)?;
    let statement: Statement = from_canonical(&payload)?;
    Ok(statement.predicate)
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

/// What a folder of receipts holds.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    /// Every bundle with its receipt, in the order of names. None of them is verified.
    pub(crate) bundles: Vec<(PathBuf, Bundle, Receipt)>,
    /// What could not be read, by file.
    pub(crate) unreadable: Vec<(PathBuf, anyhow::Error)>,
}

impl Folded {
    /// Names on the standard error what could not be read, and says how a command ends that showed the rest.
    pub(crate) fn tell_unreadable(&self) -> Exit {
        for (_, error) in &self.unreadable {
            tell!("warning: {}", printable(&format!("{error:#}")));
        }
        if self.unreadable.is_empty() { Exit::AsAsked } else { Exit::Otherwise }
    }
}

/// Every bundle under a folder of receipts. What is no bundle hides nothing of the rest.
pub(crate) fn all(receipts: &Path) -> anyhow::Result<Folded> {
    let mut folded = Folded::default();
    for (file, found) in files(receipts)? {
        let opened = found.and_then(|()| read(&file)).and_then(|bundle| {
            let receipt = unverified(&bundle).with_context(|| file.display().to_string())?;
            Ok((bundle, receipt))
        });
        match opened {
            Ok((bundle, receipt)) => folded.bundles.push((file, bundle, receipt)),
            Err(error) => folded.unreadable.push((file, error)),
        }
    }
    Ok(folded)
}

/// The `*.json` under a path, folders within included, in the order of names; a folder within that cannot be read, as an error.
fn files(path: &Path) -> anyhow::Result<Vec<(PathBuf, anyhow::Result<()>)>> {
    let place = || format!("{}: cannot be read", path.display());
    if !fs::metadata(path).with_context(place)?.is_dir() {
        return Ok(vec![(path.to_owned(), Ok(()))]);
    }
    let mut entries = fs::read_dir(path).with_context(place)?.collect::<Result<Vec<_>, _>>().with_context(place)?;
    entries.sort_by_key(fs::DirEntry::path);
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        if entry.file_type().with_context(place)?.is_dir() {
            match files(&path) {
                Ok(within) => found.extend(within),
                Err(error) => found.push((path, Err(error))),
            }
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push((path, Ok(())));
        }
    }
    Ok(found)
}

/// Where the receipts of a path are: an out folder has theirs, its logs and its checkpoints apart from the rest.
fn parts(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let out = Folder::at(path)?;
    if !out.database().is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let names = [out.receipts(), out.log(), out.checkpoints()];
    Ok(names
        .iter()
        .filter_map(|part| part.file_name())
        .map(|name| path.join(name))
        .filter(|part| part.exists())
        .collect())
}

/// What was found of one file.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) file: PathBuf,
    pub(crate) outcome: Result<String, Vec<String>>,
}

/// Verifies bundles, logs, and checkpoints that somebody kept. A log fails if a receipt that it has is not among the bundles that
/// are named with it; a bundle, if it is not in the log of its namespace that is named with it; a checkpoint, if no such log begins
/// with what it has.
pub(crate) fn verify(paths: &[PathBuf], key: Option<&VerifyingKey>) -> anyhow::Result<Vec<Checked>> {
    let (mut bundles, mut logs, mut held, mut present) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
    let mut unreadable = Vec::new();
    for path in paths {
        let mut files = Vec::new();
        for part in parts(path)? {
            files.extend(self::files(&part)?);
        }
        anyhow::ensure!(!files.is_empty(), "{}: holds no *.json", path.display());
        for (file, found) in files {
            let bytes = match found.and_then(|()| crate::files::read(&file, MAX_BYTES)) {
                Ok(bytes) => bytes,
                Err(error) => {
                    unreadable.push(Checked { file, outcome: Err(vec![format!("{error:#}")]) });
                    continue;
                }
            };
            match says(&bytes) {
                Says::Log => logs.push((file, bytes)),
                Says::Checkpoint => held.push((file, bytes)),
                Says::Other => {
                    let outcome = bundle(&bytes, key);
                    present.extend(outcome.iter().map(|(_, hash)| hash.clone()));
                    bundles.push((file, outcome));
                }
            }
        }
    }
    let (mut known, mut of_logs) = (Vec::new(), Vec::new());
    for (file, bytes) in logs {
        let outcome = match read_document::<LogExport>(&bytes) {
            Ok(log) => check_log(&log, key, &present).map_err(|problem| vec![format!("the log: {problem}")]),
            Err(error) => Err(vec![format!("the log {error}")]),
        };
        let outcome = outcome.map(|(line, log)| {
            known.push(log);
            line
        });
        of_logs.push(Checked { file, outcome });
    }
    let of_bundles = bundles.into_iter().map(|(file, outcome)| {
        let outcome = outcome.and_then(|(receipt, hash)| match known.iter().any(|log| log.lacks(&receipt, &hash)) {
            true => Err(vec!["not so: it is in the log of its namespace that is named with it".to_owned()]),
            false => Ok(line(&receipt, &hash)),
        });
        Checked { file, outcome }
    });
    let mut checked: Vec<Checked> = of_bundles.collect();
    checked.extend(of_logs);
    for (file, bytes) in held {
        let outcome = checkpoint(&bytes, &known).map_err(|problem| vec![format!("the checkpoint: {problem}")]);
        checked.push(Checked { file, outcome });
    }
    checked.extend(unreadable);
    Ok(checked)
}

/// A checkpoint that was kept, against the logs that hold.
fn checkpoint(bytes: &[u8], known: &[WholeLog]) -> Result<String, String> {
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
    if value.get("kind").is_some_and(|kind| kind == LogExport::KIND) {
        Says::Log
    } else if value.get("payloadType").is_some_and(|payload| payload == CHECKPOINT_TYPE) {
        Says::Checkpoint
    } else {
        Says::Other
    }
}

/// The receipt in a bundle that holds, with its hash; or what does not hold.
fn bundle(bytes: &[u8], key: Option<&VerifyingKey>) -> Result<(Receipt, String), Vec<String>> {
    let verification = receipt::verify(bytes, key);
    if !verification.passed() {
        let failed = verification.checks.iter().filter(|check| !check.passed);
        return Err(failed.map(|check| format!("not so: {}: {}", check.name, check.detail)).collect());
    }
    let receipt = verification.receipt.ok_or_else(|| vec!["it holds no receipt".to_owned()])?;
    let hash = receipt.hash().map_err(|error| vec![error.to_string()])?;
    Ok((receipt, hash))
}

fn line(receipt: &Receipt, hash: &str) -> String {
    let reason = receipt.reason.map_or(String::new(), |reason| format!(" {}", reason.name()));
    format!("{}: {}{reason}, receipt {hash}", receipt.run.name, receipt.terminal.name())
}
