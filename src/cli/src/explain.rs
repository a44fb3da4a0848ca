//! `m87 explain`: why a run ended as it did, or would be refused, clause by clause. It prints the trace of the judgement and
//! nothing else.

use crate::args::{ExplainArguments, Output};
use crate::exit::Exit;
use crate::local::{actor::actor, preview, read};
use crate::receipt::{self, Found};
use crate::say::{put, say};
use m87_core::decide::decide;
use m87_core::dossier::Dossier;
use m87_core::explain::{clauses, explain};
use m87_core::gates::Clause;
use m87_core::reason::{Reason, Terminal};
use serde::Serialize;

/// For programs: a run and its trace.
#[derive(Serialize)]
struct Explained<'a> {
    namespace: &'a str,
    name: &'a str,
    /// `null` where the run was not run, and nothing refuses it so far.
    terminal: Option<Terminal>,
    reason: Option<Reason>,
    trace: Vec<Clause>,
}

/// Explains one run of an out folder, or the runs of files as they stand.
pub(crate) async fn run(arguments: &ExplainArguments) -> anyhow::Result<Exit> {
    match &arguments.run {
        Some(run) => recorded(run, arguments),
        None => as_they_stand(arguments).await,
    }
}

fn recorded(run: &str, arguments: &ExplainArguments) -> anyhow::Result<Exit> {
    let Found { bundle, exit, .. } = receipt::find(run, &arguments.out)?;
    let verdict = decide(&bundle.dossier, &bundle.evidence);
    match arguments.output {
        Output::Table => put!(explain(&verdict)),
        Output::Json => {
            let (terminal, reason) = (Some(verdict.terminal), verdict.reason);
            json(&[Explained { terminal, reason, ..explained(&bundle.dossier, verdict.trace) }])?;
        }
    }
    Ok(exit)
}

async fn as_they_stand(arguments: &ExplainArguments) -> anyhow::Result<Exit> {
    let Some(objects) = read(&arguments.files) else { return Ok(Exit::Invalid) };
    let dossiers = preview::dossiers(objects, &actor(arguments.user.as_deref())).await?;
    let traces = dossiers.iter().map(|dossier| {
        let trace = preview::gates(dossier).into_iter().flatten().collect();
        explained(dossier, trace)
    });
    match arguments.output {
        Output::Json => json(&traces.collect::<Vec<_>>())?,
        Output::Table => traces.for_each(|run| {
            say!("{}/{}", run.namespace, run.name);
            put!(clauses(&run.trace));
        }),
    }
    Ok(Exit::AsAsked)
}

fn explained(dossier: &Dossier, trace: Vec<Clause>) -> Explained<'_> {
    let reason = trace.iter().find(|clause| !clause.passed).map(|clause| clause.reason);
    Explained {
        namespace: &dossier.namespace.name,
        name: &dossier.run.name,
        terminal: reason.map(|reason| reason.terminal(false)),
        reason,
        trace,
    }
}

fn json(runs: &[Explained<'_>]) -> anyhow::Result<()> {
    say!("{}", serde_json::to_string_pretty(&serde_json::json!({"runs": runs}))?);
    Ok(())
}
