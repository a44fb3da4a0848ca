//! `m87 plan`: what would happen, and what governance answers. Nothing is opened, run or written, and nothing is promised:
//! a run is judged anew when it is opened.

use crate::args::{Output, PlanArguments};
use crate::exit::Exit;
use crate::local::report::printable;
use crate::local::{actor::actor, preview, read};
use crate::say::say;
use m87_core::decision::{Decision, decision};
use m87_core::dossier::Dossier;
use m87_core::gates::Clause;
use m87_core::plan::{Plan, plan};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preview {
    authoritative: bool,
    runs: Vec<Planned>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    namespace: String,
    name: String,
    /// `null` where it cannot be said what would happen.
    plan_hash: Option<String>,
    decision: Option<Decision>,
    plan: Option<Plan>,
    /// The first clause that refuses before a contract; `null` if none does.
    refused: Option<Clause>,
}

/// Plans every run of some files.
pub(crate) async fn run(arguments: &PlanArguments) -> anyhow::Result<Exit> {
    let Some(objects) = read(&arguments.files.files) else { return Ok(Exit::Invalid) };
    let dossiers = preview::dossiers(objects, &actor(arguments.user.as_deref())).await?;
    let preview = Preview { authoritative: false, runs: dossiers.iter().map(planned).collect() };
    match arguments.output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&preview)?),
        Output::Table => preview.runs.iter().for_each(tell),
    }
    Ok(Exit::AsAsked)
}

fn planned(dossier: &Dossier) -> Planned {
    let plan = plan(dossier);
    Planned {
        namespace: dossier.namespace.name.clone(),
        name: dossier.run.name.clone(),
        plan_hash: plan.as_ref().map(|plan| plan.hash().to_owned()),
        decision: plan.as_ref().map(|plan| decision(dossier, plan)),
        refused: preview::gates(dossier).iter().find_map(|gate| gate.refusal().cloned()),
        plan,
    }
}

fn tell(run: &Planned) {
    say!("{}/{}", run.namespace, run.name);
    if let Some(plan) = &run.plan {
        let tool = &plan.tool;
        say!("  plan      {}", plan.hash());
        say!("  tool      {}@{} on {}, risk {}", tool.name, tool.version, printable(&plan.target), plan.risk.name());
    }
    if let Some(decision) = &run.decision {
        let reasons: Vec<&str> = decision.reason_codes.iter().map(|reason| reason.name()).collect();
        say!("  decision  {:?} {}", decision.outcome, reasons.join(", "));
    }
    match &run.refused {
        Some(clause) => {
            let terminal = clause.reason.terminal(false);
            say!("  would be  {} {}: {}", terminal.name(), clause.reason.name(), printable(&clause.detail));
            say!("            would pass: {}", printable(&clause.would_pass));
        }
        None => say!("  would be  contracted and run (not authoritative: judged anew when it is opened)"),
    }
}
