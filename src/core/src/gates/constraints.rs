//! Gate 1: does the policy let anybody make this proposal, and this actor at all?

use super::{Check, Clauses, Gate, no, yes};
use crate::case::{Case, Planned, RiskUnknown, Rules};
use crate::decision::Outcome;
use crate::effects::Operation;
use crate::policy::Requirement;
use crate::reason::Reason;
use crate::risk::Risk;
use crate::tool::Reversibility;

/// All HALT clauses of a case. A missing policy refuses alone: without rules there is nothing else to look at.
pub fn judge(case: &Case<'_>) -> Clauses {
    let clauses = Clauses::of(Gate::EvaluateConstraints);
    let Some(rules) = case.rules else {
        let missing = no(
            "the policy that the run names does not exist, or cannot be read",
            "a policyRef to a GovernancePolicy that is there and ready",
        );
        return clauses.require("the policy exists", Reason::PolicyMissing, missing);
    };
    let clauses = clauses
        .require("the policy exists", Reason::PolicyMissing, yes("pinned"))
        .require("the process is proved", Reason::ProcessNotProved, process(case))
        .require("the proposal says why", Reason::ReasoningMissing, reasoning(case, rules))
        .require("the risk is known", Reason::RiskUnknown, risk_known(case))
        .require("the risk is allowed", Reason::RiskNotAllowed, risk_allowed(case, rules))
        .require("the target is not forbidden", Reason::TargetForbidden, not_forbidden(case, rules))
        .require("the actor may ask", Reason::ActorNotPermitted, actor(case, rules));
    match case.planned() {
        Some(planned) => {
            clauses.require("no approval is due", Reason::ApprovalRequired, approved(case, rules, planned))
        }
        None => clauses,
    }
}

fn process(case: &Case<'_>) -> Check {
    if case.has_process {
        return yes("there is a proved process to go through");
    }
    no(
        "there is no proved process to go through",
        "a process that `m87 bpmn check` passes, or none, to use the one m87 ships",
    )
}

fn reasoning(case: &Case<'_>, rules: &Rules) -> Check {
    // Spaces have many forms, some of them invisible and no white space to Unicode; a word has a letter or a digit.
    let in_words = |trace: &str| trace.chars().any(char::is_alphanumeric);
    let blank = !case.proposal.reasoning_trace.as_deref().is_some_and(in_words);
    match (blank, rules.effective.reasoning_trace) {
        (false, _) => yes("a reasoning trace is there"),
        (true, Requirement::Optional) => yes("no reasoning trace, and the policy takes that"),
        (true, Requirement::Required) => {
            no("the reasoning trace is absent or blank", "proposal.reasoningTrace in words")
        }
    }
}

fn risk_known(case: &Case<'_>) -> Check {
    match case.risk {
        Ok(risk) => yes(risk.name()),
        Err(RiskUnknown::NotDeclared) => {
            no("no risk is declared, and no tool resolves that has one", "proposal.risk: low, medium, high or critical")
        }
        Err(RiskUnknown::NotAClass(name)) => {
            no(format!("the declared risk {name:?} is none"), "proposal.risk: low, medium, high or critical")
        }
    }
}

fn risk_allowed(case: &Case<'_>, rules: &Rules) -> Check {
    let allowed = &rules.effective.risks_allowed;
    match case.risk {
        Ok(risk) if allowed.contains(&risk) => yes(risk.name()),
        Ok(risk) => {
            let names: Vec<_> = allowed.iter().copied().map(Risk::name).collect();
            let own = case
                .tool
                .map(|tool| format!(" (the tool's own is {})", tool.entry.risk_class.name()))
                .unwrap_or_default();
            no(format!("{}{own} is not among those allowed", risk.name()), format!("a risk of [{}]", names.join(", ")))
        }
        Err(_) => no("an unknown risk is never allowed", "a known risk that the policy allows"),
    }
}

/// The proposal's target and the effective one: whichever is written as targets are. (Gate 2 refuses the others.)
fn not_forbidden(case: &Case<'_>, rules: &Rules) -> Check {
    let forbidden = match &rules.targets_forbidden {
        Ok(forbidden) => forbidden,
        Err(error) => return no(format!("in targetsForbidden, {error}"), "a list of usable globs (docs/targets.md)"),
    };
    let (named, effective) = (case.proposal.target.as_deref(), case.target.as_deref());
    let other = effective.filter(|_| case.target_written && effective != named);
    let named = named.filter(|_| case.named_written == Some(Ok(())));
    match [named, other].into_iter().flatten().find(|text| forbidden.matches(text)) {
        Some(text) => no(format!("{text:?} is forbidden"), "a target that no glob of targetsForbidden matches"),
        None => yes("no forbidden glob matches it"),
    }
}

fn actor(case: &Case<'_>, rules: &Rules) -> Check {
    let name = case.actor.username.as_str();
    let lists = match &rules.actors_allowed {
        Ok(lists) => lists,
        Err(error) => return no(format!("in actorsAllowed, {error}"), "a list of usable globs (docs/targets.md)"),
    };
    if name.trim().is_empty() {
        return no("the actor has no name", "an actor with a username");
    }
    if lists.iter().all(|list| list.matches(name)) {
        return yes("the actor is among those who may ask");
    }
    no(
        format!("{name:?} is not among those who may ask"),
        "a username that actorsAllowed matches, in the policy and in the baseline",
    )
}

/// What approval a plan needs. Only reads of a person need none by themselves; a policy may give more in advance.
pub fn approval(case: &Case<'_>, rules: &Rules, planned: Planned<'_>) -> Outcome {
    if approved(case, rules, planned).is_ok() { Outcome::Allowed } else { Outcome::ApprovalRequired }
}

fn approved(case: &Case<'_>, rules: &Rules, planned: Planned<'_>) -> Check {
    let entry = planned.tool.entry;
    let only_reads =
        !entry.effects.is_empty() && entry.effects.iter().all(|effect| effect.operation == Operation::Read);
    let human = case.actor.is_human();
    if only_reads && human {
        return yes("a person asks, and every effect is a read");
    }
    let Some(auto) = &rules.effective.auto_approve else {
        let found = match (only_reads, human) {
            (true, _) => "the actor is not known to be a person, and nothing is approved in advance",
            (false, true) => "not every effect is a read, and nothing is approved in advance",
            (false, false) => {
                "not every effect is a read, the actor is not known to be a person, and nothing is approved in advance"
            }
        };
        return no(
            found,
            "approvals.autoApprove in the policy (and in the baseline), or a tool that only reads for a person",
        );
    };
    if !case.actor.is_attested() {
        return no("nobody vouches for the actor's name", "an attested actor");
    }
    if !human && !auto.non_humans.contains(&case.actor.username) {
        return no(
            format!("the non-human {:?} is not listed", case.actor.username),
            "an actor of approvals.autoApprove.nonHumans, or a person",
        );
    }
    if planned.risk > auto.risk_at_most {
        let found = format!("risk {} is above what is approved in advance", planned.risk.name());
        return no(found, format!("a risk of at most {}", auto.risk_at_most.name()));
    }
    if entry.reversibility == Reversibility::Irreversible {
        return no(
            "what cannot be undone is never approved in advance",
            "a tool that is at least partially reversible",
        );
    }
    yes("approved in advance by the policy")
}
