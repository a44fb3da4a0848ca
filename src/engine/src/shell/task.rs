//! The task that owns the state and its journal.
//!
//! A round takes what has been asked meanwhile, carries it out on a copy of the state, commits the events, and only then makes
//! the copy the state, answers, pushes and notifies. If the commit fails the copy is dropped and everybody is refused: nobody
//! was told anything that is not on disk.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::round::Round;
use super::{Pollers, Request, Streams};
use crate::clock::Clocks;
use crate::journal::Journal;
use crate::machine::{Activation, Answer, State};
use crate::rejection::{Rejection, RejectionKind};
use crate::view::Notice;

/// How long to leave a journal alone that could not be written, if nobody asks for anything.
const RETRY: Duration = Duration::from_secs(1);

/// The task's own.
pub(crate) struct Task {
    /// `None` keeps nothing.
    pub(crate) journal: Option<Journal>,
    pub(crate) state: State,
    pub(crate) clocks: Clocks,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) committed: Arc<RwLock<State>>,
    pub(crate) notices: broadcast::Sender<Notice>,
    pub(crate) streams: Streams,
    pub(crate) pollers: Pollers,
    pub(crate) stop: CancellationToken,
    pub(crate) stopped: CancellationToken,
    /// Requests taken but not carried out yet.
    pub(crate) queue: VecDeque<Request>,
    /// Jobs to take back: who asked for them was gone when they came, or with the process before this one.
    pub(crate) returned: Vec<Activation>,
    /// The last write failed; what is on disk has to be looked at before the next.
    pub(crate) in_doubt: bool,
    pub(crate) snapshot: Option<JoinHandle<io::Result<(i64, u64)>>>,
}

impl Task {
    /// Works until the engine is stopped or every handle is gone.
    pub(crate) async fn run(mut self) {
        loop {
            // Jobs to take back do not hurry a journal that cannot be written.
            let idle = self.queue.is_empty() && (self.returned.is_empty() || self.in_doubt);
            let rest = self.rest();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    self.requests.close();
                    while let Ok(request) = self.requests.try_recv() {
                        self.queue.push_back(request);
                    }
                    self.streams.close();
                    if self.queue.is_empty() {
                        break;
                    }
                }
                request = self.requests.recv(), if idle => match request {
                    Some(request) => self.queue.push_back(request),
                    None => break,
                },
                () = tokio::time::sleep(rest), if idle => {}
                () = std::future::ready(()), if !idle => {}
            }
            while self.queue.len() < 2 * super::round::BATCH_REQUESTS
                && let Ok(request) = self.requests.try_recv()
            {
                self.queue.push_back(request);
            }
            self.round().await;
            self.tend().await;
        }
        if let Some(snapshot) = self.snapshot.take() {
            self.finish_snapshot(snapshot).await;
        }
        if let Some(journal) = self.journal.take() {
            journal.close().await;
        }
    }

    /// How long there is nothing to do unless somebody asks.
    fn rest(&self) -> Duration {
        let due = self.state.next_due().map_or(Duration::from_secs(3600), |due| {
            let left = due.saturating_sub(self.clocks.now().millis).max(0);
            Duration::from_millis(left.unsigned_abs())
        });
        if self.in_doubt { due.max(RETRY) } else { due }
    }

    async fn round(&mut self) {
        if let Err(reason) = self.settle_doubt().await {
            return self.refuse_all(&reason);
        }
        let mut round = Round::new(self.state.clone(), self.clocks.now());
        round.tick();
        let returned = std::mem::take(&mut self.returned);
        round.take_back(&returned);
        round.take(&mut self.queue);
        round.offer(&self.streams);
        if let Some(journal) = self.journal.as_mut().filter(|_| !round.batch.is_empty())
            && let Err(error) = journal.append(&round.batch).await
        {
            tracing::error!(%error, "the journal cannot be written; commands are refused until it can");
            self.in_doubt = true;
            self.returned = returned;
            return round.refuse(&unavailable(&error.to_string()));
        }
        self.state = round.state.clone();
        *self.committed.write().unwrap_or_else(PoisonError::into_inner) = self.state.clone();
        self.returned = round.deliver(&self.notices, &self.pollers);
    }

    /// After a failed write: is the batch on disk after all? Then it has happened.
    async fn settle_doubt(&mut self) -> Result<(), String> {
        if let (Some(journal), true) = (&mut self.journal, self.in_doubt) {
            let mut state = self.state.clone();
            journal.replay(&mut state).await.map_err(|error| error.to_string())?;
            self.state = state;
            *self.committed.write().unwrap_or_else(PoisonError::into_inner) = self.state.clone();
            self.in_doubt = false;
        }
        Ok(())
    }

    fn refuse_all(&mut self, reason: &str) {
        for request in self.queue.drain(..) {
            request.answer(Err(unavailable(reason)));
        }
    }

    /// Snapshots and truncation; a failure is reported and tried again later, the journal holds everything meanwhile.
    async fn tend(&mut self) {
        if self.snapshot.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(snapshot) = self.snapshot.take()
        {
            self.finish_snapshot(snapshot).await;
        }
        let Some(journal) = &mut self.journal else { return };
        if self.in_doubt {
            return;
        }
        if self.snapshot.is_none() && journal.wants_snapshot() {
            self.snapshot = Some(tokio::task::spawn_blocking(journal.snapshot(self.state.clone())));
        }
        if let Err(error) = journal.truncate().await {
            tracing::warn!(%error, "the journal was not truncated");
        }
    }

    async fn finish_snapshot(&mut self, snapshot: JoinHandle<io::Result<(i64, u64)>>) {
        let Some(journal) = &mut self.journal else { return };
        let taken = snapshot.await.map_err(io::Error::other).and_then(|written| written);
        if let Err(error) = taken.and_then(|(position, bytes)| journal.snapshot_taken(position, bytes)) {
            tracing::warn!(%error, "no snapshot was taken; the journal is kept whole");
        }
    }
}

/// However the task ends: who waits for it must not wait for ever.
impl Drop for Task {
    fn drop(&mut self) {
        self.streams.close();
        self.stop.cancel();
        self.stopped.cancel();
    }
}

fn unavailable(reason: &str) -> Rejection {
    Rejection::request(RejectionKind::Unavailable, format!("the journal cannot be written: {reason}; try again later"))
}

impl Request {
    /// Answers; if nobody listens any more, gives the answer back.
    pub(super) fn answer(self, answer: Result<Answer, Rejection>) -> Option<Answer> {
        self.reply.send(answer).err().and_then(Result::ok)
    }
}
