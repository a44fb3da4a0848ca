#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod callers;
mod jobs;
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use m87_zeebe::proto::{self, gateway_client::GatewayClient};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::*;
use crate::EngineOptions;

type Gateway = GatewayClient<Channel>;

/// A process with one task of a type.
fn process(id: &str, job_type: &str) -> Vec<u8> {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d" targetNamespace="t">
  <bpmn:process id="{id}" isExecutable="true">
    <bpmn:startEvent id="start"><bpmn:outgoing>a</bpmn:outgoing></bpmn:startEvent>
    <bpmn:serviceTask id="task">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="{job_type}" retries="3"/>
        <zeebe:taskHeaders><zeebe:header key="colour" value="blue"/></zeebe:taskHeaders>
      </bpmn:extensionElements>
      <bpmn:incoming>a</bpmn:incoming><bpmn:outgoing>b</bpmn:outgoing>
    </bpmn:serviceTask>
    <bpmn:endEvent id="end"><bpmn:incoming>b</bpmn:incoming></bpmn:endEvent>
    <bpmn:sequenceFlow id="a" sourceRef="start" targetRef="task"/>
    <bpmn:sequenceFlow id="b" sourceRef="task" targetRef="end"/>
  </bpmn:process>
</bpmn:definitions>"#
    )
    .into_bytes()
}

async fn engine() -> Engine {
    let options = EngineOptions { id: Some("engine-under-test".into()), ..EngineOptions::default() };
    Engine::open(options).await.unwrap()
}

/// An engine within the process, called by anybody.
async fn open() -> (Engine, Gateway) {
    let engine = engine().await;
    let gateway = GatewayClient::new(engine.channel(Caller::Anonymous));
    (engine, gateway)
}

/// A gateway on loopback.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<Result<(), ServeError>>,
}

async fn serve(engine: &Engine, protection: Protection, callers: Arc<dyn Callers>) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let (engine, token) = (engine.clone(), stop.clone());
    let serving = tokio::spawn(async move { engine.serve(listener, protection, callers, token).await });
    Served { address, stop, serving }
}

impl Served {
    fn channel(&self) -> Channel {
        m87_zeebe::connect(&self.address.to_string(), m87_zeebe::Tls::Plain).unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.serving).await.expect("it ends").unwrap().unwrap();
    }
}

async fn deploy(gateway: &mut Gateway, id: &str, job_type: &str) -> proto::ProcessMetadata {
    let resource = proto::Resource { name: format!("{id}.bpmn"), content: process(id, job_type) };
    let request = proto::DeployResourceRequest { resources: vec![resource], tenant_id: String::new() };
    let reply = gateway.deploy_resource(request).await.unwrap().into_inner();
    match reply.deployments.into_iter().next().unwrap().metadata.unwrap() {
        proto::deployment::Metadata::Process(process) => process,
        other => panic!("{other:?}"),
    }
}

fn latest(id: &str) -> proto::CreateProcessInstanceRequest {
    proto::CreateProcessInstanceRequest { bpmn_process_id: id.into(), version: -1, ..Default::default() }
}

async fn create(gateway: &mut Gateway, id: &str) -> i64 {
    gateway.create_process_instance(latest(id)).await.unwrap().into_inner().process_instance_key
}

fn ask(job_type: &str, max: i32, request_timeout: i64) -> proto::ActivateJobsRequest {
    proto::ActivateJobsRequest {
        r#type: job_type.into(),
        worker: "tester".into(),
        timeout: 60_000,
        max_jobs_to_activate: max,
        request_timeout,
        ..Default::default()
    }
}

fn stream_ask(job_type: &str) -> proto::StreamActivatedJobsRequest {
    proto::StreamActivatedJobsRequest {
        r#type: job_type.into(),
        worker: "tester".into(),
        timeout: 60_000,
        ..Default::default()
    }
}

/// Every job of the answer.
async fn activate(
    gateway: &mut Gateway,
    request: impl tonic::IntoRequest<proto::ActivateJobsRequest>,
) -> Result<Vec<proto::ActivatedJob>, tonic::Status> {
    let mut replies = gateway.activate_jobs(request).await?.into_inner();
    let mut jobs = Vec::new();
    while let Some(reply) = replies.message().await? {
        jobs.extend(reply.jobs);
    }
    Ok(jobs)
}
