#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod api;
mod rig;
mod written;

use api::{FakeApi, Fault, Verb};
use m87_api::{GovernancePolicySpec, GovernedRunSpec, Spec};
use m87_authority::clock::Wall;
use m87_authority::row::{Row, Run};
use m87_core::dossier::{Dossier, Named, RunIdentity};
use m87_core::fixtures;
use m87_core::reason::Reason;
use m87_core::tool::ManifestSpec;
use rig::{OWN_NAMESPACE, Rig, apply_baseline, apply_policy, apply_run, references};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const RUNS: &str = GovernedRunSpec::PLURAL;

/// A run that an earlier authority has left open.
fn left_open(name: &str, uid: &str) -> Run {
    let dossier = Dossier {
        namespace: Named { name: "ns".to_owned(), uid: "uid-of-ns".to_owned() },
        run: RunIdentity { name: name.to_owned(), uid: uid.to_owned(), idempotency_key: name.to_owned() },
        ..fixtures::dossier()
    };
    Run { dossier: Arc::new(dossier), row: Row::open(Wall(0)) }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_within_a_second_has_one_status_written() {
    let rig = Rig::start();
    rig.pass(5).await;
    let before = rig.api.writes();
    *rig.book.seals_after.lock().unwrap() = Some(Duration::ZERO);
    rig.run("fast");
    rig.pass(30).await;
    assert_eq!(rig.says("fast", "/terminal"), "COMPLETE");
    assert_eq!(rig.api.writes() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn the_credential_that_admission_stamped_is_the_actors_and_an_older_object_has_none() {
    let rig = Rig::start();
    let stamped = json!({"username": "jane", "uid": "7", "credentialId": "JTI=1"});
    let named = apply_run(&rig.api, "named", json!({ "actor": stamped }));
    let older = rig.run("older");
    rig.pass(5).await;
    for (uid, credential) in [(named, Some("JTI=1")), (older, None)] {
        rig.book.seal(&uid, fixtures::evidence());
        let actor = rig.book.row(&uid).unwrap().dossier.actor.clone();
        assert_eq!((actor.username.as_str(), actor.credential_id.as_deref()), ("jane", credential));
    }
}

#[tokio::test(start_paused = true)]
async fn unchanged_objects_reconcile_without_a_write_for_ten_minutes() {
    let rig = Rig::start();
    let uid = rig.run("over");
    rig.run("open");
    apply_run(&rig.api, "asleep", json!({"suspend": true}));
    rig.pass(5).await;
    rig.book.seal(&uid, fixtures::evidence());
    rig.pass(5).await;
    assert_eq!(rig.says("over", "/terminal"), "COMPLETE");
    assert_eq!(rig.ready_reason("open"), "Running");
    let before = rig.api.writes();
    rig.pass(600).await;
    assert_eq!(rig.api.writes(), before);
    assert!(rig.heartbeat.age() < Duration::from_secs(61), "the watch is dead");
}

#[tokio::test(start_paused = true)]
async fn suspended_runs_wait_resume_opens_them_and_cancel_ends_them_in_any_case() {
    let rig = Rig::start();
    let asleep = apply_run(&rig.api, "asleep", json!({"suspend": true}));
    rig.pass(5).await;
    assert_eq!((rig.ready_reason("asleep").as_str(), rig.book.len()), ("Suspended", 0));
    apply_run(&rig.api, "asleep", json!({"suspend": false}));
    rig.pass(5).await;
    assert!(rig.book.row(&asleep).is_some());
    apply_run(&rig.api, "asleep", json!({"suspend": true, "cancel": true}));
    let never = apply_run(&rig.api, "never", json!({"suspend": true, "cancel": true}));
    rig.pass(5).await;
    for (name, uid) in [("asleep", asleep), ("never", never)] {
        assert_eq!(rig.says(name, "/reason"), "Cancelled", "{name}");
        assert!(rig.book.row(&uid).unwrap().row.sealed().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_policy_holds_its_runs_and_lets_them_go() {
    let rig = Rig::start();
    apply_policy(&rig.api, json!({"suspend": true}));
    rig.pass(2).await;
    let uid = rig.run("held");
    rig.pass(5).await;
    assert_eq!((rig.ready_reason("held").as_str(), rig.book.len()), ("PolicySuspended", 0));
    apply_policy(&rig.api, json!({}));
    rig.pass(1).await;
    assert!(rig.book.row(&uid).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_baseline_holds_the_runs_of_every_namespace_and_lets_them_go() {
    let rig = Rig::start();
    apply_baseline(&rig.api, json!({"suspend": true}));
    rig.pass(2).await;
    let uid = rig.run("held");
    rig.pass(5).await;
    assert_eq!((rig.ready_reason("held").as_str(), rig.book.len()), ("PolicySuspended", 0), "its key is not spent");
    apply_baseline(&rig.api, json!({}));
    rig.pass(1).await;
    assert!(rig.book.row(&uid).is_some());
    apply_baseline(&rig.api, json!({"suspend": true}));
    rig.pass(2).await;
    let uid = rig.run("held-again");
    rig.pass(5).await;
    assert_eq!((rig.ready_reason("held-again").as_str(), rig.book.row(&uid)), ("PolicySuspended", None));
    rig.api.remove_in(OWN_NAMESPACE, GovernancePolicySpec::PLURAL, "baseline");
    rig.pass(1).await;
    assert!(rig.book.row(&uid).is_some(), "there is none any more that is suspended");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_suspended_policy_is_deleted_is_refused_like_any_without_one() {
    let rig = Rig::start();
    apply_policy(&rig.api, json!({"suspend": true}));
    rig.pass(2).await;
    let uid = rig.run("left");
    rig.pass(5).await;
    assert_eq!(rig.book.row(&uid), None);
    rig.api.remove(GovernancePolicySpec::PLURAL, "rules");
    rig.pass(70).await;
    assert!(rig.book.row(&uid).is_some(), "it is opened, to be refused with a receipt");
}

#[tokio::test(start_paused = true)]
async fn references_are_waited_for_a_minute_and_come_into_force_at_once() {
    let rig = Rig::start_over(FakeApi::new(), Vec::new());
    let early = rig.run("early");
    rig.pass(50).await;
    assert_eq!((rig.ready_reason("early").as_str(), rig.book.len()), ("WaitingForReferences", 0));
    references(&rig.api);
    rig.pass(1).await;
    assert!(rig.book.row(&early).is_some());
    let never = apply_run(&rig.api, "never", json!({"policyRef": {"name": "nope"}}));
    rig.pass(59).await;
    assert!(rig.book.row(&never).is_none());
    rig.pass(3).await;
    assert!(rig.book.row(&never).is_some(), "it is refused with a receipt, not held for ever");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_stalls_and_stops_no_other() {
    let rig = Rig::start_over(FakeApi::new(), Vec::new());
    rig.api.apply(GovernedRunSpec::KIND, RUNS, "bad", json!({"policyRef": "a string"}), json!({}));
    rig.api.apply(
        GovernancePolicySpec::KIND,
        GovernancePolicySpec::PLURAL,
        "bad",
        json!({"constraints": 7}),
        json!({}),
    );
    rig.api.apply(ManifestSpec::KIND, ManifestSpec::PLURAL, "bad", json!({"tools": {}}), json!({}));
    references(&rig.api);
    let good = rig.run("good");
    rig.pass(5).await;
    assert!(rig.book.row(&good).is_some());
    for plural in [RUNS, GovernancePolicySpec::PLURAL, ManifestSpec::PLURAL] {
        let status = rig.api.status(plural, "bad");
        let stalled = status["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "Stalled");
        assert_eq!(stalled.unwrap()["reason"], "Unreadable", "{plural}");
    }
    let before = rig.api.writes();
    rig.pass(600).await;
    assert_eq!(rig.api.writes(), before, "it is said once");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_else_wrote_is_written_again() {
    let rig = Rig::start();
    let uid = rig.run("r");
    rig.pass(5).await;
    rig.api.forge("r", json!({"terminal": "COMPLETE", "receipt": {"hash": "forged", "logIndex": 0}}));
    rig.pass(5).await;
    assert_eq!((rig.says("r", "/terminal"), rig.says("r", "/receipt")), (json!(null), json!(null)));
    rig.book.seal(&uid, fixtures::evidence());
    rig.pass(5).await;
    rig.api.forge("r", json!({"terminal": "HALT"}));
    rig.pass(5).await;
    assert_eq!(rig.says("r", "/terminal"), "COMPLETE");
    apply_run(&rig.api, "lies", json!({"suspend": true}));
    rig.api.forge("lies", json!({"terminal": "COMPLETE", "receipt": {"hash": "forged", "logIndex": 0}}));
    rig.pass(5).await;
    assert_eq!(rig.ready_reason("lies"), "Suspended");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_object_is_deleted_is_ended_also_if_nobody_watched() {
    let rig = Rig::start();
    let seen = rig.run("seen");
    rig.pass(3).await;
    rig.api.remove(RUNS, "seen");
    rig.pass(3).await;
    assert_eq!(rig.book.row(&seen).unwrap().row.sealed().unwrap().reason, Some(Reason::Deleted));
    let missed = rig.run("missed");
    rig.pass(3).await;
    rig.api.next(Verb::Watch, Fault::Silence);
    rig.api.forget_history();
    rig.api.remove(RUNS, "missed");
    rig.api.forget_history();
    rig.pass(200).await;
    assert_eq!(rig.book.row(&missed).unwrap().row.sealed().unwrap().reason, Some(Reason::Deleted));
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_the_operator_was_down_is_found_at_its_start() {
    let api = FakeApi::new();
    references(&api);
    let remade = apply_run(&api, "remade", json!({}));
    let rig = Rig::start_over(api, vec![left_open("gone", "1"), left_open("remade", "2")]);
    rig.pass(5).await;
    for uid in ["1", "2"] {
        assert_eq!(rig.book.row(uid).unwrap().row.sealed().unwrap().reason, Some(Reason::Deleted), "{uid}");
    }
    assert!(rig.book.row(&remade).is_some(), "the object that has the name now is another run");
}

#[tokio::test(start_paused = true)]
async fn a_list_alone_ends_nothing_the_server_is_asked_once_more() {
    let api = FakeApi::new();
    references(&api);
    let rig = Rig::start_over(api, Vec::new());
    let uid = rig.run("r");
    rig.pass(3).await;
    // The question whether it is gone is not answered: then nobody knows, and it is asked again.
    for _ in 0..3 {
        rig.api.next(Verb::Get, Fault::Answer(503));
    }
    rig.api.remove(RUNS, "r");
    rig.pass(60).await;
    assert_eq!(rig.book.row(&uid).unwrap().row.sealed().unwrap().reason, Some(Reason::Deleted));
}

#[tokio::test(start_paused = true)]
async fn an_object_made_again_under_its_name_mirrors_the_first_run() {
    let rig = Rig::start();
    let first = rig.run("r");
    rig.pass(3).await;
    rig.book.seal(&first, fixtures::evidence());
    rig.pass(3).await;
    rig.api.remove(RUNS, "r");
    rig.pass(1).await;
    let second = rig.run("r");
    rig.pass(5).await;
    assert!(rig.book.row(&second).is_none(), "it was done again");
    assert_eq!((rig.says("r", "/terminal"), rig.says("r", "/alreadyDone/uid")), (json!("COMPLETE"), json!(first)));
    let before = rig.api.writes();
    rig.pass(600).await;
    assert_eq!(rig.api.writes(), before);
    // Whatever is asked of it now, it is over, and its status is of the object as it is.
    let generation = rig.says("r", "/observedGeneration").as_i64().unwrap();
    apply_run(&rig.api, "r", json!({"suspend": true}));
    rig.pass(5).await;
    apply_policy(&rig.api, json!({"suspend": true}));
    apply_run(&rig.api, "r", json!({"suspend": false}));
    rig.pass(5).await;
    assert_eq!((rig.says("r", "/terminal"), rig.says("r", "/alreadyDone/uid")), (json!("COMPLETE"), json!(first)));
    assert_eq!(rig.says("r", "/observedGeneration"), json!(generation + 2));
}

#[tokio::test(start_paused = true)]
async fn watches_recover_from_410_429_500_and_silence() {
    for faults in [
        vec![(Verb::List, Fault::Answer(429)), (Verb::List, Fault::Answer(500))],
        vec![(Verb::Watch, Fault::Answer(410)), (Verb::Watch, Fault::Answer(429))],
        vec![(Verb::Watch, Fault::Silence)],
        vec![(Verb::List, Fault::Silence)],
    ] {
        let api = FakeApi::new();
        references(&api);
        // For each of the three watches.
        for (verb, fault) in faults.iter().cycle().take(faults.len() * 3) {
            api.next(*verb, *fault);
        }
        let rig = Rig::start_over(api, Vec::new());
        rig.pass(1).await;
        let uid = rig.run("r");
        rig.pass(240).await;
        assert!(rig.book.row(&uid).is_some(), "{faults:?}");
        assert!(rig.heartbeat.age() < Duration::from_secs(61), "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_done_and_not_answered_is_not_done_otherwise_a_second_time() {
    let rig = Rig::start();
    rig.pass(5).await;
    let before = rig.api.count(Verb::PatchStatus);
    rig.api.next(Verb::PatchStatus, Fault::Silence);
    *rig.book.seals_after.lock().unwrap() = Some(Duration::ZERO);
    rig.run("r");
    rig.pass(60).await;
    assert_eq!(rig.says("r", "/terminal"), "COMPLETE");
    assert_eq!(rig.api.count(Verb::PatchStatus) - before, 1, "the watch had told that it was done");
}

#[tokio::test(start_paused = true)]
async fn conflicts_and_failures_of_a_write_are_tried_again() {
    for code in [409, 429, 500, 503] {
        let rig = Rig::start();
        rig.pass(5).await;
        rig.api.next(Verb::PatchStatus, Fault::Answer(code));
        *rig.book.seals_after.lock().unwrap() = Some(Duration::ZERO);
        rig.run("r");
        rig.pass(60).await;
        assert_eq!(rig.says("r", "/terminal"), "COMPLETE", "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_at_its_cap_waits_and_goes_on_as_its_runs_end() {
    let rig = Rig::start();
    let uids: Vec<_> = (0..5).map(|at| rig.run(&format!("r{at}"))).collect();
    rig.pass(5).await;
    assert_eq!(rig.book.len(), 3);
    let waiting = (0..5).filter(|at| rig.ready_reason(&format!("r{at}")) == "AtCapacity").count();
    assert_eq!(waiting, 2);
    let open = uids.iter().find(|uid| rig.book.row(uid).is_some()).unwrap();
    rig.book.seal(open, fixtures::evidence());
    rig.pass(1).await;
    assert_eq!(rig.book.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_over_keeps_no_place_also_if_an_earlier_step_of_it_is_told_late() {
    let rig = Rig::start();
    let first = rig.run("first");
    rig.pass(2).await;
    let before = rig.book.row(&first).unwrap();
    rig.book.seal(&first, fixtures::evidence());
    rig.book.tell(&before);
    rig.pass(5).await;
    let uids: Vec<_> = (0..3).map(|at| rig.run(&format!("r{at}"))).collect();
    rig.pass(5).await;
    assert!(uids.iter().all(|uid| rig.book.row(uid).is_some()), "there are three places");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_keeps_objects_for_another_time_says_so_of_runs_that_are_over() {
    let rig = Rig::start();
    let policy = apply_policy(&rig.api, json!({}));
    rig.pass(2).await;
    *rig.book.policy_uid.lock().unwrap() = policy;
    *rig.book.seals_after.lock().unwrap() = Some(Duration::ZERO);
    rig.run("r");
    rig.pass(100).await;
    assert_eq!(rig.says("r", "/terminal"), "COMPLETE");
    apply_policy(&rig.api, json!({"retention": {"ttlSecondsAfterSealed": 3600}}));
    rig.pass(100).await;
    assert!(rig.api.exists(RUNS, "r"));
    apply_policy(&rig.api, json!({"retention": {"ttlSecondsAfterSealed": 60}}));
    rig.pass(2).await;
    assert!(!rig.api.exists(RUNS, "r"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_and_is_suspended_or_deleted_lets_the_next_one_go() {
    let rig = Rig::start();
    let open: Vec<_> = ["a", "b", "c"].into_iter().map(|name| rig.run(name)).collect();
    rig.pass(2).await;
    for name in ["suspended", "deleted"] {
        rig.run(name);
        rig.pass(2).await;
    }
    let last = rig.run("last");
    rig.pass(2).await;
    apply_run(&rig.api, "suspended", json!({"suspend": true}));
    rig.api.remove(RUNS, "deleted");
    rig.book.seal(&open[0], fixtures::evidence());
    rig.pass(1).await;
    assert!(rig.book.row(&last).is_some(), "a place is kept for runs that do not want it");
    assert_eq!(rig.book.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn expired_objects_are_deleted_and_never_those_that_a_gitops_tool_tracks() {
    let rig = Rig::start();
    let policy = apply_policy(&rig.api, json!({"retention": {"ttlSecondsAfterSealed": 60}}));
    rig.pass(2).await;
    *rig.book.seals_after.lock().unwrap() = Some(Duration::ZERO);
    // Under a policy that was made again meanwhile nothing expires: it is not the one that was pinned.
    rig.run("of-another-policy");
    rig.pass(5).await;
    *rig.book.policy_uid.lock().unwrap() = policy;
    rig.run("plain");
    let spec = json!({
        "policyRef": {"name": "rules"}, "manifestRef": {"name": "tools"}, "proposal": fixtures::dossier().proposal,
    });
    let tracked = json!({"argocd.argoproj.io/tracking-id": "app:m87.dev/GovernedRun:ns/tracked"});
    rig.api.apply(GovernedRunSpec::KIND, RUNS, "tracked", spec, tracked);
    rig.pass(50).await;
    assert!(rig.api.exists(RUNS, "plain"));
    rig.pass(20).await;
    assert!(!rig.api.exists(RUNS, "plain"));
    rig.pass(600).await;
    assert!(rig.api.exists(RUNS, "tracked") && rig.api.exists(RUNS, "of-another-policy"));
    assert_eq!(rig.api.count(Verb::Delete), 1);
}
