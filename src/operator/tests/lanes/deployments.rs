//! The lanes' Deployments: made, kept, rolled, and gone with their owner.

use crate::place::{Place, until};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use m87_core::lane::Lane;
use m87_operator::lanes::{Bounds, Loads, Owner, Reports, Resources, Settings, name, run};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A StatefulSet without pods, as whose the lanes are made.
async fn owner(place: &Place) -> Owner {
    let sets: Api<StatefulSet> = Api::namespaced(place.client.clone(), &place.namespace);
    let object = json!({"metadata": {"name": "m87"}, "spec": {
        "replicas": 0,
        "serviceName": "m87",
        "selector": {"matchLabels": {"app": "m87"}},
        "template": {"metadata": {"labels": {"app": "m87"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}},
    }});
    let made = sets.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    Owner { name: "m87".to_owned(), uid: made.metadata.uid.unwrap() }
}

pub(crate) async fn settings(place: &Place) -> Settings {
    Settings {
        namespace: place.namespace.clone(),
        owner: owner(place).await,
        image: "m87.test/m87:1".to_owned(),
        pull_policy: Some("IfNotPresent".to_owned()),
        pull_secrets: Vec::new(),
        service: "m87".to_owned(),
        replicas: Bounds { min: 1, max: 3 },
        resources: Resources::default(),
        job_timeout: None,
        zeebe: None,
    }
}

pub(crate) struct Running {
    pub(crate) reports: watch::Receiver<Reports>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn start(place: &Place, settings: &Settings) -> Running {
    start_with(place, settings, Loads::Unknown)
}

pub(crate) fn start_with(place: &Place, settings: &Settings, loads: Loads) -> Running {
    let (sender, reports) = watch::channel(Reports::new());
    let stop = CancellationToken::new();
    let task = tokio::spawn(run(place.client.clone(), settings.clone(), loads, sender, stop.clone()));
    Running { reports, stop, task }
}

impl Running {
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn lanes_are_made_kept_and_rolled_without_a_write_too_many_and_go_with_their_owner() {
    let place = Place::make("kept").await;
    let settings = settings(&place).await;
    let api: Api<Deployment> = Api::namespaced(place.client.clone(), &place.namespace);
    let running = start(&place, &settings);
    for lane in Lane::ALL {
        until("the lane is there", || async { api.get_opt(&name(lane)).await.unwrap() }).await;
    }
    let applied = || async {
        let all = api.list(&Default::default()).await.unwrap().items;
        let of = |it: &Deployment| (it.metadata.generation, written(it));
        all.iter().map(of).collect::<Vec<_>>()
    };
    let before = applied().await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(applied().await, before, "nothing differs, so nothing is written");
    assert!(running.reports.borrow().values().all(|report| report.wanted == 1 && report.error.is_none()));

    let runner = name(Lane::Runner);
    let patch = json!({"spec": {"replicas": 0}});
    api.patch(&runner, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    until("the pods are back", || async {
        (api.get(&runner).await.unwrap().spec.unwrap().replicas == Some(1)).then_some(())
    })
    .await;
    api.delete(&runner, &DeleteParams::default()).await.unwrap();
    until("the lane is back", || async { api.get_opt(&runner).await.unwrap() }).await;
    running.end().await;

    let upgraded = Settings { image: "m87.test/m87:2".to_owned(), ..settings };
    let running = start(&place, &upgraded);
    for lane in Lane::ALL {
        until("the lane is rolled", || async {
            let pod = api.get(&name(lane)).await.unwrap().spec.unwrap().template.spec.unwrap();
            (pod.containers[0].image.as_deref() == Some("m87.test/m87:2")).then_some(())
        })
        .await;
    }
    running.end().await;

    let sets: Api<StatefulSet> = Api::namespaced(place.client.clone(), &place.namespace);
    sets.delete("m87", &DeleteParams::background()).await.unwrap();
    until("the lanes went with their owner", || async {
        api.list(&Default::default()).await.unwrap().items.is_empty().then_some(())
    })
    .await;
    place.remove().await;
}

/// When our own field manager last wrote.
fn written(object: &Deployment) -> Option<String> {
    let fields = object.metadata.managed_fields.as_ref()?;
    let ours = fields.iter().find(|entry| entry.manager.as_deref() == Some("m87-lanes"))?;
    Some(format!("{:?}", ours.time))
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn a_lanes_pod_passes_pod_security_restricted() {
    let place = Place::make("restricted").await;
    let settings = settings(&place).await;
    let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for lane in Lane::ALL {
        let object = m87_operator::lanes::deployment(&settings, lane, 1);
        let pod: Value = json!({"metadata": {"name": name(lane)}, "spec": object["spec"]["template"]["spec"]});
        pods.create(&dry, &serde_json::from_value(pod.clone()).unwrap()).await.unwrap();
        // The namespace does refuse what is not restricted.
        let mut open = pod;
        open["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
        pods.create(&dry, &serde_json::from_value(open).unwrap()).await.unwrap_err();
    }
    place.remove().await;
}

#[tokio::test]
#[ignore = "needs a cluster"]
async fn what_cannot_be_written_is_reported_with_its_reason() {
    let place = Place::make("denied").await;
    let settings = Settings { image: String::new(), ..settings(&place).await };
    let mut running = start(&place, &settings);
    let failed = |reports: &Reports| reports.values().any(|report| report.error.is_some());
    let wait = running.reports.wait_for(failed);
    let reports = tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap().unwrap().clone();
    let error = reports.values().find_map(|report| report.error.clone()).unwrap();
    assert!(error.contains("image"), "{error}");
    running.end().await;
    place.remove().await;
}
