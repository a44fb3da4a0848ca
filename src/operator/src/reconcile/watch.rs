//! The watch of one kind: a full list, then every change from there on; again from the start when the server no longer knows
//! where we were.
//!
//! A watch can die without a word. The server ends each one after a minute, sends bookmarks meanwhile, and whatever is silent
//! for longer is given up; so the time since the last sign of life says how old at most the view is.

use super::index::{Index, Key, View};
use futures::{StreamExt, pin_mut};
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How many objects are asked for at one time.
const PAGE: u32 = 500;
/// When the server ends a watch.
const WATCH_SECONDS: u32 = 60;
/// How long a server may take to answer, or a watch may be silent.
const SILENCE: Duration = Duration::from_secs(75);
/// Between two tries.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Told of what a watch sees, after the index has it.
pub trait Listener<V>: Send + Sync {
    /// There is this version of an object.
    fn applied(&self, key: Key);
    /// An object is gone, or another has its place.
    fn gone(&self, key: Key, uid: String);
    /// A full list was taken in.
    fn synced(&self);
}

/// When there was a sign of life last.
#[derive(Debug)]
pub struct Heartbeat(Mutex<Instant>);

impl Default for Heartbeat {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Heartbeat {
    /// There is one.
    pub fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long ago the last one was.
    pub fn age(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// A watch of one kind.
pub struct Watch<V> {
    /// The kind's API.
    pub api: Api<DynamicObject>,
    /// The kind, for people.
    pub kind: &'static str,
    /// What is seen.
    pub index: Arc<Index<V>>,
    /// Who is told.
    pub listener: Arc<dyn Listener<V>>,
    /// Signs of life.
    pub heartbeat: Arc<Heartbeat>,
}

/// Why a watch has to be opened again.
enum Broken {
    /// It ended, as they do: go on from where it was.
    Ended,
    /// The server no longer knows where we were: list again.
    Expired,
    /// It failed: try again after a while, from where it was.
    Failed(String),
}

impl<V: View> Watch<V> {
    /// Watches until stopped.
    pub async fn run(&self, stop: CancellationToken) {
        let forever = async {
            let mut wait = FIRST_WAIT;
            let mut version: Option<String> = None;
            loop {
                let tried = Instant::now();
                let outcome = match version.clone() {
                    Some(from) => self.follow(from, &mut version).await,
                    None => match self.list().await {
                        Ok(at) => {
                            version = Some(at);
                            wait = FIRST_WAIT;
                            continue;
                        }
                        Err(broken) => broken,
                    },
                };
                match outcome {
                    Broken::Ended => {
                        wait = FIRST_WAIT;
                        // Whoever ends each watch at once is not asked at full speed.
                        tokio::time::sleep(FIRST_WAIT.saturating_sub(tried.elapsed())).await;
                    }
                    Broken::Expired => {
                        tracing::info!(kind = self.kind, "the watch is too old: listing again");
                        version = None;
                        // A server that expires whatever it has just listed is not asked at full speed.
                        tokio::time::sleep(FIRST_WAIT).await;
                    }
                    Broken::Failed(why) => {
                        tracing::warn!(kind = self.kind, why, "the watch failed; it is tried again");
                        if tried.elapsed() > LONGEST_WAIT {
                            wait = FIRST_WAIT;
                        }
                        tokio::time::sleep(wait).await;
                        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
                    }
                }
            }
        };
        tokio::select! {
            () = forever => {}
            () = stop.cancelled() => {}
        }
    }

    /// Takes in everything there is; answers where to watch from.
    async fn list(&self) -> Result<String, Broken> {
        let mut listed = HashMap::new();
        let mut parameters = ListParams::default().limit(PAGE);
        let version = loop {
            let page = timeout(SILENCE, self.api.list(&parameters)).await.map_err(|_| silent())?.map_err(broken)?;
            self.heartbeat.beat();
            for object in page.items {
                let view = V::of(object);
                listed.insert(view.key().clone(), view.uid().to_owned());
                self.apply(view);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = ListParams::default().limit(PAGE).continue_token(&token),
                None => break page.metadata.resource_version.unwrap_or_default(),
            }
        };
        for (key, uid) in self.index.retain(&listed) {
            self.listener.gone(key, uid);
        }
        self.index.set_synced();
        self.listener.synced();
        Ok(version)
    }

    /// Follows what changes until the watch breaks; `version` is where to go on from then.
    async fn follow(&self, from: String, version: &mut Option<String>) -> Broken {
        let parameters = WatchParams::default().timeout(WATCH_SECONDS);
        let stream = match timeout(SILENCE, self.api.watch(&parameters, &from)).await {
            Err(_) => return silent(),
            Ok(Err(error)) => return broken(error),
            Ok(Ok(stream)) => stream,
        };
        self.heartbeat.beat();
        pin_mut!(stream);
        loop {
            let event = match timeout(SILENCE, stream.next()).await {
                Err(_) => return silent(),
                Ok(None) => return Broken::Ended,
                Ok(Some(Err(error))) => return broken(error),
                Ok(Some(Ok(event))) => event,
            };
            self.heartbeat.beat();
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let view = V::of(object);
                    *version = Some(view.resource_version().to_owned());
                    self.apply(view);
                }
                WatchEvent::Deleted(object) => {
                    let view = V::of(object);
                    *version = Some(view.resource_version().to_owned());
                    self.index.remove(view.key(), view.uid());
                    self.listener.gone(view.key().clone(), view.uid().to_owned());
                }
                WatchEvent::Bookmark(bookmark) => *version = Some(bookmark.metadata.resource_version),
                WatchEvent::Error(status) => return broken(kube::Error::Api(status)),
            }
        }
    }

    fn apply(&self, view: V) {
        let key = view.key().clone();
        let before = self.index.get(&key).map(|known| known.uid().to_owned()).filter(|uid| uid != view.uid());
        if let Some(uid) = before {
            self.listener.gone(key.clone(), uid);
        }
        if self.index.apply(view) {
            self.listener.applied(key);
        }
    }
}

fn silent() -> Broken {
    Broken::Failed(format!("no word from the API server for {} s", SILENCE.as_secs()))
}

fn broken(error: kube::Error) -> Broken {
    match &error {
        kube::Error::Api(status) if status.code == 410 => Broken::Expired,
        _ => Broken::Failed(error.to_string()),
    }
}
