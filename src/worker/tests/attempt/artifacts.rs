//! What counts as an artifact and as a report of usage, and what does not.

use super::support::*;
use m87_core::evidence::Ended;
use m87_core::json::sha256_hex;
use m87_core::tool::Run;
use serde_json::{Value, json};

#[test]
fn a_regular_file_is_declared_with_its_hash_and_sent_whole() {
    let mut attempt = Attempt::of_tool(&tool("head -c 300000 /dev/zero | tr '\\0' x > $M87_OUTPUT/result"));
    let report = attempt.report();
    let whole = vec![b'x'; 300_000];
    let artifact = report.artifact.unwrap();
    assert_eq!((artifact.sha256, artifact.size), (Some(sha256_hex(&whole)), 300_000));
    assert_eq!(report.measured.artifact_bytes, 300_000);
    assert_eq!(std::fs::read(attempt.authority("artifact")).unwrap(), whole);
}

#[test]
fn an_empty_file_is_an_artifact() {
    let artifact = run(&tool(": > $M87_OUTPUT/result")).artifact.unwrap();
    assert_eq!((artifact.sha256, artifact.size), (Some(sha256_hex(b"")), 0));
}

#[test]
fn nothing_but_a_regular_file_of_its_own_is_an_artifact() {
    for (what, script) in [
        ("nothing", "true"),
        ("symlink", "echo x > real; ln -s $HOME/real $M87_OUTPUT/result"),
        ("symlink to a secret", "ln -s /etc/passwd $M87_OUTPUT/result"),
        ("symlink to an endless device", "ln -s /dev/zero $M87_OUTPUT/result"),
        ("fifo", "mkfifo $M87_OUTPUT/result"),
        ("folder", "mkdir $M87_OUTPUT/result; echo x > $M87_OUTPUT/result/x"),
        ("hard link", "echo x > real; ln real $M87_OUTPUT/result"),
        ("another name", "echo x > $M87_OUTPUT/other"),
        (
            "output folder exchanged",
            "rm -r $M87_OUTPUT; mkdir -p other; echo x > other/result; ln -s $HOME/other $M87_OUTPUT",
        ),
    ] {
        let mut attempt = Attempt::of_tool(&tool(script));
        let report = attempt.report();
        assert_eq!(report.ended, Ended::Exited(0), "{what}: {}", report.output);
        assert_eq!(report.artifact, None, "{what}");
        assert_eq!(report.measured.artifact_bytes, 0, "{what}");
        assert!(!attempt.authority("artifact").exists(), "{what}");
    }
}

#[test]
fn an_artifact_name_that_leads_elsewhere_is_no_artifact() {
    for name in ["../usage.json", "/etc/passwd", ".", "..", ""] {
        let mut order = tool("echo '{}' > $M87_USAGE");
        let Run::Command(command) = &mut order.run;
        command.artifact = name.to_owned();
        assert_eq!(run(&order).artifact, None, "{name:?}");
    }
}

#[test]
fn a_tool_that_failed_has_no_artifact() {
    let mut attempt = Attempt::of_tool(&tool("echo x > $M87_OUTPUT/result; exit 3"));
    let report = attempt.report();
    assert_eq!((report.ended, report.artifact), (Ended::Exited(3), None));
    assert!(!attempt.authority("artifact").exists());
}

#[test]
fn an_artifact_that_the_authority_refuses_is_still_declared() {
    let order = tool("echo x > $M87_OUTPUT/result");
    let refuse = |authority: &std::path::Path| std::fs::write(authority.join("refuse-put_artifact"), "").unwrap();
    let report = Attempt::prepared(&order, refuse).report();
    assert_eq!(report.artifact.unwrap().sha256, Some(sha256_hex(b"x\n")));
}

#[test]
fn an_artifact_whose_receipt_was_lost_is_sent_again_whole() {
    let order = tool("echo x > $M87_OUTPUT/result");
    let lose = |authority: &std::path::Path| std::fs::write(authority.join("lose-put_artifact"), "").unwrap();
    let mut attempt = Attempt::prepared(&order, lose);
    assert_eq!(attempt.report().artifact.unwrap().sha256, Some(sha256_hex(b"x\n")));
    assert_eq!(attempt.calls("put_artifact").len(), 2);
    assert_eq!(std::fs::read(attempt.authority("artifact")).unwrap(), b"x\n");
}

#[test]
fn usage_is_reported_as_it_stands_whatever_it_says() {
    assert_eq!(reported(r#"{"steps": 3}"#), Some(json!({"steps": 3})));
    assert_eq!(reported(r#"{"steps": "3"}"#), Some(json!({"steps": "3"})));
    assert_eq!(reported(r#"{"steps": true}"#), Some(json!({"steps": true})));
    assert_eq!(reported(r#"{"steps": -1}"#), Some(json!({"steps": -1})));
    assert_eq!(reported("[1]"), Some(json!([1])));
    assert_eq!(run(&tool("true")).reported, None);
}

#[test]
fn what_is_no_json_is_reported_as_a_string_so_that_no_gate_can_read_a_figure_in_it() {
    for content in [
        "",
        "steps: 3",
        r#"{"steps": 3"#,
        r#"{"steps": 3, "steps": 1}"#,
        r#"{"steps": 9007199254740993}"#,
        r#"{"steps": NaN}"#,
    ] {
        assert!(matches!(reported(content), Some(Value::String(_))), "{content}");
    }
    for script in [
        "ln -s /etc/passwd $M87_USAGE",
        "mkfifo $M87_USAGE",
        "mkdir $M87_USAGE",
        "echo '{}' > real; ln real $M87_USAGE",
        "printf '\\377{}' > $M87_USAGE",
        "head -c 100000 /dev/zero | tr '\\0' ' ' > $M87_USAGE; echo '{}' >> $M87_USAGE",
    ] {
        assert!(matches!(run(&tool(script)).reported, Some(Value::String(_))), "{script}");
    }
}

#[test]
fn a_report_stays_small_whatever_the_usage_file_holds() {
    for script in [
        // Grows when it is written out.
        "awk 'BEGIN { printf \"[1e20\"; for (i = 0; i < 10000; i++) printf \",1e20\"; print \"]\" }' > $M87_USAGE",
        // Would stand in the error.
        "awk 'BEGIN { printf \"{\\\"\"; for (i = 0; i < 9000; i++) printf \"\\\\u0001\"; print \"\\\":NaN}\" }' > $M87_USAGE",
        "awk 'BEGIN { for (i = 0; i < 30000; i++) printf \"[\" }' > $M87_USAGE",
    ] {
        let mut attempt = Attempt::of_tool(&tool(script));
        let report = attempt.report();
        assert_eq!(report.ended, Ended::Exited(0), "{}", report.output);
        assert!(matches!(report.reported, Some(Value::String(_))), "{script}");
        assert!(attempt.report_text().unwrap().len() < 10_000, "{script}");
    }
}
