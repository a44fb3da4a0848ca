#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::type_complexity)]
mod before;
mod budget;
mod random;
mod records;

use super::*;
use crate::actor::{Actor, Attestation};
use crate::budget::{Dimension, Limit, True};
use crate::dossier::Candidates;
use crate::effects::Operation;
use crate::evidence::{ContractRecord, Ended, ExecutionReport, LimitKind, Refusal};
use crate::explain::explain;
use crate::fixtures::{at, dossier, evidence, evidence_of, pinned, policy, tool};
use crate::json::{MAX_SAFE_INTEGER, to_canonical};
use crate::policy::{ImageTags, PolicySpec};
use crate::proposal::Proposal;
use crate::risk::Risk;
use crate::tool::{Reversibility, Run, ToolEntry};
use serde_json::{Value, json};

fn with_proposal(change: impl FnOnce(&mut Proposal)) -> Dossier {
    let mut dossier = dossier();
    change(&mut dossier.proposal);
    dossier
}

fn with_policy(change: impl FnOnce(&mut PolicySpec)) -> Dossier {
    let mut spec = policy();
    change(&mut spec);
    Dossier { policy: Some(pinned("policy", spec)), ..dossier() }
}

fn with_tool(change: impl FnOnce(&mut ToolEntry)) -> Dossier {
    let mut entry = tool();
    change(&mut entry);
    Dossier { manifest: Some(pinned("tools", Candidates { tools: vec![entry] })), ..dossier() }
}

fn with_report(change: impl FnOnce(&mut ExecutionReport)) -> Evidence {
    let mut evidence = evidence();
    change(evidence.execution.as_mut().unwrap().report.as_mut().unwrap());
    evidence
}

/// Nothing is recorded beyond Validate: what a run that stops at one of the first two gates leaves.
fn validated_only(dossier: &Dossier) -> Evidence {
    let Evidence { proposed, validated, .. } = evidence_of(dossier);
    Evidence { proposed, validated, ..Evidence::default() }
}

#[track_caller]
fn refuses(dossier: &Dossier, evidence: &Evidence, reason: Reason) {
    let verdict = decide(dossier, evidence);
    assert_eq!(verdict.reason, Some(reason), "{}", explain(&verdict));
    assert_eq!(verdict.terminal, reason.terminal(dispatched(evidence)), "{}", explain(&verdict));
    assert_eq!(verdict.failure_class, Some(reason.class()));
    let refusal = verdict.trace.iter().find(|clause| !clause.passed).unwrap();
    assert!(!refusal.detail.is_empty() && !refusal.would_pass.is_empty(), "{refusal:?} leaves people alone");
}

#[track_caller]
fn stops(dossier: &Dossier, reason: Reason) {
    refuses(dossier, &validated_only(dossier), reason);
}

#[test]
fn complete_is_proven() {
    let verdict = decide(&dossier(), &evidence());
    assert_eq!(verdict.terminal, Terminal::Complete, "{}", explain(&verdict));
    assert_eq!(verdict.reason, None);
    assert_eq!(verdict.effect, Effect::Dispatched);
    assert_eq!(
        verdict.gates,
        GateResults {
            constraints_ok: Some(true),
            tool_in_manifest: Some(true),
            budget_exceeded: Some(false),
            artifact_verified: Some(true)
        }
    );
}

#[test]
fn missing_is_refusal_for_every_record() {
    let cases: [(fn(&mut Evidence), Reason); 7] = [
        (|evidence| evidence.proposed = None, Reason::EngineDisagreement),
        (|evidence| evidence.validated = None, Reason::EngineDisagreement),
        (|evidence| evidence.contract = None, Reason::ContractRefused),
        (|evidence| evidence.redeemed = None, Reason::ContractRefused),
        (|evidence| evidence.execution = None, Reason::OutcomeUnknown),
        (|evidence| evidence.verified = None, Reason::HashMismatch),
        (|evidence| evidence.promoted = None, Reason::PromotionRefused),
    ];
    for (remove, reason) in cases {
        let mut evidence = evidence();
        remove(&mut evidence);
        refuses(&dossier(), &evidence, reason);
    }
    refuses(&dossier(), &Evidence::default(), Reason::EngineDisagreement);
}

