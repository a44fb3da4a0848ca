#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use crate::lanes::{Bounds, Owner, Resources, Zeebe, ZeebeSecret};
use m87_zeebe::Prefix;
use serde_json::json;
use std::time::Duration;

pub(crate) fn settings() -> Settings {
    Settings {
        namespace: "m87-system".to_owned(),
        owner: Owner { name: "m87".to_owned(), uid: "u-1".to_owned() },
        image: "registry/m87@sha256:1".to_owned(),
        pull_policy: None,
        pull_secrets: Vec::new(),
        service: "m87".to_owned(),
        replicas: Bounds { min: 1, max: 4 },
        resources: Resources::default(),
        job_timeout: None,
        zeebe: None,
    }
}

fn facts(found: Found) -> Vec<Facts> {
    vec![Facts { lane: Lane::Runner, wanted: 1, found }]
}

/// The Deployment as the API server gives it back: with defaults, status and whatever others wrote beside it.
fn live() -> Value {
    let mut live = deployment(&settings(), Lane::Runner, 1);
    live["metadata"]["uid"] = json!("d-1");
    live["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    live["spec"]["progressDeadlineSeconds"] = json!(600);
    live["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    live["spec"]["template"]["spec"]["volumes"][0]["projected"]["defaultMode"] = json!(420);
    live["status"] = json!({"readyReplicas": 1});
    live
}

#[test]
fn nothing_is_written_while_nothing_differs() {
    assert_eq!(plan(&settings(), &facts(Found::There(Box::new(live())))), []);
    assert_eq!(plan(&settings(), &facts(Found::Going)), []);
}

/// Whoever applies a version, a status or null owns it, and from then on fights with whoever else writes it.
#[test]
fn what_is_applied_is_only_what_is_meant_no_version_no_status_no_null() {
    fn walk(path: &str, value: &Value) {
        match value {
            Value::Null => panic!("{path} is null"),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(items) => items.iter().for_each(|item| walk(path, item)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| walk(&format!("{path}/{name}"), field)),
        }
    }
    let secret = |ca, token| Some(ZeebeSecret { name: "zeebe".to_owned(), ca, token });
    let zeebe = |secret| Some(Zeebe { address: "z:443".to_owned(), prefix: Prefix::default(), secret });
    let full = Settings {
        pull_policy: Some("Always".to_owned()),
        pull_secrets: vec!["one".to_owned(), "two".to_owned()],
        job_timeout: Some(Duration::from_secs(5)),
        zeebe: zeebe(secret(true, true)),
        ..settings()
    };
    let bare = Settings { zeebe: zeebe(None), ..settings() };
    for settings in [settings(), full, bare, Settings { zeebe: zeebe(secret(false, true)), ..settings() }] {
        for lane in Lane::ALL {
            let planned = plan(&settings, &[Facts { lane, wanted: 2, found: Found::Absent }]);
            let [Action::Apply { object, .. }] = planned.as_slice() else { panic!("it is applied") };
            walk("", object);
            let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(object), ["apiVersion", "kind", "metadata", "spec"]);
            assert_eq!(names(&object["metadata"]), ["labels", "name", "namespace", "ownerReferences"]);
        }
    }
}

#[test]
fn a_quantity_that_the_api_server_writes_its_own_way_is_the_same() {
    let planned = |wanted: &str, found: &str| {
        let resources = Resources { cpu_request: wanted.to_owned(), ..Resources::default() };
        let mut live = deployment(&Settings { resources: resources.clone(), ..settings() }, Lane::Runner, 1);
        live["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(found);
        plan(&Settings { resources, ..settings() }, &facts(Found::There(Box::new(live)))).len()
    };
    for (wanted, found) in
        [("0.1", "100m"), ("1000m", "1"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1000k", "1M"), ("0.0001", "1m")]
    {
        assert_eq!(planned(wanted, found), 0, "{wanted} is {found}");
    }
    for (wanted, found) in [("0.1", "101m"), ("1Gi", "1G"), ("1", "1k"), ("1", ""), ("x", "1"), ("1", "x")] {
        assert_eq!(planned(wanted, found), 1, "{wanted} is not {found}");
    }
}

#[test]
fn a_lane_that_is_missing_or_was_changed_is_applied() {
    let object = Box::new(deployment(&settings(), Lane::Runner, 1));
    let apply = [Action::Apply { lane: Lane::Runner, object }];
    assert_eq!(plan(&settings(), &facts(Found::Absent)), apply);
    let changes: [fn(&mut Value); 6] = [
        |live| live["spec"]["replicas"] = json!(0),
        |live| live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other"),
        |live| live["spec"]["template"]["spec"]["automountServiceAccountToken"] = json!(true),
        |live| drop(live["metadata"].as_object_mut().unwrap().remove("ownerReferences")),
        |live| live["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "more"})),
        |live| live["spec"]["template"]["spec"]["containers"][0]["args"][2] = json!("memory"),
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut live = live();
        change(&mut live);
        assert_eq!(plan(&settings(), &facts(Found::There(Box::new(live)))), apply, "change {at}");
    }
}

#[test]
fn another_image_rolls_every_lane() {
    let found = |lane| Found::There(Box::new(deployment(&settings(), lane, 1)));
    let all: Vec<Facts> = Lane::ALL.into_iter().map(|lane| Facts { lane, wanted: 1, found: found(lane) }).collect();
    assert_eq!(plan(&settings(), &all), []);
    let upgraded = Settings { image: "registry/m87@sha256:2".to_owned(), ..settings() };
    assert_eq!(plan(&upgraded, &all).len(), 4);
}

#[test]
fn a_deployment_with_another_selector_is_deleted_and_made_again() {
    let mut live = live();
    live["spec"]["selector"]["matchLabels"] = json!({"app": "old"});
    let facts = facts(Found::There(Box::new(live)));
    assert_eq!(plan(&settings(), &facts), [Action::Delete { lane: Lane::Runner }]);
}

#[test]
fn a_lane_runs_restricted_under_its_own_identity_without_rights() {
    for lane in Lane::ALL {
        let object = deployment(&settings(), lane, 1);
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], json!(format!("m87-lane-{}", lane.name())));
        assert_eq!(pod["automountServiceAccountToken"], json!(false));
        assert_eq!(pod["securityContext"]["runAsNonRoot"], json!(true));
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], json!("RuntimeDefault"));
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["allowPrivilegeEscalation"], json!(false));
        assert_eq!(container["readOnlyRootFilesystem"], json!(true));
        assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
        let token = &pod["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(token, &json!({"audience": "m87.dev", "expirationSeconds": 600, "path": "token"}));
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], json!("u-1"));
        // The operator's Service and the NetworkPolicies tell operator and lanes apart by this.
        assert_eq!(object["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"], json!("lane"));
    }
}

