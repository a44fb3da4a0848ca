//! What is written, to the byte: statuses that own nothing but themselves, and Events that are few and harm nothing.

use super::api::{FakeApi, Fault, Verb};
use super::rig::{Rig, apply_policy, apply_run, references};
use super::{Duration, RUNS, fixtures};
use m87_api::{GovernancePolicySpec, GovernedRunSpec, Spec};
use m87_core::evidence::Evidence;
use m87_core::tool::ManifestSpec;
use serde_json::{Value, json};

/// The first place that holds null.
fn null_in(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        Value::Array(items) => items.iter().enumerate().find_map(|(at, item)| Some(format!("/{at}{}", null_in(item)?))),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| Some(format!("/{name}{}", null_in(field)?))),
    }
}

/// Runs of every kind: over well and badly, waiting for one thing and another, and not to be read.
async fn everything() -> Rig {
    let rig = Rig::start_over(FakeApi::new(), Vec::new());
    rig.api.apply(GovernedRunSpec::KIND, RUNS, "bad", json!({"policyRef": "a string"}), json!({}));
    let (kind, plural) = (GovernancePolicySpec::KIND, GovernancePolicySpec::PLURAL);
    rig.api.apply(kind, plural, "bad", json!({"constraints": 7}), json!({}));
    rig.api.apply(ManifestSpec::KIND, ManifestSpec::PLURAL, "bad", json!({"tools": {}}), json!({}));
    references(&rig.api);
    apply_run(&rig.api, "waits", json!({"policyRef": {"name": "nope"}}));
    apply_run(&rig.api, "asleep", json!({"suspend": true}));
    let (good, refused) = (rig.run("good"), rig.run("refused"));
    rig.pass(5).await;
    rig.book.seal(&good, fixtures::evidence());
    rig.book.seal(&refused, Evidence::default());
    rig.pass(5).await;
    for at in 0..4 {
        rig.run(&format!("more-{at}"));
    }
    rig.pass(90).await;
    assert_eq!(
        (rig.says("good", "/terminal"), rig.ready_reason("asleep")),
        (json!("COMPLETE"), "Suspended".to_owned())
    );
    assert!(!rig.says("refused", "/terminal").is_null() && rig.says("refused", "/terminal") != "COMPLETE");
    rig
}

#[tokio::test(start_paused = true)]
async fn a_write_of_status_is_for_one_uid_and_holds_the_status_alone_without_nulls() {
    let rig = everything().await;
    let written = rig.api.sent(Verb::PatchStatus);
    assert!(written.len() >= 12, "{}", written.len());
    for body in &written {
        let told: Vec<_> = body.as_array().unwrap().iter().map(|it| (&it["op"], &it["path"])).collect();
        assert_eq!(told, [(&json!("test"), &json!("/metadata/uid")), (&json!("add"), &json!("/status"))]);
        assert!(body[0]["value"].is_string() && body[1]["value"].is_object(), "{body}");
        assert_eq!(null_in(body), None, "{body}");
    }
    let events = rig.api.sent(Verb::Event);
    assert!(events.len() >= 3, "{}", events.len());
    for body in &events {
        assert_eq!(null_in(body), None, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_for_a_refusal_or_what_cannot_be_read_and_is_told_once() {
    let rig = everything().await;
    let told = |rig: &Rig| {
        let events = rig.api.sent(Verb::Event);
        let of =
            |event: &Value| format!("{}/{}", event["regarding"]["kind"], event["regarding"]["name"]).replace('"', "");
        let mut told: Vec<String> = events.iter().map(of).collect();
        told.sort();
        told
    };
    let once = ["GovernancePolicy/bad", "GovernedRun/bad", "GovernedRun/refused"];
    assert_eq!(told(&rig), once, "what goes well, or waits, is no event");
    // Looked at again and again, changed in what does not matter, its status written over: it was told.
    apply_run(&rig.api, "refused", json!({"suspend": true}));
    rig.pass(5).await;
    rig.api.forge("refused", json!({"terminal": "COMPLETE", "receipt": {"hash": "forged", "logIndex": 0}}));
    apply_policy(&rig.api, json!({"retention": {"ttlSecondsAfterSealed": 360_000}}));
    rig.pass(600).await;
    assert_ne!(rig.says("refused", "/terminal"), "COMPLETE", "the status was written again");
    assert_eq!(told(&rig), once);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_fails_or_is_never_answered_harms_no_run_and_no_later_event() {
    for fault in [Fault::Answer(403), Fault::Answer(404), Fault::Answer(500), Fault::Silence] {
        let rig = Rig::start();
        rig.pass(2).await;
        rig.api.next(Verb::Event, fault);
        let refused = rig.run("refused");
        rig.pass(3).await;
        rig.book.seal(&refused, Evidence::default());
        rig.pass(3).await;
        assert!(!rig.says("refused", "/terminal").is_null(), "{fault:?}");
        *rig.book.seals_after.lock().unwrap() = Some(Duration::ZERO);
        rig.run("good");
        rig.pass(3).await;
        assert_eq!(rig.says("good", "/terminal"), "COMPLETE", "{fault:?}");
        *rig.book.seals_after.lock().unwrap() = None;
        let later = rig.run("later");
        rig.pass(3).await;
        rig.book.seal(&later, Evidence::default());
        rig.pass(30).await;
        let told = |name: &str| rig.api.sent(Verb::Event).iter().any(|event| event["regarding"]["name"] == name);
        assert!(told("refused") && told("later"), "{fault:?}: the Events after it are recorded");
    }
}