#[test]
fn missing_is_refusal_for_every_pinned_object() {
    stops(&Dossier { policy: None, ..dossier() }, Reason::PolicyMissing);
    stops(&Dossier { manifest: None, ..dossier() }, Reason::ManifestMissing);
    stops(&Dossier { process: None, ..dossier() }, Reason::ProcessNotProved);
}

#[test]
fn no_effect_without_contract() {
    let causes = [
        Refusal::GatesRefuse,
        Refusal::Drifted,
        Refusal::HeadroomExhausted,
        Refusal::StoreRestored,
        Refusal::EffectSpent,
        Refusal::NeverStarted,
        Refusal::ExecutorFailed,
        Refusal::Suspended,
        Refusal::Tampered,
    ];
    for cause in causes {
        let evidence =
            Evidence { contract: Some(ContractRecord::Refused { cause, at: at(3) }), ..validated_only(&dossier()) };
        let reason = if cause == Refusal::NeverStarted { Reason::NeverStarted } else { Reason::ContractRefused };
        refuses(&dossier(), &evidence, reason);
        let verdict = decide(&dossier(), &evidence);
        assert_eq!(verdict.effect, Effect::None);
        assert!(
            verdict.message.contains(&format!("{cause:?}")) || cause == Refusal::NeverStarted,
            "{}",
            verdict.message
        );
    }
}

#[test]
fn missing_or_wrong_is_refusal_for_every_artifact_field() {
    let verified = |change: fn(&mut crate::evidence::Verified)| {
        let mut evidence = evidence();
        change(evidence.verified.as_mut().unwrap());
        evidence
    };
    refuses(&dossier(), &with_report(|report| report.artifact = None), Reason::ArtifactMissing);
    refuses(&dossier(), &with_report(|report| report.artifact.as_mut().unwrap().sha256 = None), Reason::HashMissing);
    for wrong in ["", "abc", &"A".repeat(64), &"g".repeat(64), &"a".repeat(63)] {
        refuses(
            &dossier(),
            &with_report(|report| report.artifact.as_mut().unwrap().sha256 = Some(wrong.to_owned())),
            Reason::HashMissing,
        );
    }
    refuses(
        &dossier(),
        &with_report(|report| report.artifact.as_mut().unwrap().sha256 = Some("a".repeat(64))),
        Reason::HashMismatch,
    );
    refuses(&dossier(), &verified(|verified| verified.recomputed = None), Reason::HashMismatch);
    refuses(&dossier(), &verified(|verified| verified.recomputed = Some("b".repeat(64))), Reason::HashMismatch);
    refuses(&dossier(), &verified(|verified| verified.validation = None), Reason::ValidationMissing);
    refuses(
        &dossier(),
        &verified(|verified| verified.validation.as_mut().unwrap().ended = Ended::Exited(1)),
        Reason::ValidationFailed,
    );
    refuses(
        &dossier(),
        &verified(|verified| verified.validation.as_mut().unwrap().ended = Ended::Signalled(9)),
        Reason::ValidationFailed,
    );
    refuses(
        &dossier(),
        &verified(|verified| verified.validation.as_mut().unwrap().ended = Ended::Limit(LimitKind::Seconds)),
        Reason::ValidationFailed,
    );
    refuses(
        &dossier(),
        &verified(|verified| verified.validation.as_mut().unwrap().ended = Ended::NotStarted("x".to_owned())),
        Reason::ValidationFailed,
    );
    let mut refused = evidence();
    refused.promoted.as_mut().unwrap().accepted = false;
    refuses(&dossier(), &refused, Reason::PromotionRefused);
}

#[test]
fn halt_means_no_effect() {
    // With OutcomeUnknown nobody says that nothing happened.
    for &reason in Reason::ALL.iter().filter(|reason| **reason != Reason::OutcomeUnknown) {
        let interrupted = Some(Interrupted { reason, at: at(9) });
        let before = decide(&dossier(), &Evidence { interrupted: interrupted.clone(), ..validated_only(&dossier()) });
        assert_eq!((before.terminal, before.reason, before.effect), (Terminal::Halt, Some(reason), Effect::None));
        let after = decide(&dossier(), &Evidence { interrupted, ..evidence() });
        assert_eq!((after.terminal, after.reason), (Terminal::Failed, Some(reason)));
    }
    // Records that contradict the gates: something may have happened, so it is no HALT and no REJECT_MANIFEST.
    for dossier in
        [with_proposal(|proposal| proposal.risk = Some("high".to_owned())), with_tool(|tool| tool.enabled = false)]
    {
        refuses(&dossier, &evidence_of(&dossier), Reason::EngineDisagreement);
        assert_eq!(decide(&dossier, &evidence_of(&dossier)).terminal, Terminal::Failed);
    }
    let mut drifted = evidence();
    drifted.validated.as_mut().unwrap().drifted = true;
    refuses(&dossier(), &drifted, Reason::EngineDisagreement);
    assert_eq!(decide(&dossier(), &drifted).terminal, Terminal::Failed);
}

