//! `m87 receipt`: what is in an out folder, and whether it holds.

use crate::args::{Output, ReceiptArguments, ReceiptCommand};
use crate::exit::Exit;
use crate::files;
use crate::local::folder::Folder;
use crate::local::report::printable;
use crate::receipts::{self, Checked};
use crate::say::{counted, put, say};
use m87_core::decide::decide;
use m87_core::evidence::Evidence;
use m87_core::explain::explain;
use m87_core::receipt::{Bundle, Receipt};
use m87_core::sign::VerifyingKey;
use std::path::{Path, PathBuf};

/// Lists, shows or verifies.
pub(crate) fn run(arguments: &ReceiptArguments) -> anyhow::Result<Exit> {
    match &arguments.command {
        ReceiptCommand::List { out, output } => list(out, *output),
        ReceiptCommand::Show { run, out, output } => show(run, out, *output),
        ReceiptCommand::Verify { bundles, key, output } => verify(bundles, key.as_deref(), *output),
    }
}

fn list(out: &Path, output: Output) -> anyhow::Result<Exit> {
    let folded = receipts::all(&Folder::at(out)?.receipts())?;
    let exit = folded.tell_unreadable();
    if output == Output::Json {
        let rows: Vec<_> = folded
            .bundles
            .iter()
            .map(|(file, bundle, receipt)| {
                let verdict = decide(&bundle.dossier, &bundle.evidence);
                serde_json::json!({
                    "namespace": bundle.dossier.namespace.name,
                    "name": bundle.dossier.run.name,
                    "uid": bundle.dossier.run.uid,
                    "terminal": verdict.terminal.name(),
                    "reason": verdict.reason.map(m87_core::reason::Reason::name),
                    "receipt": receipt.hash().ok(),
                    "logIndex": bundle.inclusion.index,
                    "bundle": file,
                })
            })
            .collect();
        let unreadable: Vec<_> = folded.unreadable.iter().map(|(file, _)| file).collect();
        let list = serde_json::json!({"receipts": rows, "unreadable": unreadable});
        say!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(exit);
    }
    say!("{:<16}  {:<32}  {:<15}  {:<20}  RECEIPT", "NAMESPACE", "RUN", "TERMINAL", "REASON");
    for (_, bundle, receipt) in &folded.bundles {
        let verdict = decide(&bundle.dossier, &bundle.evidence);
        let reason = verdict.reason.map_or("", m87_core::reason::Reason::name);
        let (namespace, run) = (&bundle.dossier.namespace.name, &bundle.dossier.run.name);
        let hash = receipt.hash()?;
        say!("{namespace:<16}  {run:<32}  {:<15}  {reason:<20}  {hash}", verdict.terminal.name());
    }
    Ok(exit)
}

fn show(run: &str, out: &Path, output: Output) -> anyhow::Result<Exit> {
    let Found { file, bundle, receipt, exit } = find(run, out)?;
    match output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&receipt)?),
        Output::Table => {
            put!(explain(&decide(&bundle.dossier, &bundle.evidence)));
            say!("asked by {}", printable(&receipt.actor.told()));
            for (name, used) in &receipt.usage {
                say!("used {}: {} ({:?})", name.name(), used.value, used.source);
            }
            if let Some(artifact) = &receipt.artifact {
                let declared = artifact.declared.as_deref().unwrap_or("nothing");
                say!("artifact {}, declared {declared}", counted(usize::try_from(artifact.size)?, "byte"));
            }
            outputs(&bundle.evidence).iter().for_each(|line| say!("{line}"));
            say!("receipt {}", receipt.hash()?);
            say!("bundle {}", file.display());
        }
    }
    Ok(exit)
}

/// What tool and validation said, line by line, as far as it was recorded.
pub(crate) fn outputs(evidence: &Evidence) -> Vec<String> {
    let tool = evidence.execution.as_ref().and_then(|execution| execution.report.as_ref());
    let validation = evidence.verified.as_ref().and_then(|verified| verified.validation.as_ref());
    let said = |who: &'static str, output: Option<&String>| {
        let lines =
            output.map(|output| output.lines().map(|line| format!("{who} said: {}", printable(line))).collect());
        lines.unwrap_or_default()
    };
    let mut lines: Vec<String> = said("tool", tool.map(|report| &report.output));
    lines.extend(said("validation", validation.map(|report| &report.output)));
    lines
}

