#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use serde_json::json;

const ME: &str = "system:serviceaccount:m87-system:m87";

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn expected() -> Expected {
    parse(RUN, ME).unwrap().remove(0)
}

/// As it should be, since second 0.
fn installed() -> Installed {
    Installed { spec: expected().spec, since: Some(at(0)), deleting: false }
}

fn fault_of(change: impl FnOnce(&mut Installed), second: i64) -> Option<Fault> {
    let mut installed = installed();
    change(&mut installed);
    fault(&expected(), &Finding::Found(installed), at(second))
}

/// It need not be there, and so nothing looks for it.
const STAMP: &str = include_str!("../../../../charts/m87/files/admission/stamp.yaml");

fn object(metadata: Value) -> DynamicObject {
    serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
}

#[test]
fn every_file_of_the_chart_is_a_policy_and_its_denying_binding() {
    let mut names = Vec::new();
    for file in [RUN, STAMP].into_iter().chain(OTHERS) {
        let parts = parse(file, ME).unwrap();
        let [policy, binding] = &parts[..] else { panic!("{parts:?}") };
        assert_eq!(binding.kind, format!("{}Binding", policy.kind));
        assert_eq!(binding.name, policy.name);
        assert_eq!(binding.spec["policyName"], json!(policy.name));
        assert_eq!(policy.spec["failurePolicy"], json!("Fail"), "{}", policy.name);
        if policy.kind.starts_with("Validating") {
            assert_eq!(binding.spec["validationActions"], json!(["Deny"]), "{}", policy.name);
        }
        names.push(policy.name.clone());
    }
    names.sort();
    assert_eq!(names, ["m87-network", "m87-pods", "m87-resume", "m87-run", "m87-stamp", "m87-status"]);
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/m87/files/admission")).unwrap();
    assert_eq!(files.count(), names.len(), "a file of the chart is unknown here");
}

#[test]
fn the_policies_name_the_operator_that_runs_here() {
    for (file, expects) in [(OTHERS[1], 1), (OTHERS[2], 1), (RUN, 0)] {
        let spec = parse(file, "system:serviceaccount:elsewhere:m87").unwrap().remove(0).spec.to_string();
        assert_eq!(spec.matches("'system:serviceaccount:elsewhere:m87'").count(), expects);
        assert!(!spec.contains(OPERATOR));
    }
}

#[test]
fn an_actor_counts_only_under_policies_that_are_whole_and_thirty_seconds_older() {
    assert_eq!(fault_of(|_| {}, 30), None);
    assert_eq!(fault_of(|_| {}, 29), Some(Fault::Young { since: at(0) }));
    assert_eq!(fault_of(|policy| policy.since = Some(at(100)), 50), Some(Fault::Young { since: at(100) }));
    assert_eq!(fault_of(|policy| policy.since = None, 30), Some(Fault::Ageless));
    assert_eq!(fault_of(|policy| policy.deleting = true, 30), Some(Fault::Deleting));
    assert_eq!(fault(&expected(), &Finding::Absent, at(30)), Some(Fault::Absent));
    assert!(matches!(fault(&expected(), &Finding::Forbidden("no".to_owned()), at(30)), Some(Fault::Forbidden(_))));
}

#[test]
fn any_other_spec_is_a_changed_one() {
    let changes: [(&str, Value); 5] = [
        ("failurePolicy", json!("Ignore")),
        ("validations", json!([])),
        ("matchConditions", json!([{"name": "never", "expression": "false"}])),
        ("paramKind", json!({"kind": "ConfigMap", "apiVersion": "v1"})),
        ("auditAnnotations", json!([{"key": "a", "valueExpression": "'b'"}])),
    ];
    for (field, value) in changes {
        assert_eq!(fault_of(|policy| policy.spec[field] = value, 30), Some(Fault::Changed), "{field}");
    }
    let narrowed = json!({"matchLabels": {"governed": "yes"}});
    assert_eq!(
        fault_of(|policy| policy.spec["matchConstraints"]["namespaceSelector"] = narrowed, 30),
        Some(Fault::Changed)
    );
    let warns = |policy: &mut Installed| policy.spec["validationActions"] = json!(["Warn"]);
    assert_eq!(fault_of(warns, 30), Some(Fault::Changed));
}

#[test]
fn one_fault_is_enough_and_is_told() {
    let parts = parse(RUN, ME).unwrap();
    let good: Vec<Finding> = parts
        .iter()
        .map(|part| Finding::Found(Installed { spec: part.spec.clone(), since: Some(at(0)), deleting: false }))
        .collect();
    assert_eq!(judge(parts.iter().zip(&good), at(30)), Judgement::Attested);
    let without_binding = [good[0].clone(), Finding::Absent];
    assert_eq!(
        judge(parts.iter().zip(&without_binding), at(30)),
        Judgement::Unattested {
            why: "ValidatingAdmissionPolicyBinding m87-run is not installed; install the chart m87 again".to_owned()
        }
    );
}

#[test]
fn what_was_changed_and_put_back_is_young_again() {
    let made = object(
        json!({"generation": 1, "creationTimestamp": "1970-01-01T00:00:07Z", "managedFields": [{"time": "1970-01-01T00:01:00Z"}]}),
    );
    assert_eq!(since(&made), Some(at(7)), "labels alone do not make a policy younger");
    let changed = object(json!({
        "generation": 3,
        "creationTimestamp": "1970-01-01T00:00:07Z",
        "managedFields": [{"time": "1970-01-01T00:01:00Z"}, {"time": "1970-01-01T00:02:00Z"}, {"manager": "timeless"}],
    }));
    assert_eq!(since(&changed), Some(at(120)));
    assert_eq!(since(&object(json!({"generation": 2, "creationTimestamp": "1970-01-01T00:00:07Z"}))), None);
    assert_eq!(since(&object(json!({"creationTimestamp": "1970-01-01T00:00:07Z"}))), None);
}

#[test]
fn kinds_are_found_under_their_plural() {
    assert_eq!(plural("ValidatingAdmissionPolicy"), "validatingadmissionpolicies");
    assert_eq!(plural("MutatingAdmissionPolicyBinding"), "mutatingadmissionpolicybindings");
}
