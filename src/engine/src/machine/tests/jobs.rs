//! Jobs: who gets them, when they come back, and what may be done to them in which state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use crate::document::Document;
use crate::fixture::*;
use crate::machine::{Activation, Answer, Command, JobState, StreamRequest};
use crate::rejection::RejectionKind;
use crate::view::{IncidentKind, Load};

fn lab_with_jobs(count: usize) -> Lab {
    let mut lab = Lab::with(&[one_task("p")]);
    for at in 0..count {
        lab.create(json!({"at": at}));
    }
    lab
}

#[test]
fn jobs_are_handed_out_oldest_first_and_no_more_than_asked() {
    let mut lab = lab_with_jobs(5);
    let first: Vec<i64> = lab.activate("work", 2).iter().map(|job| job.key).collect();
    let rest: Vec<i64> = lab.activate("work", 10).iter().map(|job| job.key).collect();
    assert_eq!((first.len(), rest.len()), (2, 3));
    let all = [first, rest].concat();
    assert!(all.is_sorted());
    assert!(lab.activate("work", 10).is_empty());
    // What comes back keeps its place in the line.
    lab.fail(all[3], 1, 0).unwrap();
    lab.fail(all[0], 1, 0).unwrap();
    assert_eq!(lab.activate("work", 1)[0].key, all[0]);
}

#[test]
fn the_load_counts_what_waits_and_what_is_held_and_nothing_that_is_stuck_or_backing_off() {
    let mut lab = lab_with_jobs(5);
    let jobs: Vec<i64> = lab.activate("work", 3).iter().map(|job| job.key).collect();
    let load = |lab: &Lab| lab.state.load().get("work").copied().unwrap_or_default();
    assert_eq!(load(&lab), Load { waiting: 2, held: 3 });
    lab.fail(jobs[0], 0, 0).unwrap();
    lab.fail(jobs[1], 1, 60_000).unwrap();
    lab.complete(jobs[2], json!({}));
    assert_eq!(load(&lab), Load { waiting: 2, held: 0 });
    assert_eq!(lab.state.load().get("other"), None);
}

#[test]
fn a_request_for_jobs_that_makes_no_sense_is_refused() {
    let mut lab = lab_with_jobs(1);
    let good = activate("work", 1);
    for (request, reason) in [
        (crate::ActivateRequest { job_type: " ".into(), ..good.clone() }, "type to be present, but it was blank"),
        (crate::ActivateRequest { timeout: 0, ..good.clone() }, "timeout to be greater than zero, but it was '0'"),
        (
            crate::ActivateRequest { max_jobs: 0, ..good.clone() },
            "max jobs to activate to be greater than zero, but it was '0'",
        ),
    ] {
        assert_rejected(
            lab.run(Command::Activate(request)),
            RejectionKind::InvalidArgument,
            &format!(
                "Command 'ACTIVATE' rejected with code 'INVALID_ARGUMENT': Expected to activate job batch with {reason}"
            ),
        );
    }
}

#[test]
fn a_job_whose_deadline_passes_is_on_offer_again_with_its_retries() {
    let mut lab = lab_with_jobs(1);
    let job = lab.job("work");
    assert_eq!(job.deadline, lab.now.millis + 1_000);
    lab.pass(999);
    assert!(lab.activate("work", 1).is_empty());
    lab.pass(1);
    let again = lab.job("work");
    assert_eq!((again.key, again.retries), (job.key, job.retries));
}

#[test]
fn a_late_answer_counts_until_somebody_else_was_faster() {
    let mut lab = lab_with_jobs(1);
    let job = lab.job("work");
    lab.pass(5_000);
    lab.complete(job.key, json!({}));
    assert_rejected(
        lab.run(Command::Complete { job: job.key, variables: Document::default() }),
        RejectionKind::NotFound,
        &format!(
            "Command 'COMPLETE' rejected with code 'NOT_FOUND': Expected to complete job with key '{}', but no such job was found",
            job.key
        ),
    );
}

