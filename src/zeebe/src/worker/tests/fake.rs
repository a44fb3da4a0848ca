//! A gateway of its own: jobs with deadlines and retries as Zeebe has them, and failures on demand.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::Stream;
use tokio::{sync::Notify, sync::mpsc, time::Instant};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    client::Client,
    local,
    proto::{
        self,
        gateway_server::{Gateway, GatewayServer},
    },
};

#[derive(Default)]
pub(super) struct State {
    next_key: i64,
    waiting: VecDeque<i64>,
    /// Retries of each job that is not finished.
    pub(super) retries: HashMap<i64, i32>,
    /// Until when a job is with a worker.
    active: HashMap<i64, Instant>,
    pub(super) completed: Vec<(i64, String)>,
    pub(super) failed: Vec<(i64, i32, i64, String)>,
    pub(super) thrown: Vec<(i64, String)>,
    pub(super) heartbeats: u32,
    pub(super) polls: Vec<(i32, i64)>,
    pub(super) streams_opened: u32,
    stream: Option<mpsc::UnboundedSender<Result<proto::ActivatedJob, Status>>>,
    job_timeout: Duration,
    /// Answers to give to the next reports, instead of doing them.
    pub(super) refuse_reports: VecDeque<Status>,
    pub(super) refuse_polls: VecDeque<Status>,
    /// Whether StreamActivatedJobs is known.
    pub(super) can_push: bool,
}

