//! The engine that walks through the drawn process and `decide` that judges what was recorded reach the same end: for every
//! terminal with what the real lanes emit, and whatever values gates are given and instances are started with.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod cases;
mod play;
mod stage;
mod world;

use cases::{Case, GATES, Gate, request};
use futures::StreamExt;
use m87_core::decide::{Effect, decide};
use m87_core::reason::{Reason, Terminal};
use play::Script;
use serde_json::{Map, Value, json};
use stage::{Ended, Lie, Part, Stage};
use std::collections::BTreeSet;

/// Runs at one time.
const AT_ONCE: usize = 16;

/// What holds of every run: the receipt says what `decide` says of what is recorded, and COMPLETE has its proof.
fn assert_sealed_as_decided(ended: &Ended, context: &str) {
    let verdict = decide(&ended.dossier, &ended.row.evidence);
    assert_eq!((ended.sealed.terminal, ended.sealed.reason), (verdict.terminal, verdict.reason), "{context}");
    let evidence = &ended.row.evidence;
    let proved = evidence.promoted.as_ref().is_some_and(|promoted| promoted.accepted)
        && evidence.verified.as_ref().is_some_and(|verified| verified.recomputed.is_some());
    if ended.sealed.terminal == Terminal::Complete {
        assert!(proved && ended.end_event.as_deref() == Some("End_Complete"), "{context}: {ended:#?}");
    }
    if let Terminal::Halt | Terminal::RejectManifest = ended.sealed.terminal {
        assert_eq!(verdict.effect, Effect::None, "{context}");
    }
}

