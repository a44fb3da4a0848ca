//! Lanes grow with what waits for them: the loop over an embedded engine, and the API server's own controllers behind it.

use crate::deployments::{settings, start_with};
use crate::place::{Place, until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use m87_core::lane::Lane;
use m87_engine::{CreateRequest, Document, Engine, EngineOptions, Resource, Target};
use m87_operator::lanes::{Loads, name};
use serde_json::json;
use std::time::Duration;

/// One task, which the Runner's lane does.
const PROCESS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d" targetNamespace="test">
<bpmn:process id="p" isExecutable="true"><bpmn:startEvent id="s"/><bpmn:serviceTask id="t"><bpmn:extensionElements>
<zeebe:taskDefinition type="execute"/></bpmn:extensionElements></bpmn:serviceTask><bpmn:endEvent id="e"/>
<bpmn:sequenceFlow id="s_t" sourceRef="s" targetRef="t"/><bpmn:sequenceFlow id="t_e" sourceRef="t" targetRef="e"/></bpmn:process>
</bpmn:definitions>"#;

/// An engine without workers: every job waits.
async fn engine() -> Engine {
    let engine = Engine::open(EngineOptions::default()).await.unwrap();
    let process = Resource { name: "p.bpmn".to_owned(), content: PROCESS.as_bytes().to_vec() };
    engine.deploy(vec![process]).await.unwrap();
    engine
}

async fn wait_for_a_worker(engine: &Engine, jobs: usize) {
    for _ in 0..jobs {
        let target = Target::Latest("p".to_owned());
        let variables = Document::from_map(serde_json::Map::new());
        engine.create_instance(CreateRequest { target, variables, start_at: Vec::new() }).await.unwrap();
    }
}

/// Says of every pod that there is that it does jobs, as a kubelet would; answers how many there are of the Runner's.
async fn pods_are_ready(place: &Place) -> usize {
    let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.namespace);
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let all = pods.list(&Default::default()).await.unwrap().items;
    for pod in &all {
        let name = pod.metadata.name.as_deref().unwrap();
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    }
    let of_runner = |pod: &&Pod| pod.metadata.name.as_deref().unwrap().starts_with(&name(Lane::Runner));
    all.iter().filter(of_runner).count()
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_lane_with_a_backlog_gets_pods_step_by_step_up_to_its_most_and_no_other_lane_does() {
    let place = Place::make("backlog").await;
    let settings = settings(&place).await;
    let api: Api<Deployment> = Api::namespaced(place.client.clone(), &place.namespace);
    let engine = engine().await;
    let running = start_with(&place, &settings, Loads::Embedded(engine.clone()));
    let replicas = |lane: Lane| {
        let api = api.clone();
        async move { api.get_opt(&name(lane)).await.unwrap()?.spec.unwrap().replicas }
    };
    let ready = |pods: i32| {
        let (api, place) = (api.clone(), &place);
        async move {
            until("the Deployment has heard that its pods are ready", || async {
                pods_are_ready(place).await;
                let status = api.get_opt(&name(Lane::Runner)).await.unwrap()?.status?;
                (status.ready_replicas == Some(pods)).then_some(())
            })
            .await;
        }
    };
    ready(1).await;

    // As many as may wait for a moment, for longer than two looks.
    wait_for_a_worker(&engine, 8).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(replicas(Lane::Runner).await, Some(1), "a few jobs on their way are no backlog");

    wait_for_a_worker(&engine, 92).await;
    until("it is doubled", || async { (replicas(Lane::Runner).await == Some(2)).then_some(()) }).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(replicas(Lane::Runner).await, Some(2), "the pods of the last step do no jobs yet");
    ready(2).await;
    until("it has its most", || async { (replicas(Lane::Runner).await == Some(3)).then_some(()) }).await;
    ready(3).await;
    tokio::time::sleep(Duration::from_secs(12)).await;

    for lane in Lane::ALL {
        let (pods, waiting) = if lane == Lane::Runner { (3, 100) } else { (1, 0) };
        assert_eq!(replicas(lane).await, Some(pods), "{lane:?}");
        let report = running.reports.borrow()[&lane].clone();
        assert_eq!((report.wanted, report.waiting, report.error), (pods as u32, Some(waiting), None), "{lane:?}");
    }
    assert_eq!(pods_are_ready(&place).await, 3, "the pods are there");
    running.end().await;
    engine.stop().await;
    place.remove().await;
}