#[test]
fn an_interrupted_run_tells_how_far_it_came() {
    let interrupted = Some(Interrupted { reason: Reason::DeadlineExceeded, at: at(9) });
    let gates =
        |evidence: Evidence| decide(&dossier(), &Evidence { interrupted: interrupted.clone(), ..evidence }).gates;
    assert_eq!(gates(Evidence::default()), GateResults::default());
    let validated = gates(validated_only(&dossier()));
    assert_eq!(
        (validated.constraints_ok, validated.tool_in_manifest, validated.budget_exceeded),
        (Some(true), Some(true), None)
    );
    let executed = gates(Evidence { verified: None, promoted: None, ..evidence() });
    assert_eq!((executed.budget_exceeded, executed.artifact_verified), (Some(false), None));
}

#[test]
fn what_governance_or_the_proposer_record_otherwise_is_a_disagreement() {
    let cases: [fn(&mut Evidence); 4] = [
        |evidence| evidence.validated.as_mut().unwrap().constraints_ok = false,
        |evidence| evidence.validated.as_mut().unwrap().tool_in_manifest = false,
        |evidence| evidence.proposed.as_mut().unwrap().proposal_hash = "0".repeat(64),
        |evidence| evidence.proposed.as_mut().unwrap().trace_hash = "0".repeat(64),
    ];
    for change in cases {
        let mut evidence = evidence();
        change(&mut evidence);
        refuses(&dossier(), &evidence, Reason::EngineDisagreement);
    }
}

#[test]
fn a_reused_key_is_told_what_would_pass() {
    let interrupted = Some(Interrupted { reason: Reason::IdempotencyKeyReused, at: at(9) });
    let verdict = decide(&dossier(), &Evidence { interrupted, ..Evidence::default() });
    assert_eq!((verdict.terminal, verdict.reason), (Terminal::Halt, Some(Reason::IdempotencyKeyReused)));
    assert!(verdict.message.contains("would pass: an idempotencyKey"), "{}", verdict.message);
}

#[test]
fn of_a_run_that_may_have_been_dispatched_elsewhere_nobody_says_that_nothing_happened() {
    let interrupted = Some(Interrupted { reason: Reason::OutcomeUnknown, at: at(9) });
    for evidence in [Evidence::default(), validated_only(&dossier())] {
        let verdict = decide(&dossier(), &Evidence { interrupted: interrupted.clone(), ..evidence });
        assert_eq!(verdict.terminal, Terminal::Failed);
        assert_eq!((verdict.reason, verdict.effect), (Some(Reason::OutcomeUnknown), Effect::Unknown));
    }
}

#[test]
fn a_tool_killed_at_a_limit_is_told_which_and_how_high() {
    let killed =
        |dossier: &Dossier, kind| decide(dossier, &with_report(|report| report.ended = Ended::Limit(kind))).message;
    for (kind, said) in [
        (LimitKind::Seconds, "the limit of seconds, 10, in the tool's run.command.limits"),
        (LimitKind::CpuSeconds, "the limit of cpuSeconds, 10, in the tool's run.command.limits"),
        (LimitKind::OutputBytes, "the limit of outputBytes, 1048576, in the tool's run.command.limits"),
        (LimitKind::Processes, "the limit of processes, 16, in the tool's run.command.limits"),
    ] {
        let message = killed(&dossier(), kind);
        assert!(message.contains(said), "{message}");
    }
    let tighter = with_policy(|policy| policy.autonomy_budget.seconds = Some(Limit::Limit(3)));
    let message = killed(&tighter, LimitKind::Seconds);
    assert!(message.contains("the limit of seconds, 3, in autonomyBudget"), "{message}");
}
