#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::type_complexity)]
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
use proptest::prelude::*;
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
fn missing_or_blank_is_refusal_for_every_proposal_field() {
    let cases: [(fn(&mut Proposal, Option<String>), Reason, Reason); 5] = [
        (|proposal, value| proposal.tool = value, Reason::ToolNotNamed, Reason::ToolNotNamed),
        (|proposal, value| proposal.action_type = value, Reason::ActionTypeMismatch, Reason::ActionTypeMismatch),
        (|proposal, value| proposal.target = value, Reason::TargetMissing, Reason::TargetMissing),
        (|proposal, value| proposal.reasoning_trace = value, Reason::ReasoningMissing, Reason::ReasoningMissing),
        (
            |proposal, value| {
                proposal.tool = None;
                proposal.capability = value;
            },
            Reason::ToolNotNamed,
            Reason::ToolNotNamed,
        ),
    ];
    for (set, absent, blank) in cases {
        stops(&with_proposal(|proposal| set(proposal, None)), absent);
        for text in ["", " ", "\n\t", "\u{2003}"] {
            stops(&with_proposal(|proposal| set(proposal, Some(text.to_owned()))), blank);
        }
    }
    for invisible in ["\u{200b}", "\u{feff}\u{2060}", "\u{202e}", "...", "\0"] {
        stops(&with_proposal(|proposal| proposal.reasoning_trace = Some(invisible.into())), Reason::ReasoningMissing);
    }
    stops(&with_proposal(|proposal| proposal.risk = Some(String::new())), Reason::RiskUnknown);
    stops(&with_proposal(|proposal| proposal.input = None), Reason::InputInvalid);
    stops(&with_proposal(|proposal| *proposal = Proposal::default()), Reason::ReasoningMissing);
}

#[test]
fn a_mistyped_proposal_field_is_never_read_as_something_else() {
    let whole = serde_json::to_value(dossier().proposal).unwrap();
    for field in ["tool", "capability", "actionType", "target", "risk", "reasoningTrace"] {
        for mistyped in [json!(3), json!(true), json!(["x"]), json!({"x": 1}), json!(1.5)] {
            let mut value = whole.clone();
            value[field] = mistyped;
            assert!(serde_json::from_value::<Proposal>(value.clone()).is_err(), "{field}: {value}");
        }
    }
}

#[test]
fn halt_for_every_constraint() {
    for risk in ["High", "none", "LOW", "critical\n", "severe"] {
        stops(&with_proposal(|proposal| proposal.risk = Some(risk.to_owned())), Reason::RiskUnknown);
    }
    stops(
        &with_proposal(|proposal| {
            proposal.risk = None;
            proposal.tool = Some("nope".to_owned());
        }),
        Reason::RiskUnknown,
    );
    stops(&with_proposal(|proposal| proposal.risk = Some("high".to_owned())), Reason::RiskNotAllowed);
    stops(&with_tool(|tool| tool.risk_class = Risk::Critical), Reason::RiskNotAllowed);
    stops(&with_policy(|policy| policy.constraints.risks_allowed = vec![]), Reason::RiskNotAllowed);
    stops(
        &with_policy(|policy| policy.constraints.targets_forbidden = vec!["reports/**".to_owned()]),
        Reason::TargetForbidden,
    );
    stops(&with_policy(|policy| policy.constraints.targets_forbidden = vec!["[".to_owned()]), Reason::TargetForbidden);
    // Forbidden is what the tool would touch, whatever the proposal says.
    let mut hidden =
        with_policy(|policy| policy.constraints.targets_forbidden = vec!["reports/january.json".to_owned()]);
    hidden.proposal.target = Some("reports/other.json".to_owned());
    stops(&hidden, Reason::TargetForbidden);
    for actors in [vec![], vec!["bob".to_owned()], vec!["[".to_owned()]] {
        stops(&with_policy(|policy| policy.constraints.actors_allowed = actors), Reason::ActorNotPermitted);
    }
    let mut nobody = dossier();
    nobody.actor.username = " ".to_owned();
    stops(&nobody, Reason::ActorNotPermitted);
    let mut drifted = validated_only(&dossier());
    drifted.validated.as_mut().unwrap().drifted = true;
    refuses(&dossier(), &drifted, Reason::Drifted);
    stops(&with_policy(|policy| policy.approvals.auto_approve = None), Reason::ApprovalRequired);
    let silent = with_proposal(|proposal| proposal.reasoning_trace = None);
    let mut optional = with_policy(|policy| policy.constraints.reasoning_trace = crate::policy::Requirement::Optional);
    optional.proposal = silent.proposal;
    assert_eq!(decide(&optional, &evidence_of(&optional)).terminal, Terminal::Complete);
}

