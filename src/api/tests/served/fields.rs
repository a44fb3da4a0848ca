//! Each field of each kind: misspelt, mistyped, absent, null, at its bounds and past them.

use crate::client::{Fields, try_to_create};
use crate::departures::{Field, at_bounds, fields, of_another_type, past_bounds};
use crate::examples;
use m87_api::crd::{Served, definition};
use m87_api::{GovernancePolicySpec, GovernedRunSpec};
use m87_core::policy::{PolicySpec, effective};
use m87_core::tool::ManifestSpec;
use serde_json::Value;
use std::collections::BTreeSet;

/// What may be left out without a rule of its own becoming weaker, and why.
const OPTIONAL: [(&str, &str); 23] = [
    ("GovernancePolicy.spec.process", "the process that m87 ships runs, and it is proved"),
    ("GovernancePolicy.spec.suspend", "it holds nothing back that was not held back; no rule is read differently"),
    ("GovernancePolicy.spec.retention", "objects are kept for ever"),
    ("ToolManifest.spec.tools[].run.command.image", "it runs in the platform's own image, or fails there"),
    ("GovernedRun.spec.proposal.tool", "refused by a gate unless a capability is named"),
    ("GovernedRun.spec.proposal.capability", "refused by a gate unless a tool is named"),
    ("GovernedRun.spec.proposal.actionType", "refused by a gate"),
    ("GovernedRun.spec.proposal.target", "refused by a gate"),
    ("GovernedRun.spec.proposal.risk", "the tool's own risk counts"),
    ("GovernedRun.spec.proposal.reasoningTrace", "refused by a gate, unless the policy does without"),
    ("GovernedRun.spec.proposal.input", "has no target in it, and so is refused by a gate"),
    ("GovernedRun.spec.idempotencyKey", "the object's name is the key, and that is unique"),
    ("GovernedRun.spec.deadlineSeconds", "an hour; it is the run's own patience, not a rule"),
    ("GovernedRun.spec.actor", "stamped by admission; without it the actor is nobody, and not human"),
    ("GovernedRun.spec.actor.uid", "not every authenticator gives one"),
    ("GovernedRun.spec.actor.credentialId", "not every request has one; nothing is judged by it"),
    ("GovernedRun.spec.suspend", "a run that is not held back is still judged"),
    ("GovernedRun.spec.cancel", "a run that is not cancelled is still judged"),
    ("GovernancePolicy.spec.constraints.reasoningTrace", "compared by rule"),
    ("GovernancePolicy.spec.constraints.imageTags", "compared by rule"),
    ("GovernancePolicy.spec.autonomyBudget.*", "compared by rule"),
    ("GovernancePolicy.spec.approvals.autoApprove", "compared by rule"),
    ("*{limit|unlimited}", "exactly one is required"),
];

#[derive(Default)]
struct Counts {
    fields: usize,
    taken: usize,
    refused: usize,
}

fn whole<S: Served>(spec: Value, mut judge: impl FnMut(&str, &Value)) -> (Counts, BTreeSet<String>) {
    let example = examples::object::<S>("example", spec);
    try_to_create::<S>(&example, Fields::Strict).taken("the example");
    let schema = definition::<S>()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let (mut counts, mut optional) = (Counts::default(), BTreeSet::new());
    for field in fields(&schema, &example) {
        counts.fields += 1;
        let path = format!("{}.{}", S::KIND, field.path());
        if !field.required && !field.only_choice {
            optional.insert(path.clone());
        }
        one::<S>(&field, &path, &example, &mut counts, &mut judge);
    }
    println!("-- {}: {} fields, {} objects taken, {} refused", S::KIND, counts.fields, counts.taken, counts.refused);
    (counts, optional)
}

