//! A job as the engine hands it out, and the stream of those it pushes.

use serde_json::{Map, Value};
use tonic::Streaming;

use crate::{
    error::Error,
    keys::{DefinitionKey, ElementKey, InstanceKey, JobKey},
    prefix::Prefix,
    proto,
};

/// A unit of work that the engine has handed to this worker until a deadline.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its key, by which it is completed.
    pub key: JobKey,
    /// What is to be done; without the prefix of a shared cluster.
    pub job_type: String,
    /// The instance it belongs to.
    pub instance: InstanceKey,
    /// The definition of that instance.
    pub definition: DefinitionKey,
    /// The id of the process; without the prefix.
    pub process_id: String,
    /// The version of the process.
    pub version: i32,
    /// The id of the element in the process.
    pub element_id: String,
    /// The element's instance.
    pub element: ElementKey,
    /// The task headers, a JSON object of texts, as sent.
    pub headers: String,
    /// How often it may still fail.
    pub retries: i32,
    /// When it goes back to the engine, in milliseconds since 1970 by the engine's clock.
    pub deadline_ms: i64,
    /// The variables it sees, a JSON object, as sent.
    pub variables: String,
}

impl Job {
    pub(crate) fn from_wire(job: proto::ActivatedJob, prefix: &Prefix) -> Self {
        Self {
            key: JobKey(job.key),
            job_type: prefix.off(&job.r#type),
            instance: InstanceKey(job.process_instance_key),
            definition: DefinitionKey(job.process_definition_key),
            process_id: prefix.off(&job.bpmn_process_id),
            version: job.process_definition_version,
            element_id: job.element_id,
            element: ElementKey(job.element_instance_key),
            headers: job.custom_headers,
            retries: job.retries,
            deadline_ms: job.deadline,
            variables: job.variables,
        }
    }

    /// The variables as an object.
    ///
    /// # Errors
    /// [`Error::Malformed`] if they are not one.
    pub fn variables(&self) -> Result<Map<String, Value>, Error> {
        serde_json::from_str(&self.variables).map_err(|error| {
            Error::Malformed(format!("job {}: its variables are not a JSON object: {error}", self.key))
        })
    }
}

/// Jobs as the engine pushes them. Dropping it tells the engine to push elsewhere.
#[derive(Debug)]
pub struct JobStream {
    stream: Streaming<proto::ActivatedJob>,
    prefix: Prefix,
}

impl JobStream {
    pub(crate) const fn new(stream: Streaming<proto::ActivatedJob>, prefix: Prefix) -> Self {
        Self { stream, prefix }
    }

    /// The next job; `None` when the engine has ended the stream.
    ///
    /// # Errors
    /// If the stream was cut.
    pub async fn next(&mut self) -> Result<Option<Job>, Error> {
        Ok(self.stream.message().await?.map(|job| Job::from_wire(job, &self.prefix)))
    }
}