#[test]
fn reject_manifest_for_every_mismatch() {
    stops(&with_proposal(|proposal| proposal.tool = Some("nope".to_owned())), Reason::ToolUnknown);
    stops(
        &with_proposal(|proposal| {
            proposal.tool = None;
            proposal.capability = Some("nope".to_owned());
        }),
        Reason::CapabilityUnknown,
    );
    stops(&with_proposal(|proposal| proposal.capability = Some("sum-payments".to_owned())), Reason::ToolNotNamed);
    stops(&with_tool(|tool| tool.enabled = false), Reason::ToolDisabled);
    stops(
        &with_proposal(|proposal| proposal.action_type = Some("Report.write".to_owned())),
        Reason::ActionTypeMismatch,
    );
    for target in [
        "../reports/january.json",
        "reports//january.json",
        "reports/%2e",
        "\u{433}eports/x",
        "/reports/x",
        "reports/x/",
    ] {
        stops(&with_proposal(|proposal| proposal.target = Some(target.to_owned())), Reason::TargetInvalid);
    }
    stops(&with_proposal(|proposal| proposal.target = Some("reports/other.json".to_owned())), Reason::TargetMismatch);
    stops(&with_tool(|tool| tool.target_from.pointer = "/nope".to_owned()), Reason::TargetMismatch);
    for allowed in [vec![], vec!["other/*".to_owned()], vec!["reports/[a-z]*".to_owned()]] {
        stops(&with_tool(|tool| tool.targets_allowed = allowed), Reason::TargetNotAllowed);
    }
    stops(
        &with_proposal(|proposal| proposal.input = Some(json!({"out": "january.json", "more": 1}))),
        Reason::InputInvalid,
    );
    stops(&with_tool(|tool| tool.input_schema = json!({"$ref": "https://example.com/"})), Reason::InputInvalid);
    let large = json!({"out": "january.json", "rows": 1, "pad": "x".repeat(4096)});
    stops(&with_proposal(|proposal| proposal.input = Some(large)), Reason::InputTooLarge);
    stops(
        &with_proposal(|proposal| proposal.input = Some(json!({"out": "january.json", "rows": u64::MAX}))),
        Reason::InputTooLarge,
    );
    stops(&with_tool(|tool| image(tool, Some("busybox:1.37"))), Reason::ImageNotPinned);
    let by_capability = with_proposal(|proposal| {
        proposal.tool = None;
        proposal.capability = Some("sum-payments".to_owned());
    });
    assert_eq!(decide(&by_capability, &evidence_of(&by_capability)).terminal, Terminal::Complete);
}

fn image(tool: &mut ToolEntry, name: Option<&str>) {
    let Run::Command(command) = &mut tool.run;
    command.image = name.map(str::to_owned);
}

#[test]
fn a_tag_names_an_image_only_where_policy_and_baseline_both_allow_it() {
    let pinned_image = format!("busybox@sha256:{}", "0".repeat(64));
    for (name, own, baseline, passes) in [
        (None, ImageTags::Refused, None, true),
        (Some(pinned_image.as_str()), ImageTags::Refused, None, true),
        (Some(pinned_image.as_str()), ImageTags::Allowed, Some(ImageTags::Refused), true),
        (Some("busybox:1.37"), ImageTags::Refused, None, false),
        (Some("busybox:1.37"), ImageTags::Allowed, None, true),
        (Some("busybox:1.37"), ImageTags::Allowed, Some(ImageTags::Allowed), true),
        (Some("busybox:1.37"), ImageTags::Allowed, Some(ImageTags::Refused), false),
        (Some("busybox:1.37"), ImageTags::Refused, Some(ImageTags::Allowed), false),
    ] {
        let mut case = with_tool(|tool| image(tool, name));
        let rules = |tags| {
            let mut spec = policy();
            spec.constraints.image_tags = tags;
            spec
        };
        case.policy = Some(pinned("policy", rules(own)));
        case.baseline = baseline.map(|tags| pinned("baseline", rules(tags)));
        let Evidence { proposed, validated, .. } = evidence_of(&case);
        let evidence =
            if passes { evidence_of(&case) } else { Evidence { proposed, validated, ..Evidence::default() } };
        let verdict = decide(&case, &evidence);
        let reason = (!passes).then_some(Reason::ImageNotPinned);
        assert_eq!(verdict.reason, reason, "{name:?} {own:?} {baseline:?}");
        let terminal = if passes { Terminal::Complete } else { Terminal::RejectManifest };
        assert_eq!(verdict.terminal, terminal, "{name:?} {own:?} {baseline:?}");
    }
}