/// A bundle that was looked for.
pub(crate) struct Found {
    pub(crate) file: PathBuf,
    pub(crate) bundle: Bundle,
    /// Unverified.
    pub(crate) receipt: Receipt,
    /// How the command ends: other files of the folder may not have been readable.
    pub(crate) exit: Exit,
}

/// The latest bundle of a run, named as NAME or NAMESPACE/NAME, or the one of a receipt's hash.
pub(crate) fn find(run: &str, out: &Path) -> anyhow::Result<Found> {
    let (namespace, name) = run.split_once('/').unwrap_or(("default", run));
    let receipts = Folder::at(out)?.receipts();
    let folded = receipts::all(&receipts)?;
    let exit = folded.tell_unreadable();
    let found = |(file, bundle, receipt)| Found { file, bundle, receipt, exit };
    let mut all = folded.bundles;
    let is_named = |receipt: &Receipt| receipt.hash().is_ok_and(|hash| hash == run);
    if let Some(place) = all.iter().position(|(_, _, receipt)| is_named(receipt)) {
        return Ok(found(all.swap_remove(place)));
    }
    let of_run = all
        .into_iter()
        .filter(|(_, bundle, _)| bundle.dossier.namespace.name == namespace && bundle.dossier.run.name == name);
    of_run.max_by_key(|(_, bundle, _)| bundle.inclusion.index).map(found).ok_or_else(|| {
        anyhow::anyhow!("{}: there is no receipt of run {name:?} in namespace {namespace:?}", receipts.display())
    })
}

/// The key that is trusted, from a file with its public or private half.
pub(crate) fn trusted_key(file: &Path) -> anyhow::Result<VerifyingKey> {
    const MAX_KEY_BYTES: u64 = 65_536;
    let pem = String::from_utf8(files::read(file, MAX_KEY_BYTES)?)
        .map_err(|_| anyhow::anyhow!("{}: is no PEM file", file.display()))?;
    VerifyingKey::from_pem(&pem).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
}

fn verify(bundles: &[PathBuf], key: Option<&Path>, output: Output) -> anyhow::Result<Exit> {
    let key = key.map(trusted_key).transpose()?;
    let checked = receipts::verify(bundles, key.as_ref())?;
    let failed = checked.iter().filter(|one| one.outcome.is_err()).count();
    match output {
        Output::Table => tell_checked(&checked, failed, key.is_some()),
        Output::Json => say!("{}", serde_json::to_string_pretty(&as_json(&checked, failed, key.is_some()))?),
    }
    Ok(match (failed, &key) {
        (1.., _) => Exit::Otherwise,
        (0, None) => Exit::Untrusted,
        (0, Some(_)) => Exit::AsAsked,
    })
}

fn tell_checked(checked: &[Checked], failed: usize, key_pinned: bool) {
    for one in checked {
        match &one.outcome {
            Ok(line) => say!("ok      {}: {line}", one.file.display()),
            Err(problems) => {
                problems.iter().for_each(|problem| say!("FAILED  {}: {}", one.file.display(), printable(problem)));
            }
        }
    }
    say!("{} verified, {failed} failed", checked.len() - failed);
    if failed == 0 && !key_pinned {
        say!("untrusted key: nobody knows who signed; name the signer's key with --key");
    }
}

fn as_json(checked: &[Checked], failed: usize, key_pinned: bool) -> serde_json::Value {
    let files: Vec<_> = checked
        .iter()
        .map(|one| {
            let (found, problems) = match &one.outcome {
                Ok(line) => (Some(line), [].as_slice()),
                Err(problems) => (None, problems.as_slice()),
            };
            serde_json::json!({"file": one.file, "holds": one.outcome.is_ok(), "found": found, "problems": problems})
        })
        .collect();
    serde_json::json!({
        "files": files, "verified": checked.len() - failed, "failed": failed, "keyPinned": key_pinned,
    })
}