/// The end that the engine reached is the one that stands for the verdict, and nothing had to be put right.
fn assert_agreed(ended: &Ended, reason: Option<Reason>, context: &str) {
    assert_sealed_as_decided(ended, context);
    assert_eq!(ended.sealed.reason, reason, "{context}: {ended:#?}");
    assert_eq!(ended.row.evidence.interrupted, None, "{context}");
    assert_eq!(ended.end_event.as_deref(), Some(ended.sealed.terminal.end_event()), "{context}");
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_and_core_agree_on_every_terminal_with_what_the_lanes_emit() {
    let stage = &Stage::begin().await;
    let ran: Vec<(Case, Ended)> = futures::stream::iter(cases::all())
        .map(|case| async move {
            let part = Part { script: case.script.clone(), ..Part::default() };
            let ended = stage.run(&case.request, part).await;
            (case, ended)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let (mut terminals, mut reasons) = (BTreeSet::new(), BTreeSet::new());
    for (Case { request, reason, walks, .. }, ended) in &ran {
        match walks {
            true => assert_agreed(ended, *reason, &request.name),
            // Without a policy or a process that is proved there is nothing to walk through.
            false => {
                assert_sealed_as_decided(ended, &request.name);
                assert_eq!((ended.sealed.reason, &ended.end_event), (*reason, &None), "{}", request.name);
            }
        }
        terminals.insert(ended.sealed.terminal);
        reasons.extend(*reason);
    }
    assert_eq!(terminals, BTreeSet::from(Terminal::ALL));
    let others: BTreeSet<Reason> = Reason::ALL.iter().copied().filter(|reason| !reasons.contains(reason)).collect();
    assert_eq!(others, BTreeSet::from(cases::NOT_BY_THE_PROCESS), "each reason has its case, or is known to have none");
}

/// Everything that a gate could be given; the first opens it, `None` is no value.
fn values(gate: &Gate) -> [Option<Value>; 8] {
    let opens = gate.opens;
    [
        Some(json!(opens)),
        Some(json!(!opens)),
        None,
        Some(Value::Null),
        Some(json!(opens.to_string())),
        Some(json!(1)),
        Some(json!([opens])),
        Some(json!({ gate.variable: opens })),
    ]
}

/// One run of the matrix of gates and values.
struct Try {
    name: String,
    gate: &'static Gate,
    part: Part,
    case: Case,
}

/// Runs each, and hands it to the check.
async fn each(tries: Vec<Try>, check: impl Fn(&Try, &Ended)) {
    let stage = &Stage::begin().await;
    let mut ran = futures::stream::iter(tries)
        .map(|one| async move {
            let ended = stage.run(&one.case.request, one.part.clone()).await;
            (one, ended)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((one, ended)) = ran.next().await {
        check(&one, &ended);
    }
}

fn well(name: &str) -> Case {
    Case { request: request(name), reason: None, script: Script::default(), walks: true }
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_and_core_agree_whatever_value_a_worker_completes_a_gate_with() {
    let mut tries = Vec::new();
    for gate in &GATES {
        for (at, answer) in values(gate).into_iter().enumerate() {
            let name = format!("{} completed {at}", gate.variable);
            let part = Part { lie: Some(Lie { variable: gate.variable, answer }), ..Part::default() };
            tries.push(Try { case: well(&name), name, gate, part });
        }
    }
    each(tries, |one, ended| {
        let answer = one.part.lie.as_ref().unwrap().answer.as_ref();
        let context = format!("{}: {answer:?}", one.name);
        if answer == Some(&json!(one.gate.opens)) {
            return assert_agreed(ended, None, &context);
        }
        // The lane recorded that all is well and the engine was told otherwise: it refuses, and so does the receipt.
        assert_eq!(ended.end_event.as_deref(), Some(one.gate.refuses), "{context}");
        assert_sealed_as_decided(ended, &context);
        assert_eq!(ended.sealed.reason, Some(Reason::EngineDisagreement), "{context}");
        assert_eq!(ended.row.dispatched(), one.gate.after_dispatch, "{context}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_and_core_agree_whatever_an_instance_was_started_with() {
    let mut tries = Vec::new();
    for gate in &GATES {
        for (at, seed) in values(gate).into_iter().enumerate() {
            let seeds: Map<String, Value> = seed.into_iter().map(|seed| (gate.variable.to_owned(), seed)).collect();
            let name = |what: &str| format!("{} seeded {at} {what}", gate.variable);
            let with = |part: Part| Part { seeds: seeds.clone(), ..part };
            let silence = Lie { variable: gate.variable, answer: None };
            let honest = well(&name("honest"));
            let silent = well(&name("silent"));
            let refused = (gate.refused)(&name("refused"));
            tries.push(Try { name: name("honest"), gate, part: with(Part::default()), case: honest });
            tries.push(Try {
                name: name("silent"),
                gate,
                part: with(Part { lie: Some(silence), ..Part::default() }),
                case: silent,
            });
            let part = with(Part { script: refused.script.clone(), ..Part::default() });
            tries.push(Try { name: name("refused"), gate, part, case: refused });
        }
    }
    each(tries, |one, ended| {
        let context = format!("{}: {:?}", one.name, one.part.seeds);
        match &one.part.lie {
            None => assert_agreed(ended, one.case.reason, &context),
            Some(_) => {
                assert_eq!(ended.end_event.as_deref(), Some(one.gate.refuses), "{context}");
                assert_sealed_as_decided(ended, &context);
                assert_eq!(ended.sealed.reason, Some(Reason::EngineDisagreement), "{context}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_and_core_agree_on_no_complete_for_a_worker_that_opens_a_gate_against_the_evidence() {
    let tries = GATES.iter().map(|gate| {
        let case = (gate.refused)(&format!("{} opened", gate.variable));
        let lie = Some(Lie { variable: gate.variable, answer: Some(json!(gate.opens)) });
        let part = Part { lie, script: case.script.clone(), ..Part::default() };
        Try { name: case.request.name.clone(), gate, part, case }
    });
    each(tries.collect(), |one, ended| {
        assert_sealed_as_decided(ended, &one.name);
        assert_eq!(ended.sealed.reason, Some(Reason::EngineDisagreement), "{}: {ended:#?}", one.name);
        assert_ne!(ended.end_event.as_deref(), Some("End_Complete"), "{}", one.name);
        assert_eq!(ended.row.evidence.promoted, None, "{}", one.name);
        assert_eq!(ended.row.dispatched(), one.gate.after_dispatch, "{}", one.name);
    })
    .await;
}
