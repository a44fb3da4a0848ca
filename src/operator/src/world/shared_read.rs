//! Reads that many ask for at the same time are made once.
//!
//! Whoever asks gets an answer whose reading began after the question was put, so it is as fresh as one of its own; an older one
//! only whoever says how old it may be. A thousand runs of one policy then cost the API server a few reads instead of thousands.

use super::call::CallError;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// What was read, and when its reading began.
type Last<T> = Option<(Instant, Result<T, CallError>)>;

/// One thing that is read.
#[derive(Debug)]
pub struct SharedRead<T>(tokio::sync::Mutex<Last<T>>);

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        Self(tokio::sync::Mutex::new(None))
    }
}

impl<T: Clone> SharedRead<T> {
    /// What is so now, or was so `age` ago: read by somebody else who asked meanwhile, or else by `read`. A failure is shared
    /// too, so that those who wait for a server that is away do not wait for each other as well; but it is no answer for later.
    pub async fn read(
        &self,
        age: Duration,
        read: impl Future<Output = Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((begun, answer)) = &*last
            && *begun + if answer.is_ok() { age } else { Duration::ZERO } >= asked
        {
            return answer.clone();
        }
        // Who asks in the same moment, for another part of the same run perhaps, is let in before it begins.
        tokio::task::yield_now().await;
        let begun = Instant::now();
        let answer = read.await;
        *last = Some((begun, answer.clone()));
        answer
    }
}

/// Many things that are read, by key; each is forgotten with its last reader.
#[derive(Debug)]
pub struct SharedReads<T>(Mutex<HashMap<String, Weak<SharedRead<T>>>>);

impl<T> Default for SharedReads<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> SharedReads<T> {
    /// What is so now; see [`SharedRead::read`].
    pub async fn read(
        &self,
        key: &str,
        read: impl Future<Output = Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        self.place(key).read(Duration::ZERO, read).await
    }

    fn place(&self, key: &str) -> Arc<SharedRead<T>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(key).and_then(Weak::upgrade) {
            return place;
        }
        places.retain(|_, place| place.strong_count() > 0);
        let place = Arc::new(SharedRead::default());
        places.insert(key.to_owned(), Arc::downgrade(&place));
        place
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A server whose value changes with time; each read takes a while, and has the value of its end.
    struct Server {
        value: AtomicU64,
        reads: AtomicU64,
    }

    impl Server {
        async fn read(&self) -> Result<u64, CallError> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            // What a read answers is at least as new as its beginning, and no newer is promised.
            let value = self.value.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(value)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_gets_what_was_read_before_it_asked_and_a_crowd_costs_two_reads() {
        let server = Arc::new(Server { value: AtomicU64::new(1), reads: AtomicU64::new(0) });
        let shared = Arc::new(SharedReads::default());
        let ask = || {
            let (server, shared) = (server.clone(), shared.clone());
            tokio::spawn(async move { shared.read("policy", server.read()).await })
        };
        let first = ask();
        tokio::time::sleep(Duration::from_millis(5)).await;
        server.value.store(2, Ordering::SeqCst);
        let crowd: Vec<_> = (0..100).map(|_| ask()).collect();
        assert_eq!(first.await.unwrap(), Ok(1));
        for one in crowd {
            assert_eq!(one.await.unwrap(), Ok(2), "an answer from before it was asked");
        }
        assert_eq!(server.reads.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn who_asks_in_the_same_moment_shares_one_read() {
        let (reads, shared) = (AtomicU64::new(0), SharedReads::default());
        let read = || async { Ok(reads.fetch_add(1, Ordering::SeqCst)) };
        let asked = tokio::join!(shared.read("a", read()), shared.read("a", read()), shared.read("a", read()));
        assert_eq!(asked, (Ok(0), Ok(0), Ok(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_the_reading_to_the_next() {
        let shared = SharedReads::default();
        let never = tokio::time::timeout(Duration::from_secs(1), shared.read("a", std::future::pending()));
        let (gave_up, next) = tokio::join!(never, shared.read("a", async { Ok(7) }));
        assert!(gave_up.is_err());
        assert_eq!(next, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_by_those_who_wait_and_is_no_answer_for_later() {
        let shared = SharedRead::default();
        let away = || async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Err(CallError::Unavailable("away".to_owned()))
        };
        let begun = Instant::now();
        let hour = Duration::from_secs(3600);
        let three = tokio::join!(shared.read(hour, away()), shared.read(hour, away()), shared.read(hour, away()));
        assert!(three.0.is_err() && three.1.is_err() && three.2.is_err());
        assert_eq!(begun.elapsed().as_secs(), 10);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(shared.read(hour, async { Ok(7) }).await, Ok(7));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(shared.read(hour, away()).await, Ok(7), "old enough for who takes it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_reads_is_forgotten() {
        let shared = SharedReads::default();
        for key in 0..100 {
            assert_eq!(shared.read(&key.to_string(), async { Ok(key) }).await, Ok(key));
        }
        assert_eq!(shared.0.lock().unwrap().len(), 1);
    }
}
