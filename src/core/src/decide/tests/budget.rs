//! What is judged by what the tool used and how it ended.

use super::*;

/// Every dimension limited, reported where it can be, with `value` as the figure that is looked at.
pub(super) fn limiting(dimension: Dimension, limit: Option<Limit>) -> Dossier {
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

pub(super) fn using(dimension: Dimension, value: i64) -> Evidence {
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
