//! What is kept in the operator's own namespace: the mark, checkpoints, the signing key, TLS.

use crate::place::Place;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use m87_authority::mark::{HighWaterMark, Kept, Mark};
use m87_authority::world::Checkpoints;
use m87_core::sign::{Envelope, SigningKey, VerifyingKey};
use m87_core::time::Timestamp;
use m87_operator::world::checkpoints::ClusterCheckpoints;
use m87_operator::world::keys::signing_key;
use m87_operator::world::mark::{ACCEPT, ClusterMark};
use m87_operator::world::tls::ClusterTls;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

const MARK: &str = "m87-high-water-mark";
const STORE: &str = "store-1";

fn mark(epoch: i64, redemptions: i64) -> Mark {
    Mark { epoch, redemptions, logs: BTreeMap::new() }
}

fn writer(place: &Place) -> ClusterMark {
    ClusterMark::new(place.client.clone(), place.namespace.clone()).unwrap()
}

fn maps(place: &Place) -> Api<ConfigMap> {
    Api::namespaced(place.client.clone(), &place.namespace)
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_deposed_leader_never_writes_the_mark_again() {
    let place = Place::make().await;
    let (old, new) = (writer(&place), writer(&place));
    assert!(old.write(STORE, &mark(1, 0)).await.is_err(), "not before it was read");
    assert_eq!(old.read(STORE).await.unwrap(), Kept::Nothing);
    old.write(STORE, &mark(1, 0)).await.unwrap();
    old.write(STORE, &mark(1, 1)).await.unwrap();

    assert_eq!(new.read(STORE).await.unwrap(), Kept::Own(mark(1, 1)));
    new.write(STORE, &mark(2, 1)).await.unwrap();
    for _ in 0..2 {
        let error = old.write(STORE, &mark(1, 2)).await.unwrap_err().to_string();
        assert!(error.contains("epoch 2") && error.contains(MARK), "{error}");
    }
    new.write(STORE, &mark(2, 2)).await.unwrap();
    assert_eq!(writer(&place).read(STORE).await.unwrap(), Kept::Own(mark(2, 2)));

    // One that was made from a copy and leads with the same epoch.
    let copy = writer(&place);
    copy.read(STORE).await.unwrap();
    let error = copy.write(STORE, &mark(2, 3)).await.unwrap_err().to_string();
    assert!(error.contains("it is of epoch 2"), "{error}");
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn notes_on_the_mark_and_its_deletion_change_nothing_for_whoever_leads() {
    let place = Place::make().await;
    let leader = writer(&place);
    leader.read(STORE).await.unwrap();
    leader.write(STORE, &mark(1, 0)).await.unwrap();
    let note = Patch::Merge(json!({"metadata": {"annotations": {"note": "kept"}}}));
    maps(&place).patch(MARK, &PatchParams::default(), &note).await.unwrap();
    leader.write(STORE, &mark(1, 1)).await.unwrap();
    assert_eq!(maps(&place).get(MARK).await.unwrap().metadata.annotations.unwrap()["note"], "kept");
    maps(&place).delete(MARK, &DeleteParams::default()).await.unwrap();
    leader.write(STORE, &mark(1, 2)).await.unwrap();
    assert_eq!(writer(&place).read(STORE).await.unwrap(), Kept::Own(mark(1, 2)));
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_swapped_volume_is_told_and_taken_only_once_a_person_has_accepted_it() {
    let place = Place::make().await;
    let before = writer(&place);
    before.read(STORE).await.unwrap();
    before.write(STORE, &mark(7, 3)).await.unwrap();

    let swapped = writer(&place);
    let other = Kept::OfAnother { store_id: STORE.to_owned(), epoch: 7 };
    assert_eq!(swapped.read("store-2").await.unwrap(), other);
    let error = swapped.write("store-2", &mark(8, 0)).await.unwrap_err().to_string();
    assert!(error.contains(STORE), "{error}");
    assert!(!swapped.is_accepted("store-2").await.unwrap());
    assert!(swapped.accepting("store-2").contains(&format!("annotate configmap {MARK} {ACCEPT}=store-2 ")));
    let yes = Patch::Merge(json!({"metadata": {"annotations": {ACCEPT: "store-2"}}}));
    maps(&place).patch(MARK, &PatchParams::default(), &yes).await.unwrap();
    assert!(swapped.is_accepted("store-2").await.unwrap() && !swapped.is_accepted(STORE).await.unwrap());
    assert!(swapped.accept("store-2", &mark(6, 0)).await.is_err(), "not with an earlier epoch");
    swapped.accept("store-2", &mark(8, 0)).await.unwrap();
    assert!(!swapped.is_accepted("store-2").await.unwrap(), "a yes counts once");
    swapped.write("store-2", &mark(8, 1)).await.unwrap();
    assert!(before.write(STORE, &mark(7, 4)).await.is_err());
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_mark_that_is_gone_is_told_where_checkpoints_say_that_there_was_a_store() {
    let place = Place::make().await;
    publish(&place, "ns-1", 4).await;
    let reader = writer(&place);
    assert!(matches!(reader.read(STORE).await.unwrap(), Kept::Lost(why) if why.contains("m87-checkpoints")));
    // Also at the next start, and there is an object on which it can be accepted.
    assert!(matches!(writer(&place).read(STORE).await.unwrap(), Kept::Lost(_)));
    let yes = Patch::Merge(json!({"metadata": {"annotations": {ACCEPT: STORE}}}));
    maps(&place).patch(MARK, &PatchParams::default(), &yes).await.unwrap();
    assert!(reader.is_accepted(STORE).await.unwrap());
    reader.accept(STORE, &mark(1, 0)).await.unwrap();
    assert_eq!(writer(&place).read(STORE).await.unwrap(), Kept::Own(mark(1, 0)));
    place.remove().await;
}

fn checkpoint(size: u64) -> Envelope {
    Envelope::seal("checkpoint", json!({"size": size}).to_string().as_bytes(), &SigningKey::from_seed(&[7; 32]))
}

/// What all objects of checkpoints have room for, in bytes.
const ROOM: usize = 16 << 20;

fn checkpoints(place: &Place) -> ClusterCheckpoints {
    ClusterCheckpoints::new(place.client.clone(), &place.namespace)
}

async fn publish(place: &Place, uid: &str, size: u64) {
    let checkpoints = checkpoints(place);
    checkpoints.published().await.unwrap();
    assert!(checkpoints.publish(&BTreeMap::from([(uid.to_owned(), checkpoint(size))])).await.is_empty());
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn checkpoints_are_published_together_and_never_over_what_somebody_else_has_written() {
    let place = Place::make().await;
    let (old, new) = (checkpoints(&place), checkpoints(&place));
    let all = |size| (0..20).map(|at| (format!("ns-{at}"), checkpoint(size))).collect::<BTreeMap<_, _>>();
    assert!(old.published().await.unwrap().is_empty());
    assert!(old.publish(&all(1)).await.is_empty());
    assert_eq!(new.published().await.unwrap(), all(1));
    assert!(new.publish(&all(2)).await.is_empty());
    for _ in 0..2 {
        assert_eq!(old.publish(&all(1)).await.len(), 20, "it has not seen the second ones");
    }
    assert_eq!(old.published().await.unwrap(), all(2));
    assert!(old.publish(&all(3)).await.is_empty());
    assert_eq!(new.published().await.unwrap(), all(3));
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_checkpoint_that_does_not_fit_holds_up_only_itself() {
    let place = Place::make().await;
    let checkpoints = checkpoints(&place);
    let large = |prefix: &str, count: usize| {
        let text = Envelope::seal("checkpoint", "x".repeat(4_000).as_bytes(), &SigningKey::from_seed(&[7; 32]));
        (0..count).map(|at| (format!("{prefix}-{at}"), text.clone())).collect::<BTreeMap<_, _>>()
    };
    // More than all the room that there is.
    assert!(checkpoints.published().await.unwrap().is_empty());
    let failed = checkpoints.publish(&large("ns", ROOM / 4_000)).await;
    assert!(!failed.is_empty());
    let published = checkpoints.published().await.unwrap();
    assert_eq!(published.len() + failed.len(), ROOM / 4_000);
    assert!(published.len() > ROOM / 4_000 / 2, "{}", published.len());
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn the_signing_key_is_made_once_and_never_again() {
    let place = Place::make().await;
    let open = || signing_key(place.client.clone(), &place.namespace);
    let (one, other) = tokio::join!(open(), open());
    let key = one.unwrap();
    assert_eq!(key.key_id(), other.unwrap().key_id(), "two that start at one time");
    assert_eq!(open().await.unwrap().key_id(), key.key_id());
    let public = maps(&place).get("m87-ca").await.unwrap().data.unwrap()["signing.pub.pem"].clone();
    assert_eq!(VerifyingKey::from_pem(&public).unwrap(), key.verifying_key());

    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let change = Patch::Merge(json!({"stringData": {"signing.pem": "x"}}));
    assert!(secrets.patch("m87-signing-key", &PatchParams::default(), &change).await.is_err(), "it is immutable");
    secrets.delete("m87-signing-key", &DeleteParams::default()).await.unwrap();
    let gone = open().await.unwrap_err().to_string();
    assert!(gone.contains("the signing key is gone, and ConfigMap"), "{gone}");
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn tls_is_made_once_published_and_renewed_under_a_running_server() {
    let place = Place::make().await;
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = Timestamp::from_millis(i64::try_from(millis).unwrap());
    let tls = ClusterTls::open(place.client.clone(), &place.namespace, now).await.unwrap();
    let published = async || maps(&place).get("m87-ca").await.unwrap().data.unwrap()["ca.pem"].clone();
    assert_eq!(published().await, tls.ca_pem());
    let secrets: Api<Secret> = Api::namespaced(place.client.clone(), &place.namespace);
    let leaf = async || secrets.get("m87-tls").await.unwrap().data.unwrap()["tls.crt"].0.clone();
    let first = leaf().await;
    let again = ClusterTls::open(place.client.clone(), &place.namespace, now).await.unwrap();
    assert_eq!((again.ca_pem(), leaf().await), (tls.ca_pem(), first.clone()));

    let later = now.plus_millis(61 * 24 * 3_600_000);
    tls.tend(later).await.unwrap();
    assert_ne!(leaf().await, first);
    assert_eq!(published().await, again.ca_pem(), "the authority is still the same");
    let years = now.plus_millis(731 * 24 * 3_600_000);
    tls.tend(years).await.unwrap();
    assert_eq!(published().await.matches("BEGIN CERTIFICATE").count(), 2, "the next one is announced");
    assert_eq!(published().await, tls.ca_pem());
    place.remove().await;
}