#[test]
fn a_job_that_was_never_handed_out_may_be_finished_too() {
    let mut lab = lab_with_jobs(3);
    let keys: Vec<i64> = lab.state.ready("work").collect();
    lab.complete(keys[0], json!({}));
    lab.fail(keys[1], 2, 0).unwrap();
    lab.throw(keys[2], "oops", json!({})).unwrap();
    assert_eq!(lab.state.job(keys[1]).unwrap().retries, 2);
    assert_eq!(lab.incident().kind, IncidentKind::UnhandledErrorEvent);
}

#[test]
fn a_failed_job_waits_for_its_back_off() {
    let mut lab = lab_with_jobs(1);
    let job = lab.job("work");
    lab.fail(job.key, 2, 500).unwrap();
    assert_rejected(
        lab.run(Command::Complete { job: job.key, variables: Document::default() }),
        RejectionKind::InvalidState,
        &format!(
            "Command 'COMPLETE' rejected with code 'INVALID_STATE': Expected to complete job with key '{}', but it is in state \
             'FAILED'",
            job.key
        ),
    );
    lab.pass(499);
    assert!(lab.activate("work", 1).is_empty());
    lab.pass(1);
    assert_eq!(lab.job("work").retries, 2);
}

#[test]
fn a_job_without_retries_is_an_incident_until_it_has_some() {
    for retries in [0, -3] {
        let mut lab = lab_with_jobs(1);
        let job = lab.job("work");
        lab.run(Command::Fail {
            job: job.key,
            retries,
            back_off: 500,
            message: String::new(),
            variables: document(json!({"seen": true})),
        })
        .unwrap();
        let incident = lab.incident();
        assert_eq!((incident.kind, incident.job), (IncidentKind::JobNoRetries, Some(job.key)));
        assert_eq!(incident.message, "No more retries left.");
        // Variables of a failure stay with the task.
        assert_eq!(lab.variables(job.element), json!({"at": 0, "seen": true}));
        assert_eq!(lab.variables(job.instance), json!({"at": 0}));
        lab.pass(10_000);
        assert!(lab.activate("work", 1).is_empty());

        let rejection = lab.run(Command::Resolve { incident: incident.key }).unwrap_err();
        assert_eq!(rejection.kind, RejectionKind::InvalidState);
        lab.run(Command::UpdateRetries { job: job.key, retries: 7 }).unwrap();
        assert!(lab.activate("work", 1).is_empty(), "the incident is still open");
        lab.run(Command::Resolve { incident: incident.key }).unwrap();
        assert_eq!(lab.job("work").retries, 7);
        assert_rejected(
            lab.run(Command::Resolve { incident: incident.key }),
            RejectionKind::NotFound,
            &format!(
                "Command 'RESOLVE' rejected with code 'NOT_FOUND': Expected to resolve incident with key '{}', but no such \
                 incident was found",
                incident.key
            ),
        );
    }
}

#[test]
fn retries_and_deadlines_change_only_where_they_may() {
    let mut lab = lab_with_jobs(1);
    let job = lab.state.ready("work").next().unwrap();
    for retries in [0, -1] {
        let rejection = lab.run(Command::UpdateRetries { job, retries }).unwrap_err();
        assert_eq!(rejection.kind, RejectionKind::InvalidArgument);
    }
    assert_rejected(
        lab.run(Command::UpdateTimeout { job, timeout: 5 }),
        RejectionKind::InvalidState,
        &format!(
            "Command 'UPDATE_TIMEOUT' rejected with code 'INVALID_STATE': Expected to update the timeout of job with key '{job}', \
             but it is not active"
        ),
    );
    lab.run(Command::UpdateRetries { job, retries: 9 }).unwrap();
    assert_eq!(lab.job("work").retries, 9);
    lab.run(Command::UpdateTimeout { job, timeout: 60_000 }).unwrap();
    lab.pass(59_999);
    assert!(lab.activate("work", 1).is_empty());
    lab.pass(1);
    lab.job("work");
    for (command, text) in [
        (
            Command::UpdateRetries { job: 7, retries: 1 },
            "'UPDATE_RETRIES' rejected with code 'NOT_FOUND': Expected to update retries for job with",
        ),
        (
            Command::UpdateTimeout { job: 7, timeout: 1 },
            "'UPDATE_TIMEOUT' rejected with code 'NOT_FOUND': Expected to update job deadline with",
        ),
    ] {
        let expected = format!("Command {text} key '7', but no such job was found");
        assert_rejected(lab.run(command), RejectionKind::NotFound, &expected);
    }
}

