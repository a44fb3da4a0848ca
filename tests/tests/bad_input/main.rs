//! Input that is broken, hostile or half there: either nothing of the invocation runs, exit 2, file and field are named; or
//! the run is judged and refused, with a reason and a receipt. In both cases the next run works.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod invalid;
mod refused;

use m87_tests::Scene;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A scene whose one tool appends a line and is done.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.appending("0").runs(1);
    scene
}

/// `m87 run` and `m87 plan` over the scene exit with 2 soon, name all of this, and leave nothing behind.
fn assert_invalid(scene: &Scene, case: &str, named: &[&str]) {
    let (files, out) = (scene.files(), scene.out());
    let (files, out) = (files.to_str().unwrap(), out.to_str().unwrap());
    for arguments in [&["run", "-f", files, "--out", out][..], &["plan", "-f", files]] {
        let begun = Instant::now();
        let output = scene.output(arguments);
        assert!(begun.elapsed() < Duration::from_secs(20), "{case}: took {:?}", begun.elapsed());
        let said = String::from_utf8(output.stderr).expect("what is said is text");
        let shown = said.chars().take(2000).collect::<String>();
        assert_eq!(output.status.code(), Some(2), "{case}: {arguments:?}: {shown}");
        for part in named {
            assert!(said.contains(part), "{case}: {part:?} is not named in: {shown}");
        }
        assert!(said.len() < 16 << 10, "{case}: {} bytes of errors: {shown}", said.len());
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{case}: steers the terminal: {shown:?}");
        assert!(!scene.out().exists(), "{case}: an out folder was made");
        assert!(scene.effects().is_empty(), "{case}: something ran");
    }
}

/// What was broken is mended: the same command works now.
fn assert_works(scene: &Scene) {
    scene.runs(1);
    assert_eq!(scene.finish(&[], LIMIT), 0, "{}", scene.logs());
    assert_eq!(scene.effects().values().sum::<usize>(), 1);
    scene.assert_invariants(1);
}
