//! What a tool finds around itself, and how its end is told.

use super::support::*;
use m87_core::evidence::Ended;
use m87_core::tool::Run;
use serde_json::json;
use std::collections::BTreeMap;

/// What a script printed into its artifact.
fn printed(script: &str) -> (String, Attempt) {
    let mut attempt = Attempt::of_tool(&tool(&format!("({script}) > $M87_OUTPUT/result")));
    let report = attempt.report();
    assert_eq!(report.ended, Ended::Exited(0), "{}", report.output);
    (std::fs::read_to_string(attempt.authority("artifact")).unwrap(), attempt)
}

#[test]
fn the_environment_is_what_is_promised_and_nothing_else() {
    // Read from the kernel, since a shell adds variables of its own.
    let (text, attempt) = printed("tr '\\0' '\\n' < /proc/$$/environ");
    let env: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let home = attempt.folder("work/tool");
    let home = home.to_str().unwrap();
    let out = format!("{home}/out");
    let usage = format!("{home}/usage.json");
    let input = attempt.folder("work/input.json");
    let expected = BTreeMap::from([
        ("HOME", home),
        ("LANG", "C.UTF-8"),
        ("M87_INPUT", input.to_str().unwrap()),
        ("M87_OUTPUT", &out),
        ("M87_USAGE", &usage),
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ]);
    assert_eq!(env, expected);
}

#[test]
fn the_input_is_a_file_and_stands_in_no_argument_and_no_variable() {
    let (text, _attempt) = printed("cat $M87_INPUT");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json!({"question": "secret-of-the-input"}));
    let (text, _attempt) = printed(
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c secret-of-the-inpu[t]; true",
    );
    assert_eq!(text.trim(), "0");
}

#[test]
fn it_has_three_open_files_its_own_session_and_a_private_folder() {
    let (text, attempt) = printed(
        "exec sh -c 'ls /proc/$$/fd; readlink /proc/$$/fd/0; pwd; umask; stat -c %a $HOME $M87_OUTPUT $HOME/.. $M87_INPUT; ps -o sid= -p $$ | tr -d [:blank:]; echo $PPID'",
    );
    let lines: Vec<&str> = text.lines().collect();
    let home = attempt.folder("work/tool");
    assert_eq!(lines[..4], ["0", "1", "2", "/dev/null"], "{text}");
    assert_eq!(lines[4..6], [home.to_str().unwrap(), "0077"], "{text}");
    assert_eq!(lines[6..10], ["700", "700", "700", "400"], "{text}");
    assert_eq!(lines[10], lines[11], "leads its session");
}

#[test]
fn the_credentials_are_gone_before_the_tool_starts() {
    let (text, attempt) = printed("ls $HOME/../..");
    assert!(text.contains("work") && !text.contains("credentials"), "{text}");
    assert!(!attempt.folder("credentials").exists());
}

#[test]
fn no_set_user_id_program_gains_rights() {
    let (text, _attempt) = printed("grep NoNewPrivs /proc/$$/status");
    assert_eq!(text.split_whitespace().last(), Some("1"));
}

#[test]
fn the_work_folder_is_gone_afterwards() {
    let (_, attempt) = printed("mkdir -p a/b; echo x > a/b/c");
    assert!(!attempt.folder("work").exists());
}

#[test]
fn the_end_is_told_as_it_was() {
    assert_eq!(ended("exit 0"), Ended::Exited(0));
    assert_eq!(ended("exit 137"), Ended::Exited(137));
    assert_eq!(ended("kill -TERM $$"), Ended::Signalled(15));
    assert_eq!(ended("kill -KILL $$"), Ended::Signalled(9));
    assert_eq!(ended("kill -SEGV $$"), Ended::Signalled(11));
}

#[test]
fn a_command_that_cannot_start_did_not_run() {
    for program in ["/no/such/program", "no-such-program", "/etc/passwd", "/"] {
        let mut order = tool("");
        let Run::Command(command) = &mut order.run;
        command.argv = vec![program.to_owned()];
        let report = run(&order);
        assert!(matches!(&report.ended, Ended::NotStarted(why) if why.contains(program)), "{:?}", report.ended);
        assert_eq!((report.measured.tool_calls, report.measured.seconds), (0, 0));
    }
    let mut order = tool("");
    let Run::Command(command) = &mut order.run;
    command.argv.clear();
    assert!(matches!(run(&order).ended, Ended::NotStarted(_)));
}

#[test]
fn output_is_cleaned_and_only_its_end_kept() {
    let report = run(&tool("printf '\\033[31mred\\033[0m \\000\\007\\377 \\033]0;title\\007 end\\n' >&2"));
    assert_eq!(report.output, "red \u{fffd}  end");
    let report = run(&tool("seq 1 10000"));
    assert!(report.output.len() <= 2048 && report.output.ends_with("\n10000"), "{}", report.output);
}

#[test]
fn begun_seconds_are_counted_whole_and_not_at_all_with_an_injected_clock() {
    let report = run(&tool("sleep 1.1"));
    assert_eq!((report.measured.tool_calls, report.measured.seconds), (1, 2));
    let mut order = tool("sleep 0.1; echo x > $M87_OUTPUT/result");
    order.injected_clock = true;
    let report = run(&order);
    assert_eq!((report.measured.tool_calls, report.measured.seconds, report.measured.artifact_bytes), (1, 0, 2));
}
