//! The calls of the gateway: who asks, may they, what does the engine say.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::StreamExt;
use m87_zeebe::proto::{self, gateway_server::Gateway};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, codegen::BoxStream};

use super::access::{Action, check};
use super::callers::{Caller, Callers, bearer};
use super::wire::{self, TENANT, check_tenants};
use super::{VERSION, jobs};
use crate::document::Document;
use crate::engine::Engine;
use crate::machine::{Deployment, Reach, Resource};

/// One engine, seen by the callers of one listener or channel.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) engine: Engine,
    pub(super) callers: Arc<dyn Callers>,
    /// Where it listens; `None` within the process.
    pub(super) address: Option<SocketAddr>,
    /// Cancelled when no more calls may be held.
    pub(super) closing: CancellationToken,
}

type Reply<T> = Result<Response<T>, Status>;

impl Service {
    async fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        Ok(self.callers.identify(bearer(request.metadata())).await?)
    }

    /// The message, if its caller may do that.
    async fn allowed<T>(&self, request: Request<T>, action: Action<'_>) -> Result<T, Status> {
        check(self.caller(&request).await?, action)?;
        Ok(request.into_inner())
    }

    /// The message, if its caller may touch the job. One that does not exist is left to the engine to miss.
    async fn allowed_job<T>(
        &self,
        request: Request<T>,
        key: impl FnOnce(&T) -> i64,
        action: impl for<'a> Fn(&'a str) -> Action<'a>,
    ) -> Result<T, Status> {
        let caller = self.caller(&request).await?;
        let message = request.into_inner();
        if let Some(job) = self.engine.job(key(&message)) {
            check(caller, action(&job.job_type))?;
        }
        Ok(message)
    }

    async fn deploy(&self, resources: Vec<Resource>) -> Result<Deployment, Status> {
        if resources.is_empty() {
            let reason = "Expected to deploy at least one resource, but none given";
            return Err(wire::invalid(crate::rejection::Intent::Create, reason));
        }
        Ok(self.engine.deploy(resources).await?)
    }
}

/// What this engine does not have is said by name, not by silence.
async fn absent<T, R>(service: &Service, request: Request<T>, what: &'static str) -> Reply<R> {
    service.allowed(request, Action::Steer(what)).await?;
    Err(Status::unimplemented(format!("m87's engine cannot {what}; a real Zeebe can")))
}

#[tonic::async_trait]
impl Gateway for Service {
    async fn topology(&self, request: Request<proto::TopologyRequest>) -> Reply<proto::TopologyResponse> {
        self.allowed(request, Action::Look).await?;
        let partition = proto::Partition {
            partition_id: 1,
            role: proto::partition::PartitionBrokerRole::Leader.into(),
            health: proto::partition::PartitionBrokerHealth::Healthy.into(),
        };
        let broker = proto::BrokerInfo {
            node_id: 0,
            host: self.address.map_or_else(|| "in-process".into(), |address| address.ip().to_string()),
            port: self.address.map_or(0, |address| address.port().into()),
            partitions: vec![partition],
            version: VERSION.into(),
        };
        Ok(Response::new(proto::TopologyResponse {
            brokers: vec![broker],
            cluster_size: 1,
            partitions_count: 1,
            replication_factor: 1,
            gateway_version: VERSION.into(),
            cluster_id: self.engine.id().into(),
        }))
    }

    async fn deploy_resource(
        &self,
        request: Request<proto::DeployResourceRequest>,
    ) -> Reply<proto::DeployResourceResponse> {
        let message = self.allowed(request, Action::Steer("deploy")).await?;
        check_tenants([&message.tenant_id])?;
        let resources = message.resources.into_iter();
        let resources = resources.map(|resource| Resource { name: resource.name, content: resource.content }).collect();
        let deployment = self.deploy(resources).await?;
        let deployments = deployment.processes.into_iter().map(|process| proto::Deployment {
            metadata: Some(proto::deployment::Metadata::Process(wire::process(process))),
        });
        Ok(Response::new(proto::DeployResourceResponse {
            key: deployment.key,
            deployments: deployments.collect(),
            tenant_id: TENANT.into(),
        }))
    }

    async fn deploy_process(
        &self,
        request: Request<proto::DeployProcessRequest>,
    ) -> Reply<proto::DeployProcessResponse> {
        let message = self.allowed(request, Action::Steer("deploy")).await?;
        let resources = message.processes.into_iter();
        let resources = resources.map(|process| Resource { name: process.name, content: process.definition }).collect();
        let deployment = self.deploy(resources).await?;
        let processes = deployment.processes.into_iter().map(wire::process).collect();
        Ok(Response::new(proto::DeployProcessResponse { key: deployment.key, processes }))
    }

    async fn create_process_instance(
        &self,
        request: Request<proto::CreateProcessInstanceRequest>,
    ) -> Reply<proto::CreateProcessInstanceResponse> {
        let message = self.allowed(request, Action::Steer("create an instance")).await?;
        let created = self.engine.create_instance(wire::creation(message)?).await?;
        Ok(Response::new(proto::CreateProcessInstanceResponse {
            process_definition_key: created.definition,
            bpmn_process_id: created.process_id,
            version: created.version,
            process_instance_key: created.instance,
            tenant_id: TENANT.into(),
            tags: Vec::new(),
        }))
    }

    async fn cancel_process_instance(
        &self,
        request: Request<proto::CancelProcessInstanceRequest>,
    ) -> Reply<proto::CancelProcessInstanceResponse> {
        let message = self.allowed(request, Action::Steer("cancel an instance")).await?;
        self.engine.cancel_instance(message.process_instance_key).await?;
        Ok(Response::new(proto::CancelProcessInstanceResponse {}))
    }

