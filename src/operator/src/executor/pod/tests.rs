//! Whatever the order and the settings: the pod is one that PodSecurity `restricted` lets in, and one in which the tool can
//! reach neither token nor `exec`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use k8s_openapi::api::core::v1::Pod;
use m87_authority::Credentials;
use m87_core::dossier::Named;
use proptest::prelude::*;

pub(in crate::executor) fn settings() -> PodSettings {
    PodSettings::new("m87@sha256:1", Some("busybox@sha256:2".to_owned()), "m87.m87-system.svc:8443")
}

pub(in crate::executor) fn order(kind: AttemptKind) -> AttemptOrder {
    AttemptOrder {
        namespace: Named { name: "payments".to_owned(), uid: "n-1".to_owned() },
        run_name: "refund-7".to_owned(),
        run_uid: "6f1c".to_owned(),
        contract_id: "c0ffee".to_owned(),
        attempt: 2,
        kind,
        credentials: Credentials {
            address_file: "/nowhere".into(),
            ca_pem: "LOCAL-CA".to_owned(),
            token: "SECRET-TOKEN".to_owned(),
        },
        image: Some("tool@sha256:3".to_owned()),
        limits: CommandLimits {
            seconds: 30,
            cpu_seconds: 30,
            memory_bytes: 256 << 20,
            output_bytes: 1 << 20,
            processes: 8,
        },
    }
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/initContainers").iter().chain(list(pod, "/spec/containers"))
}

fn mounts<'a>(container: &'a Value, volume: &str) -> Option<&'a Value> {
    list(container, "/volumeMounts").iter().find(|mount| mount["name"] == volume)
}

/// The Pod Security Standard `restricted`, with `baseline` in it, as far as a pod of ours could break it.
fn unrestricted(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let spec = &pod["spec"];
    for key in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"] {
        if spec.get(key).is_some_and(|value| value != false) {
            found.push(key.to_owned());
        }
    }
    let mut require = |what: &str, holds: bool| {
        if !holds {
            found.push(what.to_owned());
        }
    };
    require("seccompProfile", spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault");
    require("runAsNonRoot", spec["securityContext"]["runAsNonRoot"] == true);
    require("sysctls", spec["securityContext"].get("sysctls").is_none());
    for volume in list(pod, "/spec/volumes") {
        let kinds: Vec<&String> = volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
        require("volumes", kinds == ["emptyDir"] || kinds == ["projected"]);
    }
    for container in containers(pod) {
        let security = &container["securityContext"];
        require("allowPrivilegeEscalation", security["allowPrivilegeEscalation"] == false);
        require("capabilities.drop", security["capabilities"]["drop"] == json!(["ALL"]));
        require("capabilities.add", security["capabilities"].get("add").is_none());
        require("privileged", security.get("privileged").is_none());
        require("procMount", security.get("procMount").is_none());
        require("runAsUser", security["runAsUser"].as_u64().is_some_and(|user| user > 0));
        require("hostPort", container.get("ports").is_none());
        require(
            "host probes or hooks",
            container.get("lifecycle").is_none() && container.get("livenessProbe").is_none(),
        );
    }
    found
}

