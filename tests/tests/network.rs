//! The NetworkPolicies that are installed, judged as a CNI judges them: what m87 needs is let through, and nothing else comes in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_core::strict;
use serde_json::{Value, json};
use std::path::Path;

/// The object of that kind and name in install/m87.yaml, which is rendered from the chart (tests/chart keeps it current).
fn installed(kind: &str, name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("install/m87.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let documents = text.split("\n---\n").filter(|one| one.contains(&format!("\nkind: {kind}\n")));
    let mut objects = documents.flat_map(|one| strict::yaml(one.as_bytes()).unwrap());
    objects.find(|object| object["metadata"]["name"] == name).unwrap_or_else(|| panic!("{kind} {name}"))
}

/// Somebody at the other end.
enum Peer {
    /// An address of which no label is known: the API server, DNS, a node, a person.
    Anybody,
    /// A pod, of m87's own namespace or of another.
    Pod { own: bool, labels: Value },
}

fn pod(own: bool, labels: Value) -> Peer {
    Peer::Pod { own, labels }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let named = selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let described = selector["matchExpressions"].as_array().into_iter().flatten().all(|it| {
        assert_eq!(it["operator"], "Exists", "the only one that is understood here");
        labels.get(it["key"].as_str().unwrap()).is_some()
    });
    named && described
}

fn is_meant(rule: &Value, peer: &Peer) -> bool {
    match peer {
        Peer::Anybody => false,
        Peer::Pod { own, labels } => match rule.get("namespaceSelector") {
            Some(spaces) => *spaces == json!({}) && selects(&rule["podSelector"], labels),
            None => *own && selects(&rule["podSelector"], labels),
        },
    }
}

/// Whether the policy lets that through. Whoever is selected by a policy of a direction has only what its rules give.
fn lets(policy: &Value, direction: &str, peer: &Peer, port: Value, protocol: &str) -> bool {
    let peers = if direction == "ingress" { "from" } else { "to" };
    policy["spec"][direction].as_array().into_iter().flatten().any(|rule| {
        let comes = rule.get(peers).is_none_or(|list| list.as_array().unwrap().iter().any(|one| is_meant(one, peer)));
        let mut ports = rule["ports"].as_array().expect("every rule names its ports").iter();
        comes && ports.any(|one| one["port"] == port && one["protocol"] == protocol)
    })
}

fn lane() -> Value {
    json!({"app.kubernetes.io/name": "m87", "app.kubernetes.io/component": "lane"})
}

fn tool() -> Value {
    json!({"m87.dev/run-uid": "6f1c"})
}

#[test]
fn the_operator_reaches_dns_and_the_api_server_and_is_reached_by_whom_it_serves_alone() {
    let (policy, set) = (installed("NetworkPolicy", "m87-operator"), installed("StatefulSet", "m87"));
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert!(selects(&policy["spec"]["podSelector"], labels), "it is about the operator's pod");
    for (port, protocol, reached) in [
        (53, "UDP", true),
        (53, "TCP", true),
        (443, "TCP", true),
        (6443, "TCP", true),
        (443, "UDP", false),
        (80, "TCP", false),
    ] {
        assert_eq!(lets(&policy, "egress", &Peer::Anybody, json!(port), protocol), reached, "{port}/{protocol}");
    }
    for (port, lanes, tools, anybody) in [
        ("authority", true, true, false),
        ("engine", true, false, false),
        ("receipts", true, true, true),
        ("http", true, true, true),
    ] {
        let comes = |peer: &Peer| lets(&policy, "ingress", peer, json!(port), "TCP");
        assert_eq!(comes(&pod(true, lane())), lanes, "a lane at {port}");
        assert_eq!(comes(&pod(false, tool())), tools, "a tool of a tenant at {port}");
        assert_eq!(comes(&Peer::Anybody), anybody, "somebody at {port}");
        assert_eq!(comes(&pod(false, lane())), anybody, "who calls itself a lane elsewhere at {port}");
        assert_eq!(comes(&pod(true, json!({"app": "other"}))), anybody, "a neighbour at {port}");
    }
    // A port by a name that the pod does not have is open for nobody.
    let ports = set["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().unwrap();
    let names: Vec<&str> = ports.iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["authority", "engine", "receipts", "http"]);
}

#[test]
fn a_lane_reaches_dns_and_the_operator_and_nobody_reaches_a_lane() {
    let (policy, set) = (installed("NetworkPolicy", "m87-lanes"), installed("StatefulSet", "m87"));
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(selects(&policy["spec"]["podSelector"], &lane()) && policy["spec"].get("ingress").is_none());
    let operator = || pod(true, set["spec"]["template"]["metadata"]["labels"].clone());
    for (peer, port, protocol, reached) in [
        (Peer::Anybody, json!(53), "UDP", true),
        (Peer::Anybody, json!(53), "TCP", true),
        (operator(), json!("authority"), "TCP", true),
        (operator(), json!("engine"), "TCP", true),
        (operator(), json!("receipts"), "TCP", false),
        (pod(true, lane()), json!("authority"), "TCP", false),
        (Peer::Anybody, json!(443), "TCP", false),
    ] {
        assert_eq!(lets(&policy, "egress", &peer, port.clone(), protocol), reached, "{port}/{protocol}");
    }
}
