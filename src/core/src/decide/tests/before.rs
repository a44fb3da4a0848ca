//! What is judged before anything runs: the first two gates.

use super::*;

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
    let whole = Proposal { capability: Some("sum-payments".to_owned()), ..dossier().proposal };
    assert!(
        !format!("{whole:?}").contains("None"),
        "a field of the example is absent, and so it is not tried: {whole:?}"
    );
    let whole = serde_json::to_value(whole).unwrap();
    // The input is any JSON; the tool's schema judges it.
    let fields: Vec<&String> = whole.as_object().unwrap().keys().filter(|field| *field != "input").collect();
    for field in fields {
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