fn arguments(settings: &Settings) -> String {
    let object = deployment(settings, Lane::Memory, 1);
    let words = object["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap().clone();
    words.iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_lane_is_told_where_engine_and_authority_are() {
    let common = "--authority m87.m87-system.svc:8443 --ca-file /m87/ca/ca.pem --token-file /m87/token/token \
                  --health [::]:8080";
    let it = format!("worker --lane memory --engine m87.m87-system.svc:26500 {common}");
    assert_eq!(arguments(&settings()), it);
    let timed = Settings { job_timeout: Some(Duration::from_secs(5)), ..settings() };
    assert_eq!(arguments(&timed), format!("{it} --job-timeout 5"));
    let mut zeebe = Zeebe { address: "z:443".to_owned(), prefix: Prefix::default(), secret: None };
    let at = |zeebe: &Zeebe| arguments(&Settings { zeebe: Some(zeebe.clone()), ..settings() });
    assert_eq!(at(&zeebe), format!("worker --lane memory --engine z:443 {common} --zeebe"));
    zeebe.prefix = Prefix::parse("blue-").unwrap();
    zeebe.secret = Some(ZeebeSecret { name: "z".to_owned(), ca: true, token: true });
    let files = "--engine-ca-file /m87/zeebe/ca.pem --engine-token-file /m87/zeebe/token";
    assert_eq!(at(&zeebe), format!("worker --lane memory --engine z:443 {common} {files} --prefix blue- --zeebe"));
}
