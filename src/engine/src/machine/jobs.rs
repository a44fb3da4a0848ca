//! Jobs: handed out, finished, failed, and offered again when their time is up.

use super::command::{ActivateRequest, ActivatedJob, Activation, Answer, JobKind, StreamRequest};
use super::event::Event;
use super::process::{Stop, Walk, reject};
use super::state::{Job, JobState, Stage};
use crate::document::Document;
use crate::rejection::RejectionKind;
use crate::view::IncidentKind;

/// What the jobs of one answer may weigh: a gRPC message holds 4 MiB, and its frame needs some. The others stay on offer.
const BATCH_BYTES: usize = 3_900_000;

/// Jobs that one tick may offer again, so that no command is unbounded; the next tick follows at once.
const TICK_JOBS: usize = 1_000;

impl Walk {
    pub(super) fn activate(&mut self, request: &ActivateRequest) -> Result<Answer, Stop> {
        let invalid =
            |what: &str| reject(RejectionKind::InvalidArgument, format!("Expected to activate job batch with {what}"));
        if request.job_type.trim().is_empty() {
            return invalid("type to be present, but it was blank");
        }
        if request.timeout < 1 {
            return invalid(&format!("timeout to be greater than zero, but it was '{}'", request.timeout));
        }
        if request.max_jobs < 1 {
            return invalid("max jobs to activate to be greater than zero, but it was '0'");
        }
        let deadline = self.now.millis.saturating_add(request.timeout);
        let waiting: Vec<i64> = self.state.ready(&request.job_type).take(request.max_jobs).collect();
        let mut jobs = Vec::with_capacity(waiting.len());
        let mut weight = 0;
        for key in waiting {
            let Some(job) = self.state.activated(key, &request.worker, deadline, &request.fetch) else { continue };
            let own = weigh(&job);
            if own > BATCH_BYTES {
                self.too_large(&job, own)?;
            } else if weight + own > BATCH_BYTES {
                break;
            } else {
                weight += own;
                jobs.push(job);
            }
        }
        self.hand_out(jobs, deadline)
    }

    pub(super) fn push(&mut self, key: i64, stream: &StreamRequest) -> Result<Answer, Stop> {
        let deadline = self.now.millis.saturating_add(stream.timeout);
        let Some(job) = self.state.activated(key, &stream.worker, deadline, &stream.fetch) else {
            return Ok(Answer::Activated(Vec::new()));
        };
        if !self.state.is_ready(&job.job_type, key) {
            return Ok(Answer::Activated(Vec::new()));
        }
        let weight = weigh(&job);
        if weight > BATCH_BYTES {
            self.too_large(&job, weight)?;
            return Ok(Answer::Activated(Vec::new()));
        }
        self.hand_out(vec![job], deadline)
    }

    fn hand_out(&mut self, jobs: Vec<ActivatedJob>, deadline: i64) -> Result<Answer, Stop> {
        if !jobs.is_empty() {
            self.emit(Event::JobsActivated { jobs: jobs.iter().map(|job| job.key).collect(), deadline })?;
        }
        Ok(Answer::Activated(jobs))
    }

    fn too_large(&mut self, job: &ActivatedJob, weight: usize) -> Result<(), Stop> {
        let key = self.new_key();
        self.emit(Event::IncidentRaised {
            key,
            element: job.element,
            job: Some(job.key),
            kind: IncidentKind::MessageSizeExceeded,
            message: format!(
                "The job with key '{}' is too large to be handed out: {weight} bytes of at most {BATCH_BYTES}; \
                 fetch fewer variables or make them smaller",
                job.key
            ),
        })
    }

