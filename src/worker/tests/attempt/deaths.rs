//! Whichever of the three processes dies, nothing of the tool goes on, and nothing is run twice.

use super::support::*;
use m87_core::evidence::{Ended, ExecutionReport, LimitKind};
use rustix::process::{Pid, Signal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// A tool that appends a line to a file as its effect, and then hangs, beside a daemon.
fn hanging(mark: &str, effect: &Path) -> String {
    format!("echo x >> {}; (setsid sleep {mark} &); sleep {mark}; true", effect.display())
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn exec_killed_takes_the_tool_and_its_daemons_with_it() {
    let (mark, scratch) = (mark(), tempfile::tempdir().unwrap());
    let effect = scratch.path().join("effect");
    let mut attempt = Attempt::of_tool(&tool(&hanging(&mark, &effect)));
    eventually("the tool starts", || processes_with(&mark).len() == 2);
    kill(attempt.exec());
    assert_eq!(attempt.wait().signal(), Some(9));
    eventually("all of the tool dies", || processes_with(&mark).is_empty());
    assert_eq!(attempt.report_text(), None);
    assert_eq!(lines(&effect), 1);
}

#[test]
fn the_shim_killed_takes_the_tool_with_it_and_exec_says_so() {
    let (mark, scratch) = (mark(), tempfile::tempdir().unwrap());
    let effect = scratch.path().join("effect");
    let mut attempt = Attempt::of_tool(&tool(&hanging(&mark, &effect)));
    eventually("the tool starts", || processes_with(&mark).len() == 2);
    kill(attempt.shim());
    let report = attempt.report();
    assert_eq!(report.ended, Ended::Signalled(9));
    assert_eq!((report.artifact, report.measured.tool_calls), (None, 1));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
    assert_eq!(lines(&effect), 1);
}

#[test]
fn the_tool_killed_is_told_and_its_daemons_die() {
    let (own, daemon) = (mark(), mark());
    let mut attempt = Attempt::of_tool(&tool(&format!("(setsid sleep {daemon} &); exec sleep {own}")));
    eventually("both start", || processes_with(&own).len() == 1 && processes_with(&daemon).len() == 1);
    kill(processes_with(&own)[0]);
    assert_eq!(attempt.report().ended, Ended::Signalled(9));
    assert_eq!(processes_with(&daemon), [0_i32; 0]);
}

#[test]
fn lost_answers_are_asked_for_again_with_the_same_nonce_and_the_tool_runs_once() {
    let scratch = tempfile::tempdir().unwrap();
    let effect = scratch.path().join("effect");
    let order = tool(&format!("echo x >> {}", effect.display()));
    let mut attempt = Attempt::prepared(&order, |authority| {
        for call in ["redeem", "report"] {
            std::fs::write(authority.join(format!("lose-{call}")), "").unwrap();
        }
    });
    assert_eq!(attempt.report().ended, Ended::Exited(0));
    let redemptions = attempt.calls("redeem");
    assert_eq!(redemptions.len(), 2);
    assert_eq!(redemptions[0], redemptions[1]);
    assert!(redemptions[0].len() > 64);
    assert_eq!(attempt.calls("report").len(), 2);
    assert_eq!(lines(&effect), 1);
}

#[test]
fn a_refused_contract_runs_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let effect = scratch.path().join("effect");
    let order = tool(&format!("echo x >> {}", effect.display()));
    let refuse = |authority: &Path| std::fs::write(authority.join("refuse-redeem"), "").unwrap();
    let mut attempt = Attempt::prepared(&order, refuse);
    assert!(!attempt.wait().success());
    assert!(attempt.log().contains("ContractVoid"), "{}", attempt.log());
    assert_eq!((lines(&effect), attempt.report_text()), (0, None));
    assert!(!attempt.folder("work").exists() && !attempt.folder("credentials").exists());
}

#[test]
fn an_order_for_another_contract_or_of_another_kind_runs_nothing_and_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let effect = scratch.path().join("effect");
    let good = tool(&format!("echo x >> {}", effect.display()));
    let mut foreign = good.clone();
    foreign.contract_id = "contract-2".to_owned();
    let mut strange = good.clone();
    strange.kind = "ValidationOrder".to_owned();
    for order in [foreign, strange] {
        let report = run(&order);
        assert!(matches!(report.ended, Ended::NotStarted(_)), "{:?}", report.ended);
    }
    for text in ["", "{}", "null", "{\"kind\":"] {
        let spoil = |authority: &Path| std::fs::write(authority.join("order.json"), text).unwrap();
        let report = Attempt::prepared(&good, spoil).report();
        assert!(matches!(report.ended, Ended::NotStarted(_)), "{:?}", report.ended);
    }
    assert_eq!(lines(&effect), 0);
}