#[derive(Clone, Default)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Fake {
    /// A gateway and a client of it.
    pub(super) fn serve(can_push: bool) -> (Self, Client) {
        let fake = Self::default();
        fake.state().can_push = can_push;
        let (channel, incoming) = local::pair();
        let server = Server::builder().add_service(GatewayServer::new(fake.clone())).serve_with_incoming(incoming);
        tokio::spawn(server);
        (fake, Client::new(channel).with_deadline(Duration::from_secs(2)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A new job: pushed if somebody streams, else waiting.
    pub(super) fn create(&self, retries: i32) -> i64 {
        let mut state = self.state();
        state.next_key += 1;
        let key = state.next_key;
        state.retries.insert(key, retries);
        state.offer(key);
        self.changed.notify_waiters();
        key
    }

    /// Ends the stream, as a gateway that goes away does.
    pub(super) fn cut_stream(&self) {
        if let Some(stream) = self.state().stream.take() {
            let _ = stream.send(Err(Status::unavailable("the gateway is going away")));
        }
    }

    /// The job is finished by somebody else.
    pub(super) fn finish_elsewhere(&self, key: i64) {
        self.state().retries.remove(&key);
    }

    /// Waits until it holds, or fails the test.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let wait = async {
            while !holds(&self.state()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap_or_else(|_| panic!("not reached: {what}"));
    }

    fn reported<T>(&self, key: i64, then: impl FnOnce(&mut State) -> T) -> Result<T, Status> {
        let mut state = self.state();
        if let Some(status) = state.refuse_reports.pop_front() {
            return Err(status);
        }
        if !state.retries.contains_key(&key) {
            return Err(Status::not_found(format!("no such job: {key}")));
        }
        let done = then(&mut state);
        self.changed.notify_waiters();
        Ok(done)
    }
}

impl State {
    fn offer(&mut self, key: i64) {
        let job = self.activate(key);
        let pushed = self.stream.as_ref().is_some_and(|stream| stream.send(Ok(job)).is_ok());
        if !pushed {
            self.active.remove(&key);
            self.waiting.push_back(key);
        }
    }

    fn activate(&mut self, key: i64) -> proto::ActivatedJob {
        self.active.insert(key, Instant::now() + self.job_timeout);
        proto::ActivatedJob {
            key,
            r#type: "work".into(),
            retries: self.retries[&key],
            variables: r#"{"n":1}"#.into(),
            ..Default::default()
        }
    }

    /// What timed out waits again.
    fn expire(&mut self) {
        let late: Vec<i64> =
            self.active.iter().filter(|(_, until)| **until <= Instant::now()).map(|(k, _)| *k).collect();
        for key in late {
            self.active.remove(&key);
            if self.retries.contains_key(&key) {
                self.waiting.push_back(key);
            }
        }
    }
}

type Pinned<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Gateway for Fake {
    async fn activate_jobs(
        &self,
        request: Request<proto::ActivateJobsRequest>,
    ) -> Result<Response<Pinned<proto::ActivateJobsResponse>>, Status> {
        let ask = request.into_inner();
        {
            let mut state = self.state();
            state.polls.push((ask.max_jobs_to_activate, ask.request_timeout));
            state.job_timeout = Duration::from_millis(ask.timeout as u64);
            if let Some(status) = state.refuse_polls.pop_front() {
                return Err(status);
            }
        }
        let until = Instant::now() + Duration::from_millis(ask.request_timeout.max(0) as u64);
        let jobs = loop {
            let changed = self.changed.notified();
            let jobs: Vec<_> = {
                let mut state = self.state();
                state.expire();
                let wanted = (ask.max_jobs_to_activate as usize).min(state.waiting.len());
                let keys: Vec<i64> = state.waiting.drain(..wanted).collect();
                keys.into_iter()
                    .filter(|key| state.retries.contains_key(key))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .map(|key| state.activate(key))
                    .collect()
            };
            if !jobs.is_empty() || Instant::now() >= until {
                break jobs;
            }
            let _ = tokio::time::timeout(Duration::from_millis(10), changed).await;
        };
        let reply = (!jobs.is_empty()).then_some(Ok(proto::ActivateJobsResponse { jobs }));
        Ok(Response::new(Box::pin(tokio_stream::iter(reply))))
    }

    async fn stream_activated_jobs(
        &self,
        request: Request<proto::StreamActivatedJobsRequest>,
    ) -> Result<Response<Pinned<proto::ActivatedJob>>, Status> {
        let mut state = self.state();
        if !state.can_push {
            return Err(Status::unimplemented("unknown method"));
        }
        let (jobs, stream) = mpsc::unbounded_channel();
        state.job_timeout = Duration::from_millis(request.into_inner().timeout as u64);
        state.stream = Some(jobs);
        state.streams_opened += 1;
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(stream))))
    }

    async fn complete_job(
        &self,
        request: Request<proto::CompleteJobRequest>,
    ) -> Result<Response<proto::CompleteJobResponse>, Status> {
        let done = request.into_inner();
        self.reported(done.job_key, |state| {
            state.retries.remove(&done.job_key);
            state.completed.push((done.job_key, done.variables));
        })?;
        Ok(Response::new(proto::CompleteJobResponse {}))
    }

    async fn fail_job(
        &self,
        request: Request<proto::FailJobRequest>,
    ) -> Result<Response<proto::FailJobResponse>, Status> {
        let fail = request.into_inner();
        self.reported(fail.job_key, |state| {
            state.failed.push((fail.job_key, fail.retries, fail.retry_back_off, fail.error_message));
            state.retries.insert(fail.job_key, fail.retries);
            state.active.remove(&fail.job_key);
            state.waiting.push_back(fail.job_key);
        })?;
        Ok(Response::new(proto::FailJobResponse {}))
    }

    async fn throw_error(
        &self,
        request: Request<proto::ThrowErrorRequest>,
    ) -> Result<Response<proto::ThrowErrorResponse>, Status> {
        let thrown = request.into_inner();
        self.reported(thrown.job_key, |state| {
            state.retries.remove(&thrown.job_key);
            state.thrown.push((thrown.job_key, thrown.error_code));
        })?;
        Ok(Response::new(proto::ThrowErrorResponse {}))
    }

    async fn update_job_timeout(
        &self,
        request: Request<proto::UpdateJobTimeoutRequest>,
    ) -> Result<Response<proto::UpdateJobTimeoutResponse>, Status> {
        let update = request.into_inner();
        let mut state = self.state();
        if !state.retries.contains_key(&update.job_key) {
            return Err(Status::not_found("no such job"));
        }
        state.heartbeats += 1;
        let until = Instant::now() + Duration::from_millis(update.timeout as u64);
        state.active.insert(update.job_key, until);
        Ok(Response::new(proto::UpdateJobTimeoutResponse {}))
    }
}
