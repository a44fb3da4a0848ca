//! How an event changes the state: the only place where a state changes.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::compile::compile;
use super::event::{DeployedResource, Event};
use super::state::{Definition, Element, Incident, Job, JobState, Shared, Stage, State, Wait};

/// An event that does not fit the state: the journal is not the one that this state came from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event does not fit the state before it: {0}")]
pub struct Misfit(String);

type Applied = Result<(), Misfit>;

impl State {
    /// Makes the change that an event describes.
    ///
    /// # Errors
    /// The event is about something that is not there. The state is then unusable; only a damaged journal leads here.
    pub fn apply(&mut self, event: &Event) -> Applied {
        match event {
            Event::Deployed { key, resources } => {
                self.used(*key);
                resources.iter().try_for_each(|resource| self.deployed(resource))
            }
            Event::Entered { key, parent, definition, node, start_at } => {
                self.entered(*key, *parent, *definition, node, start_at)
            }
            Event::Reached { key, stage } => self.change_element(*key, |element| {
                element.stage = *stage;
                element.wait = Wait::Nothing;
            }),
            Event::Opened { key } => self.change_element(*key, |element| element.wait = Wait::Children),
            Event::TokenArrived { scope, flow } => self.change_element(*scope, |element| {
                *element.tokens.entry(flow.clone()).or_insert(0) += 1;
            }),
            Event::TokensConsumed { scope, flows } => flows.iter().try_for_each(|flow| self.take_token(*scope, flow)),
            Event::VariablesSet { scope, values } => self.change_element(*scope, |element| {
                for (name, value) in values {
                    element.variables.insert(name.clone(), Shared::new(value.clone()));
                }
            }),
            Event::VariablesUpdated { key } => {
                self.used(*key);
                Ok(())
            }
            Event::Left { key } | Event::Ended { key, .. } => self.left(*key),
            Event::JobCreated { key, element, job_type, kind, retries, headers } => {
                self.used(*key);
                let job = Job {
                    job_type: job_type.clone(),
                    kind: *kind,
                    element: *element,
                    retries: *retries,
                    state: JobState::Activatable,
                    headers: headers.clone(),
                    incident: None,
                };
                self.change_element(*element, |element| element.wait = Wait::Job(*key))?;
                self.put_job(*key, job);
                Ok(())
            }
            Event::JobsActivated { jobs, deadline } => jobs.iter().try_for_each(|job| {
                self.change_job(*job, |job| job.state = JobState::Activated { deadline: *deadline })
            }),
            Event::JobReoffered { job } => self.change_job(*job, |job| job.state = JobState::Activatable),
            Event::JobDeadlineMoved { job, deadline } => {
                self.change_job(*job, |job| job.state = JobState::Activated { deadline: *deadline })
            }
            Event::JobFailed { job, retries, until } => self.change_job(*job, |job| {
                job.retries = *retries;
                job.state = match until {
                    _ if *retries <= 0 => JobState::Failed,
                    Some(until) => JobState::BackingOff { until: *until },
                    None => JobState::Activatable,
                };
            }),
            Event::JobThrew { job } => self.change_job(*job, |job| job.state = JobState::ErrorThrown),
            Event::JobRetriesSet { job, retries } => self.change_job(*job, |job| job.retries = *retries),
            Event::JobCompleted { job } | Event::JobCanceled { job } => {
                let element = self.take_job(*job)?.element;
                self.change_element(element, |element| element.wait = Wait::Nothing)
            }
            Event::IncidentRaised { key, element, job, kind, message } => {
                self.used(*key);
                match job {
                    Some(job) => self.change_job(*job, |job| job.incident = Some(*key))?,
                    None => self.change_element(*element, |element| element.wait = Wait::Incident(*key))?,
                }
                let incident = Incident { element: *element, job: *job, kind: *kind, message: message.clone() };
                self.incidents.insert(*key, Shared::new(incident));
                Ok(())
            }
            Event::IncidentResolved { key } => self.incident_resolved(*key),
        }
    }

