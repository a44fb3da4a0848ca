//! Hears the engine and the authority, and tells the lane's story; also to those who ask whether it is ready.

use super::story::{Heard, LaneState, Party, Story};
use crate::say::tell;
use axum::http::StatusCode;
use axum::{Router, extract::State, routing::get};
use m87_authority::proto::Job;
use m87_authority::{AuthorityClient, AuthorityError, Denial};
use m87_core::lane::{JobType, Lane};
use m87_zeebe::{BackOff, Error, Listener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How often an authority that answers is asked again.
const AGAIN: Duration = Duration::from_secs(30);

/// One lane's story, told as it goes.
#[derive(Clone)]
pub(super) struct Watch(Arc<Inner>);

struct Inner {
    started: Instant,
    story: Mutex<Story>,
}

impl Watch {
    pub(super) fn new(story: Story) -> Self {
        Self(Arc::new(Inner { started: Instant::now(), story: Mutex::new(story) }))
    }

    fn hear(&self, party: Party, subject: &str, heard: Heard) {
        let now = self.0.started.elapsed();
        let lines = self.0.story.lock().unwrap_or_else(PoisonError::into_inner).hear(party, subject, heard, now);
        for line in lines {
            tell!("{line}");
        }
    }

    fn state(&self) -> LaneState {
        self.0.story.lock().unwrap_or_else(PoisonError::into_inner).state()
    }

    /// What the worker's polls come to.
    pub(super) fn listener(&self) -> Listener {
        let watch = self.clone();
        Listener::new(move |job_type, answer| watch.hear(Party::Engine, job_type, of_engine(answer)))
    }

    /// Asks the authority, until `stop`, whether it accepts this lane.
    pub(super) async fn authority(self, lane: Lane, authority: Arc<dyn AuthorityClient>, stop: CancellationToken) {
        let mut waits = BackOff::default().start();
        loop {
            let answer = tokio::select! {
                answer = authority.brief(question(lane)) => answer.map(drop),
                () = stop.cancelled() => return,
            };
            let heard = of_authority(answer);
            let pause = if heard == Heard::Answers {
                waits.succeeded();
                AGAIN
            } else {
                waits.failed()
            };
            self.hear(Party::Authority, "", heard);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Serves `/livez` (the process turns) and `/readyz` (the lane does its jobs) until `stop`.
    pub(super) async fn health(self, listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
        let routes = Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(async |State(watch): State<Self>| ready(watch.state())))
            .with_state(self);
        axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
    }
}

const fn ready(state: LaneState) -> (StatusCode, &'static str) {
    match state {
        LaneState::Works => (StatusCode::OK, "ok\n"),
        LaneState::Starting => (StatusCode::SERVICE_UNAVAILABLE, "the engine or the authority was not heard of yet\n"),
        LaneState::Waits => (StatusCode::SERVICE_UNAVAILABLE, "the engine or the authority gives no answer\n"),
        LaneState::Refused => {
            (StatusCode::SERVICE_UNAVAILABLE, "the engine or the authority does not accept this lane\n")
        }
    }
}

/// A question that only this lane may ask, about a job that does not exist: "no such run" is said to nobody else.
fn question(lane: Lane) -> Job {
    let job = match lane {
        Lane::Proposer => JobType::Propose,
        Lane::Governance => JobType::Validate,
        Lane::Runner => JobType::EmitArtifact,
        Lane::Memory => JobType::RouteMemory,
    };
    Job { job_type: job.name().to_owned(), ..Job::default() }
}

fn of_authority(answer: Result<(), AuthorityError>) -> Heard {
    match answer {
        Ok(()) => Heard::Answers,
        Err(AuthorityError::Unavailable(why)) => Heard::Nothing(why),
        Err(AuthorityError::Refused { reason: Denial::Unauthenticated | Denial::NotYours, message }) => {
            Heard::Refuses(message)
        }
        // Any other no is one to the question, which was asked for the sake of being heard.
        Err(AuthorityError::Refused { .. }) => Heard::Answers,
    }
}

fn of_engine(answer: Result<(), &Error>) -> Heard {
    match answer {
        Ok(()) => Heard::Answers,
        Err(Error::Unavailable { message, .. }) => Heard::Nothing(message.clone()),
        Err(error @ (Error::NotFound(_) | Error::Malformed(_))) => Heard::Nothing(error.to_string()),
        Err(Error::Refused { message, .. }) => Heard::Refuses(message.clone()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn only_a_no_to_the_caller_is_a_refusal_of_the_lane() {
        for reason in Denial::ALL {
            let heard = of_authority(Err(AuthorityError::refused(*reason, "because")));
            let of_the_caller = matches!(reason, Denial::Unauthenticated | Denial::NotYours);
            assert_eq!(heard != Heard::Answers, of_the_caller, "{reason}");
        }
    }

    #[test]
    fn each_lane_asks_for_a_job_of_its_own() {
        for lane in Lane::ALL {
            assert_eq!(JobType::parse(&question(lane).job_type).unwrap().lane(), Some(lane));
        }
    }
}
