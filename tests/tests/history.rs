//! The judge of whole histories (tests/kube/history.py) is judged itself: by an honest history, and by forged ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

#[test]
fn a_history_that_is_broken_in_one_way_is_found_by_the_invariant_that_it_breaks() {
    let forged = Path::new(env!("CARGO_MANIFEST_DIR")).join("kube/forged.py");
    let done = match Command::new("python3").arg(forged).output() {
        Ok(done) => done,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // Not by a macro, whose output a passing test keeps to itself.
            writeln!(std::io::stderr(), "\n-- skipped: forged histories: python3 is not here").unwrap();
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let found = |what: &str| said.lines().any(|line| line.starts_with(&format!("ok {what}")));
    for what in [
        "nothing is found in an honest history",
        "one run has two effects",
        "COMPLETE without an effect",
        "HALT with an effect",
        "a run without an end",
        "a receipt is missing",
        "there is a forgery for each invariant",
    ] {
        assert!(found(what), "{what}: {said}");
    }
}
