//! One round of the task: commands carried out on a copy of the state, and what is to be told once they are on disk.

use std::collections::VecDeque;

use tokio::sync::broadcast;
use tokio::sync::mpsc::OwnedPermit;

use super::{Pollers, Request, Streams};
use crate::journal;
use crate::machine::{ActivatedJob, Activation, Answer, Command, Event, Now, State, Step, process};
use crate::rejection::{Intent, Rejection, RejectionKind};
use crate::view::Notice;

/// Requests, and bytes of events, that one commit holds at most.
pub(super) const BATCH_REQUESTS: usize = 512;
const BATCH_BYTES: usize = 4 << 20;

/// A round under way.
pub(super) struct Round {
    pub(super) state: State,
    now: Now,
    /// The events so far, as the journal writes them.
    pub(super) batch: Vec<u8>,
    answers: Vec<(Request, Result<Answer, Rejection>)>,
    /// Jobs that were put on offer.
    offered: Vec<i64>,
    pushed: Vec<(OwnedPermit<ActivatedJob>, ActivatedJob)>,
    /// Types of jobs that are left to polling.
    waiting: Vec<String>,
    notices: Vec<Notice>,
}

impl Round {
    pub(super) const fn new(state: State, now: Now) -> Self {
        Self {
            state,
            now,
            batch: Vec::new(),
            answers: Vec::new(),
            offered: Vec::new(),
            pushed: Vec::new(),
            waiting: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Deadlines and back-offs that have passed.
    pub(super) fn tick(&mut self) {
        if self.state.next_due().is_some_and(|due| due <= self.now.millis) {
            self.by_itself(Command::Tick);
        }
    }

    /// Jobs that did not reach who asked for them.
    pub(super) fn take_back(&mut self, jobs: &[Activation]) {
        if !jobs.is_empty() {
            self.by_itself(Command::HandBack(jobs.to_vec()));
        }
    }

    /// Carries out what has been asked, as much as one commit holds.
    pub(super) fn take(&mut self, queue: &mut VecDeque<Request>) {
        while self.answers.len() < BATCH_REQUESTS && self.batch.len() < BATCH_BYTES {
            let Some(mut request) = queue.pop_front() else { return };
            // Who has gone meanwhile (a cancelled poll) wants nothing any more.
            if request.reply.is_closed() && matches!(request.command, Command::Activate(_)) {
                continue;
            }
            let command = std::mem::replace(&mut request.command, Command::Tick);
            let answer = self.carry_out(command);
            self.answers.push((request, answer));
        }
    }

    /// Gives jobs that were put on offer to streams with room; the others wait for a poll.
    pub(super) fn offer(&mut self, streams: &Streams) {
        for job in std::mem::take(&mut self.offered) {
            let Some(view) = self.state.job_view(job) else { continue };
            let Some(place) = streams.place(&view.job_type) else {
                self.waiting.push(view.job_type);
                continue;
            };
            match self.carry_out(Command::Push { job, stream: place.stream }) {
                Ok(Answer::Activated(jobs)) => {
                    if let Some(job) = jobs.into_iter().next() {
                        self.pushed.push((place.permit, job));
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::error!(%error, job, "a job was not pushed; it waits for a poll"),
            }
        }
    }

    /// The batch is on disk: tells everybody. Answers the jobs that nobody was there to take.
    pub(super) fn deliver(self, notices: &broadcast::Sender<Notice>, pollers: &Pollers) -> Vec<Activation> {
        let mut untaken = Vec::new();
        for (request, answer) in self.answers {
            if let Some(Answer::Activated(jobs)) = request.answer(answer) {
                untaken.extend(jobs.iter().map(ActivatedJob::activation));
            }
        }
        for (permit, job) in self.pushed {
            permit.send(job);
        }
        self.waiting.iter().for_each(|job_type| pollers.wake(job_type));
        for notice in self.notices {
            // Nobody may be listening.
            let _ = notices.send(notice);
        }
        untaken
    }

    /// The batch is not on disk: nothing happened.
    pub(super) fn refuse(self, rejection: &Rejection) {
        for (request, _) in self.answers {
            request.answer(Err(rejection.clone()));
        }
    }

    /// A command that nobody asked for.
    fn by_itself(&mut self, command: Command) {
        if let Err(error) = self.carry_out(command) {
            tracing::error!(%error, "the engine could not do its own work");
        }
    }

    fn carry_out(&mut self, command: Command) -> Result<Answer, Rejection> {
        let Step { state, events, answer } = process(&self.state, command, self.now)?;
        if events.is_empty() {
            return Ok(answer);
        }
        let written = self.batch.len();
        if let Err(error) = journal::encode(&events, &mut self.batch) {
            self.batch.truncate(written);
            return Err(Rejection::new(RejectionKind::ProcessingError, Intent::Update, error.to_string()));
        }
        let before = std::mem::replace(&mut self.state, state);
        self.offered.extend(events.iter().filter_map(Event::offers));
        let notices = events.iter().filter_map(|event| notice(event, &before, &self.state));
        self.notices.extend(notices);
        Ok(answer)
    }
}

fn notice(event: &Event, before: &State, after: &State) -> Option<Notice> {
    match event {
        Event::Ended { key, ending } => Some(Notice::Ended { instance: *key, ending: *ending }),
        Event::IncidentRaised { key, .. } => after.incident_view(*key).map(Notice::Raised),
        Event::IncidentResolved { key } => {
            before.incident_view(*key).map(|view| Notice::Resolved { incident: *key, instance: view.instance })
        }
        _ => None,
    }
}
