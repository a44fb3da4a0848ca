//! Copies of what the state holds, for those outside: jobs as a worker gets them, and views.

use super::command::ActivatedJob;
use super::state::State;
use crate::view::{IncidentView, InstanceView, JobView};

impl State {
    /// What a worker would be given.
    pub(super) fn activated(&self, key: i64, worker: &str, deadline: i64, fetch: &[String]) -> Option<ActivatedJob> {
        let job = self.job(key)?;
        let element = self.element(job.element)?;
        let definition = self.definition(element.definition)?;
        Some(ActivatedJob {
            key,
            job_type: job.job_type.clone(),
            kind: job.kind,
            instance: element.instance,
            definition: definition.key,
            process_id: definition.process.id.clone(),
            version: definition.version,
            element_id: element.node.clone(),
            element: job.element,
            headers: job.headers.clone(),
            worker: worker.to_owned(),
            retries: job.retries,
            deadline,
            variables: self.visible(job.element, fetch),
        })
    }

    /// A job, for reading.
    pub fn job_view(&self, key: i64) -> Option<JobView> {
        let job = self.job(key)?;
        let element = self.element(job.element)?;
        let definition = self.definition(element.definition)?;
        Some(JobView {
            key,
            job_type: job.job_type.clone(),
            kind: job.kind,
            instance: element.instance,
            definition: definition.key,
            process_id: definition.process.id.clone(),
            element_id: element.node.clone(),
            element: job.element,
            retries: job.retries,
        })
    }

    /// A running process instance, for reading.
    pub fn instance_view(&self, key: i64) -> Option<InstanceView> {
        let root = self.element(key).filter(|element| element.parent.is_none())?;
        let definition = self.definition(root.definition)?;
        Some(InstanceView {
            key,
            definition: definition.key,
            process_id: definition.process.id.clone(),
            version: definition.version,
        })
    }

    /// An open incident, for reading.
    pub fn incident_view(&self, key: i64) -> Option<IncidentView> {
        let incident = self.incident(key)?;
        let element = self.element(incident.element)?;
        Some(IncidentView {
            key,
            instance: element.instance,
            element: incident.element,
            element_id: element.node.clone(),
            job: incident.job,
            kind: incident.kind,
            message: incident.message.clone(),
        })
    }

    /// The open incidents, oldest first.
    pub fn incidents(&self) -> Vec<IncidentView> {
        self.incidents.keys().filter_map(|key| self.incident_view(*key)).collect()
    }
}