    pub(super) fn hand_back(&mut self, jobs: &[Activation]) -> Result<Answer, Stop> {
        for Activation { job, deadline } in jobs {
            if self.state.job(*job).is_some_and(|job| job.state == JobState::Activated { deadline: *deadline }) {
                self.emit(Event::JobReoffered { job: *job })?;
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn tick(&mut self) -> Result<Answer, Stop> {
        for job in self.state.overdue(self.now.millis, TICK_JOBS) {
            self.emit(Event::JobReoffered { job })?;
        }
        Ok(Answer::Done)
    }

    pub(super) fn complete(&mut self, key: i64, variables: Document) -> Result<Answer, Stop> {
        let job = self.workable(key, "complete")?;
        self.close_incident_of(key)?;
        self.emit(Event::JobCompleted { job: key })?;
        let Some(element) = self.state.element(job.element).cloned() else { return Ok(Answer::Done) };
        let variables = variables.into_map();
        let next = match (job.kind, element.stage) {
            (JobKind::StartListener, Stage::Starting(at)) => {
                self.set_local(job.element, variables)?;
                Stage::Starting(at + 1)
            }
            (JobKind::EndListener, Stage::Ending(at)) => {
                self.propagate(element.parent.unwrap_or(job.element), variables)?;
                Stage::Ending(at + 1)
            }
            _ => {
                let mapped = self.state.node(&element).is_some_and(|node| !node.outputs.is_empty());
                if mapped {
                    self.set_local(job.element, variables)?;
                } else {
                    self.propagate(job.element, variables)?;
                }
                Stage::Leaving
            }
        };
        self.todo.push_back((job.element, next));
        Ok(Answer::Done)
    }

    pub(super) fn fail(
        &mut self,
        key: i64,
        retries: i32,
        back_off: i64,
        message: &str,
        variables: Document,
    ) -> Result<Answer, Stop> {
        let job = self.workable(key, "fail")?;
        self.close_incident_of(key)?;
        self.set_local(job.element, variables.into_map())?;
        let until = (retries > 0 && back_off > 0).then(|| self.now.millis.saturating_add(back_off));
        self.emit(Event::JobFailed { job: key, retries, until })?;
        if retries <= 0 {
            self.no_retries(key, message)?;
        }
        Ok(Answer::Done)
    }

    pub(super) fn throw_for_job(
        &mut self,
        key: i64,
        code: &str,
        message: &str,
        variables: Document,
    ) -> Result<Answer, Stop> {
        let job = self.workable(key, "throw an error for")?;
        if job.kind != JobKind::Element {
            let reason =
                format!("Expected to throw an error for job with key '{key}', but it is the job of a listener");
            return reject(RejectionKind::InvalidState, reason);
        }
        self.close_incident_of(key)?;
        match self.catcher(job.element, code) {
            Some(catcher) => self.catch(catcher, variables.into_map())?,
            None => {
                self.emit(Event::JobThrew { job: key })?;
                let failure = super::lifecycle::uncaught(code, message);
                self.raise_for_job(key, &job, failure.kind, failure.message)?;
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn update_retries(&mut self, key: i64, retries: i32) -> Result<Answer, Stop> {
        self.known(key, "update retries for job")?;
        if retries < 1 {
            let reason = format!(
                "Expected to update retries for job with key '{key}' with a positive amount of retries, \
                 but the amount given was '{retries}'"
            );
            return reject(RejectionKind::InvalidArgument, reason);
        }
        self.emit(Event::JobRetriesSet { job: key, retries })?;
        Ok(Answer::Done)
    }

    pub(super) fn update_timeout(&mut self, key: i64, timeout: i64) -> Result<Answer, Stop> {
        let job = self.known(key, "update job deadline")?;
        if !matches!(job.state, JobState::Activated { .. }) {
            let reason = format!("Expected to update the timeout of job with key '{key}', but it is not active");
            return reject(RejectionKind::InvalidState, reason);
        }
        self.emit(Event::JobDeadlineMoved { job: key, deadline: self.now.millis.saturating_add(timeout) })?;
        Ok(Answer::Done)
    }

    /// The job has no retries left: an incident.
    pub(super) fn no_retries(&mut self, key: i64, message: &str) -> Result<(), Stop> {
        let Some(job) = self.state.job(key).cloned() else { return Ok(()) };
        let kind = match job.kind {
            JobKind::Element => IncidentKind::JobNoRetries,
            JobKind::StartListener | JobKind::EndListener => IncidentKind::ExecutionListenerNoRetries,
        };
        let message = if message.is_empty() { "No more retries left." } else { message };
        self.raise_for_job(key, &job, kind, message.to_owned())
    }

    fn raise_for_job(&mut self, key: i64, job: &Job, kind: IncidentKind, message: String) -> Result<(), Stop> {
        let incident = self.new_key();
        self.emit(Event::IncidentRaised { key: incident, element: job.element, job: Some(key), kind, message })
    }

    /// Whatever was wrong with the job does not matter any more.
    pub(super) fn close_incident_of(&mut self, job: i64) -> Result<(), Stop> {
        match self.state.job(job).and_then(|job| job.incident) {
            Some(key) => self.emit(Event::IncidentResolved { key }),
            None => Ok(()),
        }
    }

    fn known(&self, key: i64, what: &str) -> Result<Job, Stop> {
        match self.state.job(key) {
            Some(job) => Ok(job.clone()),
            None => reject(
                RejectionKind::NotFound,
                format!("Expected to {what} with key '{key}', but no such job was found"),
            ),
        }
    }

    /// The job, if a worker may finish it: it is on offer or handed out. A late answer is as good as one in time.
    fn workable(&self, key: i64, what: &str) -> Result<Job, Stop> {
        let job = self.known(key, &format!("{what} job"))?;
        match job.state {
            JobState::Activatable | JobState::Activated { .. } => Ok(job),
            JobState::BackingOff { .. } | JobState::Failed | JobState::ErrorThrown => reject(
                RejectionKind::InvalidState,
                format!("Expected to {what} job with key '{key}', but it is in state '{}'", job.state.name()),
            ),
        }
    }
}

/// About what the job takes in a message.
fn weigh(job: &ActivatedJob) -> usize {
    let headers: usize = job.headers.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
    job.variables.to_string().len() + headers + job.job_type.len() + job.worker.len() + job.element_id.len() + 128
}