fn one<S: Served>(
    field: &Field,
    path: &str,
    example: &Value,
    counts: &mut Counts,
    judge: &mut impl FnMut(&str, &Value),
) {
    let now = example.pointer(&field.pointer()).unwrap();
    let needed = field.required || field.only_choice;
    let mut refused = |what: &str, object: &Value, fields: Fields, words: &str| {
        try_to_create::<S>(object, fields).refused(&format!("{path}, {what}"), words);
        counts.refused += 1;
    };
    let misspelt = format!("{}Misspelt\"", field.name);
    refused("misspelt", &field.misspelt(example), Fields::Strict, &format!("unknown field \"{}", &field.path()[..4]));
    refused("misspelt", &field.misspelt(example), Fields::Strict, &misspelt);
    if let Some(other) = of_another_type(&field.schema) {
        refused("mistyped", &field.with(example, other.clone()), Fields::Strict, &field.name);
        refused("mistyped", &field.with(example, other), Fields::Pruned, &field.name);
    }
    if needed {
        refused("misspelt and pruned", &field.misspelt(example), Fields::Pruned, "");
        refused("absent", &field.without(example), Fields::Pruned, "");
        refused("null", &field.with(example, Value::Null), Fields::Pruned, "");
    }
    for (what, value) in past_bounds(&field.schema, now) {
        refused(what, &field.with(example, value), Fields::Pruned, &field.name);
    }
    if !needed {
        let misspelt = try_to_create::<S>(&field.misspelt(example), Fields::Pruned).taken(path);
        assert!(misspelt["spec"].to_string().find("Misspelt").is_none(), "{path} is kept misspelt: {misspelt}");
        let absent = try_to_create::<S>(&field.without(example), Fields::Strict).taken(path);
        assert_eq!(misspelt["spec"], absent["spec"], "{path}: a misspelt field is an absent one");
        assert_eq!(absent["spec"], field.without(example)["spec"], "{path}: nothing is filled in");
        judge(path, &absent["spec"]);
        counts.taken += 2;
        // Null is no value: it is refused, or says nothing.
        let null = try_to_create::<S>(&field.with(example, Value::Null), Fields::Pruned);
        match null.code {
            201 => assert!(
                null.body["spec"].pointer(&field.pointer()["/spec".len()..]).is_none_or(Value::is_null),
                "{path}"
            ),
            _ => null.refused(path, &field.name),
        }
    }
    for (what, value) in at_bounds(&field.schema, now) {
        let object = field.with(example, value.clone());
        let taken = try_to_create::<S>(&object, Fields::Strict).taken(&format!("{path}, {what}"));
        assert_eq!(taken.pointer(&field.pointer()), Some(&value), "{path}, {what}");
        counts.taken += 1;
    }
}

fn rules(spec: &Value) -> PolicySpec {
    serde_json::from_value::<GovernancePolicySpec>(spec.clone()).unwrap().rules
}

/// At least as strict: to have the other beside it as a baseline changes nothing.
#[track_caller]
fn is_no_weaker(path: &str, after: &Value, before: &Value) {
    let both = effective(&rules(after), Some(&rules(before)));
    let alone = effective(&rules(after), None);
    assert_eq!(both.reasoning_trace, alone.reasoning_trace, "{path}");
    assert_eq!(both.risks_allowed, alone.risks_allowed, "{path}");
    assert_eq!(both.image_tags, alone.image_tags, "{path}");
    assert_eq!(both.autonomy_budget, alone.autonomy_budget, "{path}");
    assert_eq!(both.auto_approve, alone.auto_approve, "{path}");
    assert_eq!(after["constraints"]["targetsForbidden"], before["constraints"]["targetsForbidden"], "{path}");
    assert_eq!(after["constraints"]["actorsAllowed"], before["constraints"]["actorsAllowed"], "{path}");
}

#[test]
#[ignore = "needs an API server: tests/kube/crds"]
fn no_departure_from_a_field_is_taken_or_weakens_a_rule() {
    let before = examples::policy();
    let (policy, mut optional) =
        whole::<GovernancePolicySpec>(before.clone(), |path, after| is_no_weaker(path, after, &before));
    let (manifest, tools) = whole::<ManifestSpec>(examples::manifest(), |_, _| {});
    let (run, runs) = whole::<GovernedRunSpec>(examples::run(), |_, _| {});
    optional.extend(tools);
    optional.extend(runs);
    let argued: BTreeSet<&str> = OPTIONAL.iter().map(|(path, _)| *path).collect();
    for path in &optional {
        let budget = path.starts_with("GovernancePolicy.spec.autonomyBudget.");
        assert!(budget || argued.contains(path.as_str()), "{path} may be left out, and nobody says why that is safe");
    }
    for path in argued.iter().filter(|path| !path.contains('*')) {
        assert!(optional.contains(*path), "{path} is no optional field");
    }
    let sum = |count: fn(&Counts) -> usize| [&policy, &manifest, &run].into_iter().map(count).sum::<usize>();
    println!(
        "-- {} fields: {} departures refused, {} objects taken as they should be",
        sum(|counts| counts.fields),
        sum(|counts| counts.refused),
        sum(|counts| counts.taken)
    );
}