#[test]
fn a_policy_that_says_nothing_of_image_tags_keeps_its_hash() {
    let text = serde_json::to_string(&policy()).unwrap();
    assert!(!text.contains("imageTags"), "{text}");
    assert_eq!(serde_json::from_str::<PolicySpec>(&text).unwrap().constraints.image_tags, ImageTags::Refused);
}

/// Every dimension limited, reported where it can be, with `value` as the figure that is looked at.
fn limiting(dimension: Dimension, limit: Option<Limit>) -> Dossier {
    with_policy(|policy| {
        let budget = &mut policy.autonomy_budget;
        budget.reported = Dimension::ALL.into_iter().filter(|dimension| !dimension.is_measured()).collect();
        *match dimension {
            Dimension::Steps => &mut budget.steps,
            Dimension::ToolCalls => &mut budget.tool_calls,
            Dimension::Tokens => &mut budget.tokens,
            Dimension::Seconds => &mut budget.seconds,
            Dimension::ExternalCalls => &mut budget.external_calls,
            Dimension::ArtifactBytes => &mut budget.artifact_bytes,
        } = limit;
    })
}

fn using(dimension: Dimension, value: i64) -> Evidence {
    with_report(|report| match dimension {
        Dimension::Steps | Dimension::Tokens | Dimension::ExternalCalls => {
            report.reported.as_mut().unwrap()[dimension.name()] = json!(value);
        }
        Dimension::ToolCalls => report.measured.tool_calls = value,
        Dimension::Seconds => report.measured.seconds = value,
        Dimension::ArtifactBytes => {
            report.measured.artifact_bytes = value;
            report.artifact.as_mut().unwrap().size = value;
        }
    })
}

const REPORTED: [Dimension; 3] = [Dimension::Steps, Dimension::Tokens, Dimension::ExternalCalls];

#[test]
fn missing_is_refusal_for_every_telemetry_field() {
    for dimension in REPORTED {
        let dossier = limiting(dimension, Some(Limit::Limit(20)));
        let absent = with_report(|report| {
            report.reported.as_mut().unwrap().as_object_mut().unwrap().remove(dimension.name());
        });
        refuses(&dossier, &absent, Reason::TelemetryMissing);
        refuses(&dossier, &with_report(|report| report.reported = None), Reason::TelemetryMissing);
        refuses(&dossier, &with_report(|report| report.reported = Some(json!({}))), Reason::TelemetryMissing);
        // What the policy does not let the tool say is not said.
        let mut unheard = dossier.clone();
        unheard.policy.as_mut().unwrap().spec.autonomy_budget.reported.retain(|other| *other != dimension);
        refuses(&unheard, &using(dimension, 3), Reason::TelemetryMissing);
    }
}

