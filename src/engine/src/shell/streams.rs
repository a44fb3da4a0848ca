//! Who takes jobs by push: streams of a job type take turns, and one that is full or gone is passed over.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, OwnedPermit};

use crate::machine::{ActivatedJob, StreamRequest};

/// Jobs that may be on their way to one subscriber; beyond that it is passed over.
const IN_FLIGHT: usize = 64;

/// The open streams by job type; `None` once the engine has stopped.
#[derive(Debug, Clone)]
pub(crate) struct Streams(Arc<Mutex<Option<HashMap<String, Ring>>>>);

type Ring = VecDeque<(StreamRequest, mpsc::Sender<ActivatedJob>)>;

/// A stream that has room, and the room.
pub(crate) struct Place {
    pub(crate) stream: StreamRequest,
    pub(crate) permit: OwnedPermit<ActivatedJob>,
}

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(HashMap::new()))))
    }
}

impl Streams {
    /// Opens a stream; it ends at once if the engine has stopped.
    pub(crate) fn open(&self, request: StreamRequest) -> mpsc::Receiver<ActivatedJob> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT);
        if let Some(by_type) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            by_type.entry(request.job_type.clone()).or_default().push_back((request, sender));
        }
        receiver
    }

    /// The next stream of the type that has room for a job.
    pub(crate) fn place(&self, job_type: &str) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let by_type = open.as_mut()?;
        let ring = by_type.get_mut(job_type)?;
        let mut found = None;
        for _ in 0..ring.len() {
            let Some((stream, sender)) = ring.pop_front() else { break };
            match sender.clone().try_reserve_owned() {
                Ok(permit) => {
                    found = Some(Place { stream: stream.clone(), permit });
                    ring.push_back((stream, sender));
                    break;
                }
                Err(TrySendError::Full(_)) => ring.push_back((stream, sender)),
                Err(TrySendError::Closed(_)) => {}
            }
        }
        if ring.is_empty() {
            by_type.remove(job_type);
        }
        found
    }

    /// Ends every stream, those to come too.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