#[test]
fn a_second_process_cannot_work_on_the_same_attempt() {
    let mark = mark();
    let mut attempt = Attempt::of_tool(&tool(&format!("sleep {mark}")));
    eventually("the tool starts", || processes_with(&mark).len() == 1);
    assert!(!attempt.again().success());
    assert_eq!(attempt.calls("redeem").len(), 1);
    kill(attempt.exec());
    attempt.wait();
    assert!(!attempt.again().success());
    assert_eq!(attempt.calls("redeem").len(), 1);
}

#[test]
fn an_authority_that_stays_away_is_given_up_at_the_limit_and_the_grace() {
    let mark = mark();
    let order = limited(&format!("sleep 0.5; : {mark}"), |limits| limits.seconds = 1);
    // Before the attempt: a busy machine shows only late that it was redeemed.
    let start = std::time::Instant::now();
    let mut attempt = Attempt::of_tool(&order);
    eventually("it redeems", || !attempt.calls("redeem").is_empty());
    std::fs::write(attempt.authority("down"), "").unwrap();
    assert!(!attempt.wait().success());
    // One second of limit and three of grace, less the wait for a try that would come too late.
    assert!((Duration::from_secs(2)..Duration::from_secs(20)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(attempt.report_text(), None);
}

#[test]
fn an_authority_that_comes_back_in_time_hears_the_report() {
    let mut attempt = Attempt::of_tool(&limited("exit 4", |limits| limits.seconds = 5));
    eventually("it redeems", || !attempt.calls("redeem").is_empty());
    std::fs::write(attempt.authority("down"), "").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    std::fs::remove_file(attempt.authority("down")).unwrap();
    assert_eq!(attempt.report().ended, Ended::Exited(4));
}

#[test]
fn the_end_of_its_starter_does_not_end_it() {
    let scratch = tempfile::tempdir().unwrap();
    let go = scratch.path().join("go");
    // The tool ends only once it was looked at: of a process that has ended there is no session to ask for.
    let mut attempt = Attempt::of_tool(&tool(&format!("until [ -e {} ]; do sleep 0.05; done", go.display())));
    eventually("it redeems", || !attempt.calls("redeem").is_empty());
    let session = rustix::process::getsid(Pid::from_raw(attempt.exec())).unwrap();
    assert_eq!(session.as_raw_nonzero().get(), attempt.exec(), "it leads a session of its own");
    std::fs::write(&go, "").unwrap();
    assert_eq!(attempt.report().ended, Ended::Exited(0));
}

/// Kills one of the processes at one moment after another; whatever the moment, the effect is had at most once, a
/// report of success is true, and nothing of the tool stays.
fn killed_at_any_moment(victim: impl Fn(&Attempt) -> Option<i32>) {
    let mut effects = 0;
    for moment in 0..20 {
        let (mark, scratch) = (mark(), tempfile::tempdir().unwrap());
        let effect = scratch.path().join("effect");
        let order = tool(&format!("echo x >> {}; (setsid sleep {mark} &); exec true", effect.display()));
        let mut attempt = Attempt::of_tool(&order);
        std::thread::sleep(Duration::from_millis(moment * 4));
        if let Some(pid) = victim(&attempt).and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        attempt.wait();
        eventually("all of the tool dies", || processes_with(&mark).is_empty());
        let report = attempt.report_text().map(|text| serde_json::from_str::<ExecutionReport>(&text).unwrap().ended);
        match (report, lines(&effect)) {
            (Some(Ended::Exited(0)), 1) => effects += 1,
            (None | Some(Ended::Signalled(9)), 0 | 1) => {}
            other => panic!("{other:?}"),
        }
        assert!(attempt.calls("redeem").len() <= 1);
    }
    println!("{effects} of 20 were over before they were killed");
}

#[test]
fn exec_killed_at_any_moment_has_the_effect_at_most_once() {
    killed_at_any_moment(|attempt| Some(attempt.exec()));
}

#[test]
fn the_shim_killed_at_any_moment_has_the_effect_at_most_once() {
    killed_at_any_moment(|attempt| attempt.children().first().copied());
}

#[test]
fn a_tool_that_kills_or_stops_its_shim_gains_nothing() {
    let mark = mark();
    let script = |signal: &str| {
        format!(
            "(setsid sleep {mark} &); shim=$PPID; setsid sh -c \"kill -{signal} $shim; sleep {mark}\" & sleep {mark}"
        )
    };
    let report = run(&limited(&script("KILL"), |limits| limits.seconds = 1));
    assert_eq!(report.ended, Ended::Signalled(9));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
    let report = run(&limited(&script("STOP"), |limits| limits.seconds = 1));
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}