#[test]
fn a_job_handed_back_is_on_offer_at_once_but_not_one_that_somebody_else_has() {
    let mut lab = lab_with_jobs(1);
    let job = lab.job("work");
    lab.run(Command::HandBack(vec![job.activation()])).unwrap();
    lab.now.millis += 10;
    let again = lab.job("work");
    assert_eq!(again.retries, job.retries);
    lab.run(Command::HandBack(vec![job.activation(), Activation { job: 7, deadline: 1 }])).unwrap();
    assert_eq!(lab.state.job(job.key).unwrap().state, JobState::Activated { deadline: again.deadline });
}

#[test]
fn a_push_takes_a_job_only_while_it_is_on_offer() {
    let mut lab = lab_with_jobs(1);
    let key = lab.state.ready("work").next().unwrap();
    let stream = StreamRequest {
        job_type: "work".into(),
        worker: "w".into(),
        timeout: 50,
        fetch: vec!["at".into(), "no".into()],
    };
    let push = Command::Push { job: key, stream };
    let Answer::Activated(jobs) = lab.run(push.clone()).unwrap() else { panic!() };
    assert_eq!((jobs.len(), json!(jobs[0].variables)), (1, json!({"at": 0})));
    assert_eq!(lab.run(push.clone()).unwrap(), Answer::Activated(vec![]));
    lab.complete(key, json!({}));
    assert_eq!(lab.run(push).unwrap(), Answer::Activated(vec![]));
}

#[test]
fn type_and_retries_may_be_expressions() {
    let parts = [start("s"), task_with("t", "= &quot;work-&quot; + kind", "= tries", ""), flow("s", "t")];
    let mut lab = Lab::with(&[model("p", &parts)]);
    lab.create(json!({"kind": "a", "tries": 4}));
    assert_eq!(lab.job("work-a").retries, 4);
    for (variables, text) in [
        (json!({"tries": 1}), "Expected result of the expression '\"work-\" + kind' to be 'STRING', but was 'NULL'."),
        (json!({"kind": "a"}), "Expected result of the expression 'tries' to be 'NUMBER', but was 'NULL'."),
        (
            json!({"kind": "a", "tries": "4"}),
            "Expected result of the expression 'tries' to be 'NUMBER', but was 'STRING'.",
        ),
    ] {
        let created = lab.create(variables);
        let incident = lab.incident();
        assert_eq!(incident.kind, IncidentKind::ExtractValueError);
        assert!(incident.message.starts_with(text), "{}", incident.message);
        lab.run(Command::Cancel { instance: created.instance }).unwrap();
    }
    // No retries from the beginning: nobody gets the job, and it says so.
    lab.create(json!({"kind": "b", "tries": 0}));
    assert_eq!(lab.incident().kind, IncidentKind::JobNoRetries);
    assert!(lab.activate("work-b", 1).is_empty());
}

#[test]
fn an_answer_is_never_larger_than_a_message() {
    let mut lab = Lab::with(&[one_task("p")]);
    let megabyte = "x".repeat(1_500_000);
    for _ in 0..3 {
        lab.create(json!({"a": megabyte}));
    }
    lab.create(json!({"a": megabyte, "b": megabyte, "c": megabyte}));
    assert_eq!(lab.activate("work", 100).len(), 2);
    assert_eq!(lab.activate("work", 100).len(), 1);
    let incident = lab.incident();
    assert_eq!(incident.kind, IncidentKind::MessageSizeExceeded);
    // Fetching less makes it fit.
    lab.run(Command::Resolve { incident: incident.key }).unwrap();
    let request = crate::ActivateRequest { fetch: vec!["b".into()], ..activate("work", 1) };
    let Answer::Activated(jobs) = lab.run(Command::Activate(request)).unwrap() else { panic!() };
    assert_eq!(jobs.len(), 1);
    // Finished without being handed out, its incident goes with it.
    lab.complete(jobs[0].key, json!({}));
    assert!(lab.state.incidents().is_empty());
}
