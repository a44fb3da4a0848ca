//! `kill -9` of everything that can be killed, at random moments: each run ends once, its effect happens at most once,
//! COMPLETE is never without it and HALT never with it, and every run ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_tests::external::External;
use m87_tests::processes::{self, Role};
use m87_tests::{Random, Scene, moments};
use std::time::{Duration, Instant};

/// Long enough that a moment falls before, into and after the tools' work.
const MOMENT: u64 = 2500;
const RUNS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

#[test]
fn one_terminal_and_effect_at_most_once_when_the_whole_is_killed() {
    let mut random = Random::new("one_terminal_and_effect_at_most_once_when_the_whole_is_killed");
    for _ in 0..moments() {
        let scene = Scene::new();
        scene.appending("0.4").runs(RUNS);
        // Killed again and again, then left alone: it must come to its end from wherever it was.
        for _ in 0..3 {
            let mut child = scene.start(&[]);
            pause(random.between(50, MOMENT));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        scene.finish(&[], LIMIT);
        scene.assert_invariants(RUNS);
    }
}

/// Kills one process of that role at each moment. A moment at which everything was over has killed nobody and does not count;
/// the next one is earlier.
fn killing(test: &str, role: Role) {
    let mut random = Random::new(test);
    let (mut killed, mut latest) = (0, MOMENT);
    for _ in 0..moments() * 3 {
        if killed == moments() {
            break;
        }
        let scene = Scene::new();
        scene.appending("0.6").runs(RUNS);
        let mut child = scene.start(&[]);
        let until = Duration::from_millis(random.between(200, latest));
        let (begun, mut victim) = (Instant::now(), None);
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < LIMIT, "{test}: not ended after {LIMIT:?}\n{}", scene.logs());
            // The first process of that role at or after the moment.
            if victim.is_none() && begun.elapsed() >= until {
                victim = processes::of_scene(&scene.path("")).into_iter().find(|process| process.role() == Some(role));
                victim.iter().for_each(|process| processes::kill(process.pid));
            }
            pause(10);
        }
        scene.assert_invariants(RUNS);
        let left = processes::of_scene(&scene.path(""));
        assert!(left.is_empty(), "{test}: left over: {left:?}");
        match victim {
            Some(_) => killed += 1,
            None => latest = (latest / 2).max(400),
        }
    }
    assert_eq!(killed, moments(), "{test}: too often there was nobody to kill");
}

#[test]
fn one_terminal_and_effect_at_most_once_when_exec_is_killed() {
    killing("one_terminal_and_effect_at_most_once_when_exec_is_killed", Role::Exec);
}

#[test]
fn one_terminal_and_effect_at_most_once_when_the_shim_is_killed() {
    killing("one_terminal_and_effect_at_most_once_when_the_shim_is_killed", Role::Shim);
}

#[test]
fn one_terminal_and_effect_at_most_once_when_the_tool_is_killed() {
    killing("one_terminal_and_effect_at_most_once_when_the_tool_is_killed", Role::Tool);
}

#[test]
fn one_terminal_and_effect_at_most_once_when_the_engine_is_killed() {
    let mut random = Random::new("one_terminal_and_effect_at_most_once_when_the_engine_is_killed");
    for _ in 0..moments() {
        let scene = Scene::new();
        scene.appending("0.4").runs(RUNS);
        let mut external = External::start(&scene);
        pause(random.between(50, MOMENT));
        external.restart_engine();
        external.finish(LIMIT);
        scene.assert_invariants(RUNS);
    }
}

#[test]
fn one_terminal_and_effect_at_most_once_when_a_lane_is_killed() {
    let mut random = Random::new("one_terminal_and_effect_at_most_once_when_a_lane_is_killed");
    for lane in ["proposer", "governance", "runner", "memory"] {
        for _ in 0..moments() {
            let scene = Scene::new();
            scene.appending("0.4").runs(RUNS);
            let mut external = External::start(&scene);
            pause(random.between(50, MOMENT));
            external.restart_lane(lane);
            external.finish(LIMIT);
            scene.assert_invariants(RUNS);
        }
    }
}
