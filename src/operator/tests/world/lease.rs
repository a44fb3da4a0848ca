//! The lease on a real API server.

use crate::place::{Place, until};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use m87_authority::world::Epoch;
use m87_operator::lease::decide::{Before, Config, Identity};
use m87_operator::lease::{Keeper, Leadership, Tenure};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn keeper(place: &Place, at: &str, start: &str, before: Before) -> Keeper {
    let identity = Identity { place: at.to_owned(), start: start.to_owned() };
    Keeper::new(place.client.clone(), &place.namespace, identity, Config::usual(before))
}

async fn lead(keeper: Keeper) -> Leadership {
    keeper.lead(&CancellationToken::new()).await.expect("the lead")
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn one_leads_the_other_waits_and_takes_over_once_it_is_released() {
    let place = Place::make().await;
    let begun = Instant::now();
    let first = lead(keeper(&place, "a", "1", Before::Nobody)).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "a first start waits for nobody");
    assert!(first.holds());

    let second = keeper(&place, "b", "1", Before::Somebody);
    let tenure = second.tenure();
    let second = tokio::spawn(lead(second));
    until("the second waits", || async { (*tenure.borrow() == Tenure::Waiting("a/1".to_owned())).then_some(()) }).await;
    // Longer than a lease: the first renews it.
    tokio::time::sleep(Duration::from_secs(17)).await;
    assert!(first.holds() && !second.is_finished() && !first.lost().is_cancelled());

    let (released, epoch) = (Instant::now(), first.epoch().epoch(0));
    first.release().await;
    let second = second.await.unwrap();
    assert!(released.elapsed() < Duration::from_secs(4), "{:?}", released.elapsed());
    assert!(second.epoch().epoch(0) > epoch);
    second.release().await;
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn whoever_comes_back_to_its_place_leads_at_once_with_a_later_epoch() {
    let place = Place::make().await;
    let first = lead(keeper(&place, "a", "1", Before::Nobody)).await;
    let (epoch, begun) = (first.epoch().epoch(0), Instant::now());
    let again = lead(keeper(&place, "a", "2", Before::Somebody)).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(again.epoch().epoch(0) > epoch);
    // The one before is taken for dead; were it not, it would stop.
    tokio::time::timeout(Duration::from_secs(5), first.lost().cancelled()).await.unwrap();
    assert!(!first.holds() && again.holds());
    again.release().await;
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_leader_whose_lease_is_deleted_stops_and_the_next_one_waits_out_its_time() {
    let place = Place::make().await;
    let first = lead(keeper(&place, "a", "1", Before::Nobody)).await;
    let leases: Api<Lease> = Api::namespaced(place.client.clone(), &place.namespace);
    leases.delete("m87", &DeleteParams::default()).await.unwrap();
    let deleted = Instant::now();
    let next = lead(keeper(&place, "b", "1", Before::Somebody)).await;
    assert!(deleted.elapsed() >= Duration::from_secs(15), "{:?}", deleted.elapsed());
    assert!(first.lost().is_cancelled() && !first.holds());
    next.release().await;
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs an API server: tests/cluster/cluster exec"]
async fn a_missing_right_is_named_and_stopping_is_not_waited_for() {
    let place = Place::make().await;
    let identity = Identity { place: "a".to_owned(), start: "1".to_owned() };
    let config = Config::usual(Before::Nobody);
    let keeper = Keeper::new(place.stranger().await, &place.namespace, identity, config);
    let (tenure, stop) = (keeper.tenure(), CancellationToken::new());
    let leading = tokio::spawn({
        let stop = stop.clone();
        async move { keeper.lead(&stop).await.is_some() }
    });
    let why = until("it says what is missing", || async {
        match tenure.borrow().clone() {
            Tenure::Blocked(why) => Some(why),
            _ => None,
        }
    })
    .await;
    assert!(why.contains("cannot get resource \"leases\"") && why.contains("apply the Roles"), "{why}");
    stop.cancel();
    assert!(!tokio::time::timeout(Duration::from_secs(5), leading).await.unwrap().unwrap());
    place.remove().await;
}
