//! Gate 3: was the contract redeemed, and did the tool end well within its budget?
//!
//! What m87 measured beats what the tool reports. A policy says which dimensions a tool may report; what it reports of others
//! proves nothing in its favour, and still counts against it.

use super::{Check, Clauses, Found, Gate, no, yes};
use crate::budget::{AutonomyBudget, Dimension, Limit, Source, Usage, Used};
use crate::evidence::{ContractRecord, Ended, Evidence, Execution, ExecutionReport, LimitKind, Refusal};
use crate::json::MAX_SAFE_INTEGER;
use crate::reason::Reason;
use crate::tool::CommandLimits;
use serde_json::Value;

/// All FAILED clauses up to the artifact. `budget` is the effective one; without it nothing may be used. `limits` are the tool's
/// own, to be named where one of them killed it.
pub fn judge(budget: Option<&AutonomyBudget>, limits: Option<&CommandLimits>, evidence: &Evidence) -> Clauses {
    let clauses = Clauses::of(Gate::BudgetExceededOrError);
    let (reason, contract) = contract(evidence);
    let clauses = clauses.require("the contract was redeemed", reason, contract);
    if !clauses.passed() {
        return clauses;
    }
    let Some(report) = report(evidence) else {
        let unknown =
            no("nobody reported what came of the tool; it may have had its effect", "a report of `exec` in time");
        return clauses.require("the tool was reported on", Reason::OutcomeUnknown, unknown);
    };
    let none = AutonomyBudget::default();
    let budget = budget.unwrap_or(&none);
    let (reason, ended) = ended(&report.ended, budget, limits);
    let mut clauses = clauses
        .require("the tool was reported on", Reason::OutcomeUnknown, yes("it was"))
        .require("the tool ended well", reason, ended)
        .require("the tool reports no error", Reason::ToolFailed, no_error(report))
        .require("the telemetry is an object", Reason::TelemetryMalformed, is_object(report));
    for dimension in Dimension::ALL {
        let (reason, within) = within(dimension, budget, report);
        clauses = clauses.require(statement(dimension), reason, within);
    }
    clauses
}

/// What was used, as far as somebody who may say so did. For receipts; the gate above judges.
pub fn usage(budget: &AutonomyBudget, evidence: &Evidence) -> Usage {
    let Some(report) = report(evidence) else { return Usage::new() };
    let used = |dimension: Dimension| match figure(dimension, report) {
        Figure::Whole(value) if dimension.is_measured() => Some(Used { value, source: Source::Measured }),
        Figure::Whole(value) if budget.reported.contains(&dimension) => Some(Used { value, source: Source::Reported }),
        Figure::Whole(_) | Figure::Absent | Figure::Malformed => None,
    };
    Dimension::ALL.into_iter().filter_map(|dimension| Some((dimension, used(dimension)?))).collect()
}

fn report(evidence: &Evidence) -> Option<&ExecutionReport> {
    match &evidence.execution {
        Some(Execution { report: Some(report), .. }) => Some(report),
        Some(Execution { report: None, .. }) | None => None,
    }
}

fn contract(evidence: &Evidence) -> (Reason, Check) {
    let would_pass = "a contract that is issued, and redeemed in time";
    match (&evidence.contract, &evidence.redeemed) {
        (Some(ContractRecord::Issued { .. }), Some(_)) => (Reason::ContractRefused, yes("issued and redeemed")),
        (Some(ContractRecord::Issued { .. }), None) => {
            (Reason::ContractRefused, no("it was issued and never redeemed", would_pass))
        }
        (Some(ContractRecord::Refused { cause: Refusal::NeverStarted, .. }), _) => (
            Reason::NeverStarted,
            no("the tool did not start in time; its contract is void", "a tool that can start in time"),
        ),
        (Some(ContractRecord::Refused { cause, .. }), _) => {
            (Reason::ContractRefused, no(format!("refused: {}", refusal(*cause)), would_pass))
        }
        (None, _) => (Reason::ContractRefused, no("the authority issued none", would_pass)),
    }
}

