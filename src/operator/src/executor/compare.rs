//! Whether a pod is what was made, twice over.
//!
//! What comes back from its creation has been through other people's admission: it may have got defaults and placement, and
//! nothing else. From then on only the scheduler has anything to add to what matters; what that comes to is remembered as one
//! hash, and held against the live pod before its contract is redeemed.

use m87_core::json::compute_hash;
use serde_json::{Map, Value, json};

/// What admission, or the API server's defaults, have changed beyond what they may; each with its place. Empty: nothing.
pub fn changed(made: &Value, created: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["labels", "annotations"] {
        let at = |pod: &Value| pod.pointer(&format!("/metadata/{part}")).cloned().unwrap_or_default();
        let (wanted, there) = (at(made), at(created));
        let wanted = wanted.as_object().into_iter().flatten();
        found.extend(
            wanted.filter(|(key, value)| there.get(key) != Some(value)).map(|(key, _)| format!("{part}.{key}")),
        );
    }
    let nothing = Value::Null;
    let spec = |pod: &'_ Value| pod.get("spec").cloned().unwrap_or(nothing.clone());
    walk(&spec(made), &spec(created), "spec", &mut found);
    found
}

/// What must stay as it was created: everything but where the pod was placed, and what m87 says of it.
pub fn fingerprint(pod: &Value) -> Option<String> {
    let mut spec = pod.get("spec")?.clone();
    spec.as_object_mut()?.remove("nodeName");
    let labels: Map<String, Value> = pod
        .pointer("/metadata/labels")?
        .as_object()?
        .iter()
        .filter(|(key, _)| key.starts_with("m87.dev/") || key.as_str() == "app.kubernetes.io/managed-by")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    compute_hash(&json!({"labels": labels, "spec": spec})).ok()
}

fn walk(made: &Value, live: &Value, path: &str, found: &mut Vec<String>) {
    match (made, live) {
        (Value::Object(made), Value::Object(live)) => objects(made, live, path, found),
        (Value::Array(made), Value::Array(live)) if path == "spec.tolerations" => {
            // Admission may let a pod stay on its node for longer or shorter; it may not take away what the operator wants.
            if made.iter().any(|one| !live.contains(one)) {
                found.push(path.to_owned());
            }
        }
        (Value::Array(made), Value::Array(live)) if made.len() == live.len() => {
            for (index, (made, live)) in made.iter().zip(live).enumerate() {
                walk(made, live, &format!("{path}[{index}]"), found);
            }
        }
        (made, live) if made == live => {}
        // Pulling more often changes nothing that is pulled.
        (_, Value::String(policy)) if path.ends_with(".imagePullPolicy") && policy == "Always" => {}
        _ => found.push(path.to_owned()),
    }
}

fn objects(made: &Map<String, Value>, live: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    for (key, value) in made {
        let place = format!("{path}.{key}");
        match live.get(key) {
            Some(live) => walk(value, live, &place, found),
            None => found.push(place),
        }
    }
    for (key, value) in live.iter().filter(|(key, _)| !made.contains_key(*key)) {
        if !may_be_added(path, key, value, made) {
            found.push(format!("{path}.{key}"));
        }
    }
}

/// What a pod may have that nobody asked for: the API server's defaults, and where and how urgently it is scheduled.
fn may_be_added(path: &str, key: &str, value: &Value, made: &Map<String, Value>) -> bool {
    let is_container = is_item_of(path, &["spec.containers[", "spec.initContainers["]);
    match key {
        "schedulerName" => path == "spec",
        "priority" | "priorityClassName" | "preemptionPolicy" | "tolerations" | "nodeSelector" | "overhead" => {
            path == "spec"
        }
        // Names of Secrets by which the kubelet pulls images; they come with the ServiceAccount.
        "imagePullSecrets" => path == "spec",
        // The old name of the same field.
        "serviceAccount" => path == "spec" && Some(value) == made.get("serviceAccountName"),
        "terminationMessagePath" => is_container && value == "/dev/termination-log",
        "terminationMessagePolicy" => is_container && value == "File",
        _ => false,
    }
}

