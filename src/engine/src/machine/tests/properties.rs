//! Whatever is asked, in whatever order: the journal gives the state, and the state holds together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use crate::document::Document;
use crate::fixture::*;
use crate::machine::{Activation, Command, Event, JobState, Reach, State, StreamRequest, Wait};

/// Everything that the machine knows, in one process: fork, join, choice, sub-process, errors, listeners, mappings.
fn everything() -> String {
    let throw = end_with("throw", r#"<bpmn:errorEventDefinition errorRef="oops"/>"#);
    let stop = end_with("stop", "<bpmn:terminateEventDefinition/>");
    let inside = [
        start("is"),
        task_with("it", "inner", "2", &mappings(&[("in", "= x", "local"), ("out", "= local", "y")])),
        exclusive("ig", "ig_ie"),
        end("ie"),
        throw,
        stop,
        flow("is", "it"),
        flow("it", "ig"),
        flow_if("ig", "throw", "= y = 1"),
        flow_if("ig", "stop", "= y = 2"),
        flow("ig", "ie"),
    ];
    let parts = [
        start("s"),
        parallel("fork"),
        subprocess("sub", &inside),
        boundary("caught", "sub", false),
        task_with("a", "= kind", "3", &listeners(&[("start", "before"), ("end", "after")])),
        boundary("any", "a", true),
        parallel("join"),
        exclusive("g", ""),
        task("b", "b"),
        end("e"),
        end("f"),
        flow("s", "fork"),
        flow("fork", "sub"),
        flow("fork", "a"),
        flow("sub", "join"),
        flow("a", "join"),
        flow("caught", "b"),
        flow("any", "f"),
        flow("b", "f"),
        flow("join", "g"),
        flow_if("g", "e", "= ok"),
        flow_if("g", "b", "= ok = false"),
    ];
    model("p", &parts)
}

const TYPES: [&str; 5] = ["inner", "a", "before", "after", "b"];

/// A command with holes: which job, instance or incident is meant is chosen when it is run.
#[derive(Debug, Clone)]
enum Act {
    Create(u8),
    Activate(u8, u8),
    Push(u8),
    HandBack(u8),
    Complete(u8, u8),
    Fail(u8, i8, u8),
    Throw(u8, bool),
    Retries(u8, i8),
    Timeout(u8, u8),
    Cancel(u8),
    Set(u8, u8, bool),
    Resolve(u8),
    Pass(u16),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any::<u8>().prop_map(Act::Create),
        6 => (any::<u8>(), 1..4_u8).prop_map(|(of, max)| Act::Activate(of, max)),
        2 => any::<u8>().prop_map(Act::Push),
        1 => any::<u8>().prop_map(Act::HandBack),
        10 => (any::<u8>(), any::<u8>()).prop_map(|(job, with)| Act::Complete(job, with)),
        2 => (any::<u8>(), -1..3_i8, any::<u8>()).prop_map(|(job, retries, off)| Act::Fail(job, retries, off)),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(job, known)| Act::Throw(job, known)),
        2 => (any::<u8>(), -1..4_i8).prop_map(|(job, retries)| Act::Retries(job, retries)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(job, timeout)| Act::Timeout(job, timeout)),
        1 => any::<u8>().prop_map(Act::Cancel),
        2 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(scope, with, local)| Act::Set(scope, with, local)),
        4 => any::<u8>().prop_map(Act::Resolve),
        2 => any::<u16>().prop_map(Act::Pass),
    ]
}

fn variables(seed: u8) -> Document {
    let x = match seed % 4 {
        0 => json!(0),
        1 => json!(1),
        2 => json!(2),
        _ => json!("text"),
    };
    let ok = match (seed / 4) % 4 {
        0 => json!(true),
        1 => json!(false),
        2 => json!(null),
        _ => json!("yes"),
    };
    document(if seed % 8 < 6 { json!({"x": x, "ok": ok, "kind": "a"}) } else { json!({"x": x, "kind": null}) })
}

fn pick<T: Copy>(of: &[T], at: u8) -> Option<T> {
    (!of.is_empty()).then(|| of[usize::from(at) % of.len()])
}