#[test]
fn mistyped_is_refusal_for_every_telemetry_field() {
    let mistyped = [
        json!("3"),
        json!(true),
        json!(false),
        json!(null),
        json!(-1),
        json!(2.5),
        json!([3]),
        json!({"n": 3}),
        json!(""),
        json!(1e300),
        json!(u64::MAX),
        json!(MAX_SAFE_INTEGER + 1),
        json!(-0.5),
        json!(i64::MIN),
        json!("NaN"),
    ];
    for dimension in REPORTED {
        for value in &mistyped {
            for limit in [Some(Limit::Limit(20)), Some(Limit::Unlimited(True)), None] {
                let evidence =
                    with_report(|report| report.reported.as_mut().unwrap()[dimension.name()] = value.clone());
                refuses(&limiting(dimension, limit), &evidence, Reason::TelemetryMalformed);
            }
        }
    }
    for whole in [json!([]), json!("steps: 3"), json!(3), json!(true), json!(null), json!([{"steps": 3}])] {
        refuses(&dossier(), &with_report(|report| report.reported = Some(whole.clone())), Reason::TelemetryMalformed);
    }
    for dimension in [Dimension::ToolCalls, Dimension::Seconds, Dimension::ArtifactBytes] {
        for value in [-1, i64::MIN, i64::MAX] {
            refuses(&dossier(), &using(dimension, value), Reason::TelemetryMalformed);
        }
    }
}

#[test]
fn at_the_limit_is_allowed_and_one_past_it_is_not() {
    for dimension in Dimension::ALL {
        let dossier = limiting(dimension, Some(Limit::Limit(20)));
        let verdict = decide(&dossier, &using(dimension, 20));
        assert_eq!(verdict.terminal, Terminal::Complete, "{}", explain(&verdict));
        refuses(&dossier, &using(dimension, 21), Reason::BudgetExceeded);
    }
}

#[test]
fn no_limit_means_none_and_unlimited_must_be_said() {
    for dimension in Dimension::ALL {
        refuses(&limiting(dimension, None), &using(dimension, 1), Reason::BudgetExceeded);
        let verdict = decide(&limiting(dimension, None), &using(dimension, 0));
        assert_eq!(verdict.terminal, Terminal::Complete, "{}", explain(&verdict));
        let verdict = decide(&limiting(dimension, Some(Limit::Unlimited(True))), &using(dimension, MAX_SAFE_INTEGER));
        assert_eq!(verdict.terminal, Terminal::Complete, "{}", explain(&verdict));
        refuses(&limiting(dimension, Some(Limit::Limit(-1))), &using(dimension, 0), Reason::BudgetExceeded);
    }
}

#[test]
fn a_tool_cannot_talk_down_what_m87_measured_nor_hide_what_it_confesses() {
    let evidence = with_report(|report| {
        report.measured.tool_calls = 2;
        report.reported = Some(json!({"steps": 1, "toolCalls": 1}));
    });
    refuses(&dossier(), &evidence, Reason::BudgetExceeded);
    let larger = with_report(|report| report.artifact.as_mut().unwrap().size = 1 << 21);
    refuses(&dossier(), &larger, Reason::BudgetExceeded);
    // The policy does not let it report calls, has no limit for them, and the tool says that it made some.
    refuses(
        &dossier(),
        &with_report(|report| report.reported = Some(json!({"steps": 1, "externalCalls": 1}))),
        Reason::BudgetExceeded,
    );
}

