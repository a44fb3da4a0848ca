//! References: what is there, what is not, what cannot be read, and what nobody can say.

use crate::place::{Place, define};
use kube::api::{DeleteParams, Patch, PatchParams};
use m87_api::{GovernancePolicySpec, GovernedRunSpec};
use m87_authority::world::References;
use m87_core::dossier::{Dossier, Named};
use m87_core::fixtures;
use m87_core::json::compute_hash;
use m87_core::tool::ManifestSpec;
use m87_operator::world::references::ClusterReferences;
use serde_json::{Value, json};

fn policy() -> Value {
    serde_json::to_value(fixtures::policy()).unwrap()
}

fn broken() -> Value {
    let mut spec = policy();
    spec["constraints"]["risksAllowed"] = json!(["harmless"]);
    spec
}

async fn place() -> (Place, ClusterReferences) {
    let place = Place::make().await;
    define::<GovernancePolicySpec>(&place.client).await;
    define::<ManifestSpec>(&place.client).await;
    define::<GovernedRunSpec>(&place.client).await;
    let references = ClusterReferences::new(place.client.clone(), place.namespace.clone());
    (place, references)
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn what_is_there_is_pinned_by_what_is_judged_and_what_cannot_be_read_counts_as_missing() {
    let (place, references) = place().await;
    let tenant = place.named().await;
    assert_eq!(references.policy(&tenant, "rules").await.unwrap(), None);

    let made = place.object::<GovernancePolicySpec>("rules", policy()).await;
    let pinned = references.policy(&tenant, "rules").await.unwrap().unwrap();
    assert_eq!(pinned.sha256, compute_hash(&fixtures::policy()).unwrap());
    assert_eq!((Some(pinned.uid), pinned.spec), (made.metadata.uid, fixtures::policy()));
    let suspend = Patch::Merge(json!({"spec": {"suspend": true, "retention": {"ttlSecondsAfterSealed": 5}}}));
    place.objects::<GovernancePolicySpec>().patch("rules", &PatchParams::default(), &suspend).await.unwrap();
    assert_eq!(references.policy(&tenant, "rules").await.unwrap().unwrap().sha256, pinned.sha256);

    place.object::<GovernancePolicySpec>("broken", broken()).await;
    assert_eq!(references.policy(&tenant, "broken").await.unwrap(), None);

    let tools = ManifestSpec { tools: vec![fixtures::tool()] };
    place.object::<ManifestSpec>("tools", serde_json::to_value(&tools).unwrap()).await;
    let pinned = references.manifest(&tenant, "tools").await.unwrap().unwrap();
    assert_eq!((pinned.sha256, pinned.spec), (compute_hash(&tools).unwrap(), tools));

    // The same name, made again.
    let again = Named { uid: "another".to_owned(), ..tenant };
    assert_eq!(references.policy(&again, "rules").await.unwrap(), None);
    assert_eq!(references.manifest(&again, "tools").await.unwrap(), None);
    assert!(!references.bound(&again).await.unwrap());
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_baseline_that_cannot_be_read_is_never_taken_for_none() {
    let (place, references) = place().await;
    assert_eq!(references.baseline().await.unwrap(), None);
    place.object::<GovernancePolicySpec>("baseline", broken()).await;
    let error = references.baseline().await.unwrap_err().to_string();
    assert!(error.contains("/baseline: spec.constraints.risksAllowed[0]"), "{error}");
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn whoever_may_not_read_knows_nothing_and_is_bound_to_nothing() {
    let (place, references) = place().await;
    let tenant = place.named().await;
    assert!(references.bound(&tenant).await.unwrap());
    let stranger = ClusterReferences::new(place.stranger().await, place.namespace.clone());
    for error in [
        stranger.policy(&tenant, "rules").await.unwrap_err(),
        stranger.manifest(&tenant, "tools").await.unwrap_err(),
        stranger.baseline().await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("forbidden"), "{error}");
    }
    assert_ne!(stranger.bound(&tenant).await.ok(), Some(true));
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_run_is_suspended_by_itself_by_its_policy_and_by_being_gone() {
    let (place, references) = place().await;
    let rules = place.object::<GovernancePolicySpec>("rules", policy()).await;
    // Nothing but its uid and `suspend` is looked at: it need not be readable.
    let run = place.object::<GovernedRunSpec>("run", json!({})).await;
    let mut dossier: Dossier = fixtures::dossier();
    dossier.namespace = place.named().await;
    dossier.run.name = "run".to_owned();
    dossier.run.uid = run.metadata.uid.clone().unwrap();
    dossier.baseline = None;
    let pinned = dossier.policy.as_mut().unwrap();
    (pinned.name, pinned.uid) = ("rules".to_owned(), rules.metadata.uid.unwrap());
    assert!(!references.suspended(&dossier).await.unwrap());

    let suspend = |to: Value| Patch::Merge(json!({"spec": {"suspend": to}}));
    let parameters = PatchParams::default();
    for (to, expected) in [(json!(true), true), (json!(false), false), (json!("no"), true), (Value::Null, false)] {
        place.objects::<GovernancePolicySpec>().patch("rules", &parameters, &suspend(to.clone())).await.unwrap();
        assert_eq!(references.suspended(&dossier).await.unwrap(), expected, "policy {to}");
        place.objects::<GovernancePolicySpec>().patch("rules", &parameters, &suspend(Value::Null)).await.unwrap();
        place.objects::<GovernedRunSpec>().patch("run", &parameters, &suspend(to.clone())).await.unwrap();
        assert_eq!(references.suspended(&dossier).await.unwrap(), expected, "run {to}");
        place.objects::<GovernedRunSpec>().patch("run", &parameters, &suspend(Value::Null)).await.unwrap();
    }
    place.objects::<GovernedRunSpec>().delete("run", &DeleteParams::default()).await.unwrap();
    assert!(references.suspended(&dossier).await.unwrap());
    place.object::<GovernedRunSpec>("run", json!({})).await;
    assert!(references.suspended(&dossier).await.unwrap(), "made again, it is another");
    place.remove().await;
}
