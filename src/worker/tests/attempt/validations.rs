//! The check of an artifact: on the stored bytes, on a copy of its own, by another process.

use super::support::*;
use m87_core::evidence::{Ended, LimitKind};

fn check(script: &str, stored: &[u8]) -> m87_core::evidence::ValidationReport {
    Attempt::of_validation(&validation(script, stored), stored).validation_report()
}

#[test]
fn it_sees_the_stored_artifact_and_the_input_and_its_exit_code_is_the_verdict() {
    let artifact = vec![b'x'; 5000];
    let seen = check("cat $M87_INPUT; wc -c < $M87_ARTIFACT; stat -c %a $M87_ARTIFACT", &artifact);
    assert_eq!(seen.ended, Ended::Exited(0));
    assert_eq!(seen.output, "{\"question\":\"secret-of-the-input\"}5000\n400");
    assert_eq!(check("exit 1", &artifact).ended, Ended::Exited(1));
    assert_eq!(check("kill -KILL $$", &artifact).ended, Ended::Signalled(9));
}

#[test]
fn its_environment_names_the_artifact_and_no_output() {
    let seen = check("tr '\\0' '\\n' < /proc/$$/environ | cut -d= -f1 | sort", b"x");
    assert_eq!(seen.output, "HOME\nLANG\nM87_ARTIFACT\nM87_INPUT\nPATH");
}

#[test]
fn an_artifact_with_another_hash_is_not_checked() {
    let order = validation("true", b"declared");
    let report = Attempt::of_validation(&order, b"stored").validation_report();
    assert!(matches!(&report.ended, Ended::NotStarted(why) if why.contains("not the declared")), "{:?}", report.ended);
}

#[test]
fn a_check_that_hangs_is_ended_like_a_tool() {
    let mark = mark();
    let mut order = validation(&format!("(setsid sleep {mark} &); sleep {mark}"), b"x");
    order.validation.limits.seconds = 1;
    let report = Attempt::of_validation(&order, b"x").validation_report();
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}