#[test]
fn failed_for_every_way_a_tool_can_end_badly() {
    for ended in [
        Ended::Exited(1),
        Ended::Exited(137),
        Ended::Exited(-1),
        Ended::Signalled(9),
        Ended::NotStarted("no such file".to_owned()),
    ] {
        refuses(&dossier(), &with_report(|report| report.ended = ended), Reason::ToolFailed);
    }
    for kind in [LimitKind::Seconds, LimitKind::CpuSeconds, LimitKind::OutputBytes, LimitKind::Processes] {
        refuses(&dossier(), &with_report(|report| report.ended = Ended::Limit(kind)), Reason::ToolLimitExceeded);
    }
    for error in [json!(true), json!("boom"), json!(0), json!({})] {
        refuses(
            &dossier(),
            &with_report(|report| report.reported = Some(json!({"steps": 1, "error": error}))),
            Reason::ToolFailed,
        );
    }
    for fine in [json!(null), json!(false)] {
        let verdict =
            decide(&dossier(), &with_report(|report| report.reported = Some(json!({"steps": 1, "error": fine}))));
        assert_eq!(verdict.terminal, Terminal::Complete);
    }
    let mut silent = evidence();
    silent.execution.as_mut().unwrap().report = None;
    refuses(&dossier(), &silent, Reason::OutcomeUnknown);
    assert_eq!(decide(&dossier(), &silent).effect, Effect::Unknown);
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
fn a_mistyped_record_is_never_read_as_something_else() {
    let whole = serde_json::to_value(evidence()).unwrap();
    let pointers = [
        "/proposed/proposalHash",
        "/proposed/traceHash",
        "/validated/constraintsOk",
        "/validated/toolInManifest",
        "/validated/drifted",
        "/contract/issued/id",
        "/redeemed/attempt",
        "/execution/report/ended",
        "/execution/report/measured/toolCalls",
        "/execution/report/measured/seconds",
        "/execution/report/measured/artifactBytes",
        "/execution/report/artifact/sha256",
        "/execution/report/artifact/size",
        "/verified/recomputed",
        "/verified/validation/ended",
        "/promoted/accepted",
        "/promoted/at",
    ];
    for pointer in pointers {
        for mistyped in [json!([1]), json!({"x": 1}), json!(1.5), json!(-1.5)] {
            let mut value = whole.clone();
            *value.pointer_mut(pointer).expect(pointer) = mistyped.clone();
            assert!(serde_json::from_value::<Evidence>(value).is_err(), "{pointer}: {mistyped}");
        }
    }
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
fn the_twin_law_holds() {
    let asking = |username: &str, attestation, auto: bool, listed: bool, operation, reversibility| {
        let mut dossier = with_tool(|tool| {
            tool.effects[0].operation = operation;
            tool.reversibility = reversibility;
        });
        dossier.actor = Actor { username: username.to_owned(), uid: String::new(), attestation };
        let approvals = &mut dossier.policy.as_mut().unwrap().spec.approvals;
        if !auto {
            approvals.auto_approve = None;
        } else if listed {
            approvals.auto_approve.as_mut().unwrap().non_humans = vec![username.to_owned()];
        }
        decide(&dossier, &validated_only(&dossier)).reason != Some(Reason::ApprovalRequired)
    };
    use Attestation::{Admission, OperatingSystem, Unattested};
    use Operation::{Create, Delete, Read, Update};
    use Reversibility::{Irreversible, Reversible};
    let robot = "system:serviceaccount:default:agent";
    for human in [OperatingSystem, Admission] {
        assert!(asking("alice", human, false, false, Read, Irreversible), "a person may read");
        for operation in [Create, Update, Delete] {
            assert!(!asking("alice", human, false, false, operation, Reversible));
            assert!(asking("alice", human, true, false, operation, Reversible));
            assert!(!asking("alice", human, true, false, operation, Irreversible));
        }
    }
    for operation in [Read, Create] {
        assert!(
            !asking(robot, Admission, false, false, operation, Reversible),
            "a non-human needs a yes even for reads"
        );
        assert!(!asking(robot, Admission, true, false, operation, Reversible));
        assert!(asking(robot, Admission, true, true, operation, Reversible));
        assert!(!asking("system:node:n1", OperatingSystem, true, false, operation, Reversible));
        for username in ["alice", robot] {
            assert!(!asking(username, Unattested, true, true, operation, Reversible), "nobody vouches for {username}");
        }
    }
    stops(
        &with_policy(|policy| policy.approvals.auto_approve.as_mut().unwrap().risk_at_most = Risk::Low)
            .tap(|dossier| dossier.proposal.risk = Some("medium".to_owned())),
        Reason::ApprovalRequired,
    );
    // Declaring no effect is not believed to be a read.
    let mut undeclared = with_tool(|tool| tool.effects.clear());
    undeclared.policy.as_mut().unwrap().spec.approvals.auto_approve = None;
    stops(&undeclared, Reason::ApprovalRequired);
}

trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
impl Tap for Dossier {}

#[test]
fn the_baseline_makes_every_rule_stricter_and_none_weaker() {
    let cases: [(fn(&mut PolicySpec), Reason); 6] = [
        (|baseline| baseline.constraints.risks_allowed = vec![Risk::High], Reason::RiskNotAllowed),
        (|baseline| baseline.constraints.targets_forbidden = vec!["reports/**".to_owned()], Reason::TargetForbidden),
        (|baseline| baseline.constraints.actors_allowed = vec!["bob".to_owned()], Reason::ActorNotPermitted),
        (|baseline| baseline.approvals.auto_approve = None, Reason::ApprovalRequired),
        (|baseline| baseline.autonomy_budget.steps = Some(Limit::Limit(2)), Reason::BudgetExceeded),
        (|baseline| baseline.autonomy_budget.reported = vec![], Reason::TelemetryMissing),
    ];
    for (change, reason) in cases {
        let mut strict = policy();
        change(&mut strict);
        for (own, baseline) in [(policy(), strict.clone()), (strict, policy())] {
            let dossier = Dossier {
                policy: Some(pinned("policy", own)),
                baseline: Some(pinned("baseline", baseline)),
                ..dossier()
            };
            let evidence = if reason.ends() == crate::reason::Ends::Always(Terminal::Halt) {
                validated_only(&dossier)
            } else {
                evidence()
            };
            refuses(&dossier, &evidence, reason);
        }
    }
    let both = Dossier { baseline: Some(pinned("baseline", policy())), ..dossier() };
    assert_eq!(decide(&both, &evidence()).terminal, Terminal::Complete);
}

/// A leaf or a member of a valid document replaced by any JSON, or removed.
fn mutated(valid: Value) -> impl Strategy<Value = Value> {
    let mut places = vec![];
    collect(&valid, String::new(), &mut places);
    let any_json = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!(["**", "["])),
        Just(json!({"limit": -1})),
        Just(json!({"unlimited": true})),
        Just(json!("2026-11-30T00:00:00Z")),
        Just(json!("critical")),
        Just(json!([[[[1e308]]]])),
    ];
    prop::collection::vec((prop::sample::select(places), prop::option::of(any_json)), 1..5).prop_map(move |changes| {
        let mut value = valid.clone();
        for (place, change) in changes {
            match change {
                Some(new) => {
                    if let Some(old) = value.pointer_mut(&place) {
                        *old = new;
                    }
                }
                None => {
                    if let Some((parent, key)) = place.rsplit_once('/')
                        && let Some(Value::Object(members)) = value.pointer_mut(parent)
                    {
                        members.remove(key);
                    }
                }
            }
        }
        value
    })
}

