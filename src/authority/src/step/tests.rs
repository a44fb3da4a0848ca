#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
//! Random histories: most events are the ones that come next, the others come out of turn, twice, from the wrong process or
//! too late. Whatever comes, the invariants hold after every event.

use super::{Step, step};
use crate::client::Denial;
use crate::clock::{Now, Wall};
use crate::event::{BeginEvent, ClaimEvent, ContractEvent, Event, RedeemEvent};
use crate::executor::{AttemptKind, Handle};
use crate::row::{Checking, Definition, Ending, Row, Run, Sealed, Start, State, StoredArtifact};
use m87_core::decide::decide;
use m87_core::evidence::{ContractRecord, Evidence, Promoted, Refusal, ValidationReport};
use m87_core::fixtures;
use m87_core::reason::{Reason, Terminal};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

fn open() -> Run {
    Run { dossier: Arc::new(fixtures::dossier()), row: Row::open(Wall(3_600_000)) }
}

fn now(seconds: i64) -> Now {
    Now { at: fixtures::at(seconds), wall: Wall(seconds * 1000) }
}

fn good() -> Evidence {
    fixtures::evidence()
}

fn start(engine: u8) -> Start {
    Start {
        engine_id: format!("engine-{engine}"),
        definition: Definition { key: 7, version: 1 },
        nonce: "n".to_owned(),
    }
}

fn claim(engine: u8, instance_key: i64) -> Event {
    Event::Claim(ClaimEvent {
        engine_id: format!("engine-{engine}"),
        instance_key,
        definition_key: 7,
        element_id: "Propose".to_owned(),
        nonce: "n".to_owned(),
    })
}

fn contract_id(attempt: u32) -> String {
    format!("contract-{attempt}")
}

fn begin(kind: AttemptKind, number: u32, contract: u32, seconds: i64) -> Event {
    Event::Begin(BeginEvent {
        kind,
        number,
        contract_id: contract_id(contract),
        token_sha256: format!("{}-{number}", kind.name()),
        now: now(seconds),
    })
}

fn redeem(attempt: u32, nonce: u8, seconds: i64) -> Event {
    Event::Redeem(RedeemEvent {
        attempt,
        contract_id: contract_id(attempt),
        nonce: format!("nonce-{nonce}"),
        start_limit: LIMIT,
        now: now(seconds),
    })
}

fn artifact() -> StoredArtifact {
    let declared = good().execution.unwrap().report.unwrap().artifact.unwrap();
    StoredArtifact { sha256: declared.sha256.unwrap(), size: declared.size }
}

fn passed() -> ValidationReport {
    good().verified.unwrap().validation.unwrap()
}

/// The event that takes a run one step towards its receipt.
fn next(run: &Run, seconds: i64) -> Event {
    let row = &run.row;
    match &row.state {
        State::Open(None) => Event::Start(start(1)),
        State::Open(Some(start)) => claim(start.engine_id.as_bytes()[7] - b'0', 1),
        State::Claimed(_) if row.evidence.proposed.is_none() => Event::Proposed(good().proposed.unwrap()),
        State::Claimed(_) if row.evidence.validated.is_none() => Event::Validated(good().validated.unwrap()),
        State::Claimed(_) if row.evidence.contract.is_none() => Event::Contract(ContractEvent {
            id: contract_id(super::lanes::next_attempt(row)),
            refusal: None,
            now: now(seconds),
        }),
        State::Claimed(_) => Event::Close(Ending::Process("End_Failed".to_owned()), now(seconds)),
        State::Contracted(_, contract) if row.attempt(contract.attempt).is_none() => {
            begin(AttemptKind::Tool, contract.attempt, contract.attempt, seconds)
        }
        State::Contracted(_, contract) => redeem(contract.attempt, 1, seconds),
        State::Dispatched(_, dispatch) if row.evidence.execution.is_none() => {
            let report = good().execution.unwrap().report.unwrap();
            match row.artifact {
                None => Event::Stored(dispatch.nonce.clone(), artifact()),
                Some(_) => Event::Report(dispatch.nonce.clone(), Box::new(report), now(seconds)),
            }
        }
        State::Dispatched(_, dispatch) if row.to_validate().is_some() && row.validation == Checking::Waiting => {
            match row.validations.last() {
                None => begin(AttemptKind::Validation, 1, dispatch.attempt, seconds),
                Some(attempt) => Event::Validation(attempt.number, passed()),
            }
        }
        State::Dispatched(..) if row.evidence.verified.is_none() => {
            Event::Verified(row.artifact.as_ref().map(|artifact| artifact.sha256.clone()), now(seconds))
        }
        State::Dispatched(..) if row.evidence.promoted.is_none() => {
            Event::Promoted(Promoted { accepted: true, at: now(seconds).at })
        }
        State::Dispatched(..) => {
            let end = decide(&run.dossier, &row.evidence).terminal.end_event();
            Event::Close(Ending::Process(end.to_owned()), now(seconds))
        }
        State::Closing(_) => seal(run),
        State::Sealed(_, sealed) => Event::Seal(sealed.clone()),
    }
}

