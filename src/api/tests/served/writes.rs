//! What may change, and what is written once.

use crate::client::{create, delete, get, replace, replace_status};
use crate::departures::fields;
use crate::examples;
use m87_api::crd::definition;
use m87_api::status::{Status, to_value};
use m87_api::{
    Condition, GovernancePolicySpec, GovernancePolicyStatus, GovernedRunSpec, GovernedRunStatus, Spec,
    ToolManifestStatus,
};
use m87_core::tool::ManifestSpec;
use serde_json::{Value, json};

#[test]
#[ignore = "needs an API server: tests/kube/crds"]
fn a_run_is_immutable_but_for_suspend_and_cancel() {
    let example = examples::object::<GovernedRunSpec>("immutable", examples::run());
    let stored = create::<GovernedRunSpec>(&example);
    let schema = definition::<GovernedRunSpec>()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let mut tried = 0;
    let mut refused = |object: &Value, what: &str| {
        replace::<GovernedRunSpec>(object).refused(what, "cannot change");
        tried += 1;
    };
    for field in fields(&schema, &stored) {
        let path = field.path();
        if ["spec.suspend", "spec.cancel"].contains(&path.as_str()) {
            continue;
        }
        let other = match stored.pointer(&field.pointer()).unwrap() {
            Value::String(text) => Some(json!(format!("{text}x"))),
            Value::Number(number) => Some(json!(number.as_i64().unwrap() + 1)),
            _ if path == "spec.proposal.input" => Some(json!({"out": "b"})),
            _ => None,
        };
        if let Some(other) = other {
            refused(&field.with(&stored, other), &path);
        }
        if !field.required {
            refused(&field.without(&stored), &path);
        }
    }
    // Inside what is untyped, a renamed key, another number and a null count.
    for (pointer, value) in [("/rows/0", json!(2)), ("/rows/1", json!(0)), ("/rows/2", json!({"deeper": [true]}))] {
        let mut changed = stored.clone();
        *changed.pointer_mut(&format!("/spec/proposal/input{pointer}")).unwrap() = value;
        refused(&changed, pointer);
    }

    // What was left out cannot be added later.
    let mut least = examples::run();
    for field in ["idempotencyKey", "deadlineSeconds", "actor", "suspend", "cancel"] {
        least.as_object_mut().unwrap().remove(field);
    }
    least["proposal"] = json!({});
    let stored = create::<GovernedRunSpec>(&examples::object::<GovernedRunSpec>("least", least));
    let whole = examples::run();
    for field in ["idempotencyKey", "deadlineSeconds", "actor", "proposal"] {
        let mut changed = stored.clone();
        changed["spec"][field] = whole[field].clone();
        refused(&changed, field);
    }
    println!("-- GovernedRun: {tried} changes of a run refused");

    let set = |field: &str, value: Option<bool>| {
        let mut object = get::<GovernedRunSpec>("least");
        let spec = object["spec"].as_object_mut().unwrap();
        match value {
            Some(value) => drop(spec.insert(field.to_owned(), json!(value))),
            None => drop(spec.remove(field)),
        }
        replace::<GovernedRunSpec>(&object)
    };
    for value in [Some(true), Some(false), Some(true), None] {
        set("suspend", value).taken("suspend");
    }
    set("cancel", Some(false)).taken("not cancelled");
    set("cancel", None).taken("nor this");
    set("cancel", Some(true)).taken("cancelled");
    set("cancel", Some(false)).refused("a cancel taken back", "cannot be taken back");
    set("cancel", None).refused("a cancel taken out", "cannot be taken back");
    set("suspend", Some(true)).taken("suspended, though cancelled");
    delete::<GovernedRunSpec>("immutable");
    delete::<GovernedRunSpec>("least");
}

