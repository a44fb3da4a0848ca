#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use decide::Before;

const CONFIG: Config = Config::usual(Before::Somebody);

fn at(seconds: u64) -> Monotonic {
    Monotonic(Duration::from_secs(1000 + seconds))
}

fn identity(start: &str) -> Identity {
    Identity { place: "m87-0/uid".to_owned(), start: start.to_owned() }
}

fn held(version: u64, holder: Option<&str>) -> Record {
    Record {
        version: version.to_string(),
        holder: holder.map(str::to_owned),
        duration: Duration::from_secs(15),
        transitions: 4,
    }
}

fn candidate() -> Knowledge {
    Knowledge::new(identity("me"))
}

fn leader(sent: Monotonic) -> Knowledge {
    let mut knowledge = candidate();
    knowledge.wrote(held(7, Some(&identity("me").name())), sent, sent);
    knowledge
}

#[test]
fn another_is_waited_for_its_whole_duration_since_its_last_sign_was_seen() {
    let mut knowledge = candidate();
    assert_eq!(decide(&knowledge, at(0), &CONFIG), Decision::Look);
    knowledge.saw(Some(held(1, Some("other/x"))), at(0));
    assert_eq!(decide(&knowledge, at(14), &CONFIG), Decision::Wait(at(15)));
    knowledge.saw(Some(held(2, Some("other/x"))), at(14));
    assert_eq!(decide(&knowledge, at(28), &CONFIG), Decision::Wait(at(29)));
    knowledge.saw(Some(held(2, Some("other/x"))), at(29));
    assert_eq!(decide(&knowledge, at(29), &CONFIG), Decision::Acquire(held(2, Some("other/x"))));
}

#[test]
fn a_released_lease_and_a_dead_predecessors_are_taken_at_once() {
    for record in [held(1, None), held(1, Some(&identity("before").name()))] {
        let mut knowledge = candidate();
        knowledge.saw(Some(record.clone()), at(0));
        assert_eq!(decide(&knowledge, at(0), &CONFIG), Decision::Acquire(record));
    }
}

#[test]
fn a_lease_that_was_created_anew_is_waited_for_if_somebody_has_led_before() {
    let mine = held(1, Some(&identity("me").name()));
    let mut knowledge = candidate();
    knowledge.saw(None, at(0));
    assert_eq!(decide(&knowledge, at(0), &CONFIG), Decision::Create);
    knowledge.created(mine.clone(), at(0), at(1), &CONFIG);
    assert_eq!(knowledge.leads_until(&CONFIG), None);
    assert_eq!(decide(&knowledge, at(15), &CONFIG), Decision::Wait(at(16)));
    assert_eq!(decide(&knowledge, at(16), &CONFIG), Decision::Acquire(mine.clone()));
    let mut first = candidate();
    first.created(mine, at(0), at(1), &Config::usual(Before::Nobody));
    assert_eq!(first.leads_until(&CONFIG), Some(at(10)));
}

#[test]
fn a_leader_renews_and_stops_before_others_may_begin() {
    let knowledge = leader(at(0));
    assert_eq!(knowledge.transitions(), Some(4));
    assert_eq!(decide(&knowledge, at(1), &CONFIG), Decision::Wait(at(2)));
    assert!(matches!(decide(&knowledge, at(2), &CONFIG), Decision::Renew(_)));
    assert_eq!(decide(&knowledge, at(10), &CONFIG), Decision::Lost(Loss::Expired));
    assert_eq!(knowledge.leads_until(&CONFIG), Some(at(10)));
}

#[test]
fn a_write_without_an_answer_extends_nothing() {
    let mut knowledge = leader(at(0));
    knowledge.must_look();
    assert_eq!(decide(&knowledge, at(3), &CONFIG), Decision::Look);
    knowledge.saw(Some(held(8, Some(&identity("me").name()))), at(4));
    assert_eq!(knowledge.leads_until(&CONFIG), Some(at(10)));
    // One that has never led does not lead because it reads its own name.
    let mut knowledge = candidate();
    knowledge.saw(Some(held(8, Some(&identity("me").name()))), at(0));
    assert_eq!(knowledge.leads_until(&CONFIG), None);
    assert_eq!(decide(&knowledge, at(14), &CONFIG), Decision::Wait(at(15)));
    assert!(matches!(decide(&knowledge, at(15), &CONFIG), Decision::Acquire(_)));
}

#[test]
fn whoever_sees_another_or_nothing_leads_no_more() {
    let mut knowledge = leader(at(0));
    knowledge.saw(Some(held(9, Some("other/x"))), at(1));
    assert_eq!(decide(&knowledge, at(1), &CONFIG), Decision::Lost(Loss::Taken("other/x".to_owned())));
    assert_eq!(knowledge.leads_until(&CONFIG), None);
    let mut knowledge = leader(at(0));
    knowledge.saw(None, at(1));
    assert_eq!(decide(&knowledge, at(1), &CONFIG), Decision::Lost(Loss::Deleted));
}

#[test]
fn a_leader_that_stops_gives_the_lease_back_and_never_leads_again() {
    let mut knowledge = leader(at(0));
    knowledge.stop();
    assert_eq!(knowledge.leads_until(&CONFIG), None);
    assert!(matches!(decide(&knowledge, at(1), &CONFIG), Decision::Release(_)));
    knowledge.wrote(held(8, None), at(1), at(1));
    assert_eq!(decide(&knowledge, at(1), &CONFIG), Decision::Lost(Loss::Released));
    knowledge.saw(Some(held(8, None)), at(100));
    assert_eq!(decide(&knowledge, at(100), &CONFIG), Decision::Lost(Loss::Released));
    let mut knowledge = candidate();
    knowledge.stop();
    assert_eq!(decide(&knowledge, at(0), &CONFIG), Decision::Lost(Loss::Released));
}

#[test]
fn absurd_leases_neither_shorten_nor_endlessly_prolong_the_wait() {
    for (seconds, waits) in [(0, 15), (1, 15), (40, 40), (i32::MAX.unsigned_abs().into(), 150)] {
        let mut knowledge = candidate();
        let record = Record { duration: Duration::from_secs(seconds), ..held(1, Some("other/x")) };
        knowledge.saw(Some(record), at(0));
        assert_eq!(decide(&knowledge, at(0), &CONFIG), Decision::Wait(at(waits)), "{seconds}");
    }
}

#[test]
fn an_epoch_is_later_than_everything_that_is_known_also_after_the_lease_was_deleted() {
    let epoch = |transitions| LeaseEpoch { transitions };
    assert_eq!(epoch(9).epoch(3), 9);
    assert_eq!(epoch(1).epoch(8), 9);
    assert_eq!(epoch(9).epoch(9), 10);
}

#[test]
fn what_is_written_is_read_back_and_times_of_others_are_not() {
    let mut object = taken(&CONFIG, "a/b", 3);
    object.metadata.resource_version = Some("5".to_owned());
    let read = record(&object);
    assert_eq!((read.holder.as_deref(), read.transitions, read.duration.as_secs()), (Some("a/b"), 3, 15));
    let mut skewed = object.clone();
    let past = MicroTime(Timestamp::from_second(0).unwrap());
    skewed.spec.as_mut().unwrap().renew_time = Some(past);
    assert_eq!(record(&skewed), read);
    assert_eq!(record(&released(&read)).holder, None);
    assert_eq!(record(&Lease::default()).transitions, 0);
}
