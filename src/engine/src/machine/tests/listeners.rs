//! Execution listeners: jobs around an element's own work.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use crate::fixture::*;
use crate::machine::{Command, JobKind};
use crate::rejection::RejectionKind;
use crate::view::{Ending, IncidentKind};

#[test]
fn listeners_run_in_order_around_the_work_and_see_what_they_should() {
    let more = mappings(&[("in", "= 1", "local"), ("out", "= local + work", "sum")])
        + &listeners(&[("start", "l1"), ("end", "l3"), ("start", "l2")]);
    let parts = [
        start("s"),
        task_with("t", "work", "3", &more),
        end_with("e", &format!("<bpmn:extensionElements>{}</bpmn:extensionElements>", listeners(&[("start", "last")]))),
        flow("s", "t"),
        flow("t", "e"),
    ];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));

    assert!(lab.activate("l2", 1).is_empty() && lab.activate("work", 1).is_empty());
    let l1 = lab.job("l1");
    assert_eq!((l1.kind, json!(l1.variables)), (JobKind::StartListener, json!({"local": 1})));
    lab.complete(l1.key, json!({"local": 2, "one": 1}));
    let l2 = lab.job("l2");
    assert_eq!(json!(l2.variables), json!({"local": 2, "one": 1}));
    lab.complete(l2.key, json!({}));
    let work = lab.job("work");
    assert_eq!((work.kind, work.element), (JobKind::Element, l1.element));
    lab.complete(work.key, json!({"work": 40}));
    let l3 = lab.job("l3");
    assert_eq!(l3.kind, JobKind::EndListener);
    // The output mapping is done, and the listener's variables go to the parent.
    assert_eq!(lab.variables(created.instance), json!({"sum": 42}));
    lab.complete(l3.key, json!({"three": 3}));
    assert_eq!(lab.variables(created.instance), json!({"sum": 42, "three": 3}));
    let last = lab.job("last");
    assert_eq!((last.element_id.as_str(), last.kind), ("e", JobKind::StartListener));
    assert!(lab.endings(created.instance).is_empty());
    lab.complete(last.key, json!({}));
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
}

#[test]
fn a_listener_without_retries_is_an_incident_of_its_own_kind() {
    let parts = [start("s"), task_with("t", "work", "3", &listeners(&[("start", "l")])), flow("s", "t")];
    let mut lab = Lab::with(&[model("p", &parts)]);
    lab.create(json!({}));
    let job = lab.job("l");
    assert_rejected(
        lab.throw(job.key, "oops", json!({})),
        RejectionKind::InvalidState,
        &format!(
            "Command 'THROW_ERROR' rejected with code 'INVALID_STATE': Expected to throw an error for job with key '{}', but it \
             is the job of a listener",
            job.key
        ),
    );
    lab.fail(job.key, 0, 0).unwrap();
    let incident = lab.incident();
    assert_eq!((incident.kind, incident.job), (IncidentKind::ExecutionListenerNoRetries, Some(job.key)));
    lab.run(Command::UpdateRetries { job: job.key, retries: 1 }).unwrap();
    lab.run(Command::Resolve { incident: incident.key }).unwrap();
    let again = lab.job("l");
    lab.complete(again.key, json!({}));
    lab.job("work");
}

/// The element with these listeners.
fn listening(element: &str, list: &[(&str, &str)]) -> String {
    let inside = format!("<bpmn:extensionElements>{}</bpmn:extensionElements>", listeners(list));
    match element.strip_suffix("/>") {
        Some(open) => {
            let name = open.trim_start_matches('<').split(' ').next().unwrap();
            format!("{open}>{inside}</{name}>")
        }
        None => element.replacen('>', &format!(">{inside}"), 1),
    }
}

#[test]
fn every_kind_of_element_waits_for_its_listeners() {
    let both = |name: &'static str| [("start", name), ("end", name)];
    let inner = [listening(&start("is"), &[("end", "inner start")]), end("ie"), flow("is", "ie")];
    let parts = [
        listening(&start("s"), &[("end", "start event")]),
        listening(&exclusive("x", "x_q"), &[("start", "exclusive")]),
        listening(&parallel("q"), &[("start", "parallel")]),
        listening(&subprocess("sub", &inner), &both("sub-process")),
        task("t", "work"),
        listening(&boundary("b", "t", true), &[("end", "boundary")]),
        listening(&end("e"), &both("end event")),
        end("unused"),
        flow("s", "x"),
        flow("x", "q"),
        flow("q", "sub"),
        flow("sub", "t"),
        flow("t", "unused"),
        flow("b", "e"),
    ];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    let (start, end) = (JobKind::StartListener, JobKind::EndListener);
    let before = [
        ("start event", "s", end),
        ("exclusive", "x", start),
        ("parallel", "q", start),
        ("sub-process", "sub", start),
        ("inner start", "is", end),
        ("sub-process", "sub", end),
    ];
    let after = [("boundary", "b", end), ("end event", "e", start), ("end event", "e", end)];
    let listens = |lab: &mut Lab, expected: &[(&str, &str, JobKind)]| {
        for (job_type, element, kind) in expected {
            let job = lab.job(job_type);
            assert_eq!((job.element_id.as_str(), job.kind), (*element, *kind), "{job_type}");
            assert!(lab.endings(created.instance).is_empty(), "it did not wait at {element}");
            lab.complete(job.key, json!({}));
        }
    };
    listens(&mut lab, &before);
    let work = lab.job("work");
    lab.throw(work.key, "oops", json!({})).unwrap();
    listens(&mut lab, &after);
    assert_eq!(lab.endings(created.instance), [Ending::Completed]);
}