#[test]
#[ignore = "needs an API server: tests/kube/crds"]
fn terminal_and_receipt_are_written_once() {
    let mut forged = examples::object::<GovernedRunSpec>("sealed", examples::run());
    forged["status"] = json!({"observedGeneration": 1, "terminal": "COMPLETE"});
    let stored = create::<GovernedRunSpec>(&forged);
    assert_eq!(stored["status"], json!({"observedGeneration": -1}), "who creates an object does not write its status");

    let with = |status: Value| {
        let mut object = get::<GovernedRunSpec>("sealed");
        object["status"] = status;
        replace_status::<GovernedRunSpec>(&object)
    };
    with(json!({"observedGeneration": 1, "phase": "Open"})).taken("an open run");
    let hash = "0".repeat(64);
    let sealed = json!({"observedGeneration": 1, "phase": "Sealed", "terminal": "HALT", "reason": "Cancelled", "receipt": {"hash": hash, "logIndex": 0}});
    with(sealed.clone()).taken("a sealed run");
    let without = |field: &str| {
        let mut status = sealed.clone();
        status.as_object_mut().unwrap().remove(field);
        status
    };
    for (status, words) in [
        (without("terminal"), "status.terminal is written once"),
        (without("receipt"), "status.receipt is written once"),
        (json!({"observedGeneration": 1}), "is written once"),
        (Value::Null, "is written once"),
    ] {
        with(status).refused("something taken away", words);
    }
    for (pointer, value, words) in [
        ("/terminal", json!("COMPLETE"), "status.terminal is written once"),
        ("/receipt/logIndex", json!(1), "status.receipt is written once"),
        ("/receipt/hash", json!("1".repeat(64)), "status.receipt is written once"),
        ("/terminal", json!("MAYBE"), "Unsupported value"),
        ("/reason", json!("Because"), "Unsupported value"),
    ] {
        let mut status = sealed.clone();
        *status.pointer_mut(pointer).unwrap() = value;
        with(status).refused(pointer, words);
    }
    let mut later = sealed.clone();
    later["observedGeneration"] = json!(2);
    with(later).taken("a later generation");

    // The object's own path does not reach its status, nor its status' path the spec.
    let mut object = get::<GovernedRunSpec>("sealed");
    object["status"] = json!({"terminal": "COMPLETE"});
    assert_eq!(replace::<GovernedRunSpec>(&object).taken("the object")["status"]["terminal"], "HALT");
    let mut object = get::<GovernedRunSpec>("sealed");
    object["spec"]["proposal"] = json!({});
    assert_eq!(replace_status::<GovernedRunSpec>(&object).taken("the status")["spec"], examples::run());
    delete::<GovernedRunSpec>("sealed");
    println!("-- GovernedRun: terminal and receipt are written once");
}

/// The largest status that can be written is taken as it is, and reads back the same.
fn largest<S: Spec>(name: &str, spec: Value, status: &S::Status) {
    let mut object = create::<S>(&examples::object::<S>(name, spec));
    object["status"] = to_value(status);
    let stored = replace_status::<S>(&object).taken(S::KIND);
    assert_eq!(stored["status"], object["status"], "{}", S::KIND);
    let read: S::Status = serde_json::from_value(stored["status"].clone()).unwrap();
    assert_eq!(to_value(&read), object["status"]);
    let size = stored["status"].to_string().len();
    assert!((10_000..32_768).contains(&size), "{} has {size} bytes", S::KIND);
    println!("-- {}: its largest status has {size} bytes", S::KIND);
    delete::<S>(name);
}

fn conditions() -> Vec<Condition> {
    let one = |at: usize| {
        serde_json::from_value(json!({
            "type": format!("Type{at}"),
            "status": "Unknown",
            "observedGeneration": i64::MAX,
            "lastTransitionTime": "2026-01-31T12:00:00Z",
            "reason": "R".repeat(64),
            "message": "\"".repeat(5000),
        }))
        .unwrap()
    };
    (0..40).map(one).collect()
}

#[test]
#[ignore = "needs an API server: tests/kube/crds"]
fn the_largest_status_of_each_kind_is_taken() {
    let long = "😀\u{0}".repeat(5000);
    let policy: GovernancePolicyStatus = serde_json::from_value(json!({
        "observedGeneration": 1,
        "deployment": {"engineId": long, "definitionKey": "-9223372036854775808", "version": 3, "bpmnSha256": long},
        "proof": {"bpmnSha256": long, "proved": false, "counterexample": long},
    }))
    .unwrap();
    let policy = GovernancePolicyStatus { conditions: conditions(), ..policy };
    largest::<GovernancePolicySpec>("largest", examples::policy(), &policy);

    let refused: Vec<Value> =
        (0..100).map(|at| json!({"name": format!("{at}{long}"), "reason": "InputInvalid", "message": long})).collect();
    let manifest: ToolManifestStatus = serde_json::from_value(json!({
        "observedGeneration": 1, "sha256": long, "tools": {"ready": 1, "refused": 100}, "refused": refused,
    }))
    .unwrap();
    let manifest = ToolManifestStatus { conditions: conditions(), ..manifest };
    largest::<ManifestSpec>("largest", examples::manifest(), &manifest);

    let run: GovernedRunStatus = serde_json::from_value(json!({
        "observedGeneration": 1, "phase": "Sealed", "terminal": "REJECT_MANIFEST", "reason": "InputInvalid", "message": long,
        "failureClass": "structural", "effect": "none", "planHash": long,
        "decision": {"outcome": "blocked", "reasonCodes": ["Drifted", "RiskUnknown"], "id": long},
        "engine": {"id": long, "instanceKey": "1", "definitionKey": "2", "version": 1},
        "gates": {"constraintsOk": true, "toolInManifest": null, "budgetExceeded": null, "artifactVerified": false},
        "usage": {"steps": {"value": 3, "source": "reported"}, "seconds": {"value": 1, "source": "measured"}},
        "artifact": {"declared": long, "recomputed": null, "size": 3},
        "verification": {"notStarted": long},
        "receipt": {"hash": long, "logIndex": 1},
        "alreadyDone": {"name": long, "uid": long},
    }))
    .unwrap();
    let run = GovernedRunStatus { conditions: conditions(), ..run };
    assert!(run.conditions().len() > 12);
    largest::<GovernedRunSpec>("largest", examples::run(), &run);
}
