#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use m87_api::conditions::{condition, is_true};
use m87_api::status::{Status, to_value};
use m87_authority::clock::Wall;
use m87_authority::row::{Definition, Ending, Sealed};
use m87_core::decide::decide;
use m87_core::evidence::{Ended, Evidence, ExecutionReport, Interrupted};
use m87_core::fixtures;
use m87_core::reason::Reason;
use std::sync::Arc;

fn subject() -> Subject {
    Subject { generation: 3, created: Timestamp::from_millis(0) }
}

fn claim() -> Claim {
    Claim { engine_id: "e".to_owned(), instance_key: i64::MAX, definition: Definition { key: i64::MAX, version: 7 } }
}

fn run(state: State, evidence: Evidence) -> Run {
    let row = Row { state, evidence, ..Row::open(Wall(0)) };
    Run { dossier: Arc::new(fixtures::dossier()), row }
}

fn sealed(dossier: Dossier, evidence: Evidence) -> Run {
    let verdict = decide(&dossier, &evidence);
    let closing = Closing { claim: Some(claim()), ending: Ending::Alone, at: dossier.opened_at.plus_millis(60_000) };
    let sealed = Sealed { receipt_hash: "ab".repeat(32), terminal: verdict.terminal, reason: verdict.reason };
    let row = Row { state: State::Sealed(closing, sealed), evidence, ..Row::open(Wall(0)) };
    Run { dossier: Arc::new(dossier), row }
}

fn say(run: &Run) -> GovernedRunStatus {
    status(subject(), Said::Run { run, log_index: Some(4) }).unwrap()
}

/// kstatus, as Helm and Flux judge an object: generation first, then Reconciling, Stalled, Ready.
fn kstatus(status: &GovernedRunStatus, generation: i64) -> &'static str {
    if status.observed_generation() != generation || is_true(&status.conditions, RECONCILING) {
        "InProgress"
    } else if is_true(&status.conditions, STALLED) {
        "Failed"
    } else if is_true(&status.conditions, READY) {
        "Current"
    } else {
        "InProgress"
    }
}

#[test]
fn a_complete_run_is_current_and_every_other_end_failed() {
    let complete = say(&sealed(fixtures::dossier(), fixtures::evidence()));
    assert_eq!(complete.terminal, Some(Terminal::Complete));
    assert_eq!((complete.reason, kstatus(&complete, 3)), (None, "Current"));
    assert!(is_true(&complete.conditions, SUCCEEDED) && is_true(&complete.conditions, RECEIPT_SEALED));
    assert_eq!(complete.receipt.as_ref().unwrap().log_index, 4);
    let mut dossier = fixtures::dossier();
    dossier.policy = None;
    let halted = say(&sealed(dossier, Evidence::default()));
    assert_eq!((halted.terminal, halted.reason), (Some(Terminal::Halt), Some(Reason::PolicyMissing)));
    assert_eq!(kstatus(&halted, 3), "Failed");
    assert_eq!(condition(&halted.conditions, POLICY_PINNED).unwrap().status, Truth::False);
    assert_eq!(kstatus(&halted, 4), "InProgress", "an old generation is not what was asked for");
}

#[test]
fn a_run_that_goes_on_is_in_progress_in_every_state() {
    let contract = m87_authority::row::Contract { id: String::new(), attempt: 1, waiting_since: None };
    let dispatch =
        m87_authority::row::Dispatch { contract_id: String::new(), attempt: 1, nonce: String::new(), wall: Wall(0) };
    let closing = Closing { claim: None, ending: Ending::Alone, at: subject().created };
    let states = [
        (State::Open(None), Phase::Open),
        (State::Claimed(claim()), Phase::Claimed),
        (State::Contracted(claim(), contract), Phase::Contracted),
        (State::Dispatched(claim(), dispatch), Phase::Dispatched),
        (State::Closing(closing), Phase::Closing),
    ];
    for (state, phase) in states {
        let status = say(&run(state, Evidence::default()));
        assert_eq!((status.phase, kstatus(&status, 3)), (Some(phase), "InProgress"));
        assert_eq!((status.terminal, status.receipt), (None, None));
    }
    for waiting in [
        Waiting::Suspended,
        Waiting::PolicySuspended,
        Waiting::StoreRestored,
        Waiting::Capacity,
        Waiting::References(std::time::Duration::ZERO),
    ] {
        let status = status(subject(), Said::Waiting(waiting)).unwrap();
        assert_eq!((status.phase, kstatus(&status, 3)), (Some(Phase::Pending), "InProgress"), "{waiting:?}");
    }
}

#[test]
fn the_same_row_gives_the_same_status_whenever_it_is_asked() {
    let run = sealed(fixtures::dossier(), fixtures::evidence());
    assert_eq!(say(&run), say(&run.clone()));
    let waiting =
        |left| status(subject(), Said::Waiting(Waiting::References(std::time::Duration::from_secs(left)))).unwrap();
    assert_eq!(waiting(60), waiting(1), "time alone changes nothing");
}

#[test]
fn an_object_that_was_made_again_mirrors_the_first_run() {
    let first = sealed(fixtures::dossier(), fixtures::evidence());
    let said = |first: &Run| status(subject(), Said::AlreadyDone { first, log_index: Some(4) }).unwrap();
    let (mirrored, own) = (said(&first), say(&first));
    assert_eq!((mirrored.terminal, &mirrored.receipt), (own.terminal, &own.receipt));
    assert_eq!(mirrored.already_done.as_ref().unwrap().uid, first.dossier.run.uid);
    assert_eq!(kstatus(&mirrored, 3), "Current");
    let open = said(&run(State::Open(None), Evidence::default()));
    assert_eq!((open.terminal, kstatus(&open, 3)), (None, "InProgress"));
}

#[test]
fn an_unattested_actor_is_told_of() {
    let mut dossier = fixtures::dossier();
    dossier.actor.attestation = Attestation::Unattested;
    let run = Run { dossier: Arc::new(dossier), row: Row::open(Wall(0)) };
    assert_eq!(condition(&say(&run).conditions, POLICY_PINNED).unwrap().reason, "ActorUnattested");
}

#[test]
fn the_largest_status_is_small() {
    let long = "\u{1F9EA}\"\\\u{7}".repeat(200_000);
    let mut dossier = fixtures::dossier();
    dossier.proposal.tool = Some(long.clone());
    dossier.proposal.target = Some(long.clone());
    let mut evidence = fixtures::evidence();
    let execution = evidence.execution.as_mut().unwrap();
    execution.report = execution.report.clone().map(|report| ExecutionReport {
        ended: Ended::NotStarted(long.clone()),
        output: long.clone(),
        ..report
    });
    evidence.verified.as_mut().unwrap().validation.as_mut().unwrap().ended = Ended::NotStarted(long.clone());
    let interrupted = Evidence {
        interrupted: Some(Interrupted { reason: Reason::DeadlineExceeded, at: subject().created }),
        ..evidence.clone()
    };
    for evidence in [evidence, interrupted, Evidence::default()] {
        let run = sealed(dossier.clone(), evidence);
        let first = Said::AlreadyDone { first: &run, log_index: None };
        for said in [Said::Run { run: &run, log_index: None }, first, Said::Unusable(&long)] {
            let size = serde_json::to_vec(&to_value(&status(subject(), said).unwrap())).unwrap().len();
            assert!(size <= 16 * 1024, "{size} bytes");
        }
    }
}
