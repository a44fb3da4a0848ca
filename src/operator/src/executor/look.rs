//! What a live pod says of its attempt. Pure.

use super::pod::{CHECK, EXEC, FETCH};
use m87_core::evidence::{Ended, ValidationReport};
use m87_worker::sandbox::text::readable;
use serde_json::Value;

/// Exit codes above this are of processes that a signal ended.
const SIGNALLED: i64 = 128;

/// Why the attempt of this pod is dead; `None` while it may still do something. A pod that cannot start (no node, no image)
/// may still: how long that is waited for is the authority's to say.
pub fn death(pod: &Value) -> Option<&'static str> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if matches!(text("/status/phase"), "Succeeded" | "Failed") {
        return Some("the pod has ended");
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return Some("the pod is being deleted");
    }
    if text("/status/reason") == "NodeLost" {
        return Some("the pod's node is lost");
    }
    let exec = container(pod, "initContainerStatuses", EXEC)?;
    let restarted = exec.get("restartCount").and_then(Value::as_i64).is_some_and(|count| count > 0);
    let ended = exec.pointer("/state/terminated").is_some() || exec.pointer("/lastState/terminated").is_some();
    // Whatever it knew (its nonce, how the tool ended) went with its first process.
    (restarted || ended).then_some("exec has ended")
}

/// What keeps a pod from starting, in the cluster's own words; `None` if it has started, or if nobody said.
pub fn hindrance(pod: &Value) -> Option<String> {
    if pod.pointer("/status/phase").and_then(Value::as_str) != Some("Pending") {
        return None;
    }
    let list = |name: &str| pod.get("status").and_then(|status| status.get(name)).and_then(Value::as_array);
    let said = |of: &Value| {
        let text = |field: &str| of.get(field).and_then(Value::as_str).unwrap_or_default();
        readable(format!("{}: {}", text("reason"), text("message")).as_bytes())
    };
    let is = |of: &Value, field: &str, value: &str| of.get(field).and_then(Value::as_str) == Some(value);
    let unplaced = list("conditions")
        .into_iter()
        .flatten()
        .find(|condition| is(condition, "type", "PodScheduled") && is(condition, "status", "False"));
    let waiting = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(list)
        .flatten()
        .filter_map(|status| status.pointer("/state/waiting"))
        // These say that it goes on.
        .find(|waiting| !is(waiting, "reason", "PodInitializing") && !is(waiting, "reason", "ContainerCreating"));
    unplaced.or(waiting).map(said)
}

/// How a check ended; `None` while it runs, or if nobody can say: then it may be tried again.
pub fn verdict(pod: &Value) -> Option<ValidationReport> {
    if let Some(check) = container(pod, "containerStatuses", CHECK).and_then(|check| check.pointer("/state/terminated"))
    {
        return Some(of_check(check));
    }
    let fetch = container(pod, "initContainerStatuses", FETCH)?.pointer("/state/terminated")?;
    // What m87 itself has written in there says that there is nothing to check. Anything else may pass by.
    let report = last_words(fetch)?;
    matches!(report.ended, Ended::NotStarted(_)).then_some(report)
}

/// The exit code is the shim's, and nobody else's; its last words are a file that the check could write to before. So they
/// are believed as far as they agree with it.
fn of_check(terminated: &Value) -> ValidationReport {
    let code = terminated.get("exitCode").and_then(Value::as_i64).unwrap_or(-1);
    match (code, last_words(terminated)) {
        (0, Some(report)) if report.ended == Ended::Exited(0) => report,
        (0, _) => ValidationReport {
            ended: Ended::NotStarted("the check's container ended without a report of the check".to_owned()),
            output: String::new(),
        },
        (_, Some(report)) if report.ended != Ended::Exited(0) => report,
        (code, _) => {
            let signal = terminated.get("signal").and_then(Value::as_i64).filter(|signal| *signal > 0);
            let signal = signal.or_else(|| (code > SIGNALLED).then(|| code - SIGNALLED));
            let ended = match signal {
                Some(signal) => Ended::Signalled(i32::try_from(signal).unwrap_or(i32::MAX)),
                None => Ended::Exited(i32::try_from(code).unwrap_or(-1)),
            };
            let words = terminated.get("reason").and_then(Value::as_str).unwrap_or_default();
            ValidationReport { ended, output: readable(words.as_bytes()) }
        }
    }
}

fn last_words(terminated: &Value) -> Option<ValidationReport> {
    let text = terminated.get("message")?.as_str()?;
    let mut report: ValidationReport = serde_json::from_str(text).ok()?;
    report.output = readable(report.output.as_bytes());
    if let Ended::NotStarted(why) = &mut report.ended {
        *why = readable(why.as_bytes());
    }
    Some(report)
}