fn seal(run: &Run) -> Event {
    let verdict = decide(&run.dossier, &run.row.evidence);
    Event::Seal(Sealed { receipt_hash: "hash".to_owned(), terminal: verdict.terminal, reason: verdict.reason })
}

/// What comes, mostly, and what comes besides.
#[derive(Debug, Clone)]
enum Op {
    Next,
    Other(Event),
}

fn op() -> impl Strategy<Value = Op> {
    let stray = prop_oneof![
        (1..3_u8).prop_map(|engine| Event::Start(start(engine))),
        (1..3_u8, 1..3_i64).prop_map(|(engine, instance)| claim(engine, instance)),
        (1..3_u8).prop_map(|engine| Event::Engine(format!("engine-{engine}"))),
        Just(Event::Proposed(good().proposed.unwrap())),
        Just(Event::Validated(good().validated.unwrap())),
        (1..4_u32, proptest::option::of(Just(Refusal::Drifted))).prop_map(|(attempt, refusal)| {
            Event::Contract(ContractEvent { id: contract_id(attempt), refusal, now: now(3) })
        }),
        (1..5_u32).prop_map(|number| begin(AttemptKind::Tool, number, number, 4)),
        (1..5_u32, 1..3_u32).prop_map(|(number, of)| begin(AttemptKind::Validation, number, of, 4)),
        (1..4_u32).prop_map(|number| Event::Started(AttemptKind::Tool, number, Handle("h".to_owned()))),
        Just(Event::TakeBack(Refusal::NeverStarted, now(9))),
        (1..4_u32, 1..4_u8, 0..300_i64).prop_map(|(attempt, nonce, seconds)| redeem(attempt, nonce, seconds)),
        (1..4_u8).prop_map(|nonce| Event::Stored(format!("nonce-{nonce}"), artifact())),
        (1..4_u8).prop_map(|nonce| {
            let report = good().execution.unwrap().report.unwrap();
            Event::Report(format!("nonce-{nonce}"), Box::new(report), now(9))
        }),
        Just(Event::Lost(now(9))),
        (1..4_u32).prop_map(|number| Event::Validation(number, passed())),
        Just(Event::GiveUpValidation),
        Just(Event::Verified(None, now(9))),
        any::<bool>().prop_map(|accepted| Event::Promoted(Promoted { accepted, at: now(9).at })),
        prop_oneof![Just("End_Complete"), Just("End_Halt"), Just("End_Failed"), Just("End_RejVerify"), Just("?")]
            .prop_map(|end| Event::Close(Ending::Process(end.to_owned()), now(9))),
    ];
    let interruption = prop_oneof![Just(Reason::DeadlineExceeded), Just(Reason::EngineIncident)]
        .prop_map(|reason| Event::Close(Ending::Interrupted(reason), now(9)));
    prop_oneof![
        30 => Just(Op::Next),
        12 => stray.prop_map(Op::Other),
        1 => interruption.prop_map(Op::Other),
    ]
}

/// What an observer outside the row has seen.
#[derive(Default)]
struct Seen {
    /// Which (attempt, nonce) were told "go".
    go: BTreeSet<(u32, String)>,
    sealed: Option<(Evidence, State)>,
}

