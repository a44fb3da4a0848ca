//! The calls of a gateway that m87 makes, in its own types.
//!
//! Each call has a deadline, so none hangs. A call is made once: whether to repeat it is the caller's to decide, by the
//! class of the [`Error`].

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tonic::{Request, service::interceptor::InterceptedService, transport::Channel};

use crate::{
    error::Error,
    job::{Job, JobStream},
    keys::{DefinitionKey, ElementKey, IncidentKey, InstanceKey, JobKey},
    prefix::Prefix,
    proto::{self, gateway_client::GatewayClient},
    token::{Bearer, TokenSource},
};

/// How long a call may take, unless set otherwise.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// What a held call gets beyond the time it asked to be held.
const HOLD_MARGIN: Duration = Duration::from_secs(10);
/// The limit that gateways have, in bytes.
const MESSAGE_LIMIT: usize = 4 * 1024 * 1024;

/// A gateway's client. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    bearer: Bearer,
    prefix: Prefix,
    deadline: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("prefix", &self.prefix).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Which definition an instance is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Definition {
    /// This one and no other.
    Key(DefinitionKey),
    /// The latest version of a process id (without the prefix).
    Latest(String),
}

/// A process as deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// The id of the process; without the prefix.
    pub process_id: String,
    /// Its version, counted from 1.
    pub version: i32,
    /// The key of that version.
    pub definition: DefinitionKey,
    /// The name under which the file was sent.
    pub resource: String,
}

/// An instance as started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its key.
    pub key: InstanceKey,
    /// What it is an instance of.
    pub definition: DefinitionKey,
    /// The version of that.
    pub version: i32,
}

/// How jobs are asked for.
#[derive(Debug, Clone)]
pub struct Activation {
    /// The job type; without the prefix.
    pub job_type: String,
    /// Who asks, for people who look for the job.
    pub worker: String,
    /// How long a job stays with the worker.
    pub timeout: Duration,
    /// The variables wanted; `None` for all that the job sees.
    pub variables: Option<Vec<String>>,
}

impl Client {
    /// A client on a channel ([`crate::connect`], or the embedded engine's own).
    pub fn new(channel: Channel) -> Self {
        Self { channel, bearer: Bearer::default(), prefix: Prefix::default(), deadline: CALL_DEADLINE }
    }

    /// Sends a bearer token with each call.
    #[must_use]
    pub fn with_token(mut self, source: Arc<dyn TokenSource>) -> Self {
        self.bearer = Bearer(Some(source));
        self
    }