    async fn set_variables(&self, request: Request<proto::SetVariablesRequest>) -> Reply<proto::SetVariablesResponse> {
        let message = self.allowed(request, Action::Steer("set variables")).await?;
        let variables = Document::parse(&message.variables)?;
        let reach = if message.local { Reach::Local } else { Reach::Propagated };
        let key = self.engine.set_variables(message.element_instance_key, variables, reach).await?;
        Ok(Response::new(proto::SetVariablesResponse { key }))
    }

    async fn resolve_incident(
        &self,
        request: Request<proto::ResolveIncidentRequest>,
    ) -> Reply<proto::ResolveIncidentResponse> {
        let message = self.allowed(request, Action::Steer("resolve an incident")).await?;
        self.engine.resolve_incident(message.incident_key).await?;
        Ok(Response::new(proto::ResolveIncidentResponse {}))
    }

    async fn activate_jobs(
        &self,
        request: Request<proto::ActivateJobsRequest>,
    ) -> Reply<BoxStream<proto::ActivateJobsResponse>> {
        let caller = self.caller(&request).await?;
        let (metadata, _, ask) = request.into_parts();
        check(caller, Action::Job(&ask.r#type))?;
        let batch = jobs::activate(&self.engine, &metadata, ask, &self.closing).await?;
        Ok(Response::new(batch.boxed()))
    }

    async fn stream_activated_jobs(
        &self,
        request: Request<proto::StreamActivatedJobsRequest>,
    ) -> Reply<BoxStream<proto::ActivatedJob>> {
        let caller = self.caller(&request).await?;
        let ask = request.into_inner();
        check(caller, Action::Job(&ask.r#type))?;
        Ok(Response::new(jobs::stream(&self.engine, ask, self.closing.clone())?.boxed()))
    }

    async fn complete_job(&self, request: Request<proto::CompleteJobRequest>) -> Reply<proto::CompleteJobResponse> {
        let message = self.allowed_job(request, |message| message.job_key, |job_type| Action::Job(job_type)).await?;
        self.engine.complete_job(message.job_key, Document::parse(&message.variables)?).await?;
        Ok(Response::new(proto::CompleteJobResponse {}))
    }

    async fn fail_job(&self, request: Request<proto::FailJobRequest>) -> Reply<proto::FailJobResponse> {
        let message = self.allowed_job(request, |message| message.job_key, |job_type| Action::Job(job_type)).await?;
        let variables = Document::parse(&message.variables)?;
        let (back_off, why) = (message.retry_back_off, message.error_message);
        self.engine.fail_job(message.job_key, message.retries, back_off, why, variables).await?;
        Ok(Response::new(proto::FailJobResponse {}))
    }

    async fn throw_error(&self, request: Request<proto::ThrowErrorRequest>) -> Reply<proto::ThrowErrorResponse> {
        let message = self.allowed_job(request, |message| message.job_key, |job_type| Action::Job(job_type)).await?;
        let variables = Document::parse(&message.variables)?;
        self.engine.throw_error(message.job_key, message.error_code, message.error_message, variables).await?;
        Ok(Response::new(proto::ThrowErrorResponse {}))
    }

    async fn update_job_retries(
        &self,
        request: Request<proto::UpdateJobRetriesRequest>,
    ) -> Reply<proto::UpdateJobRetriesResponse> {
        let message =
            self.allowed_job(request, |message| message.job_key, |job_type| Action::Retries(job_type)).await?;
        self.engine.update_retries(message.job_key, message.retries).await?;
        Ok(Response::new(proto::UpdateJobRetriesResponse {}))
    }

    async fn update_job_timeout(
        &self,
        request: Request<proto::UpdateJobTimeoutRequest>,
    ) -> Reply<proto::UpdateJobTimeoutResponse> {
        let message = self.allowed_job(request, |message| message.job_key, |job_type| Action::Job(job_type)).await?;
        self.engine.update_timeout(message.job_key, message.timeout).await?;
        Ok(Response::new(proto::UpdateJobTimeoutResponse {}))
    }

    async fn create_process_instance_with_result(
        &self,
        request: Request<proto::CreateProcessInstanceWithResultRequest>,
    ) -> Reply<proto::CreateProcessInstanceWithResultResponse> {
        absent(self, request, "wait for an instance's result").await
    }

    async fn modify_process_instance(
        &self,
        request: Request<proto::ModifyProcessInstanceRequest>,
    ) -> Reply<proto::ModifyProcessInstanceResponse> {
        absent(self, request, "modify an instance").await
    }

    async fn migrate_process_instance(
        &self,
        request: Request<proto::MigrateProcessInstanceRequest>,
    ) -> Reply<proto::MigrateProcessInstanceResponse> {
        absent(self, request, "migrate an instance").await
    }

    async fn delete_resource(
        &self,
        request: Request<proto::DeleteResourceRequest>,
    ) -> Reply<proto::DeleteResourceResponse> {
        absent(self, request, "delete a resource").await
    }

    async fn publish_message(
        &self,
        request: Request<proto::PublishMessageRequest>,
    ) -> Reply<proto::PublishMessageResponse> {
        absent(self, request, "publish a message").await
    }

    async fn broadcast_signal(
        &self,
        request: Request<proto::BroadcastSignalRequest>,
    ) -> Reply<proto::BroadcastSignalResponse> {
        absent(self, request, "broadcast a signal").await
    }

    async fn evaluate_decision(
        &self,
        request: Request<proto::EvaluateDecisionRequest>,
    ) -> Reply<proto::EvaluateDecisionResponse> {
        absent(self, request, "evaluate a decision").await
    }
}