fn collect(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| collect(member, format!("{at}/{key}"), places))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| collect(item, format!("{at}/{index}"), places))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    places.push(at);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decide_never_panics_and_always_says_one_thing(
        dossier in mutated(serde_json::to_value(dossier()).unwrap()),
        evidence in mutated(serde_json::to_value(evidence()).unwrap()),
    ) {
        let dossier = serde_json::from_value(dossier).unwrap_or_else(|_| crate::fixtures::dossier());
        let evidence = serde_json::from_value(evidence).unwrap_or_else(|_| crate::fixtures::evidence());
        let verdict = decide(&dossier, &evidence);
        let first = verdict.trace.iter().find(|clause| !clause.passed);
        prop_assert_eq!(verdict.reason, first.map(|clause| clause.reason));
        prop_assert_eq!(verdict.reason.is_none(), verdict.terminal == Terminal::Complete);
        prop_assert!(verdict.terminal == Terminal::Complete || verdict.failure_class.is_some());
        if matches!(verdict.terminal, Terminal::Halt | Terminal::RejectManifest) {
            prop_assert_eq!(verdict.effect, Effect::None);
        }
        if verdict.terminal == Terminal::Complete {
            prop_assert_eq!(verdict.effect, Effect::Dispatched);
        }
        // The explanation ends with the verdict and has each clause once.
        let explained = explain(&verdict);
        let last = explained.lines().last().unwrap();
        let ending = format!("{} {}", verdict.terminal.name(), verdict.reason.map_or("", Reason::name));
        prop_assert_eq!(last, ending.trim_end());
        prop_assert_eq!(explained.lines().filter(|line| line.starts_with("  NO   ")).count(), verdict.trace.iter().filter(|clause| !clause.passed).count());
        // Whoever reads the canonical text of the inputs judges the same.
        if let (Ok(dossier), Ok(evidence)) = (to_canonical(&dossier), to_canonical(&evidence)) {
            let again = decide(&serde_json::from_str(&dossier).unwrap(), &serde_json::from_str(&evidence).unwrap());
            prop_assert_eq!(again, verdict);
        }
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