const fn refusal(cause: Refusal) -> &'static str {
    match cause {
        Refusal::GatesRefuse => "GatesRefuse (the gates, judged again by the authority, do not pass)",
        Refusal::Drifted => "Drifted (the policy, the baseline or the tool's entry were changed after Validate)",
        Refusal::HeadroomExhausted => "HeadroomExhausted (the disk has no room for more; free some and run again)",
        Refusal::StoreRestored => "StoreRestored (the store is older than its high-water mark)",
        Refusal::EffectSpent => "EffectSpent (this effect's identity is another run's)",
        Refusal::NeverStarted => "NeverStarted (the tool did not start in time)",
        Refusal::ExecutorFailed => "ExecutorFailed (the tool's process could not be made)",
        Refusal::Suspended => "Suspended (the run or its policy is suspended)",
        Refusal::Tampered => "Tampered (what was started is no longer what m87 made)",
    }
}

fn ended(ended: &Ended, budget: &AutonomyBudget, limits: Option<&CommandLimits>) -> (Reason, Check) {
    let would_pass = "exit code 0";
    match ended {
        Ended::Exited(0) => (Reason::ToolFailed, yes("exit code 0")),
        Ended::Exited(code) => (Reason::ToolFailed, no(format!("exit code {code}"), would_pass)),
        Ended::Signalled(signal) => (Reason::ToolFailed, no(format!("ended by signal {signal}"), would_pass)),
        Ended::NotStarted(why) => (
            Reason::ToolFailed,
            no(format!("it could not be started: {why}"), "a command that exists in the tool's surroundings"),
        ),
        Ended::Limit(kind) => (Reason::ToolLimitExceeded, past_limit(*kind, budget, limits)),
    }
}

/// Which limit it was, how high, and where it is written. The budget's seconds hold where they are fewer than the tool's own.
fn past_limit(kind: LimitKind, budget: &AutonomyBudget, limits: Option<&CommandLimits>) -> Check {
    let (name, own): (_, fn(&CommandLimits) -> i64) = match kind {
        LimitKind::Seconds => ("seconds", |limits| limits.seconds),
        LimitKind::CpuSeconds => ("cpuSeconds", |limits| limits.cpu_seconds),
        LimitKind::OutputBytes => ("outputBytes", |limits| limits.output_bytes),
        LimitKind::Processes => ("processes", |limits| limits.processes),
    };
    let own = limits.map(own);
    let of_budget = match (kind, budget.limit(Dimension::Seconds)) {
        (LimitKind::Seconds, Some(Limit::Limit(seconds))) if own.is_none_or(|own| seconds < own) => {
            Some(seconds.max(1))
        }
        (LimitKind::Seconds | LimitKind::CpuSeconds | LimitKind::OutputBytes | LimitKind::Processes, _) => None,
    };
    let (limit, place) = match (of_budget, own) {
        (Some(seconds), _) => (seconds.to_string(), "autonomyBudget".to_owned()),
        (None, Some(own)) => (own.to_string(), "the tool's run.command.limits".to_owned()),
        (None, None) => ("unknown height".to_owned(), "the tool's run.command.limits".to_owned()),
    };
    no(
        format!("killed at the limit of {name}, {limit}, in {place}"),
        format!("a tool that stays within {name}: {limit}, or a higher limit in {place}"),
    )
}

/// A tool may say itself that it failed, with a member `error` that is neither `null` nor `false`.
fn no_error(report: &ExecutionReport) -> Check {
    match report.reported.as_ref().and_then(|reported| reported.get("error")) {
        None | Some(Value::Null | Value::Bool(false)) => yes("none"),
        Some(_) => no("the telemetry has an error", "telemetry without error"),
    }
}

fn is_object(report: &ExecutionReport) -> Check {
    match &report.reported {
        None => yes("the tool left none"),
        Some(Value::Object(_)) => yes("it is"),
        Some(_) => {
            no("what the tool left in $M87_USAGE is no JSON object", "a JSON object of whole numbers, or no file")
        }
    }
}

