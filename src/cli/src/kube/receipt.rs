//! `kubectl m87 receipt` and `explain`: receipts leave the cluster as they are, and are verified here, by nobody else.

use super::args::{ExportArguments, OfRun, VerifyArguments};
use super::cluster::Cluster;
use super::pages::whole_log;
use super::status::{list, says};
use crate::args::Output;
use crate::exit::Exit;
use crate::local::report::printable;
use crate::receipt::trusted_key;
use crate::receipts;
use crate::say::{counted, put, say, tell};
use ::kube::ResourceExt;
use anyhow::{Context, bail};
use m87_core::json::read_document;
use m87_core::log::Event;
use m87_core::receipt::{Bundle, Verification};
use m87_core::sign::VerifyingKey;
use serde_json::{Value, json};
use std::path::Path;

/// Why a run ended, as m87 says it.
pub(crate) async fn explain(arguments: &OfRun) -> anyhow::Result<Exit> {
    let cluster = Cluster::open(&arguments.access).await?;
    let text = cluster.ask_of_run(&arguments.run, "explain").await?;
    let explained: Value = serde_json::from_str(&text).context("m87 answered something else than JSON")?;
    match arguments.output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&explained)?),
        Output::Table => {
            let of = |name: &str| explained.get(name).and_then(Value::as_str).unwrap_or_default();
            of("text").lines().for_each(|line| say!("{}", printable(line)));
            if explained.get("sealed") == Some(&Value::Bool(false)) {
                say!("{}", printable(of("message")));
            }
        }
    }
    Ok(Exit::AsAsked)
}

/// Writes the bundle of a run, or everything of the namespace.
pub(crate) async fn export(arguments: &ExportArguments) -> anyhow::Result<Exit> {
    let cluster = Cluster::open(&arguments.access).await?;
    match (&arguments.run, &arguments.output) {
        (Some(run), output) => {
            let bundle = cluster.ask_of_run(run, "bundle").await?;
            match output {
                Some(file) => receipts::write(file, bundle.as_bytes())?,
                None => put!(bundle),
            }
            Ok(Exit::AsAsked)
        }
        (None, Some(folder)) => export_all(&cluster, folder).await,
        (None, None) => bail!("name a run, or --all with a folder (-o)"),
    }
}

/// The log, and the bundle of every receipt in it that the folder lacks, by the run's uid: its object may be gone.
async fn export_all(cluster: &Cluster, folder: &Path) -> anyhow::Result<Exit> {
    for run in list(cluster, false).await? {
        if says(&run, "/status/receipt/hash").is_empty() {
            tell!("{}: has no receipt yet", run.name_any());
        }
    }
    let whole = whole_log(async |what| cluster.ask(&what).await).await?;
    let receipts = folder.join("receipts");
    let held = receipts::hashes(&receipts);
    let (mut written, mut failed) = (0, 0);
    for entry in &whole.entries {
        match &entry.event {
            Event::Sealed { receipt_hash } if !held.contains(receipt_hash) => {
                match export_one(cluster, &entry.run, &receipts).await {
                    Ok(()) => written += 1,
                    Err(error) => {
                        failed += 1;
                        tell!("{}: {error:#}", entry.run);
                    }
                }
            }
            Event::Sealed { .. } | Event::Opened { .. } => {}
        }
    }
    let log = folder.join("log").join(format!("{}.json", cluster.namespace));
    receipts::write(&log, &whole.to_bytes()?)?;
    say!("wrote {} and {}", counted(written, "receipt"), log.display());
    Ok(if failed == 0 { Exit::AsAsked } else { Exit::Otherwise })
}

async fn export_one(cluster: &Cluster, uid: &str, receipts: &Path) -> anyhow::Result<()> {
    let bytes = cluster.ask_of_run(uid, "bundle").await?;
    let bundle: Bundle = read_document(bytes.as_bytes()).context("the bundle")?;
    let hash = receipts::unverified(&bundle)?.hash()?;
    let (file, _) = receipts::bundle_file(receipts, &bundle.dossier, &hash);
    receipts::write(&file, bytes.as_bytes())
}

/// Fetches a bundle and verifies it here.
pub(crate) async fn verify(arguments: &VerifyArguments) -> anyhow::Result<Exit> {
    let cluster = Cluster::open(&arguments.access).await?;
    let key = match (&arguments.key, arguments.trust_cluster_key) {
        (Some(file), _) => Some(trusted_key(file)?),
        (None, true) => {
            tell!(
                "warning: the key is the one that the cluster shows; it proves nothing against whoever can write there"
            );
            Some(VerifyingKey::from_pem(&cluster.shown_key().await?).context("ConfigMap m87-ca, signing.pub.pem")?)
        }
        (None, false) => None,
    };
    let bundle = cluster.ask_of_run(&arguments.run, "bundle").await?;
    let mut verification = m87_core::receipt::verify(bundle.as_bytes(), key.as_ref());
    let status = says_status(&cluster, &arguments.run).await;
    let problem = is_of(&verification, &cluster.namespace, &arguments.run, status.as_deref()).err();
    if let Some(problem) = &problem {
        verification.checks.push(not_of(problem));
    }
    match arguments.output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&as_json(&verification))?),
        Output::Table => tell_of(&verification)?,
    }
    Ok(match (verification.passed(), verification.key_pinned) {
        (false, _) => Exit::Otherwise,
        (true, false) => Exit::Untrusted,
        (true, true) => Exit::AsAsked,
    })
}

/// The receipt that the run's status names; `None` where there is no object to ask, as for a uid.
async fn says_status(cluster: &Cluster, run: &str) -> Option<String> {
    let object = cluster.runs().get_opt(run).await.ok().flatten()?;
    Some(says(&object, "/status/receipt/hash").to_owned()).filter(|hash| !hash.is_empty())
}

/// Whether what holds is also what was asked for: a receipt of this namespace, and the one that the object's status names.
fn is_of(verification: &Verification, namespace: &str, run: &str, status: Option<&str>) -> Result<(), String> {
    let Some(receipt) = &verification.receipt else { return Ok(()) };
    if receipt.namespace.name != namespace {
        return Err(format!("it is of namespace {:?}", receipt.namespace.name));
    }
    let hash = receipt.hash().map_err(|error| error.to_string())?;
    match status {
        Some(status) if status != hash => Err(format!("the status of run {run:?} names another receipt, {status}")),
        None if receipt.run.name != run && receipt.run.uid != run => {
            Err(format!("it is of run {:?}", receipt.run.name))
        }
        Some(_) | None => Ok(()),
    }
}

fn not_of(problem: &str) -> m87_core::receipt::Checked {
    m87_core::receipt::Checked {
        name: "the receipt is the one that was asked for",
        passed: false,
        detail: problem.to_owned(),
    }
}

fn tell_of(verification: &Verification) -> anyhow::Result<()> {
    for check in &verification.checks {
        let mark = if check.passed { "ok    " } else { "FAILED" };
        say!("{mark}  {}: {}", check.name, printable(&check.detail));
    }
    if let Some(receipt) = &verification.receipt {
        let reason = receipt.reason.map_or(String::new(), |reason| format!(" {}", reason.name()));
        say!("{}: {}{reason}, receipt {}", receipt.run.name, receipt.terminal.name(), receipt.hash()?);
    }
    if verification.passed() && !verification.key_pinned {
        say!("untrusted key: nobody knows who signed; name the signer's key with --key");
    }
    Ok(())
}

fn as_json(verification: &Verification) -> Value {
    json!({
        "holds": verification.passed(), "keyPinned": verification.key_pinned,
        "checks": verification.checks, "receipt": verification.receipt,
    })
}
