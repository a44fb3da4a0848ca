//! Who may ask what, and how a caller finds the authority again.

use crate::scene::{Served, denial, job, redeem};
use m87_authority::callers::LaneCredentials;
use m87_authority::store::{Headroom, SqliteStore};
use m87_authority::{AuthorityClient, AuthorityError, Credentials, Denial, GrpcClient, Opened};
use m87_core::lane::{JobType, Lane};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn each_caller_may_ask_only_what_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    served.open("a").await;
    served.open("b").await;
    let (first, second) = (served.contracted(1).await, served.contracted(2).await);
    let stranger = Credentials {
        token: "0".repeat(64),
        ..Credentials::read(&LaneCredentials::file(folder.path(), Lane::Runner)).unwrap()
    };
    assert_eq!(denial(GrpcClient::new(stranger).brief(job(JobType::Propose, 1)).await), Denial::Unauthenticated);
    for lane in Lane::ALL {
        let client = served.lane(lane);
        for job_type in JobType::ALL.into_iter().filter(|job| job.lane() != Some(lane)) {
            let denied = denial(client.brief(job(job_type, 1)).await);
            assert!(matches!(denied, Denial::NotYours | Denial::Malformed), "{lane:?} {job_type:?}: {denied}");
        }
        assert_eq!(denial(client.redeem(redeem(&first, "n")).await), Denial::NotYours);
        assert_eq!(denial(client.validation_order().await), Denial::NotYours);
    }
    let (exec, _) = served.exec(0);
    assert_eq!(denial(exec.redeem(redeem(&second, "n")).await), Denial::NotYours);
    assert_eq!(denial(exec.brief(job(JobType::Propose, 1)).await), Denial::NotYours);
    assert_eq!(denial(served.lane(Lane::Proposer).brief(job(JobType::Propose, 9)).await), Denial::UnknownRun);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reconnects_to_wherever_the_authority_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let first = Served::begin(folder.path()).await;
    let Opened::Run(uid) = first.open("a").await else { panic!() };
    let contract = first.contracted(1).await;
    let (exec, _) = first.exec(0);
    first.stop.cancel();
    let Served { authority, driver, .. } = first;
    drop((authority, driver));
    assert!(matches!(exec.redeem(redeem(&contract, "n")).await, Err(AuthorityError::Unavailable(_))));
    let second = loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let free = SqliteStore::open(&folder.path().join("store"), "x", &Headroom { bytes: 0, reserve_bytes: 0 }).await;
        if free.is_ok() {
            drop(free);
            break Served::begin(folder.path()).await;
        }
    };
    let order = loop {
        match exec.redeem(redeem(&contract, "n")).await {
            Ok(order) => break order,
            Err(AuthorityError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(order.order.contains(&contract));
    assert!(second.authority.load(&uid).await.unwrap().run.row.dispatched());
}
