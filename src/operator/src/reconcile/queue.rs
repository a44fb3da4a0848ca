//! What is to be looked at, and when. Each thing is in the queue at most once, is never handed out twice at the same time, and
//! comes back with growing patience after a failure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The first wait after a failure, doubled with each one more, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Work by key.
pub struct Queue<K> {
    inner: Mutex<Inner<K>>,
    wake: Notify,
}

struct Inner<K> {
    /// By instant, then by order of arrival.
    due: BTreeMap<(Instant, u64), K>,
    place: HashMap<K, (Instant, u64)>,
    /// Handed out, and not given back.
    busy: HashSet<K>,
    failures: HashMap<K, u32>,
    arrivals: u64,
    closed: bool,
}

/// What became of a thing that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing until somebody adds it again.
    Await,
    /// It is to be looked at again after this time at the latest.
    After(Duration),
    /// It failed: again, after a while.
    Retry,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        let inner = Inner {
            due: BTreeMap::new(),
            place: HashMap::new(),
            busy: HashSet::new(),
            failures: HashMap::new(),
            arrivals: 0,
            closed: false,
        };
        Self { inner: Mutex::new(inner), wake: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// To be looked at now.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// To be looked at after so long, or earlier if that was asked for.
    pub fn add_after(&self, key: K, wait: Duration) {
        let mut inner = self.inner();
        inner.put(key, Instant::now() + wait);
        drop(inner);
        self.wake.notify_one();
    }

    /// The next thing, once it is due; `None` once the queue is closed. It must be given back by [`Queue::done`].
    pub async fn take(&self) -> Option<K> {
        loop {
            let wait = {
                let mut inner = self.inner();
                if inner.closed {
                    // Others wait as well.
                    self.wake.notify_one();
                    return None;
                }
                match inner.pop(Instant::now()) {
                    Ok(key) => {
                        self.wake.notify_one();
                        return Some(key);
                    }
                    Err(next) => next,
                }
            };
            match wait {
                Some(instant) => {
                    let _ = tokio::time::timeout_at(instant, self.wake.notified()).await;
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Gives back what was taken.
    pub fn done(&self, key: &K, next: Next) {
        let mut inner = self.inner();
        inner.busy.remove(key);
        match next {
            Next::Await => {
                inner.failures.remove(key);
            }
            Next::After(wait) => {
                inner.failures.remove(key);
                inner.put(key.clone(), Instant::now() + wait);
            }
            Next::Retry => {
                let failures = inner.failures.entry(key.clone()).or_insert(0);
                *failures = failures.saturating_add(1);
                let wait = back_off(*failures);
                inner.put(key.clone(), Instant::now() + wait);
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// How many things are due, or handed out.
    pub fn depth(&self) -> usize {
        let inner = self.inner();
        let now = Instant::now();
        inner.busy.len() + inner.due.range(..=(now, u64::MAX)).count()
    }

    /// Nothing is handed out any more.
    pub fn close(&self) {
        self.inner().closed = true;
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    fn inner(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn put(&mut self, key: K, at: Instant) {
        if let Some(place) = self.place.get(&key).copied() {
            if place.0 <= at {
                return;
            }
            self.due.remove(&place);
        }
        self.arrivals += 1;
        let place = (at, self.arrivals);
        self.place.insert(key.clone(), place);
        self.due.insert(place, key);
    }

    /// The first thing that is due and in nobody's hands; else when one will be.
    fn pop(&mut self, now: Instant) -> Result<K, Option<Instant>> {
        let free = self.due.iter().find(|(_, key)| !self.busy.contains(*key)).map(|(place, key)| (*place, key.clone()));
        match free {
            Some((place, key)) if place.0 <= now => {
                self.due.remove(&place);
                self.place.remove(&key);
                self.busy.insert(key.clone());
                Ok(key)
            }
            Some((place, _)) => Err(Some(place.0)),
            None => Err(None),
        }
    }
}

/// Half of the wait is left to chance, drawn from the clock, so that what failed together does not come back together.
fn back_off(failures: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(20)));
    let wait = doubled.min(LONGEST_WAIT);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let chance = wait.as_millis() as u64 / 2 * u64::from(nanos % 1000) / 1000;
    wait / 2 + Duration::from_millis(chance)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thing_is_handed_out_once_however_often_it_was_added() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.add("a");
        }
        assert_eq!(queue.take().await, Some("a"));
        queue.add("a");
        let second = tokio::time::timeout(Duration::from_secs(5), queue.take()).await;
        assert!(second.is_err(), "it was handed out to two at the same time");
        queue.done(&"a", Next::Await);
        assert_eq!(queue.take().await, Some("a"), "what came meanwhile was lost");
        queue.done(&"a", Next::Await);
        assert!(tokio::time::timeout(Duration::from_secs(500), queue.take()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_waits_counts() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(9));
        queue.add_after("a", Duration::from_secs(1));
        queue.add_after("a", Duration::from_secs(5));
        assert_eq!(queue.take().await, Some("a"));
        assert_eq!(start.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_and_longer_and_a_success_forgets_them() {
        let queue = Queue::default();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..12 {
            let start = Instant::now();
            queue.take().await.unwrap();
            waits.push(start.elapsed());
            queue.done(&"a", Next::Retry);
        }
        assert!(waits[1] <= FIRST_WAIT && waits[11] >= LONGEST_WAIT / 2 && waits[11] <= LONGEST_WAIT, "{waits:?}");
        queue.take().await.unwrap();
        queue.done(&"a", Next::Await);
        assert_eq!(queue.inner().failures.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_does_not_hold_up_another() {
        let queue = Queue::default();
        queue.add_after("slow", Duration::from_secs(60));
        queue.add("fast");
        assert_eq!(queue.take().await, Some("fast"));
        assert_eq!(queue.depth(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_who_waits_learns_that_it_is_closed() {
        let queue = std::sync::Arc::new(Queue::<&str>::default());
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                tokio::spawn({
                    let queue = queue.clone();
                    async move { queue.take().await }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.close();
        for one in waiting {
            assert_eq!(one.await.unwrap(), None);
        }
    }
}
