//! Between the protocol's messages and the engine's commands.

use m87_zeebe::proto;
use tonic::Status;

use crate::document::Document;
use crate::machine::{ActivatedJob, CreateRequest, DeployedProcess, JobKind, Target};
use crate::rejection::{Intent, Rejection, RejectionKind};

/// The only tenant there is, as answers name it.
pub(super) const TENANT: &str = "<default>";

impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        match rejection.kind {
            RejectionKind::InvalidArgument => Self::invalid_argument(message),
            RejectionKind::NotFound => Self::not_found(message),
            RejectionKind::AlreadyExists => Self::already_exists(message),
            RejectionKind::InvalidState => Self::failed_precondition(message),
            RejectionKind::ProcessingError => Self::internal(message),
            RejectionKind::ResourceExhausted => Self::resource_exhausted(message),
            RejectionKind::Unavailable => Self::unavailable(message),
        }
    }
}

/// A command that is refused as it is written.
pub(super) fn invalid(intent: Intent, reason: impl Into<String>) -> Status {
    Rejection::new(RejectionKind::InvalidArgument, intent, reason).into()
}

/// Without multi-tenancy a tenant may be left out, or be the default one.
pub(super) fn check_tenants<'a>(tenants: impl IntoIterator<Item = &'a String>) -> Result<(), Status> {
    match tenants.into_iter().find(|tenant| !tenant.is_empty() && *tenant != TENANT) {
        None => Ok(()),
        Some(tenant) => Err(Status::invalid_argument(format!(
            "Expected to handle request with tenant identifier '{tenant}', but multi-tenancy is disabled: \
             leave it out or use '{TENANT}'"
        ))),
    }
}

/// What instance a request asks for.
pub(super) fn creation(request: proto::CreateProcessInstanceRequest) -> Result<CreateRequest, Status> {
    check_tenants([&request.tenant_id])?;
    let target = match (request.process_definition_key, request.version) {
        (key, _) if key > 0 => Target::Key(key),
        _ if request.bpmn_process_id.is_empty() => {
            return Err(invalid(
                Intent::Create,
                "Expected a bpmnProcessId or a processDefinitionKey, but none was given",
            ));
        }
        (_, -1) => Target::Latest(request.bpmn_process_id),
        (_, version) => Target::Version(request.bpmn_process_id, version),
    };
    Ok(CreateRequest {
        target,
        variables: Document::parse(&request.variables)?,
        start_at: request.start_instructions.into_iter().map(|start| start.element_id).collect(),
    })
}

pub(super) fn process(process: DeployedProcess) -> proto::ProcessMetadata {
    proto::ProcessMetadata {
        bpmn_process_id: process.process_id,
        version: process.version,
        process_definition_key: process.key,
        resource_name: process.resource,
        tenant_id: TENANT.into(),
    }
}

pub(super) fn job(job: ActivatedJob) -> Result<proto::ActivatedJob, Status> {
    use proto::activated_job::{JobKind as WireKind, ListenerEventType};
    let (kind, event) = match job.kind {
        JobKind::Element => (WireKind::BpmnElement, ListenerEventType::Unspecified),
        JobKind::StartListener => (WireKind::ExecutionListener, ListenerEventType::Start),
        JobKind::EndListener => (WireKind::ExecutionListener, ListenerEventType::End),
    };
    let headers = serde_json::to_string(&job.headers)
        .map_err(|error| Status::internal(format!("the headers of job {} cannot be written: {error}", job.key)))?;
    Ok(proto::ActivatedJob {
        key: job.key,
        r#type: job.job_type,
        process_instance_key: job.instance,
        bpmn_process_id: job.process_id,
        process_definition_version: job.version,
        process_definition_key: job.definition,
        element_id: job.element_id,
        element_instance_key: job.element,
        custom_headers: headers,
        worker: job.worker,
        retries: job.retries,
        deadline: job.deadline,
        variables: job.variables.to_string(),
        tenant_id: TENANT.into(),
        kind: kind.into(),
        listener_event_type: event.into(),
        tags: Vec::new(),
    })
}
