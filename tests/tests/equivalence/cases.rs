//! Runs by what becomes of them: one for each reason that the process itself can lead to.

use crate::play::{Script, Tool, report};
use m87_authority::RunRequest;
use m87_core::dossier::Named;
use m87_core::evidence::{Ended, ExecutionReport, LimitKind};
use m87_core::fixtures;
use m87_core::json::sha256_hex;
use m87_core::reason::Reason;
use serde_json::json;

/// A run and what becomes of it.
#[derive(Debug, Clone)]
pub struct Case {
    pub request: RunRequest,
    /// `None` is COMPLETE.
    pub reason: Option<Reason>,
    pub script: Script,
    /// Whether there is an instance that walks through the process.
    pub walks: bool,
}

/// A run that is COMPLETE.
pub fn request(name: &str) -> RunRequest {
    RunRequest {
        namespace: Named { name: "default".to_owned(), uid: "uid-of-default".to_owned() },
        name: name.to_owned(),
        uid: Some(format!("uid of {name}")),
        idempotency_key: None,
        actor: fixtures::actor(),
        proposal: fixtures::proposal(),
        policy: "policy".to_owned(),
        manifest: "tools".to_owned(),
        deadline_seconds: 600,
    }
}

/// Reasons with which a run is ended from outside, or which need a world that goes wrong in another way than here.
pub const NOT_BY_THE_PROCESS: [Reason; 10] = [
    Reason::IdempotencyKeyReused,
    Reason::NeverStarted,
    Reason::PromotionRefused,
    Reason::DeadlineExceeded,
    Reason::Interrupted,
    Reason::Cancelled,
    Reason::Deleted,
    Reason::JobAbandoned,
    Reason::EngineDisagreement,
    Reason::EngineIncident,
];

/// Judged before anything runs.
fn asked(reason: Reason, change: impl FnOnce(&mut RunRequest)) -> Case {
    let mut request = request(reason.name());
    change(&mut request);
    Case { request, reason: Some(reason), script: Script::default(), walks: true }
}

/// Judged by what became of the tool.
fn reported(reason: Reason, change: impl FnOnce(&mut ExecutionReport)) -> Case {
    let mut report = report();
    change(&mut report);
    Case { script: Script { tool: Tool::Reports(Box::new(report)), ..Script::default() }, ..asked(reason, |_| {}) }
}

fn played(reason: Reason, script: Script) -> Case {
    Case { script, ..asked(reason, |_| {}) }
}

fn named(name: &str, case: Case) -> Case {
    let request = RunRequest { name: name.to_owned(), uid: Some(format!("uid of {name}")), ..case.request };
    Case { request, ..case }
}

pub fn all() -> Vec<Case> {
    let mut all = complete();
    all.extend(halted());
    all.extend(not_in_the_manifest());
    all.extend(failed());
    all.extend(not_verified());
    all
}

fn complete() -> Vec<Case> {
    let mut last_step = report();
    last_step.reported = Some(json!({"steps": 20}));
    let script = Script { tool: Tool::Reports(Box::new(last_step)), ..Script::default() };
    vec![
        Case { request: request("well"), reason: None, script: Script::default(), walks: true },
        Case { request: request("at the limit"), reason: None, script, walks: true },
        Case { request: request("seen to pass"), reason: None, script: seen(Ended::Exited(0)), walks: true },
    ]
}

fn halted() -> Vec<Case> {
    vec![
        Case { walks: false, ..asked(Reason::PolicyMissing, |run| run.policy = "missing".to_owned()) },
        Case { walks: false, ..asked(Reason::ProcessNotProved, |run| run.policy = "unproved".to_owned()) },
        Case {
            walks: false,
            ..asked(Reason::TenantNotBound, |run| {
                run.namespace = Named { name: "unbound".to_owned(), uid: "uid-of-unbound".to_owned() };
            })
        },
        asked(Reason::Drifted, |run| run.policy = "drifting".to_owned()),
        asked(Reason::ReasoningMissing, |run| run.proposal.reasoning_trace = Some("  ".to_owned())),
        asked(Reason::RiskUnknown, |run| run.proposal.risk = Some("severe".to_owned())),
        asked(Reason::RiskNotAllowed, |run| run.proposal.risk = Some("critical".to_owned())),
        asked(Reason::TargetForbidden, |run| run.proposal.target = Some("prod/books".to_owned())),
        asked(Reason::ActorNotPermitted, |run| run.actor.username = String::new()),
        asked(Reason::ApprovalRequired, |run| run.policy = "unapproved".to_owned()),
    ]
}

