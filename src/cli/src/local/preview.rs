//! A run as it would be opened, without opening it: what `m87 plan` and `m87 explain -f` judge. Uids and instants are blank:
//! no gate, no plan and no decision depends on them.

use crate::local::names::Names;
use crate::local::references::Files;
use m87_api::GovernedRun;
use m87_api::local::{Key, Objects};
use m87_authority::driver::pin_process;
use m87_authority::world::References;
use m87_core::actor::Actor;
use m87_core::dossier::{ClockSource, Dossier, Pinned, Trust};
use m87_core::gates::{Clauses, evaluate_constraints, tool_in_manifest};
use m87_core::json::{Document, compute_hash};
use m87_core::resolve::candidates;
use m87_core::time::Timestamp;
use std::sync::Arc;

/// The dossiers of all runs of some files, in the order of names.
pub(crate) async fn dossiers(objects: Objects, actor: &Actor) -> anyhow::Result<Vec<Dossier>> {
    let objects = Arc::new(objects);
    let names = Names::of("");
    let files = Files::new(objects.clone(), names.clone());
    let mut dossiers = Vec::new();
    for (key, run) in &objects.runs {
        dossiers.push(dossier(&files, &names, key, run, actor).await?);
    }
    Ok(dossiers)
}

async fn dossier(files: &Files, names: &Names, key: &Key, run: &GovernedRun, actor: &Actor) -> anyhow::Result<Dossier> {
    let namespace = names.namespace(&key.namespace);
    let policy = files.policy(&namespace, &run.spec.policy_ref.name).await?;
    let manifest = match files.manifest(&namespace, &run.spec.manifest_ref.name).await? {
        Some(Pinned { name, uid, spec, .. }) => {
            let spec = candidates(&run.spec.proposal, &spec);
            Some(Pinned { name, uid, sha256: compute_hash(&spec)?, spec })
        }
        None => None,
    };
    Ok(Dossier {
        kind: Dossier::KIND.to_owned(),
        spec_version: Dossier::SPEC_VERSION.to_owned(),
        cluster_uid: String::new(),
        run: names.run(key, run, actor)?,
        namespace,
        actor: actor.clone(),
        trust: Trust::Local,
        clock: ClockSource::System,
        opened_at: Timestamp::from_millis(0),
        proposal: run.spec.proposal.clone(),
        process: policy.as_ref().and_then(|policy| pin_process(&policy.spec)),
        policy,
        baseline: None,
        manifest,
    })
}

/// The two gates before the contract, as far as the process would come.
pub(crate) fn gates(dossier: &Dossier) -> Vec<Clauses> {
    let constraints = evaluate_constraints(dossier);
    if !constraints.passed() {
        return vec![constraints];
    }
    vec![constraints, tool_in_manifest(dossier)]
}