/// What section 2.6 of the design asks of a pod.
fn check(pod: &Value, order: &AttemptOrder) {
    assert_eq!(unrestricted(pod), Vec::<String>::new());
    let spec = &pod["spec"];
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["enableServiceLinks"], false);
    let [main] = list(pod, "/spec/containers") else { panic!("one container beside those of m87") };
    assert_eq!(mounts(main, "token"), None);
    for volume in ["bin", "link", "order"] {
        assert!(mounts(main, volume).is_none_or(|mount| mount["readOnly"] == true), "{volume}");
    }
    assert_eq!(main["command"][0], BINARY);
    assert_eq!(main.get("args"), None);
    assert_eq!(main.get("env"), None);
    let holders: Vec<&Value> = containers(pod).filter(|one| mounts(one, "token").is_some()).collect();
    let [holder] = holders.as_slice() else { panic!("one holder of the token") };
    assert_eq!(holder["image"], settings().image);
    assert_eq!(
        holder["name"],
        match order.kind {
            AttemptKind::Tool => EXEC,
            AttemptKind::Validation => FETCH,
        }
    );
    // A sidecar goes on beside the tool; what fetches has ended before the check begins.
    let sidecars: Vec<&Value> = containers(pod).filter(|one| one.get("restartPolicy").is_some()).collect();
    assert_eq!(sidecars.len(), usize::from(order.kind == AttemptKind::Tool));
    let users: Vec<&Value> = containers(pod).map(|one| &one["securityContext"]["runAsUser"]).collect();
    assert!(users[..2].iter().all(|user| **user == TRUSTED) && *users[2] == TENANT);
    for container in containers(pod) {
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        let resources = &container["resources"];
        assert!(resources["limits"]["memory"].is_string() && resources["requests"]["cpu"].is_string());
    }
    // Nothing but uid, name, attempt, contract and limits of the order is in there.
    let text = pod.to_string();
    assert!(!text.contains("SECRET-TOKEN") && !text.contains("LOCAL-CA") && !text.contains("/nowhere"));
    let keys: Vec<&String> = pod["metadata"]["labels"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["app.kubernetes.io/managed-by", "m87.dev/attempt", "m87.dev/kind", "m87.dev/run-uid"]);
    let keys: Vec<&String> = pod["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(keys, [BIRTH]);
    // Every field is one that Kubernetes knows, under its name and type.
    let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
    assert_eq!(&serde_json::to_value(typed).unwrap(), pod);
}

fn kinds() -> impl Strategy<Value = AttemptKind> {
    prop_oneof![Just(AttemptKind::Tool), Just(AttemptKind::Validation)]
}

proptest! {
    #[test]
    fn every_pod_is_restricted_and_keeps_the_token_from_the_tool(
        kind in kinds(),
        attempt in 1_u32..9,
        image in proptest::option::of("[a-z/]{1,20}@sha256:[0-9a-f]{8}"),
        seconds in 1_i64..86_400,
        memory_bytes in 1_048_576_i64..1_099_511_627_776,
        output_bytes in 0_i64..1_099_511_627_776,
        run_name in "[a-z0-9.-]{1,40}",
        placed: bool,
    ) {
        let mut order = order(kind);
        (order.attempt, order.image, order.run_name) = (attempt, image, run_name);
        order.limits = CommandLimits { seconds, memory_bytes, output_bytes, ..order.limits };
        let mut settings = settings();
        if placed {
            settings.priority_class = Some("tools".to_owned());
            settings.runtime_class = Some("gvisor".to_owned());
            settings.node_selector = [("pool".to_owned(), "tools".to_owned())].into();
            settings.tolerations = vec![json!({"key": "tools", "operator": "Exists"})];
        }
        check(&pod(&order, &settings, "PEM", "birth").unwrap(), &order);
    }

    #[test]
    fn a_quantity_is_written_as_kubernetes_writes_it_back(bytes in 0_i64..i64::MAX / 2) {
        let text = quantity(bytes);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let amount: i64 = digits.parse().unwrap();
        let power = ["Ki", "Mi", "Gi", "Ti", "Pi"].iter().position(|unit| text.ends_with(unit)).unwrap() + 1;
        let back = i128::from(amount) << (10 * power);
        prop_assert!(back >= i128::from(bytes) && back < i128::from(bytes) + 1024);
        prop_assert!(amount == 0 || amount % 1024 != 0 || power == 5, "{}", text);
    }
}

#[test]
fn an_order_that_can_have_no_pod_is_refused() {
    for uid in ["", "../x", "A", "a_b", "-a", "a-", &"a".repeat(64)] {
        let order = AttemptOrder { run_uid: uid.to_owned(), ..order(AttemptKind::Tool) };
        assert_eq!(pod(&order, &settings(), "", ""), Err(PodError::Name(uid.to_owned())));
    }
    let order = AttemptOrder { image: None, ..order(AttemptKind::Tool) };
    let without = PodSettings { tool_image: None, ..settings() };
    assert_eq!(pod(&order, &without, "", ""), Err(PodError::NoImage));
    assert_eq!(pod(&order, &settings(), "", "").unwrap()["spec"]["containers"][0]["image"], "busybox@sha256:2");
}

#[test]
fn the_names_are_those_that_admission_reserves() {
    assert_eq!(name(&order(AttemptKind::Tool).name()).unwrap(), "m87-tool-6f1c-2");
    assert_eq!(name(&order(AttemptKind::Validation).name()).unwrap(), "m87-check-6f1c-2");
}