fn not_in_the_manifest() -> Vec<Case> {
    vec![
        asked(Reason::ManifestMissing, |run| run.manifest = "missing".to_owned()),
        asked(Reason::ToolNotNamed, |run| run.proposal.tool = None),
        asked(Reason::ToolUnknown, |run| run.proposal.tool = Some("totals2".to_owned())),
        asked(Reason::CapabilityUnknown, |run| {
            run.proposal.tool = None;
            run.proposal.capability = Some("divine".to_owned());
        }),
        asked(Reason::ToolDisabled, |run| run.manifest = "disabled".to_owned()),
        asked(Reason::ActionTypeMismatch, |run| run.proposal.action_type = Some("report.read".to_owned())),
        asked(Reason::TargetMissing, |run| run.proposal.target = None),
        asked(Reason::TargetInvalid, |run| run.proposal.target = Some("reports/../books".to_owned())),
        asked(Reason::TargetMismatch, |run| run.proposal.target = Some("reports/may.json".to_owned())),
        asked(Reason::TargetNotAllowed, |run| {
            run.manifest = "careless".to_owned();
            run.proposal.target = Some("reports/of/may".to_owned());
            run.proposal.input = Some(json!({"out": "of/may"}));
        }),
        asked(Reason::ImageNotPinned, |run| run.manifest = "tagged".to_owned()),
        asked(Reason::InputInvalid, |run| run.proposal.input = Some(json!({"out": "january.json", "rows": "3"}))),
        asked(Reason::InputTooLarge, |run| {
            run.manifest = "careless".to_owned();
            run.proposal.input = Some(json!({"out": "january.json", "pad": "x".repeat(5000)}));
        }),
    ]
}

fn failed() -> Vec<Case> {
    let steps =
        |steps: serde_json::Value| move |report: &mut ExecutionReport| report.reported = Some(json!({"steps": steps}));
    let mut cases = vec![
        played(Reason::ContractRefused, Script { tool: Tool::Unmade, ..Script::default() }),
        named("tampered", played(Reason::ContractRefused, Script { tool: Tool::Tampered, ..Script::default() })),
        named("suspended", asked(Reason::ContractRefused, |run| run.policy = "suspended".to_owned())),
        played(Reason::OutcomeUnknown, Script { tool: Tool::Vanishes, ..Script::default() }),
        reported(Reason::TelemetryMissing, |report| report.reported = None),
        reported(Reason::TelemetryMalformed, steps(json!("3"))),
        reported(Reason::BudgetExceeded, steps(json!(21))),
        reported(Reason::ToolLimitExceeded, |report| report.ended = Ended::Limit(LimitKind::OutputBytes)),
        reported(Reason::ToolFailed, |report| report.ended = Ended::Exited(3)),
        named("killed", reported(Reason::ToolFailed, |report| report.ended = Ended::Signalled(9))),
        named("not started", reported(Reason::ToolFailed, |report| report.ended = Ended::NotStarted("x".to_owned()))),
    ];
    for wrong in [json!(true), json!(-1), json!(3.5), json!([3]), json!({"n": 3})] {
        cases.push(named(&format!("steps {wrong}"), reported(Reason::TelemetryMalformed, steps(wrong))));
    }
    cases
}

fn not_verified() -> Vec<Case> {
    let declared =
        |sha256: Option<String>| move |report: &mut ExecutionReport| report.artifact.as_mut().unwrap().sha256 = sha256;
    vec![
        reported(Reason::ArtifactMissing, |report| report.artifact = None),
        reported(Reason::HashMissing, declared(None)),
        reported(Reason::HashMismatch, declared(Some(sha256_hex(b"another")))),
        played(Reason::ValidationMissing, Script { validation: None, ..Script::default() }),
        played(Reason::ValidationFailed, Script { validation: Some(Ended::Exited(1)), ..Script::default() }),
        named("seen to fail", played(Reason::ValidationFailed, seen(Ended::Exited(1)))),
    ]
}

/// A validation whose end the executor sees itself.
fn seen(ended: Ended) -> Script {
    Script { validation: Some(ended), seen: true, ..Script::default() }
}

/// A gate of the process.
pub struct Gate {
    pub variable: &'static str,
    /// The only value that opens it.
    pub opens: bool,
    /// Where everything else leads.
    pub refuses: &'static str,
    /// Whether the tool has run when the process comes here.
    pub after_dispatch: bool,
    /// A run that this gate refuses for a good reason.
    pub refused: fn(&str) -> Case,
}

/// The four gates, in their order.
pub const GATES: [Gate; 4] = [
    Gate {
        variable: "constraints_ok",
        opens: true,
        refuses: "End_Halt",
        after_dispatch: false,
        refused: |name| named(name, asked(Reason::RiskNotAllowed, |run| run.proposal.risk = Some("high".to_owned()))),
    },
    Gate {
        variable: "tool_in_manifest",
        opens: true,
        refuses: "End_RejManifest",
        after_dispatch: false,
        refused: |name| named(name, asked(Reason::TargetMissing, |run| run.proposal.target = None)),
    },
    Gate {
        variable: "budget_exceeded",
        opens: false,
        refuses: "End_Failed",
        after_dispatch: true,
        refused: |name| named(name, reported(Reason::ToolFailed, |report| report.ended = Ended::Exited(3))),
    },
    Gate {
        variable: "artifact_verified",
        opens: true,
        refuses: "End_RejVerify",
        after_dispatch: true,
        refused: |name| {
            let script = Script { validation: Some(Ended::Exited(1)), ..Script::default() };
            named(name, played(Reason::ValidationFailed, script))
        },
    },
];
