//! The loop: look at the Deployments and at what waits, decide, apply.

use super::{Action, FIELD_MANAGER, Facts, Found, Seen, Settings, Track, name, plan, step};
use crate::world::call::{CallError, call};
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, Client};
use m87_core::lane::Lane;
use m87_engine::{Engine, Load};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// What a watch says of a lane's Deployment.
type Heard = (Lane, watcher::Result<Option<DynamicObject>>);

/// Between two looks at what waits.
const LOOK: Duration = Duration::from_secs(5);

/// Where what there is to do is known from.
#[derive(Clone)]
pub enum Loads {
    /// The embedded engine.
    Embedded(Engine),
    /// Nobody says: a real Zeebe.
    Unknown,
}

impl Loads {
    fn of(&self, lane: Lane) -> Option<Load> {
        let Self::Embedded(engine) = self else { return None };
        let by_type = engine.load();
        let mut sum = Load::default();
        for load in lane.jobs().filter_map(|job| by_type.get(job.name())) {
            sum.waiting += load.waiting;
            sum.held += load.held;
        }
        Some(sum)
    }
}

/// How a lane is, for metrics and conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The pods it should have.
    pub wanted: u32,
    /// The pods that do jobs.
    pub ready: u32,
    /// Jobs that wait; `None` where nobody knows.
    pub waiting: Option<usize>,
    /// Why its Deployment could not be written, if it could not.
    pub error: Option<String>,
}

/// How each lane is.
pub type Reports = BTreeMap<Lane, Report>;

/// Keeps the lanes' Deployments as they should be, until `stop`. Only the leader may run this.
pub async fn run(
    client: Client,
    settings: Settings,
    loads: Loads,
    reports: watch::Sender<Reports>,
    stop: CancellationToken,
) {
    let api = deployments(client, &settings.namespace);
    let events = Lane::ALL
        .map(|lane| watch_object(api.clone(), &name(lane)).default_backoff().map(move |object| (lane, object)).boxed());
    let events = futures::stream::select_all(events);
    let mut keeper = Keeper::new(api, settings, loads, reports);
    tokio::select! {
        () = keeper.keep(events) => {}
        () = stop.cancelled() => {}
    }
}

fn deployments(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<Deployment>(&()))
}

struct Keeper {
    api: Api<DynamicObject>,
    settings: Settings,
    loads: Loads,
    reports: watch::Sender<Reports>,
    /// The Deployments as last heard of, with `None` for one that does not exist; what was not heard of is left alone.
    live: BTreeMap<Lane, Option<Value>>,
    tracks: BTreeMap<Lane, Track>,
    errors: BTreeMap<Lane, String>,
    started: Instant,
}

impl Keeper {
    fn new(api: Api<DynamicObject>, settings: Settings, loads: Loads, reports: watch::Sender<Reports>) -> Self {
        Self {
            api,
            settings,
            loads,
            reports,
            live: BTreeMap::new(),
            tracks: BTreeMap::new(),
            errors: BTreeMap::new(),
            started: Instant::now(),
        }
    }

    async fn keep(&mut self, mut events: impl Stream<Item = Heard> + Unpin) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some((lane, Ok(object))) => drop(self.live.insert(lane, object.map(slim))),
                    Some((lane, Err(error))) => {
                        tracing::warn!(lane = lane.name(), %error, "a lane's Deployment cannot be watched; trying again");
                    }
                    None => return,
                },
                _ = looks.tick() => self.scale(),
            }
            self.make_it_so().await;
        }
    }

    /// Decides how many pods each lane should have.
    fn scale(&mut self) {
        let now = self.started.elapsed();
        for (lane, live) in &self.live {
            let (lane, live) = (*lane, live.as_ref());
            let seen = Seen { load: self.loads.of(lane), ready: number(live, "/status/readyReplicas").unwrap_or(0) };
            // A leader that has just begun goes on from what is there.
            let track = self.tracks.get(&lane).copied();
            let track = track.unwrap_or_else(|| Track::of(number(live, "/spec/replicas").unwrap_or(0)));
            let next = step(track, seen, self.settings.replicas, now);
            if next.wanted != track.wanted {
                tracing::info!(lane = lane.name(), from = track.wanted, to = next.wanted, "a lane is scaled");
            }
            self.tracks.insert(lane, next);
        }
    }

    fn facts(&self) -> Vec<Facts> {
        let of = |(lane, live): (&Lane, &Option<Value>)| {
            let found = match live {
                None => Found::Absent,
                Some(object) if object.pointer("/metadata/deletionTimestamp").is_some() => Found::Going,
                Some(object) => Found::There(Box::new(object.clone())),
            };
            self.tracks.get(lane).map(|track| Facts { lane: *lane, wanted: track.wanted, found })
        };
        self.live.iter().filter_map(of).collect()
    }

    async fn make_it_so(&mut self) {
        let actions = plan(&self.settings, &self.facts());
        self.errors.retain(|lane, _| actions.iter().any(|action| action.lane() == *lane));
        for action in actions {
            let (lane, done) = match action {
                Action::Apply { lane, object } => (lane, self.apply(lane, &object).await),
                Action::Delete { lane } => (lane, self.delete(lane).await),
            };
            self.note(lane, done);
        }
        self.report();
    }

    async fn apply(&mut self, lane: Lane, object: &Value) -> Result<(), CallError> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let (name, patch) = (name(lane), Patch::Apply(object));
        let applied = call(&name, self.api.patch(&name, &parameters, &patch)).await?;
        self.live.insert(lane, Some(slim(applied)));
        Ok(())
    }

    async fn delete(&self, lane: Lane) -> Result<(), CallError> {
        let name = name(lane);
        match call(&name, self.api.delete(&name, &DeleteParams::background())).await {
            Ok(_) | Err(CallError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says what went wrong once, until it goes well or wrong otherwise.
    fn note(&mut self, lane: Lane, done: Result<(), CallError>) {
        match done {
            Ok(()) => drop(self.errors.remove(&lane)),
            Err(error) => {
                let error = error.to_string();
                if self.errors.get(&lane) != Some(&error) {
                    tracing::warn!(
                        lane = lane.name(),
                        error,
                        "a lane's Deployment is not as it should be; trying again"
                    );
                }
                self.errors.insert(lane, error);
            }
        }
    }

    fn report(&self) {
        let of = |lane: Lane| Report {
            wanted: self.tracks.get(&lane).map_or(0, |track| track.wanted),
            ready: number(self.live.get(&lane).and_then(Option::as_ref), "/status/readyReplicas").unwrap_or(0),
            waiting: self.loads.of(lane).map(|load| load.waiting),
            error: self.errors.get(&lane).cloned(),
        };
        let next: Reports = Lane::ALL.into_iter().map(|lane| (lane, of(lane))).collect();
        self.reports.send_if_modified(|reports| {
            let changed = *reports != next;
            *reports = next;
            changed
        });
    }
}

/// An object as far as it is of use here; the managed fields would be most of it.
fn slim(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}

fn number(object: Option<&Value>, pointer: &str) -> Option<u32> {
    object?.pointer(pointer)?.as_u64().and_then(|number| u32::try_from(number).ok())
}
