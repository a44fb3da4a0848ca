//! `m87 plan`: what would happen, and what governance answers. Nothing is opened, run or written, and nothing is promised:
//! a run is judged anew when it is opened. The exit code says whether some run would end otherwise than it should.

use crate::args::{Output, PlanArguments};
use crate::exit::Exit;
use crate::local::report::printable;
use crate::local::{actor::actor, preview, read};
use crate::say::say;
use m87_api::GovernedRun;
use m87_core::decision::{Decision, decision};
use m87_core::dossier::Dossier;
use m87_core::gates::Clause;
use m87_core::plan::{Plan, plan};
use m87_core::reason::Terminal;
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
    /// How its author says that it should end.
    expected: Option<Terminal>,
    /// Whether it may still end so; without a word of its author, COMPLETE.
    as_expected: bool,
}

/// Plans every run of some files.
pub(crate) async fn run(arguments: &PlanArguments) -> anyhow::Result<Exit> {
    let Some(objects) = read(&arguments.files.files) else { return Ok(Exit::Invalid) };
    let expected: Vec<Option<Terminal>> = objects.runs.values().map(GovernedRun::expected_terminal).collect();
    let dossiers = preview::dossiers(objects, &actor(arguments.user.as_deref())).await?;
    let runs = dossiers.iter().zip(expected).map(|(dossier, expected)| planned(dossier, expected)).collect();
    let preview = Preview { authoritative: false, runs };
    match arguments.output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&preview)?),
        Output::Table => preview.runs.iter().for_each(tell),
    }
    let as_asked = preview.runs.iter().all(|run| run.as_expected);
    Ok(if as_asked { Exit::AsAsked } else { Exit::Otherwise })
}

/// Whether a run may still end as it should: as written, or COMPLETE. What is not refused here ends as its tool does, which
/// nobody knows before.
const fn as_expected(expected: Option<Terminal>, refused: Option<Terminal>) -> bool {
    use Terminal::{Complete, Failed, Halt, RejectManifest, RejectVerify};
    match (expected, refused) {
        (None | Some(Complete | Failed | RejectVerify), None) => true,
        (Some(Halt | RejectManifest), None) => false,
        (Some(Halt), Some(Halt)) | (Some(RejectManifest), Some(RejectManifest)) => true,
        (_, Some(_)) => false,
    }
}

fn planned(dossier: &Dossier, expected: Option<Terminal>) -> Planned {
    let plan = plan(dossier);
    let refused = preview::gates(dossier).iter().find_map(|gate| gate.refusal());
    Planned {
        expected,
        as_expected: as_expected(expected, refused.as_ref().map(|clause| clause.reason.terminal(false))),
        namespace: dossier.namespace.name.clone(),
        name: dossier.run.name.clone(),
        plan_hash: plan.as_ref().map(|plan| plan.hash().to_owned()),
        decision: plan.as_ref().map(|plan| decision(dossier, plan)),
        refused,
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
        let answer = format!("{:?} {}", decision.outcome, reasons.join(", "));
        say!("  decision  {}", answer.trim_end());
    }
    match &run.refused {
        Some(clause) => {
            let terminal = clause.reason.terminal(false);
            say!("  would be  {} {}: {}", terminal.name(), clause.reason.name(), printable(&clause.detail));
            say!("            would pass: {}", printable(&clause.would_pass));
        }
        None => say!("  would be  contracted and run (not authoritative: judged anew when it is opened)"),
    }
    if !run.as_expected {
        say!("            not as expected: {}", run.expected.unwrap_or(Terminal::Complete).name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_known_before_is_held_against_what_is_expected() {
        for expected in Terminal::ALL {
            let refusing = matches!(expected, Terminal::Halt | Terminal::RejectManifest);
            assert_eq!(as_expected(Some(expected), None), !refusing, "{expected:?}");
            for refused in [Terminal::Halt, Terminal::RejectManifest] {
                assert_eq!(as_expected(Some(expected), Some(refused)), expected == refused, "{expected:?}");
            }
        }
        assert!(as_expected(None, None));
        assert!(!as_expected(None, Some(Terminal::Halt)));
    }
}
