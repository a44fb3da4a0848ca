//! The rules that are looked at where they could be broken: when a job is created, and when an end is reached.

use super::program::Node;
use super::rules::{Gate, Job, Rules, terminal};
use super::scopes::Branch;
use super::state::Slot;
use super::{Assigned, Rule};
use m87_core::reason::Terminal;
use serde_json::Value;

/// A rule that is broken by a step.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    pub(super) message: String,
    /// The element or flow at which it is broken.
    pub(super) at: String,
    /// The values that were chosen within the step.
    pub(super) chosen: Vec<Assigned>,
}

impl Violation {
    pub(super) fn new(rule: Rule, message: impl Into<String>, at: impl Into<String>, branch: &Branch) -> Self {
        Self { rule, message: message.into(), at: at.into(), chosen: branch.chosen.clone() }
    }
}

/// A job is created: its order, its gates, its safety.
pub(super) fn job(node: &Node<'_>, job: Job, branch: &Branch, local: u32) -> Result<(), Violation> {
    let refuse = |rule: Rule, message: String| Err(Violation::new(rule, message, &node.element.id, branch));
    let name = job.name();
    let state = &branch.state;
    if state.begun.has(job) {
        return refuse(Rule::JobsOnce, format!("the job {name} is created a second time on this path"));
    }
    if job != Job::ClaimRun && !state.done.has(Job::ClaimRun) {
        return refuse(Rule::ClaimRunFirst, format!("the job {name} is created before claim-run is done"));
    }
    if let Some(gate) = job.requires().iter().find(|gate| !state.passed.has(**gate)) {
        let rule = match job {
            Job::BuildContract | Job::Execute => Rule::GatesBeforeExecute,
            _ => Rule::JobsInOrder,
        };
        return refuse(rule, format!("the job {name} is created although {} has not passed", gate.variable()));
    }
    if let Some(before) = job.follows().filter(|before| !state.done.has(*before)) {
        let rule = if job == Job::Execute { Rule::GatesBeforeExecute } else { Rule::JobsInOrder };
        return refuse(rule, format!("the job {name} is created before {} is done", before.name()));
    }
    if state.by_default && !job.requires().is_empty() {
        return refuse(Rule::DefaultsRefuse, format!("the job {name} is created after a gateway's default was taken"));
    }
    for gate in job.reports() {
        if state.slot(local, gate.variable()) != Some(&Slot::Known(Value::Null)) {
            let variable = gate.variable();
            let message = format!(
                "{variable} is not null when {name} starts; map the input =null to {variable}, so that only its result counts"
            );
            return refuse(Rule::HardenedMappings, message);
        }
    }
    Ok(())
}

/// A token reaches an end of the process.
pub(super) fn end(node: &Node<'_>, branch: &Branch) -> Result<(), Violation> {
    let refuse = |rule: Rule, message: String| Err(Violation::new(rule, message, &node.element.id, branch));
    let state = &branch.state;
    if !state.tokens.is_empty() || state.terminal.is_some() {
        return refuse(
            Rule::OneTerminal,
            "the end is reached while another token is still on its way; join them first".to_owned(),
        );
    }
    let Some(reached) = Terminal::of_end_event(&node.element.id) else {
        return Ok(());
    };
    let decided = terminal(state.passed);
    if reached != decided {
        let failing = Gate::ALL.into_iter().find(|gate| !state.passed.has(*gate));
        let why = failing
            .map_or_else(|| "every gate passed".to_owned(), |gate| format!("{} has not passed", gate.variable()));
        return refuse(
            Rule::TerminalAgrees,
            format!("the end is {}, but {why}: it must be {}", reached.name(), decided.name()),
        );
    }
    if reached == Terminal::Complete {
        if let Some(missing) = [Job::VerifyArtifact, Job::RouteMemory].into_iter().find(|job| !state.done.has(*job)) {
            return refuse(Rule::CompleteIsProven, format!("COMPLETE is reached before {} is done", missing.name()));
        }
        if state.by_default {
            return refuse(Rule::DefaultsRefuse, "COMPLETE is reached after a gateway's default was taken".to_owned());
        }
    }
    if reached == Terminal::Failed && !state.done.has(Job::FailureReceipt) {
        return refuse(Rule::FailureLeavesReceipt, "FAILED is reached before failure-receipt is done".to_owned());
    }
    Ok(())
}
