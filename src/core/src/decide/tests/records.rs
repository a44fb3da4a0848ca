//! Every field of every record, found in a whole example and not in a list: a field that is added is judged here by itself.

use super::*;
use crate::evidence::Refusal;

/// A budget that limits every dimension, so that every figure is looked at, and what a run that is COMPLETE under it has left.
/// Nothing is left out, also not what is only for people.
fn whole() -> (Dossier, Evidence) {
    let dossier = with_policy(|policy| {
        let budget = &mut policy.autonomy_budget;
        (budget.tokens, budget.external_calls) = (Some(Limit::Limit(20)), Some(Limit::Limit(20)));
        budget.reported = Dimension::ALL.into_iter().filter(|dimension| !dimension.is_measured()).collect();
    });
    let mut evidence = with_report(|report| {
        report.reported = Some(json!({"steps": 3, "tokens": 3, "externalCalls": 3}));
        report.output = "said by the tool".to_owned();
    });
    evidence.verified.as_mut().unwrap().validation.as_mut().unwrap().output = "said by the validation".to_owned();
    (dossier, evidence)
}

/// What a run has left that was refused its contract, and ended from outside.
fn stopped() -> Evidence {
    Evidence {
        contract: Some(ContractRecord::Refused { cause: Refusal::Suspended, at: at(3) }),
        interrupted: Some(Interrupted { reason: Reason::Cancelled, at: at(4) }),
        ..Evidence::default()
    }
}

/// Where anything stands in a value, itself left out.
fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        for (name, member) in value.as_object().into_iter().flatten() {
            let place = format!("{at}/{name}");
            walk(member, &place, found);
            found.push(place);
        }
    }
    let mut found = Vec::new();
    walk(value, "", &mut found);
    found
}

fn without(value: &Value, place: &str) -> Value {
    let mut value = value.clone();
    let (parent, name) = place.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    value
}

/// What is told to people and judged by nobody.
fn is_for_people(place: &str) -> bool {
    place.ends_with("/output")
}

/// What the tool wrote itself: any JSON can be read there, and the budget gate must refuse it.
fn is_the_tools_own(place: &str) -> bool {
    place.starts_with("/execution/report/reported")
}

fn sort_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// COMPLETE, or why not: the reason, or that it could not be read at all.
fn judged(dossier: &Dossier, evidence: Value) -> Result<(), Option<Reason>> {
    let Ok(evidence) = serde_json::from_value::<Evidence>(evidence) else { return Err(None) };
    let verdict = decide(dossier, &evidence);
    match (verdict.terminal, verdict.reason) {
        (Terminal::Complete, None) => Ok(()),
        (Terminal::Halt | Terminal::RejectManifest, reason) if evidence.redeemed.is_some() => {
            panic!("{:?} {reason:?} after the contract was redeemed", verdict.terminal)
        }
        (_, reason) => Err(Some(reason.expect("a refusal has its reason"))),
    }
}

#[test]
fn the_examples_have_every_field() {
    let (dossier, evidence) = whole();
    assert_eq!(judged(&dossier, serde_json::to_value(&evidence).unwrap()), Ok(()));
    let both = Evidence { interrupted: stopped().interrupted, ..evidence };
    let shown = format!("{both:?}");
    for nothing in ["None", "\"\"", "[]", "{}"] {
        assert!(!shown.contains(nothing), "a field of the example is {nothing}, and so it is not tried: {shown}");
    }
}

#[test]
fn missing_is_refusal_for_every_field_of_every_record() {
    let (dossier, evidence) = whole();
    let value = serde_json::to_value(evidence).unwrap();
    let places = places(&value);
    assert!(places.len() > 40, "{places:?}");
    for place in places {
        let judged = judged(&dossier, without(&value, &place));
        assert_eq!(judged.is_ok(), is_for_people(&place), "{place}: {judged:?}");
        if is_the_tools_own(&place) {
            assert_eq!(judged, Err(Some(Reason::TelemetryMissing)), "{place}");
        }
    }
    // In these records nothing can be left out: what is not whole is not read.
    let value = serde_json::to_value(stopped()).unwrap();
    for place in self::places(&value).iter().filter(|place| place.matches('/').count() > 1) {
        assert!(serde_json::from_value::<Evidence>(without(&value, place)).is_err(), "{place}");
    }
}

#[test]
fn mistyped_is_refusal_for_every_field_of_every_record() {
    let (dossier, evidence) = whole();
    let mistyped = [
        json!("3"),
        json!(""),
        json!(true),
        json!(false),
        json!(null),
        json!(-1),
        json!(i64::MIN),
        json!(1.5),
        json!(-1.5),
        json!(1e300),
        json!(u64::MAX),
        json!([1]),
        json!({"x": 1}),
    ];
    for whole in [serde_json::to_value(evidence).unwrap(), serde_json::to_value(stopped()).unwrap()] {
        for place in places(&whole) {
            let sort = sort_of(whole.pointer(&place).unwrap());
            // A number that is none from 0 up is a mistyped one; another string may be a text like any other.
            for wrong in mistyped.iter().filter(|wrong| sort_of(wrong) != sort || sort == "a number") {
                let mut value = whole.clone();
                *value.pointer_mut(&place).unwrap() = wrong.clone();
                let judged = judged(&dossier, value);
                if is_the_tools_own(&place) {
                    let is_nothing = wrong.is_null() && place.ends_with("/reported");
                    let reason = if is_nothing { Reason::TelemetryMissing } else { Reason::TelemetryMalformed };
                    assert_eq!(judged, Err(Some(reason)), "{place}: {wrong}");
                    continue;
                }
                assert!(judged.is_err(), "{place}: {wrong} is taken for {sort}");
                // Null is absence, and a whole number below 0 is judged. Whatever else is not of its sort is not even read.
                let is_judged = wrong.is_null() || (sort == "a number" && wrong.is_i64());
                if !is_judged {
                    assert_eq!(judged, Err(None), "{place}: {wrong} is read as {sort}");
                }
            }
        }
    }
}
