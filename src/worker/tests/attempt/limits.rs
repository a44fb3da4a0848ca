//! Every limit holds, and whoever is over one is gone, with all descendants, soon.

use super::support::*;
use m87_core::evidence::{Ended, LimitKind};
use std::time::{Duration, Instant};

/// Runs to its end, which must come within that time.
fn within(longest: Duration, order: &m87_core::contract::WorkOrder) -> m87_core::evidence::ExecutionReport {
    let start = Instant::now();
    let report = run(order);
    assert!(start.elapsed() < longest, "took {:?}", start.elapsed());
    report
}

#[test]
fn a_tool_that_hangs_is_killed_at_its_time() {
    let mark = mark();
    let order = limited(&format!("trap '' TERM INT HUP; sleep {mark}; sleep {mark}"), |limits| limits.seconds = 1);
    let report = within(Duration::from_secs(5), &order);
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn a_tool_that_stops_itself_is_killed_at_its_time() {
    let report = within(Duration::from_secs(5), &limited("kill -STOP $$", |limits| limits.seconds = 1));
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
}

#[test]
fn processor_time_is_limited_alone_and_together() {
    let busy = "while :; do :; done";
    let alone = limited(busy, |limits| limits.cpu_seconds = 1);
    assert_eq!(within(Duration::from_secs(60), &alone).ended, Ended::Limit(LimitKind::CpuSeconds));
    // None of these reaches the limit, and each is over before it can be seen for long. On a busy machine it takes more of them.
    let together = limited(
        "i=0; while [ $i -lt 100 ]; do i=$((i + 1)); timeout 0.3 sh -c 'while :; do :; done'; done; true",
        |limits| (limits.cpu_seconds, limits.seconds) = (1, 60),
    );
    assert_eq!(within(Duration::from_secs(60), &together).ended, Ended::Limit(LimitKind::CpuSeconds));
}

#[test]
fn memory_is_limited() {
    let script = "exec awk 'BEGIN { s = \"x\"; while (1) s = s s }'";
    let report = within(Duration::from_secs(15), &limited(script, |limits| limits.memory_bytes = 64 << 20));
    assert!(!matches!(report.ended, Ended::Exited(0) | Ended::Limit(_)), "{:?}", report.ended);
    // Too little to become any program at all: it ends, and is not hung upon.
    let report = within(Duration::from_secs(15), &limited("true", |limits| limits.memory_bytes = 1 << 20));
    assert!(!matches!(report.ended, Ended::Exited(0)), "{:?}", report.ended);
}

#[test]
fn a_gigabyte_is_not_written() {
    let mut attempt = Attempt::of_tool(&tool("head -c 1073741824 /dev/zero > $M87_OUTPUT/result"));
    assert_eq!(attempt.report().ended, Ended::Limit(LimitKind::OutputBytes));
    assert!(!attempt.authority("artifact").exists());
}

#[test]
fn many_files_count_together_in_all_folders() {
    let script = "i=0; while [ $i -lt 400 ]; do mkdir -p d$i; head -c 10000 /dev/zero > d$i/f; i=$((i+1)); done";
    assert_eq!(ended(script), Ended::Limit(LimitKind::OutputBytes));
}

#[test]
fn what_is_printed_counts_too() {
    let start = Instant::now();
    assert_eq!(ended("yes"), Ended::Limit(LimitKind::OutputBytes));
    assert_eq!(
        ended("head -c 600000 /dev/zero; head -c 600000 /dev/zero > file"),
        Ended::Limit(LimitKind::OutputBytes)
    );
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn at_the_limit_is_allowed_and_one_byte_more_is_not() {
    let write = |bytes: u32| ended(&format!("head -c {bytes} /dev/zero > $M87_OUTPUT/result"));
    assert_eq!(write(1 << 20), Ended::Exited(0));
    assert_eq!(write((1 << 20) + 1), Ended::Limit(LimitKind::OutputBytes));
}

#[test]
fn processes_are_limited() {
    let mark = mark();
    let script = format!("for i in 1 2 3 4 5 6; do sleep {mark} & done; wait");
    let report = within(Duration::from_secs(10), &limited(&script, |limits| limits.processes = 5));
    assert_eq!(report.ended, Ended::Limit(LimitKind::Processes));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
    let script = "for i in 1 2 3 4; do sleep 0.3 & done; wait";
    assert_eq!(run(&limited(script, |limits| limits.processes = 5)).ended, Ended::Exited(0));
}

/// Doubles again and again, up to about two thousand processes: a bomb that cannot take the machine with it.
fn bomb(fork: &str, mark: &str) -> String {
    let own = format!("[ $1 = 0 ] && exec sleep {mark}; n=$(($1 - 1)); {fork} & {fork} & sleep {mark}");
    format!("cat > bomb <<'END'\n{own}\nEND\nset -- 10; . ./bomb")
}

#[test]
fn a_fork_bomb_is_caught_up_with() {
    let mark = mark();
    let report = within(Duration::from_secs(10), &tool(&bomb("sh ./bomb $n", &mark)));
    assert_eq!(report.ended, Ended::Limit(LimitKind::Processes));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn a_fork_bomb_of_daemons_is_caught_up_with() {
    let mark = mark();
    let report = within(Duration::from_secs(10), &tool(&bomb("setsid sh ./bomb $n", &mark)));
    assert_eq!(report.ended, Ended::Limit(LimitKind::Processes));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn a_user_without_rights_is_limited_and_served_alike() {
    let mark = mark();
    let script = "id -u; cat $M87_INPUT > $M87_OUTPUT/result; grep processes /proc/self/limits";
    let mut attempt = Attempt::unprivileged(&tool(script));
    let report = attempt.report();
    assert_eq!(report.ended, Ended::Exited(0), "{}", report.output);
    assert!(report.artifact.is_some() && !report.output.starts_with("0\n"), "{}", report.output);
    assert!(report.output.contains("Max processes") && !report.output.contains("unlimited"), "{}", report.output);

    // What it closes against us cannot be counted, and is removed all the same.
    let mut attempt = Attempt::unprivileged(&tool("mkdir -p a/b; touch a/b/c; chmod 0 a/b a"));
    assert_eq!(attempt.report().ended, Ended::Limit(LimitKind::OutputBytes));
    assert!(!attempt.folder("work").exists());

    let mut attempt = Attempt::unprivileged(&tool(&bomb("setsid sh ./bomb $n", &mark)));
    assert_eq!(attempt.report().ended, Ended::Limit(LimitKind::Processes));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn daemons_do_not_outlive_the_tool_that_left_them() {
    let mark = mark();
    // A double fork into a session of its own, with the output held open; then the tool ends well.
    let script = format!(
        "(setsid sh -c 'sleep {mark} & sleep {mark}' &) ; (setsid sleep {mark} >/dev/null 2>&1 &); sleep 0.2; echo x > $M87_OUTPUT/result"
    );
    let report = within(Duration::from_secs(5), &tool(&script));
    assert_eq!(report.ended, Ended::Exited(0));
    assert!(report.artifact.is_some());
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn daemons_do_not_outlive_a_limit() {
    let mark = mark();
    let script = format!("(setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; sleep {mark}' &) ; sleep {mark}");
    let report = within(Duration::from_secs(5), &limited(&script, |limits| limits.seconds = 1));
    assert_eq!(report.ended, Ended::Limit(LimitKind::Seconds));
    assert_eq!(processes_with(&mark), [0_i32; 0]);
}

#[test]
fn core_dumps_and_open_files_are_limited() {
    let report = run(&tool("ulimit -c; ulimit -n"));
    assert_eq!(report.output, "0\n1024");
}
