//! Calls that are held until there is something to say.

use crate::authority::{Authority, Live};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout};

/// The longest a call is held while nothing changes.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// A call about a run that is held.
pub(super) struct Held {
    live: Arc<Live>,
    until: Instant,
    /// How often to look although nothing was heard: whether an attempt still lives, nobody tells.
    look: Duration,
}

impl Held {
    /// Holds a call that asks to be held for so many milliseconds.
    pub(super) fn of(authority: &Authority, uid: &str, wait_ms: i64) -> Self {
        let wait = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0)).min(LONGEST_HOLD);
        Self { live: authority.live(uid), until: Instant::now() + wait, look: authority.options.look }
    }

    /// The next change of the run. To be taken before the run is looked at, so that none is missed.
    pub(super) fn change(&self) -> Pin<Box<Notified<'_>>> {
        let mut change = Box::pin(self.live.changed.notified());
        change.as_mut().enable();
        change
    }

    /// Waits for that change, or until it is time to look again; false once the call has been held for long enough.
    pub(super) async fn wait(&self, change: Pin<Box<Notified<'_>>>) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let _ = timeout(left.min(self.look), change).await;
        true
    }
}
