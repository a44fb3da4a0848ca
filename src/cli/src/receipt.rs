//! `m87 receipt`: what is in an out folder, and whether it holds.

use crate::args::{Output, ReceiptArguments, ReceiptCommand};
use crate::exit::Exit;
use crate::files;
use crate::local::folder::Folder;
use crate::local::report::printable;
use crate::receipts;
use crate::say::{put, say};
use m87_core::decide::decide;
use m87_core::explain::explain;
use m87_core::receipt::Bundle;
use m87_core::sign::VerifyingKey;
use std::path::{Path, PathBuf};

/// Lists, shows or verifies.
pub(crate) fn run(arguments: &ReceiptArguments) -> anyhow::Result<Exit> {
    match &arguments.command {
        ReceiptCommand::List { out, output } => list(out, *output),
        ReceiptCommand::Show { run, out, output } => show(run, out, *output),
        ReceiptCommand::Verify { bundles, key } => verify(bundles, key.as_deref()),
    }
}

fn list(out: &Path, output: Output) -> anyhow::Result<Exit> {
    let bundles = receipts::all(&Folder::at(out)?.receipts())?;
    if output == Output::Json {
        let rows: Vec<_> = bundles
            .iter()
            .map(|(file, bundle)| {
                let verdict = decide(&bundle.dossier, &bundle.evidence);
                serde_json::json!({
                    "namespace": bundle.dossier.namespace.name,
                    "name": bundle.dossier.run.name,
                    "uid": bundle.dossier.run.uid,
                    "terminal": verdict.terminal.name(),
                    "reason": verdict.reason.map(m87_core::reason::Reason::name),
                    "receipt": receipts::unverified(bundle).and_then(|receipt| Ok(receipt.hash()?)).ok(),
                    "logIndex": bundle.inclusion.index,
                    "bundle": file,
                })
            })
            .collect();
        say!("{}", serde_json::to_string_pretty(&serde_json::json!({"receipts": rows}))?);
        return Ok(Exit::AsAsked);
    }
    say!("{:<16}  {:<32}  {:<15}  {:<20}  RECEIPT", "NAMESPACE", "RUN", "TERMINAL", "REASON");
    for (_, bundle) in &bundles {
        let verdict = decide(&bundle.dossier, &bundle.evidence);
        let reason = verdict.reason.map_or("", m87_core::reason::Reason::name);
        let (namespace, run) = (&bundle.dossier.namespace.name, &bundle.dossier.run.name);
        let hash = receipts::unverified(bundle)?.hash()?;
        say!("{namespace:<16}  {run:<32}  {:<15}  {reason:<20}  {hash}", verdict.terminal.name());
    }
    Ok(Exit::AsAsked)
}

fn show(run: &str, out: &Path, output: Output) -> anyhow::Result<Exit> {
    let (file, bundle) = find(run, out)?;
    let receipt = receipts::unverified(&bundle)?;
    match output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&receipt)?),
        Output::Table => {
            put!(explain(&decide(&bundle.dossier, &bundle.evidence)));
            for (name, used) in &receipt.usage {
                say!("used {}: {} ({:?})", name.name(), used.value, used.source);
            }
            if let Some(artifact) = &receipt.artifact {
                say!(
                    "artifact {} bytes, declared {}",
                    artifact.size,
                    artifact.declared.as_deref().unwrap_or("nothing")
                );
            }
            let said = bundle.evidence.execution.as_ref().and_then(|execution| execution.report.as_ref());
            if let Some(report) = said.filter(|report| !report.output.is_empty()) {
                report.output.lines().for_each(|line| say!("tool said: {}", printable(line)));
            }
            let checked = bundle.evidence.verified.as_ref().and_then(|verified| verified.validation.as_ref());
            if let Some(report) = checked.filter(|report| !report.output.is_empty()) {
                report.output.lines().for_each(|line| say!("validation said: {}", printable(line)));
            }
            say!("receipt {}", receipt.hash()?);
            say!("bundle {}", file.display());
        }
    }
    Ok(Exit::AsAsked)
}

/// The latest bundle of a run, named as NAME or NAMESPACE/NAME, or the one of a receipt's hash.
pub(crate) fn find(run: &str, out: &Path) -> anyhow::Result<(PathBuf, Bundle)> {
    let (namespace, name) = run.split_once('/').unwrap_or(("default", run));
    let receipts = Folder::at(out)?.receipts();
    let mut all = receipts::all(&receipts)?;
    let is_named = |bundle: &Bundle| Ok::<_, anyhow::Error>(receipts::unverified(bundle)?.hash()? == run);
    if let Some(place) = all.iter().position(|(_, bundle)| is_named(bundle).unwrap_or(false)) {
        return Ok(all.swap_remove(place));
    }
    let of_run = all
        .into_iter()
        .filter(|(_, bundle)| bundle.dossier.namespace.name == namespace && bundle.dossier.run.name == name);
    of_run.max_by_key(|(_, bundle)| bundle.inclusion.index).ok_or_else(|| {
        anyhow::anyhow!("{}: there is no receipt of run {name:?} in namespace {namespace:?}", receipts.display())
    })
}

fn verify(bundles: &[PathBuf], key: Option<&Path>) -> anyhow::Result<Exit> {
    const MAX_KEY_BYTES: u64 = 65_536;
    let key = match key {
        Some(file) => {
            let pem = String::from_utf8(files::read(file, MAX_KEY_BYTES)?)?;
            Some(VerifyingKey::from_pem(&pem).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?)
        }
        None => None,
    };
    let checked = receipts::verify(bundles, key.as_ref())?;
    let mut failed = 0;
    for one in &checked {
        match &one.outcome {
            Ok(line) => say!("ok      {}: {line}", one.file.display()),
            Err(problems) => {
                failed += 1;
                problems.iter().for_each(|problem| say!("FAILED  {}: {}", one.file.display(), printable(problem)));
            }
        }
    }
    say!("{} verified, {failed} failed", checked.len() - failed);
    if failed > 0 {
        return Ok(Exit::Otherwise);
    }
    if key.is_none() {
        say!("untrusted key: nobody knows who signed; name the signer's key with --key");
        return Ok(Exit::Untrusted);
    }
    Ok(Exit::AsAsked)
}