fn command(state: &State, act: &Act) -> Option<Command> {
    let jobs: Vec<i64> = state.jobs.keys().copied().collect();
    let elements: Vec<i64> = state.elements.keys().copied().collect();
    let instances: Vec<i64> = state.instances().collect();
    let incidents: Vec<i64> = state.incidents.keys().copied().collect();
    Some(match act {
        Act::Create(with) => create("p", json!(variables(*with))),
        Act::Activate(of, max) => Command::Activate(activate(pick(&TYPES, *of)?, usize::from(*max))),
        Act::Push(at) => {
            let (job_type, worker, fetch) = (String::new(), String::new(), Vec::new());
            Command::Push { job: pick(&jobs, *at)?, stream: StreamRequest { job_type, worker, timeout: 500, fetch } }
        }
        Act::HandBack(at) => {
            let job = pick(&jobs, *at)?;
            let deadline = state.job(job)?.state.due().unwrap_or(0);
            Command::HandBack(vec![Activation { job, deadline }])
        }
        Act::Complete(at, with) => Command::Complete { job: pick(&jobs, *at)?, variables: variables(*with) },
        Act::Fail(at, retries, off) => Command::Fail {
            job: pick(&jobs, *at)?,
            retries: (*retries).into(),
            back_off: i64::from(*off) * 10,
            message: String::new(),
            variables: Document::default(),
        },
        Act::Throw(at, known) => Command::ThrowError {
            job: pick(&jobs, *at)?,
            code: if *known { "oops" } else { "other" }.to_owned(),
            message: String::new(),
            variables: document(json!({"thrown": true})),
        },
        Act::Retries(at, retries) => Command::UpdateRetries { job: pick(&jobs, *at)?, retries: (*retries).into() },
        Act::Timeout(at, timeout) => Command::UpdateTimeout { job: pick(&jobs, *at)?, timeout: (*timeout).into() },
        Act::Cancel(at) => Command::Cancel { instance: pick(&instances, *at)? },
        Act::Set(at, with, local) => Command::SetVariables {
            scope: pick(&elements, *at)?,
            variables: variables(*with),
            reach: if *local { Reach::Local } else { Reach::Propagated },
        },
        Act::Resolve(at) => Command::Resolve { incident: pick(&incidents, *at)? },
        Act::Pass(_) => Command::Tick,
    })
}

/// What holds between commands.
fn check(state: &State) {
    for (key, element) in &state.elements {
        match element.parent {
            Some(parent) => {
                let parent = state.element(parent).expect("an element without its scope");
                assert!(parent.children.contains(key) && parent.instance == element.instance);
            }
            None => assert!(element.instance == *key && state.instances.contains(key)),
        }
        for child in &element.children {
            assert_eq!(state.element(*child).expect("a child that is gone").parent, Some(*key));
        }
        assert!(state.node(element).is_some());
        match element.wait {
            Wait::Nothing => panic!("{key} ({}) neither waits nor goes on", element.node),
            Wait::Job(job) => assert_eq!(state.job(job).expect("a wait for a job that is gone").element, *key),
            Wait::Incident(incident) => {
                assert_eq!(state.incident(incident).expect("a wait for an incident that is gone").element, *key);
            }
            Wait::Children => {
                assert!(!element.children.is_empty() || !element.tokens.is_empty(), "{key} waits for nothing");
            }
        }
    }
    for (key, job) in &state.jobs {
        assert_eq!(state.element(job.element).expect("a job without its element instance").wait, Wait::Job(*key));
        let on_offer = job.state == JobState::Activatable && job.retries > 0 && job.incident.is_none();
        assert_eq!(state.is_ready(&job.job_type, *key), on_offer);
        assert_eq!(job.state.due().is_some_and(|at| state.due.contains(&(at, *key))), job.state.due().is_some());
        assert_eq!(
            matches!(job.state, JobState::Failed | JobState::ErrorThrown),
            job.incident.is_some() && job.state != JobState::Activatable
        );
        if let Some(incident) = job.incident {
            assert_eq!(state.incident(incident).expect("a job with an incident that is gone").job, Some(*key));
        }
    }
    for incident in state.incidents.values() {
        assert!(state.element(incident.element).is_some());
        assert!(incident.job.is_none_or(|job| state.job(job).is_some()));
    }
    let indexed: usize = state.ready.values().map(imbl::OrdSet::len).sum();
    assert_eq!(indexed, state.jobs.iter().filter(|(key, job)| state.is_ready(&job.job_type, **key)).count());
    assert_eq!(state.due.len(), state.jobs.values().filter(|job| job.state.due().is_some()).count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_journal_gives_the_state_and_the_state_holds_together(acts in prop::collection::vec(act(), 1..120)) {
        let mut lab = Lab::with(&[everything()]);
        for act in &acts {
            if let Act::Pass(millis) = act {
                lab.now.millis += i64::from(*millis);
            }
            let Some(command) = command(&lab.state, act) else { continue };
            let before = lab.state.clone();
            // A lab checks with each command that its events give its state.
            if lab.run(command).is_err() {
                prop_assert_eq!(&lab.state, &before);
            }
            check(&lab.state);
        }
        // From nothing, by the events alone; and through a snapshot.
        let mut replayed = State::default();
        for event in &lab.events {
            replayed.apply(event).unwrap();
        }
        prop_assert_eq!(&replayed, &lab.state);
        let snapshot: State = serde_json::from_slice(&serde_json::to_vec(&lab.state).unwrap()).unwrap();
        prop_assert_eq!(&snapshot, &lab.state);

        let mut balance: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
        for event in &lab.events {
            match event {
                Event::Entered { key, .. } => balance.entry(*key).or_default().0 += 1,
                Event::Left { key } | Event::Ended { key, .. } => balance.entry(*key).or_default().1 += 1,
                _ => {}
            }
        }
        for (key, (entered, left)) in balance {
            prop_assert_eq!(entered, 1);
            prop_assert_eq!(left, usize::from(lab.state.element(key).is_none()), "{} ended {} times", key, left);
        }
    }
}