/// A figure of usage as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Absent,
    /// A whole number from 0 up.
    Whole(i64),
    Malformed,
}

fn figure(dimension: Dimension, report: &ExecutionReport) -> Figure {
    let measured = match dimension {
        Dimension::ToolCalls => report.measured.tool_calls,
        Dimension::Seconds => report.measured.seconds,
        // Two figures of one file: the larger counts.
        Dimension::ArtifactBytes => report.artifact.as_ref().map_or(report.measured.artifact_bytes, |artifact| {
            match report.measured.artifact_bytes {
                negative if negative < 0 => negative,
                bytes if artifact.size < 0 => bytes.min(artifact.size),
                bytes => bytes.max(artifact.size),
            }
        }),
        Dimension::Steps | Dimension::Tokens | Dimension::ExternalCalls => {
            return match report.reported.as_ref().and_then(|reported| reported.get(dimension.name())) {
                None => Figure::Absent,
                Some(value) => whole(value).map_or(Figure::Malformed, Figure::Whole),
            };
        }
    };
    if (0..=MAX_SAFE_INTEGER).contains(&measured) { Figure::Whole(measured) } else { Figure::Malformed }
}

/// 3 and 3.0 are one number in JSON, and one in canonical JSON; "3", true, null, 2.5 and −1 are none.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    let integer = match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer,
        #[allow(clippy::cast_possible_truncation)]
        (None, Some(double)) if double.fract() == 0.0 && double.abs() <= MAX_SAFE_INTEGER as f64 => double as i64,
        (None, _) => return None,
    };
    (0..=MAX_SAFE_INTEGER).contains(&integer).then_some(integer)
}

const fn statement(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Steps => "steps are within the budget",
        Dimension::ToolCalls => "toolCalls are within the budget",
        Dimension::Tokens => "tokens are within the budget",
        Dimension::Seconds => "seconds are within the budget",
        Dimension::ExternalCalls => "externalCalls are within the budget",
        Dimension::ArtifactBytes => "artifactBytes are within the budget",
    }
}

fn within(dimension: Dimension, budget: &AutonomyBudget, report: &ExecutionReport) -> (Reason, Check) {
    let name = dimension.name();
    let may_say = dimension.is_measured() || budget.reported.contains(&dimension);
    match (budget.limit(dimension), figure(dimension, report)) {
        (_, Figure::Malformed) => {
            (Reason::TelemetryMalformed, no(format!("{name} is no whole number from 0 up"), "a whole number from 0 up"))
        }
        (Some(Limit::Unlimited(_)), _) => (Reason::BudgetExceeded, yes("without a limit")),
        (Some(Limit::Limit(limit)), Figure::Whole(used)) if may_say => {
            if used <= limit {
                (Reason::BudgetExceeded, Ok(Found::Figure { used, limit }))
            } else {
                (Reason::BudgetExceeded, no(format!("{name}: {used} of {limit}"), format!("at most {limit}")))
            }
        }
        (Some(Limit::Limit(_)), Figure::Whole(_)) => (
            Reason::TelemetryMissing,
            no(
                format!("nobody who may say so reported {name}"),
                format!("{name} in autonomyBudget.reported, or {name} unlimited"),
            ),
        ),
        (Some(Limit::Limit(_)), Figure::Absent) => (
            Reason::TelemetryMissing,
            no(format!("{name} is limited and was not reported"), format!("a figure for {name} in $M87_USAGE")),
        ),
        (None, Figure::Absent | Figure::Whole(0)) => (Reason::BudgetExceeded, yes("none used")),
        (None, Figure::Whole(used)) => (
            Reason::BudgetExceeded,
            no(
                format!("{name}: {used}, and the budget has none"),
                format!("a limit for {name} in autonomyBudget, or none used"),
            ),
        ),
    }
}