    fn deployed(&mut self, resource: &DeployedResource) -> Applied {
        let mut compiled = compile(&resource.xml).map_err(Misfit)?;
        for process in &resource.processes {
            let at = compiled.iter().position(|candidate| candidate.id == process.process_id).ok_or_else(|| {
                Misfit(format!("resource {:?} has no process {:?}", process.resource, process.process_id))
            })?;
            let definition = Definition {
                key: process.key,
                version: process.version,
                resource: process.resource.clone(),
                xml: resource.xml.clone(),
                process: Arc::new(compiled.swap_remove(at)),
            };
            self.used(process.key);
            self.versions.entry(process.process_id.clone()).or_default().insert(process.version, process.key);
            self.definitions.insert(process.key, Shared::new(definition));
        }
        Ok(())
    }

    fn entered(&mut self, key: i64, parent: Option<i64>, definition: i64, node: &str, start_at: &[String]) -> Applied {
        self.used(key);
        let instance = match parent {
            None => {
                self.instances.insert(key);
                key
            }
            Some(parent) => {
                self.change_element(parent, |element| {
                    element.children.insert(key);
                })?;
                self.element(parent).map_or(key, |element| element.instance)
            }
        };
        let element = Element {
            instance,
            parent,
            definition,
            node: node.to_owned(),
            stage: Stage::Entering,
            wait: Wait::Nothing,
            children: OrdSet::new(),
            tokens: OrdMap::new(),
            variables: OrdMap::new(),
            start_at: start_at.to_vec(),
        };
        self.elements.insert(key, Shared::new(element));
        Ok(())
    }

    fn left(&mut self, key: i64) -> Applied {
        let element = self.elements.remove(&key).ok_or_else(|| Misfit(format!("no element instance {key}")))?;
        match element.parent {
            Some(parent) => self.change_element(parent, |element| {
                element.children.remove(&key);
            }),
            None => {
                self.instances.remove(&key);
                Ok(())
            }
        }
    }

    fn take_token(&mut self, scope: i64, flow: &str) -> Applied {
        let mut missing = false;
        self.change_element(scope, |element| match element.tokens.remove(flow) {
            Some(more @ 2..) => {
                element.tokens.insert(flow.to_owned(), more - 1);
            }
            Some(_) => {}
            None => missing = true,
        })?;
        if missing { Err(Misfit(format!("no token of flow {flow:?} in {scope}"))) } else { Ok(()) }
    }

    fn incident_resolved(&mut self, key: i64) -> Applied {
        let incident = self.incidents.remove(&key).ok_or_else(|| Misfit(format!("no incident {key}")))?;
        match incident.job {
            Some(job) => self.change_job(job, |job| job.incident = None),
            None => self.change_element(incident.element, |element| element.wait = Wait::Nothing),
        }
    }

    fn change_element(&mut self, key: i64, change: impl FnOnce(&mut Element)) -> Applied {
        let element = self.elements.get_mut(&key).ok_or_else(|| Misfit(format!("no element instance {key}")))?;
        change(element.make_mut());
        Ok(())
    }

    fn change_job(&mut self, key: i64, change: impl FnOnce(&mut Job)) -> Applied {
        let mut job = self.take_job(key)?;
        change(&mut job);
        self.put_job(key, job);
        Ok(())
    }

    /// Takes a job out, and out of the indexes.
    fn take_job(&mut self, key: i64) -> Result<Job, Misfit> {
        let job = self.jobs.remove(&key).ok_or_else(|| Misfit(format!("no job {key}")))?;
        if let Some(at) = job.state.due() {
            self.due.remove(&(at, key));
        }
        if let Some(ready) = self.ready.get_mut(&job.job_type) {
            ready.remove(&key);
            if ready.is_empty() {
                self.ready.remove(&job.job_type);
            }
        }
        Ok(Job::clone(&job))
    }

    /// Puts a job in, and into the indexes.
    fn put_job(&mut self, key: i64, job: Job) {
        if let Some(at) = job.state.due() {
            self.due.insert((at, key));
        }
        if job.state == JobState::Activatable && job.retries > 0 && job.incident.is_none() {
            self.ready.entry(job.job_type.clone()).or_default().insert(key);
        }
        self.jobs.insert(key, Shared::new(job));
    }
}
