//! How tokens move: gateways, scopes, errors, ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use crate::fixture::*;
use crate::machine::{Command, CreateRequest, JobKind, Reach, Target};
use crate::rejection::RejectionKind;
use crate::view::{Ending, IncidentKind};

#[test]
fn an_instance_without_jobs_completes_at_once() {
    let manual = r#"<bpmn:manualTask id="m"/>"#.to_owned();
    let mut lab = Lab::with(&[model("p", &[start("s"), manual, end("e"), flow("s", "m"), flow("m", "e")])]);
    let created = lab.create(json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
    assert_eq!(lab.path(), ["s", "m", "e"]);
    assert_eq!(lab.state.running(), 0);
}

#[test]
fn a_service_task_waits_for_its_job() {
    let headers = r#"<zeebe:taskHeaders><zeebe:header key="k" value="v"/></zeebe:taskHeaders>"#;
    let parts = [start("s"), task_with("t", "work", "5", headers), end("e"), flow("s", "t"), flow("t", "e")];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({"x": 1}));
    assert!(lab.endings(created.instance).is_empty());
    let job = lab.job("work");
    assert_eq!((job.instance, job.definition, job.version), (created.instance, created.definition, 1));
    assert_eq!((job.element_id.as_str(), job.process_id.as_str(), job.retries), ("t", "p", 5));
    assert_eq!((job.kind, job.headers["k"].as_str()), (JobKind::Element, "v"));
    assert_eq!(json!(job.variables), json!({"x": 1}));
    lab.complete(job.key, json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
}

#[test]
fn the_first_true_condition_in_document_order_wins_and_else_the_default() {
    for (x, taken) in
        [(json!({"x": true}), "a"), (json!({"x": false}), "b"), (json!({}), "b"), (json!({"x": null}), "b")]
    {
        let mut lab = Lab::with(&[choice("= x = true", true)]);
        lab.create(x.clone());
        assert_eq!(lab.path(), ["s", "g", taken], "{x}");
    }
    let parts = [
        start("s"),
        exclusive("g", "g_c"),
        flow("s", "g"),
        flow("g", "c"),
        flow_if("g", "b", "= true"),
        flow_if("g", "a", "= true"),
        task("a", "a"),
        task("b", "b"),
        task("c", "c"),
    ];
    let mut lab = Lab::with(&[model("p", &parts)]);
    lab.create(json!({}));
    assert_eq!(lab.path(), ["s", "g", "b"]);
}

#[test]
fn a_condition_that_is_not_boolean_is_an_incident_in_spite_of_the_default() {
    for condition in ["= x", "= not(x)", "= x &gt; 5", "= x = &quot;yes&quot;"] {
        let mut lab = Lab::with(&[choice(condition, true)]);
        let variables = if condition.contains("quot") { json!({"x": true}) } else { json!({}) };
        let created = lab.create(variables);
        let incident = lab.incident();
        assert_eq!(
            (incident.kind, incident.element_id.as_str()),
            (IncidentKind::ExtractValueError, "g"),
            "{condition}"
        );
        let source = condition.trim_start_matches("= ").replace("&gt;", ">").replace("&quot;", "\"");
        let text = format!("Expected result of the expression '{source}' to be 'BOOLEAN', but was 'NULL'.");
        assert!(incident.message.starts_with(&text), "{}", incident.message);

        // Still wrong: the same incident anew. Put right: it goes on.
        lab.run(Command::Resolve { incident: incident.key }).unwrap();
        let again = lab.incident();
        assert_ne!(again.key, incident.key);
        let right = if condition.contains("quot") {
            json!("yes")
        } else if condition.contains('5') {
            json!(6)
        } else {
            json!(true)
        };
        lab.set(created.instance, json!({"x": right}), Reach::Propagated).unwrap();
        lab.run(Command::Resolve { incident: again.key }).unwrap();
        assert!(lab.state.incidents().is_empty(), "{condition}");
        assert_eq!(lab.path().len(), 3);
    }
}

#[test]
fn a_missing_variable_is_named_in_the_incident() {
    let mut lab = Lab::with(&[choice("= x", true)]);
    lab.create(json!({}));
    assert_eq!(
        lab.incident().message,
        "Expected result of the expression 'x' to be 'BOOLEAN', but was 'NULL'. The evaluation reported the following \
         warnings:\n[NO_VARIABLE_FOUND] No variable found with name 'x'"
    );
}

#[test]
fn no_true_condition_and_no_default_is_an_incident() {
    let mut lab = Lab::with(&[choice("= x = true", false)]);
    let created = lab.create(json!({}));
    let incident = lab.incident();
    assert_eq!(incident.kind, IncidentKind::ConditionError);
    assert_eq!(incident.message, "Expected at least one condition to evaluate to true, or to have a default flow");
    lab.set(created.instance, json!({"x": true}), Reach::Local).unwrap();
    lab.run(Command::Resolve { incident: incident.key }).unwrap();
    assert_eq!(lab.path(), ["s", "g", "a"]);
}

#[test]
fn a_gateway_without_a_way_out_ends_the_path() {
    let mut lab = Lab::with(&[model("p", &[start("s"), exclusive("g", ""), flow("s", "g")])]);
    let created = lab.create(json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
}

#[test]
fn a_parallel_join_waits_for_one_token_per_flow() {
    let parts = [
        start("s"),
        parallel("fork"),
        task("a", "a"),
        task("b", "b"),
        parallel("join"),
        task("c", "c"),
        flow("s", "fork"),
        flow("fork", "a"),
        flow("fork", "b"),
        flow("a", "join"),
        flow("b", "join"),
        flow("join", "c"),
    ];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    let (a, b) = (lab.job("a"), lab.job("b"));
    lab.complete(a.key, json!({}));
    assert!(!lab.path().contains(&"join"));
    lab.complete(b.key, json!({}));
    let c = lab.job("c");
    assert_eq!(lab.path().iter().filter(|node| **node == "join").count(), 1);
    lab.complete(c.key, json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
}

#[test]
fn two_tokens_of_one_flow_do_not_open_a_join() {
    // The fork has two flows into `a`, so that two tokens reach the join by one and the same flow.
    let parts = [
        start("s"),
        parallel("fork"),
        task("a", "a"),
        task("b", "b"),
        parallel("join"),
        end("e"),
        flow("s", "fork"),
        flow("fork", "a"),
        flow("fork", "b"),
        r#"<bpmn:sequenceFlow id="again" sourceRef="fork" targetRef="a"/>"#.to_owned(),
        flow("a", "join"),
        flow("b", "join"),
        flow("join", "e"),
    ];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    for job in lab.activate("a", 10) {
        lab.complete(job.key, json!({}));
    }
    assert!(!lab.path().contains(&"join"));
    let b = lab.job("b");
    lab.complete(b.key, json!({}));
    assert!(lab.path().contains(&"e"));
    // The second token of that flow waits for a partner that never comes: the instance does not end by itself.
    assert!(lab.endings(created.instance).is_empty());
    lab.run(Command::Cancel { instance: created.instance }).unwrap();
    assert_eq!(lab.endings(created.instance), [Ending::Terminated]);
}

#[test]
fn a_terminate_end_ends_its_scope_and_no_more() {
    let terminate = end_with("stop", "<bpmn:terminateEventDefinition/>");
    let inside = [
        start("is"),
        parallel("ifork"),
        task("long", "long"),
        terminate,
        flow("is", "ifork"),
        flow("ifork", "long"),
        flow("ifork", "stop"),
    ];
    let parts =
        [start("s"), subprocess("sub", &inside), task("after", "after"), flow("s", "sub"), flow("sub", "after")];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    assert!(lab.activate("long", 1).is_empty());
    let after = lab.job("after");
    lab.complete(after.key, json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
}

fn guarded(boundaries: &[String], more: &[String]) -> String {
    let mut parts = vec![start("s"), task("t", "work"), end("e"), flow("s", "t"), flow("t", "e")];
    parts.extend_from_slice(boundaries);
    parts.extend_from_slice(more);
    model("p", &parts)
}

#[test]
fn a_thrown_error_is_caught_by_its_code_before_any() {
    for (code, caught) in [("oops", "exact"), ("other", "any")] {
        let boundaries = [boundary("any", "t", true), boundary("exact", "t", false)];
        let more = [task("x", "x"), task("y", "y"), flow("any", "x"), flow("exact", "y")];
        let mut lab = Lab::with(&[guarded(&boundaries, &more)]);
        let created = lab.create(json!({}));
        let job = lab.job("work");
        lab.throw(job.key, code, json!({"cause": code})).unwrap();
        assert!(lab.path().contains(&caught), "{code}: {:?}", lab.path());
        assert!(lab.state.job(job.key).is_none() && lab.state.element(job.element).is_none());
        assert_eq!(lab.variables(created.instance), json!({"cause": code}));
        assert!(!lab.path().contains(&"e"));
    }
}

#[test]
fn an_error_that_nothing_catches_is_an_incident_and_resolving_gives_the_job_back() {
    let mut lab = Lab::with(&[guarded(&[boundary("b", "t", false)], &[task("x", "x"), flow("b", "x")])]);
    lab.create(json!({}));
    let job = lab.job("work");
    lab.throw(job.key, "other", json!({})).unwrap();
    let incident = lab.incident();
    assert_eq!((incident.kind, incident.job), (IncidentKind::UnhandledErrorEvent, Some(job.key)));
    for (verb, result) in [
        ("throw an error for", lab.throw(job.key, "other", json!({})).unwrap_err()),
        ("fail", lab.fail(job.key, 1, 0).unwrap_err()),
        ("complete", lab.run(Command::Complete { job: job.key, variables: document(json!({})) }).unwrap_err()),
    ] {
        assert_eq!(result.kind, RejectionKind::InvalidState);
        assert_eq!(
            result.reason,
            format!("Expected to {verb} job with key '{}', but it is in state 'ERROR_THROWN'", job.key)
        );
    }
    lab.run(Command::Resolve { incident: incident.key }).unwrap();
    assert_eq!(lab.job("work").key, job.key);
}

#[test]
fn an_error_end_ends_the_sub_process_that_catches_it() {
    let throw = end_with("throw", r#"<bpmn:errorEventDefinition errorRef="oops"/>"#);
    let inside = [
        start("is"),
        parallel("ifork"),
        task("long", "long"),
        throw,
        flow("is", "ifork"),
        flow("ifork", "long"),
        flow("ifork", "throw"),
    ];
    let caught = [
        start("s"),
        subprocess("sub", &inside),
        boundary("b", "sub", false),
        end("handled"),
        end("normal"),
        flow("s", "sub"),
        flow("sub", "normal"),
        flow("b", "handled"),
    ];
    let mut lab = Lab::with(&[model("p", &caught)]);
    let created = lab.create(json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
    assert!(lab.path().contains(&"handled") && !lab.path().contains(&"normal"));
    assert!(lab.activate("long", 1).is_empty());

    let throw = end_with("throw", r#"<bpmn:errorEventDefinition errorRef="oops"/>"#);
    let mut lab = Lab::with(&[model("p", &[start("s"), throw, flow("s", "throw")])]);
    lab.create(json!({}));
    assert_eq!((lab.incident().kind, lab.incident().job), (IncidentKind::UnhandledErrorEvent, None));
}

#[test]
fn start_instructions_start_where_they_say() {
    let inside = [start("is"), task("a", "a"), task("b", "b"), flow("is", "a"), flow("a", "b")];
    let parts = [start("s"), subprocess("sub", &inside), task("t", "work"), flow("s", "sub"), flow("sub", "t")];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let request = |ids: &[&str]| {
        Command::Create(CreateRequest {
            target: Target::Latest("p".to_owned()),
            variables: document(json!({})),
            start_at: ids.iter().map(|id| (*id).to_owned()).collect(),
        })
    };
    lab.run(request(&["t"])).unwrap();
    assert_eq!(lab.path(), ["t"]);
    lab.events.clear();
    lab.run(request(&["b", "a"])).unwrap();
    assert_eq!(lab.path(), ["sub", "b", "a"]);
    for unknown in ["nope", "p", "s_sub"] {
        let rejection = lab.run(request(&[unknown])).unwrap_err();
        assert_eq!(rejection.kind, RejectionKind::InvalidArgument, "{unknown}");
    }
}

#[test]
fn cancelling_ends_everything_once() {
    let inside = [start("is"), task("a", "a"), flow("is", "a")];
    let parts = [
        start("s"),
        parallel("fork"),
        subprocess("sub", &inside),
        task("t", "work"),
        flow("s", "fork"),
        flow("fork", "sub"),
        flow("fork", "t"),
    ];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    let work = lab.job("work");
    lab.fail(work.key, 0, 0).unwrap();
    lab.run(Command::Cancel { instance: created.instance }).unwrap();
    assert_eq!(lab.endings(created.instance), [Ending::Terminated]);
    assert!(lab.state.incidents().is_empty() && lab.activate("a", 1).is_empty());
    for key in [created.instance, work.element, 7] {
        assert_rejected(
            lab.run(Command::Cancel { instance: key }),
            RejectionKind::NotFound,
            &format!(
                "Command 'CANCEL' rejected with code 'NOT_FOUND': Expected to cancel a process instance with key '{key}', but no \
                 such process was found"
            ),
        );
    }
}

#[test]
fn tokens_that_multiply_without_end_are_stopped_by_incidents() {
    // Each gateway doubles the tokens: 2^40 without a bound, and no loop that deployment could find.
    let mut parts = vec![start("s"), flow("s", "g0")];
    for at in 0..40 {
        let (here, next) = (format!("g{at}"), format!("x{at}"));
        parts.push(parallel(&here));
        parts.push(exclusive(&next, ""));
        parts.push(flow(&here, &next));
        parts.push(format!(r#"<bpmn:sequenceFlow id="more{at}" sourceRef="{here}" targetRef="{next}"/>"#));
        parts.push(flow(&next, &if at == 39 { "e".to_owned() } else { format!("g{}", at + 1) }));
    }
    parts.push(end("e"));
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    let incidents = lab.state.incidents();
    assert!(!incidents.is_empty() && incidents.len() < 40_000);
    assert!(incidents.iter().all(|incident| incident.kind == IncidentKind::Unknown));
    lab.run(Command::Cancel { instance: created.instance }).unwrap();
    assert_eq!(lab.endings(created.instance), [Ending::Terminated]);
}
