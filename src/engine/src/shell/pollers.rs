//! Who waits for jobs of a type: each new job wakes one of them, in order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Long polls by job type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pollers(Arc<Mutex<HashMap<String, Arc<Notify>>>>);

impl Pollers {
    /// Resolves when a job of the type has become activatable since the call.
    pub(crate) fn wait(&self, job_type: &str) -> OwnedNotified {
        let mut by_type = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Types that nobody waits for any more would pile up otherwise.
        if by_type.len() > 1000 {
            by_type.retain(|_, notify| Arc::strong_count(notify) > 1);
        }
        Arc::clone(by_type.entry(job_type.to_owned()).or_default()).notified_owned()
    }

    /// A job of the type has become activatable.
    pub(crate) fn wake(&self, job_type: &str) {
        if let Some(notify) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(job_type) {
            notify.notify_one();
        }
    }
}