fn check(before: &Run, event: &Event, after: &Run, granted: bool, seen: &mut Seen) {
    if let (Event::Redeem(redeem), true) = (event, granted) {
        seen.go.insert((redeem.attempt, redeem.nonce.clone()));
        // no_effect_without_contract
        let issued = ContractRecord::Issued { id: redeem.contract_id.clone(), at: now(0).at };
        assert!(
            matches!((&before.row.evidence.contract, &issued), (
                Some(ContractRecord::Issued { id, .. }), ContractRecord::Issued { id: asked, .. }
            ) if id == asked),
            "go without that contract: {before:?}"
        );
        assert!(before.row.evidence.validated.is_some());
        assert!(before.row.attempt(redeem.attempt).is_some_and(|attempt| !attempt.void));
    }
    // effect_at_most_once
    assert!(seen.go.len() <= 1, "two were told to go: {:?}", seen.go);
    assert_eq!(after.row.dispatched(), !seen.go.is_empty(), "the row does not know of the dispatch");
    // one_terminal, terminal_iff_receipt
    match (&seen.sealed, &after.row.state) {
        (Some((evidence, state)), now) => {
            assert_eq!((evidence, state), (&after.row.evidence, now), "changed after it was sealed");
        }
        (None, State::Sealed(_, sealed)) => {
            assert!(matches!(before.row.state, State::Closing(_)) && matches!(event, Event::Seal(_)));
            // halt_means_no_effect
            if matches!(sealed.terminal, Terminal::Halt | Terminal::RejectManifest) {
                assert!(seen.go.is_empty(), "{:?} with an effect", sealed.terminal);
            }
            if sealed.terminal == Terminal::Complete {
                assert_eq!(seen.go.len(), 1, "COMPLETE without an effect");
            }
            seen.sealed = Some((after.row.evidence.clone(), after.row.state.clone()));
        }
        (None, State::Closing(_)) if matches!(before.row.state, State::Closing(_)) => {
            assert_eq!(before.row.evidence, after.row.evidence, "evidence changed after the end was settled");
        }
        (None, _) => {}
    }
    // Recorded once, by whoever was first.
    let (old, new) = (&before.row.evidence, &after.row.evidence);
    assert!(old.proposed.is_none() || old.proposed == new.proposed);
    assert!(old.validated.is_none() || old.validated == new.validated);
    assert!(old.redeemed.is_none() || old.redeemed == new.redeemed);
    assert!(old.execution.is_none() || old.execution == new.execution);
    assert!(old.verified.is_none() || old.verified == new.verified);
    assert!(old.promoted.is_none() || old.promoted == new.promoted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn invariants_hold_for_every_history(ops in proptest::collection::vec(op(), 1..80)) {
        let mut run = open();
        let mut seen = Seen::default();
        for (seconds, op) in ops.into_iter().enumerate() {
            let event = match op {
                Op::Next => next(&run, seconds as i64),
                // Only the authority's own receipt is ever put in.
                Op::Other(Event::Seal(_)) => seal(&run),
                Op::Other(event) => event,
            };
            let before = run.clone();
            let granted = match step(&run, &event) {
                Step::To(row) => { run.row = *row; true }
                Step::Unchanged => true,
                Step::Refuse(..) => false,
            };
            check(&before, &event, &run, granted, &mut seen);
        }
    }
}

/// A run after the given number of right steps.
fn after(steps: i64) -> Run {
    let mut run = open();
    for seconds in 0..steps {
        match step(&run, &next(&run, seconds)) {
            Step::To(row) => run.row = *row,
            other => panic!("step {seconds} of a good run: {other:?}"),
        }
    }
    run
}

fn apply(run: &Run, event: &Event) -> Run {
    match step(run, event) {
        Step::To(row) => Run { row: *row, ..run.clone() },
        Step::Unchanged => run.clone(),
        Step::Refuse(denial, message) => panic!("{denial}: {message}"),
    }
}

fn contracted() -> Run {
    (0..20)
        .map(after)
        .find(|run| matches!(run.row.state, State::Contracted(..)) && !run.row.attempts.is_empty())
        .unwrap()
}

fn dispatched() -> Run {
    (0..20).map(after).find(|run| matches!(run.row.state, State::Dispatched(..))).unwrap()
}

#[test]
fn a_good_run_is_complete() {
    let mut run = open();
    for seconds in 0..30 {
        run = apply(&run, &next(&run, seconds));
    }
    let sealed = run.row.sealed().unwrap();
    assert_eq!((sealed.terminal, sealed.reason), (Terminal::Complete, None));
}

#[test]
fn only_the_process_that_redeemed_may_ask_again() {
    let run = dispatched();
    assert_eq!(step(&run, &redeem(1, 1, 50)), Step::Unchanged);
    for other in [redeem(1, 2, 50), redeem(2, 1, 50)] {
        assert!(matches!(step(&run, &other), Step::Refuse(Denial::AlreadyDispatched, _)));
    }
    let reported = apply(&run, &Event::Lost(now(60)));
    assert!(matches!(step(&reported, &redeem(1, 1, 61)), Step::Refuse(Denial::AlreadyDispatched, _)));
}

#[test]
fn a_new_attempt_voids_the_one_before() {
    let run = apply(&contracted(), &begin(AttemptKind::Tool, 2, 2, 30));
    assert!(run.row.attempts[0].void && !run.row.attempts[1].void);
    assert!(matches!(step(&run, &redeem(1, 1, 31)), Step::Refuse(Denial::ContractVoid, _)));
    assert!(matches!(step(&run, &redeem(2, 1, 31)), Step::To(_)));
}

#[test]
fn a_redemption_after_the_time_to_start_is_refused() {
    let run = contracted();
    assert!(matches!(step(&run, &redeem(1, 1, 120)), Step::To(_)));
    assert!(matches!(step(&run, &redeem(1, 1, 1000)), Step::Refuse(Denial::ContractVoid, _)));
}

#[test]
fn a_lost_engine_releases_what_was_not_dispatched_and_only_that() {
    let run = apply(&contracted(), &Event::Engine("engine-2".to_owned()));
    assert_eq!(run.row.state, State::Open(None));
    assert!(matches!(step(&run, &redeem(1, 1, 31)), Step::Refuse(Denial::ContractVoid, _)));
    let again = (0..3).fold(run, |run, seconds| apply(&run, &next(&run, seconds + 40)));
    assert!(matches!(&again.row.state, State::Contracted(_, contract) if contract.attempt == 2));
    assert_eq!(step(&dispatched(), &Event::Engine("engine-2".to_owned())), Step::Unchanged);
}

#[test]
fn another_instance_or_an_instance_that_begins_elsewhere_is_refused() {
    let started = after(1);
    let Event::Claim(right) = claim(1, 1) else { panic!() };
    let wrong = [
        ClaimEvent { nonce: "other".to_owned(), ..right.clone() },
        ClaimEvent { definition_key: 8, ..right.clone() },
        ClaimEvent { element_id: "Execute".to_owned(), ..right.clone() },
        ClaimEvent { engine_id: "engine-2".to_owned(), ..right.clone() },
    ];
    for claim in wrong {
        assert!(matches!(step(&started, &Event::Claim(claim)), Step::Refuse(Denial::OtherInstance, _)));
    }
    let claimed = apply(&started, &Event::Claim(right));
    assert!(matches!(step(&claimed, &claim(1, 2)), Step::Refuse(Denial::OtherInstance, _)));
    assert_eq!(step(&claimed, &claim(1, 1)), Step::Unchanged);
    assert!(matches!(step(&open(), &claim(1, 1)), Step::Refuse(Denial::OtherInstance, _)));
}

#[test]
fn engine_and_core_agree_or_the_run_says_so() {
    let halted = apply(&after(3), &Event::Close(Ending::Process("End_Complete".to_owned()), now(9)));
    let verdict = decide(&halted.dossier, &halted.row.evidence);
    assert_eq!((verdict.terminal, verdict.reason), (Terminal::Halt, Some(Reason::EngineDisagreement)));
    let failed = apply(&dispatched(), &Event::Close(Ending::Process("End_Halt".to_owned()), now(9)));
    let verdict = decide(&failed.dossier, &failed.row.evidence);
    assert_eq!((verdict.terminal, verdict.reason), (Terminal::Failed, Some(Reason::EngineDisagreement)));
}

#[test]
fn rows_survive_their_json() {
    for steps in 0..16 {
        let row = after(steps.min(14)).row;
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
