//! `kill -9` of everything that can be killed, at random moments: each run ends once, its effect happens at most once,
//! COMPLETE is never without it and HALT never with it, and every run ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_tests::external::{External, LANES};
use m87_tests::processes::{self, Process, Role};
use m87_tests::{Random, Scene, moments};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// Long enough that a moment falls before, into and after the tools' work.
const MOMENT: u64 = 2500;
const RUNS: usize = 3;
const LIMIT: Duration = Duration::from_secs(120);

fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Whether some run has no receipt yet. Looked at after a kill: what is killed then has not come to its end.
fn is_open(scene: &Scene) -> bool {
    scene.bundles().len() < RUNS
}

/// Tries scenes until a kill has counted at each moment. A kill after the end proves nothing; the next one is earlier. `kills`
/// has a scene, with the latest moment, and says whether some run was open when it killed.
fn at_moments(test: &str, mut kills: impl FnMut(&mut Random, u64) -> bool) {
    let mut random = Random::new(test);
    let (mut counted, mut latest) = (0, MOMENT);
    for _ in 0..moments() * 3 {
        if counted == moments() {
            break;
        }
        match kills(&mut random, latest) {
            true => counted += 1,
            false => latest = (latest / 2).max(400),
        }
    }
    assert_eq!(counted, moments(), "{test}: too often everything was over before the kill");
}

#[test]
fn one_terminal_and_effect_at_most_once_when_the_whole_is_killed() {
    at_moments("one_terminal_and_effect_at_most_once_when_the_whole_is_killed", |random, latest| {
        let scene = Scene::new();
        scene.appending("0.4").runs(RUNS);
        // Killed again and again, then left alone: it must come to its end from wherever it was.
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut child = scene.start(&[]);
            pause(random.between(50, latest));
            child.kill().unwrap();
            let was_alive = child.wait().unwrap().signal() == Some(9);
            open.push(was_alive && is_open(&scene));
        }
        scene.finish(&[], LIMIT);
        scene.assert_invariants(RUNS);
        open[0]
    });
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
    at_moments("one_terminal_and_effect_at_most_once_when_the_engine_is_killed", |random, latest| {
        let scene = Scene::new();
        scene.appending("0.4").runs(RUNS);
        let mut external = External::start(&scene);
        pause(random.between(50, latest));
        kill(&scene, &["engine"]);
        let was_open = is_open(&scene);
        external.restart_engine();
        external.finish(LIMIT);
        scene.assert_invariants(RUNS);
        was_open
    });
}

#[test]
fn one_terminal_and_effect_at_most_once_when_a_lane_is_killed() {
    for lane in LANES {
        let test = "one_terminal_and_effect_at_most_once_when_a_lane_is_killed";
        at_moments(test, |random, latest| {
            let scene = Scene::new();
            scene.appending("0.4").runs(RUNS);
            let mut external = External::start(&scene);
            pause(random.between(50, latest));
            kill(&scene, &["worker", "--lane", lane]);
            let was_open = is_open(&scene);
            external.restart_lane(lane);
            external.finish(LIMIT);
            scene.assert_invariants(RUNS);
            was_open
        });
    }
}

/// Kills the scene's one `m87` whose arguments begin so.
fn kill(scene: &Scene, arguments: &[&str]) {
    let of_scene = processes::of_scene(&scene.path(""));
    let begins = |process: &&Process| process.arguments.iter().skip(1).take(arguments.len()).eq(arguments);
    let victims: Vec<_> = of_scene.iter().filter(begins).collect();
    assert_eq!(victims.len(), 1, "m87 {arguments:?}: {of_scene:?}");
    processes::kill(victims[0].pid);
}
