//! What the engine is asked for, and how often.

use crate::scene::{Served, end};
use m87_bpmn::EXECUTABLE;
use m87_core::fixtures;
use m87_core::policy::ProcessSource;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_deployed_once_for_each_content_and_engine_however_often_m87_starts() {
    let folder = tempfile::tempdir().unwrap();
    let own = fixtures::policy();
    let mut other = fixtures::policy();
    other.process = Some(ProcessSource { bpmn: format!("{EXECUTABLE}<!-- of other content -->") });
    // Which engine there is at each start, and what it is given for the two.
    for (start, (engine, expected)) in [(1, 2), (1, 0), (1, 0), (1, 0), (2, 2), (2, 0), (1, 0)].into_iter().enumerate()
    {
        let served = Served::begin(folder.path()).await;
        served.around.engine.store(engine, Ordering::SeqCst);
        for policy in [&own, &other, &own, &other] {
            let deployed = served.driver.deploy_process(policy).await.unwrap().unwrap();
            assert_eq!(deployed.engine_id, format!("engine-{engine}"));
        }
        // A run asks for nothing more.
        served.open(&format!("run-{start}")).await;
        while served.around.instances.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(served.around.deployed.load(Ordering::SeqCst), expected, "start {start}, engine {engine}");
        end(served).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_started_once_however_many_open_the_run_and_look_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::begin(folder.path()).await;
    let driver = &served.driver;
    for at in 1..=20 {
        let mut request = Served::request(&format!("run-{at}"));
        // By its uid it is one run for both; without, the second would be another that asks for the same.
        request.uid = Some(format!("00000000-0000-4000-8000-0000000000{at:02}"));
        let (first, looked, second) = tokio::join!(driver.open(&request), driver.look_around(), driver.open(&request));
        assert!(first.is_ok() && looked.is_ok() && second.is_ok());
        driver.look_around().await.unwrap();
    }
    let started = || served.around.instances.lock().unwrap().len();
    while started() < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(started(), 20);
    end(served).await;
}
