//! Where jobs come from: polls and the stream, held back by the slots that are free.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::{Instant, sleep},
};

use super::{Line, task};
use crate::{
    back_off::Waits,
    error::Error,
    job::{Job, JobStream},
};

/// What the stream tells the polls.
struct Push {
    /// Jobs are being pushed, as far as is known: polls need only sweep.
    open: AtomicBool,
    /// Something changed: sweep now.
    sweep: Notify,
}

impl Push {
    /// Resolves when a stream has opened.
    async fn opened(&self) {
        loop {
            self.sweep.notified().await;
            if self.open.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Takes jobs of one type until told to stop.
pub(super) async fn take_jobs(line: Line) {
    let line = Arc::new(line);
    let push = Push { open: AtomicBool::new(line.options.push), sweep: Notify::new() };
    let stream = async {
        if line.options.push {
            have_pushed(&line, &push).await;
        }
    };
    tokio::join!(stream, poll(&line, &push));
}

async fn poll(line: &Arc<Line>, push: &Push) {
    let mut waits = line.options.back_off.start();
    while let Some(mut slots) = free_slots(line).await {
        let pushed = push.open.load(Ordering::Relaxed);
        let wait = if pushed { Duration::ZERO } else { line.options.hold };
        let wanted = slots.num_permits();
        let asked = Instant::now();
        let mut answer = Box::pin(ask(line.clone(), wanted, wait));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            () = line.stop.cancelled() => return,
            // What the stream that is open again brings needs the slots, which a held poll would keep from it.
            () = push.opened(), if !pushed => {
                line.tasks.spawn(give_back(line.clone(), answer));
                continue;
            }
        };
        if let Some(listener) = &line.options.listener {
            (listener.0)(&line.ask.job_type, answer.as_ref().map(|_| ()));
        }
        let pause = match answer {
            Ok(jobs) => {
                recovered(line, "polling", &mut waits);
                let taken = jobs.len();
                for job in jobs {
                    // A gateway that sends more than was asked for gets the surplus done too, beyond the slots.
                    start(line, job, slots.split(1));
                }
                if taken >= wanted {
                    Duration::ZERO
                } else if pushed {
                    line.options.sweep
                } else if taken == 0 && asked.elapsed() < line.options.hold / 2 {
                    // It was not held: ask at a pace that does no harm.
                    line.options.back_off.first
                } else {
                    Duration::ZERO
                }
            }
            Err(error) => failed(line, "polling", &error, &mut waits),
        };
        drop(slots);
        tokio::select! {
            () = line.stop.cancelled() => return,
            () = sleep(pause) => {}
            () = push.sweep.notified(), if !waits.failing() => {}
        }
    }
}

async fn ask(line: Arc<Line>, wanted: usize, wait: Duration) -> Result<Vec<Job>, Error> {
    line.client.activate_jobs(&line.ask, u32::try_from(wanted).unwrap_or(u32::MAX), wait).await
}

/// Hands back what a poll brings that nobody has slots for any more: cut off, it might have taken jobs already.
async fn give_back(line: Arc<Line>, answer: impl Future<Output = Result<Vec<Job>, Error>>) {
    let jobs = tokio::select! {
        biased;
        answer = answer => answer.unwrap_or_default(),
        () = line.stop.cancelled() => return,
    };
    jobs.into_iter().for_each(|job| hand_back(&line, job));
}

async fn have_pushed(line: &Arc<Line>, push: &Push) {
    let mut waits = line.options.back_off.start();
    loop {
        push.open.store(true, Ordering::Relaxed);
        let opening = tokio::select! {
            () = line.stop.cancelled() => return,
            opening = line.client.stream_jobs(&line.ask) => opening,
        };
        let ended = match opening {
            Ok(stream) => {
                // What came to be before the stream was open is not pushed.
                push.sweep.notify_one();
                match pump(line, stream, &mut waits).await {
                    Ended::Stop => return,
                    Ended::Stale => continue,
                    Ended::Server => Error::Unavailable {
                        status: tonic::Code::Unavailable,
                        message: "the gateway ended the stream".into(),
                    },
                    Ended::Cut(error) => error,
                }
            }
            Err(error) => error,
        };
        push.open.store(false, Ordering::Relaxed);
        push.sweep.notify_one();
        if ended.is_unimplemented() {
            tracing::info!(job_type = line.ask.job_type, "the gateway does not push jobs: polling");
            return;
        }
        let pause = failed(line, "the stream of jobs", &ended, &mut waits);
        tokio::select! {
            () = line.stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

enum Ended {
    Stop,
    /// There was no slot for so long that what lies in the buffer is running out of time.
    Stale,
    Server,
    Cut(Error),
}

async fn pump(line: &Arc<Line>, mut stream: JobStream, waits: &mut Waits) -> Ended {
    loop {
        let next = tokio::select! {
            () = line.stop.cancelled() => {
                while let Some(Ok(Some(job))) = stream.next().now_or_never() {
                    hand_back(line, job);
                }
                return Ended::Stop;
            }
            next = stream.next() => next,
        };
        let job = match next {
            Ok(Some(job)) => job,
            Ok(None) => return Ended::Server,
            Err(error) => return Ended::Cut(error),
        };
        recovered(line, "the stream of jobs", waits);
        // No slot: nothing more is read, and the gateway's flow control sends new jobs elsewhere.
        let slot = tokio::time::timeout(line.options.timeout / 2, line.slots.clone().acquire_owned());
        tokio::select! {
            () = line.stop.cancelled() => hand_back(line, job),
            slot = slot => match slot {
                Ok(slot) => start(line, job, slot.ok()),
                Err(_) => {
                    hand_back(line, job);
                    return Ended::Stale;
                }
            }
        }
    }
}

/// Every slot that is free now, at least one; `None` when told to stop.
async fn free_slots(line: &Line) -> Option<OwnedSemaphorePermit> {
    let mut slots = tokio::select! {
        () = line.stop.cancelled() => return None,
        slot = line.slots.clone().acquire_owned() => slot.ok()?,
    };
    while let Ok(slot) = line.slots.clone().try_acquire_owned() {
        slots.merge(slot);
    }
    Some(slots)
}

fn start(line: &Arc<Line>, job: Job, slot: Option<OwnedSemaphorePermit>) {
    let work = task::work(line.clone(), job);
    line.tasks.spawn(async move {
        work.await;
        drop(slot);
    });
}

fn hand_back(line: &Arc<Line>, job: Job) {
    line.tasks.spawn(task::hand_back(line.clone(), job));
}

/// Says so once per series of failures; the wait before the next try.
fn failed(line: &Line, what: &str, error: &Error, waits: &mut Waits) -> Duration {
    let job_type = &line.ask.job_type;
    if waits.failing() {
        tracing::debug!(job_type, %error, "{what} still fails");
    } else {
        tracing::warn!(job_type, %error, "{what} failed; trying again");
    }
    waits.failed()
}

fn recovered(line: &Line, what: &str, waits: &mut Waits) {
    if waits.failing() {
        tracing::info!(job_type = line.ask.job_type, "{what} works again");
        waits.succeeded();
    }
}