    /// Prefixes job types and process ids on the wire. Files are deployed as they are: they must carry it already
    /// (`m87_bpmn::prefix`).
    #[must_use]
    pub fn with_prefix(mut self, prefix: Prefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// Sets how long a call may take.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The prefix on job types and process ids.
    pub const fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Whether the gateway answers a caller that brings no token at all: then anybody who reaches it can do what m87 can.
    ///
    /// # Errors
    /// If it gave neither an answer nor a no.
    pub async fn answers_anybody(&self) -> Result<bool, Error> {
        let stranger = Self { bearer: Bearer::default(), ..self.clone() };
        match stranger.topology().await {
            Ok(_) => Ok(true),
            Err(error) if error.is_about_the_caller() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn gateway(&self) -> GatewayClient<InterceptedService<Channel, Bearer>> {
        GatewayClient::with_interceptor(self.channel.clone(), self.bearer.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        held(message, self.deadline)
    }

    /// Who answers; `cluster_id` is the engine's id where it has one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn topology(&self) -> Result<proto::TopologyResponse, Error> {
        let request = self.request(proto::TopologyRequest {});
        Ok(limited(self.deadline, self.gateway().topology(request)).await?.into_inner())
    }

    /// Deploys files (name, content), all or none. A file that is the latest already keeps its version.
    ///
    /// # Errors
    /// Refused, with every problem of every file, if one cannot be executed.
    pub async fn deploy(&self, files: &[(&str, &[u8])]) -> Result<Vec<Deployed>, Error> {
        let resources = files
            .iter()
            .map(|(name, content)| proto::Resource { name: (*name).to_owned(), content: content.to_vec() })
            .collect();
        let request = self.request(proto::DeployResourceRequest { resources, tenant_id: String::new() });
        let reply = limited(self.deadline, self.gateway().deploy_resource(request)).await?.into_inner();
        let deployed = reply.deployments.into_iter().filter_map(|deployment| match deployment.metadata? {
            proto::deployment::Metadata::Process(process) => Some(Deployed {
                process_id: self.prefix.off(&process.bpmn_process_id),
                version: process.version,
                definition: DefinitionKey(process.process_definition_key),
                resource: process.resource_name,
            }),
            proto::deployment::Metadata::Decision(_)
            | proto::deployment::Metadata::DecisionRequirements(_)
            | proto::deployment::Metadata::Form(_) => None,
        });
        Ok(deployed.collect())
    }

    /// Starts an instance. If no answer comes, one may have been started all the same.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such definition.
    pub async fn create_instance(
        &self,
        definition: &Definition,
        variables: &Map<String, Value>,
    ) -> Result<Instance, Error> {
        let (process_definition_key, bpmn_process_id) = match definition {
            Definition::Key(key) => (key.0, String::new()),
            Definition::Latest(id) => (0, self.prefix.on(id)),
        };
        let request = self.request(proto::CreateProcessInstanceRequest {
            process_definition_key,
            bpmn_process_id,
            version: -1,
            variables: text(variables)?,
            ..Default::default()
        });
        let reply = limited(self.deadline, self.gateway().create_process_instance(request)).await?.into_inner();
        Ok(Instance {
            key: InstanceKey(reply.process_instance_key),
            definition: DefinitionKey(reply.process_definition_key),
            version: reply.version,
        })
    }

    /// Ends an instance. On a repeated call, "not found" means that it has ended ([`crate::absent_is_done`]).
    ///
    /// # Errors
    /// [`Error::NotFound`] if no such instance is alive.
    pub async fn cancel_instance(&self, key: InstanceKey) -> Result<(), Error> {
        let message = proto::CancelProcessInstanceRequest { process_instance_key: key.0, operation_reference: None };
        let request = self.request(message);
        limited(self.deadline, self.gateway().cancel_process_instance(request)).await.map(drop)
    }

    /// Sets variables: in this scope only, or where they are (in the root if nowhere).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the element instance is not alive.
    pub async fn set_variables(
        &self,
        element: ElementKey,
        variables: &Map<String, Value>,
        scope: Scope,
    ) -> Result<(), Error> {
        let request = self.request(proto::SetVariablesRequest {
            element_instance_key: element.0,
            variables: text(variables)?,
            local: scope == Scope::Local,
            operation_reference: None,
        });
        limited(self.deadline, self.gateway().set_variables(request)).await.map(drop)
    }

    /// Goes on after an incident. For a job without retries, give it some first.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such incident, or no longer.
    pub async fn resolve_incident(&self, key: IncidentKey) -> Result<(), Error> {
        let message = proto::ResolveIncidentRequest { incident_key: key.0, operation_reference: None };
        let request = self.request(message);
        limited(self.deadline, self.gateway().resolve_incident(request)).await.map(drop)
    }

    /// Takes up to `max` waiting jobs, holding the call up to `wait` for a first one ([`Duration::ZERO`]: not at all).
    ///
    /// # Errors
    /// Without jobs only: if the answer is cut after some came, those are returned.
    pub async fn activate_jobs(&self, ask: &Activation, max: u32, wait: Duration) -> Result<Vec<Job>, Error> {
        let message = proto::ActivateJobsRequest {
            r#type: self.prefix.on(&ask.job_type),
            worker: ask.worker.clone(),
            timeout: milliseconds(ask.timeout),
            max_jobs_to_activate: i32::try_from(max).unwrap_or(i32::MAX),
            fetch_variable: ask.variables.clone().unwrap_or_default(),
            request_timeout: if wait.is_zero() { -1 } else { milliseconds(wait) },
            tenant_ids: Vec::new(),
        };
        let limit = wait + HOLD_MARGIN;
        let mut jobs = Vec::new();
        let outcome = limited(limit, async {
            let mut replies = self.gateway().activate_jobs(held(message, limit)).await?.into_inner();
            while let Some(reply) = replies.message().await? {
                jobs.extend(reply.jobs.into_iter().map(|job| Job::from_wire(job, &self.prefix)));
            }
            Ok(())
        })
        .await;
        match outcome {
            Err(error) if jobs.is_empty() => Err(error),
            Ok(()) | Err(_) => Ok(jobs),
        }
    }

    /// Has jobs pushed as they come to be. Those that wait already are not pushed: ask for them too. With a real Zeebe
    /// this returns only when the first job is there.
    ///
    /// # Errors
    /// Refused as unimplemented by a gateway that cannot push.
    pub async fn stream_jobs(&self, ask: &Activation) -> Result<JobStream, Error> {
        // No deadline: the stream is open as long as the worker runs, and a real Zeebe sends its head with the first job.
        let request = Request::new(proto::StreamActivatedJobsRequest {
            r#type: self.prefix.on(&ask.job_type),
            worker: ask.worker.clone(),
            timeout: milliseconds(ask.timeout),
            fetch_variable: ask.variables.clone().unwrap_or_default(),
            tenant_ids: Vec::new(),
        });
        let mut gateway = self.gateway();
        let stream = gateway.stream_activated_jobs(request).await?.into_inner();
        Ok(JobStream::new(stream, self.prefix.clone()))
    }

    /// Reports a job as done, with its result. On a repeated call, "not found" means that it is.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such job, or no longer.
    pub async fn complete_job(&self, key: JobKey, variables: &Map<String, Value>) -> Result<(), Error> {
        let message = proto::CompleteJobRequest { job_key: key.0, variables: text(variables)?, result: None };
        let request = self.request(message);
        limited(self.deadline, self.gateway().complete_job(request)).await.map(drop)
    }

    /// Reports a job as failed: it may be tried `retries` times more, the first time after `back_off`. At 0 the
    /// instance waits for a person.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such job, or no longer.
    pub async fn fail_job(&self, key: JobKey, retries: i32, back_off: Duration, message: &str) -> Result<(), Error> {
        let request = self.request(proto::FailJobRequest {
            job_key: key.0,
            retries,
            error_message: message.to_owned(),
            retry_back_off: milliseconds(back_off),
            variables: String::new(),
        });
        limited(self.deadline, self.gateway().fail_job(request)).await.map(drop)
    }

    /// Ends a job in an error that the process may catch by its code.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such job, or no longer.
    pub async fn throw_error(&self, key: JobKey, code: &str, message: &str) -> Result<(), Error> {
        let request = self.request(proto::ThrowErrorRequest {
            job_key: key.0,
            error_code: code.to_owned(),
            error_message: message.to_owned(),
            variables: String::new(),
        });
        limited(self.deadline, self.gateway().throw_error(request)).await.map(drop)
    }

    /// Sets how often a job may still be tried; above 0.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such job, or no longer.
    pub async fn update_job_retries(&self, key: JobKey, retries: i32) -> Result<(), Error> {
        let message = proto::UpdateJobRetriesRequest { job_key: key.0, retries, operation_reference: None };
        let request = self.request(message);
        limited(self.deadline, self.gateway().update_job_retries(request)).await.map(drop)
    }

    /// Sets how long, from now, a job stays with its worker.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such job; refused if it is not with a worker now.
    pub async fn update_job_timeout(&self, key: JobKey, timeout: Duration) -> Result<(), Error> {
        let timeout = milliseconds(timeout);
        let message = proto::UpdateJobTimeoutRequest { job_key: key.0, timeout, operation_reference: None };
        let request = self.request(message);
        limited(self.deadline, self.gateway().update_job_timeout(request)).await.map(drop)
    }
}

/// Where [`Client::set_variables`] puts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the element's own scope.
    Local,
    /// In the nearest scope that has the variable, else in the root.
    Propagate,
}

fn held<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

/// The server is told the deadline; this holds even if it does not care.
async fn limited<T>(limit: Duration, call: impl Future<Output = Result<T, tonic::Status>>) -> Result<T, Error> {
    match tokio::time::timeout(limit + Duration::from_millis(100), call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Error::Unavailable {
            status: tonic::Code::DeadlineExceeded,
            message: format!("no answer within {limit:?}"),
        }),
    }
}

fn text(variables: &Map<String, Value>) -> Result<String, Error> {
    serde_json::to_string(variables).map_err(|error| Error::Malformed(format!("variables: {error}")))
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