fn container<'a>(pod: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let statuses = pod.get("status")?.get(list)?.as_array()?;
    statuses.iter().find(|status| status.get("name").and_then(Value::as_str) == Some(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use serde_json::json;

    fn exec(status: Value) -> Value {
        json!({"metadata": {}, "status": {"phase": "Running", "initContainerStatuses": [{"name": "bin"}, status]}})
    }

    #[test]
    fn a_pod_lives_until_its_end_its_deletion_or_the_end_of_exec() {
        let alive = [
            json!({"metadata": {}}),
            json!({"metadata": {}, "status": {"phase": "Pending", "reason": "Unschedulable"}}),
            exec(json!({"name": "exec", "restartCount": 0, "state": {"running": {}}})),
            exec(json!({"name": "exec", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}})),
        ];
        for pod in alive {
            assert_eq!(death(&pod), None, "{pod}");
        }
        let dead = [
            json!({"metadata": {}, "status": {"phase": "Succeeded"}}),
            json!({"metadata": {}, "status": {"phase": "Failed"}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
            json!({"metadata": {}, "status": {"phase": "Running", "reason": "NodeLost"}}),
            exec(json!({"name": "exec", "restartCount": 1, "state": {"running": {}}})),
            exec(json!({"name": "exec", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}})),
        ];
        for pod in dead {
            assert!(death(&pod).is_some(), "{pod}");
        }
    }

    #[test]
    fn what_keeps_a_pod_from_starting_is_said_as_the_cluster_says_it() {
        let unplaced = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}});
        assert_eq!(hindrance(&unplaced).as_deref(), Some("Unschedulable: 0/1 nodes are available"));
        let statuses = |phase: &str, reason: &str| {
            json!({"status": {"phase": phase, "conditions": [{"type": "PodScheduled", "status": "True"}],
                "initContainerStatuses": [{"name": "exec", "state": {"running": {}}}],
                "containerStatuses": [{"name": "tool", "state": {"waiting": {"reason": reason, "message": "no such image"}}}]}})
        };
        assert_eq!(hindrance(&statuses("Pending", "ErrImagePull")).as_deref(), Some("ErrImagePull: no such image"));
        assert_eq!(hindrance(&statuses("Pending", "PodInitializing")), None);
        assert_eq!(hindrance(&statuses("Running", "ErrImagePull")), None);
        assert_eq!(hindrance(&json!({})), None);
    }

    fn checked(terminated: Value) -> Option<ValidationReport> {
        verdict(&json!({"status": {"containerStatuses": [{"name": "check", "state": {"terminated": terminated}}]}}))
    }

    fn words(ended: Ended) -> String {
        serde_json::to_string(&ValidationReport { ended, output: "said\u{1b}[31m".to_owned() }).unwrap()
    }

    #[test]
    fn a_check_passes_only_if_exit_code_and_last_words_say_so() {
        let ended = |code: i64, message: String| checked(json!({"exitCode": code, "message": message})).unwrap().ended;
        assert_eq!(ended(0, words(Ended::Exited(0))), Ended::Exited(0));
        assert_eq!(ended(3, words(Ended::Exited(3))), Ended::Exited(3));
        // The check wrote its own praise, and was then found out.
        assert_eq!(ended(3, words(Ended::Exited(0))), Ended::Exited(3));
        assert_eq!(ended(137, words(Ended::Exited(0))), Ended::Signalled(9));
        for message in [String::new(), "{}".to_owned(), "PASS".to_owned(), words(Ended::Exited(1))] {
            assert!(matches!(ended(0, message), Ended::NotStarted(_)));
        }
        let oom = checked(json!({"exitCode": 137, "reason": "OOMKilled"})).unwrap();
        assert_eq!((oom.ended, oom.output), (Ended::Signalled(9), "OOMKilled".to_owned()));
        assert_eq!(checked(json!({"exitCode": 0, "message": words(Ended::Exited(0))})).unwrap().output, "said");
    }

    #[test]
    fn what_could_not_be_fetched_is_final_only_if_m87_says_so() {
        let fetch = |terminated: Value| {
            verdict(
                &json!({"status": {"initContainerStatuses": [{"name": "fetch", "state": {"terminated": terminated}}]}}),
            )
        };
        let certain = words(Ended::NotStarted("another hash".to_owned()));
        assert!(fetch(json!({"exitCode": 1, "message": certain})).is_some());
        assert_eq!(fetch(json!({"exitCode": 1, "message": "the authority gave no answer"})), None);
        assert_eq!(fetch(json!({"exitCode": 0})), None);
        assert_eq!(verdict(&json!({"status": {}})), None);
    }
}