/// Whether the path is that of an item itself, and not of something within it.
fn is_item_of(path: &str, lists: &[&str]) -> bool {
    lists.iter().any(|list| {
        path.strip_prefix(list)
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::executor::pod::tests::{order, settings};
    use m87_authority::AttemptKind;

    fn made() -> Value {
        crate::executor::pod::pod(&order(AttemptKind::Tool), &settings(), "PEM", "birth").unwrap()
    }

    /// As an API server gives it back.
    fn created() -> Value {
        let mut pod = made();
        pod["metadata"]["uid"] = json!("7");
        pod["metadata"]["labels"]["team"] = json!("payments");
        let spec = &mut pod["spec"];
        spec["schedulerName"] = json!("default-scheduler");
        spec["serviceAccount"] = json!("default");
        spec["priority"] = json!(0);
        spec["preemptionPolicy"] = json!("PreemptLowerPriority");
        spec["imagePullSecrets"] = json!([{"name": "pull"}]);
        spec["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]);
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().unwrap() {
                container["terminationMessagePath"] = json!("/dev/termination-log");
                container["terminationMessagePolicy"] = json!("File");
            }
        }
        pod
    }

    /// The same pod with one thing done to it.
    fn with(pod: &Value, pointer: &str, key: &str, value: Value) -> Value {
        let mut pod = pod.clone();
        pod.pointer_mut(pointer).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value);
        pod
    }

    const HARM: [(&str, &str); 16] = [
        ("/spec/containers/0", "image"),
        ("/spec/initContainers/0", "image"),
        ("/spec/initContainers/1", "image"),
        ("/spec/containers/0", "command"),
        ("/spec/containers/0", "args"),
        ("/spec/containers/0", "env"),
        ("/spec/containers/0", "lifecycle"),
        ("/spec/containers/0", "securityContext"),
        ("/spec/containers/0/resources", "limits"),
        ("/spec", "shareProcessNamespace"),
        ("/spec", "hostNetwork"),
        ("/spec", "ephemeralContainers"),
        ("/spec", "automountServiceAccountToken"),
        ("/spec", "activeDeadlineSeconds"),
        ("/spec/volumes/1", "hostPath"),
        ("/metadata/labels", "m87.dev/kind"),
    ];

    #[test]
    fn defaults_and_placement_are_no_change() {
        assert_eq!(changed(&made(), &created()), Vec::<String>::new());
    }

    #[test]
    fn whatever_else_admission_does_is_found_with_its_place() {
        for (pointer, key) in HARM {
            let found = changed(&made(), &with(&created(), pointer, key, json!("other")));
            assert_eq!(found.len(), 1, "{pointer} {key}: {found:?}");
            assert!(found[0].ends_with(key), "{found:?}");
        }
        let mut sidecar = created();
        sidecar["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "proxy"}));
        assert_eq!(changed(&made(), &sidecar), ["spec.containers"]);
        let mut mounted = created();
        mounted["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(json!({"name": "token"}));
        assert_eq!(changed(&made(), &mounted), ["spec.containers[0].volumeMounts"]);
        let mut taken = created();
        taken["spec"].as_object_mut().unwrap().remove("securityContext");
        assert_eq!(changed(&made(), &taken), ["spec.securityContext"]);
    }

    #[test]
    fn a_pod_that_runs_is_the_one_that_was_created_until_something_is_done_to_it() {
        let created = created();
        let first = fingerprint(&created).unwrap();
        let placed = with(&created, "/spec", "nodeName", json!("node"));
        let annotated = with(&placed, "/metadata/annotations", "cni/ip", json!("10.0.0.7"));
        let labelled = with(&annotated, "/metadata/labels", "topology.kubernetes.io/zone", json!("a"));
        assert_eq!(fingerprint(&labelled).unwrap(), first);
        for (pointer, key) in HARM.into_iter().chain([("/spec", "tolerations"), ("/spec", "nodeSelector")]) {
            assert_ne!(
                fingerprint(&with(&labelled, pointer, key, json!("other"))),
                Some(first.clone()),
                "{pointer} {key}"
            );
        }
    }
}
