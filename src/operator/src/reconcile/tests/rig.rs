//! Everything that reconciles, over an API server and a book in memory, on a clock of its own.

use super::api::FakeApi;
use crate::events::events;
use crate::metrics::Metrics;
use crate::objects::everywhere;
use crate::reconcile::book::{Book, BookError};
use crate::reconcile::index::{Index, Key, View};
use crate::reconcile::manifest::Manifests;
use crate::reconcile::policy::{Policies, Processes};
use crate::reconcile::queue::Queue;
use crate::reconcile::retention::PoliciesSeen;
use crate::reconcile::run::{Admission, Memory, OpenRuns, RunSink, Runs};
use crate::reconcile::view::{ManifestView, PolicyView, RunView};
use crate::reconcile::watch::{Heartbeat, Listener, Watch};
use crate::reconcile::{Reconcilers, ReferencesSeen, RunsSeen, Work};
use crate::world::call::CallError;
use crate::world::references::ClusterReferences;
use async_trait::async_trait;
use m87_api::{GovernancePolicySpec, GovernedRunSpec, Spec};
use m87_authority::clock::{Clock, Now, Wall};
use m87_authority::driver::{Deployed, Opened, RunRequest};
use m87_authority::row::{Closing, Definition, Ending, Row, Run, Sealed, State};
use m87_authority::world::StatusSink;
use m87_core::decide::decide;
use m87_core::dossier::{Dossier, ProcessPin, RunIdentity};
use m87_core::evidence::{Evidence, Interrupted};
use m87_core::fixtures;
use m87_core::policy::PolicySpec;
use m87_core::reason::Reason;
use m87_core::time::Timestamp;
use m87_core::tool::ManifestSpec;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) const OWN_NAMESPACE: &str = "m87-system";

/// The clock of everything: the runtime's own, which a test moves.
pub(super) struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Now {
        let millis = 1_769_860_800_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap();
        Now { at: Timestamp::from_millis(millis), wall: Wall(millis) }
    }
}

/// An authority in memory: rows by uid, and effects by key.
pub(super) struct MemoryBook {
    rows: Mutex<HashMap<String, Run>>,
    effects: Mutex<HashMap<String, String>>,
    clock: Arc<dyn Clock>,
    sink: RunSink,
    /// What becomes of a run right after it was opened.
    pub(super) seals_after: Mutex<Option<Duration>>,
    /// The uid of the policy that is pinned.
    pub(super) policy_uid: Mutex<String>,
}

impl MemoryBook {
    fn change(&self, uid: &str, change: impl FnOnce(&mut Run)) {
        let run = {
            let mut rows = self.rows.lock().unwrap();
            let run = rows.get_mut(uid).unwrap();
            change(run);
            run.clone()
        };
        self.sink.changed(&run);
    }

    /// Ends a run as decided by that evidence, unless it is over.
    pub(super) fn seal(&self, uid: &str, evidence: Evidence) {
        if self.rows.lock().unwrap()[uid].row.sealed().is_some() {
            return;
        }
        let at = self.clock.now().at;
        self.change(uid, |run| {
            let verdict = decide(&run.dossier, &evidence);
            let closing = Closing { claim: None, ending: Ending::Alone, at };
            let receipt_hash = "ab".repeat(32);
            let sealed = Sealed { receipt_hash, terminal: verdict.terminal, reason: verdict.reason };
            run.row = Row { state: State::Sealed(closing, sealed), evidence, ..run.row.clone() };
        });
    }

    /// Tells of a run as it was.
    pub(super) fn tell(&self, run: &Run) {
        self.sink.changed(run);
    }

    pub(super) fn row(&self, uid: &str) -> Option<Run> {
        self.rows.lock().unwrap().get(uid).cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.rows.lock().unwrap().len()
    }
}

#[async_trait]
impl Book for MemoryBook {
    async fn load(&self, uid: &str) -> Result<Option<Run>, BookError> {
        Ok(self.row(uid))
    }

    async fn log_index(&self, _uid: &str) -> Result<Option<u64>, BookError> {
        Ok(Some(1))
    }

    async fn first(&self, request: &RunRequest) -> Result<Option<String>, BookError> {
        let key = request.idempotency_key.as_ref().unwrap_or(&request.name);
        let first = self.effects.lock().unwrap().get(key).cloned();
        Ok(first.filter(|first| Some(first) != request.uid.as_ref()))
    }

    async fn open(&self, request: &RunRequest, ended: Option<Reason>) -> Result<Opened, BookError> {
        let uid = request.uid.clone().unwrap();
        let key = request.idempotency_key.clone().unwrap_or_else(|| request.name.clone());
        let run = RunIdentity { name: request.name.clone(), uid: uid.clone(), idempotency_key: key.clone() };
        let mut policy = fixtures::dossier().policy.unwrap();
        (policy.name, policy.uid) = (request.policy.clone(), self.policy_uid.lock().unwrap().clone());
        let dossier = Dossier {
            namespace: request.namespace.clone(),
            policy: Some(policy),
            run,
            actor: request.actor.clone(),
            opened_at: self.clock.now().at,
            ..fixtures::dossier()
        };
        let opened = Run { dossier: Arc::new(dossier), row: Row::open(Wall(0)) };
        assert!(self.rows.lock().unwrap().insert(uid.clone(), opened.clone()).is_none(), "opened twice");
        self.effects.lock().unwrap().insert(key, uid.clone());
        self.sink.changed(&opened);
        if let Some(reason) = ended {
            self.end(&uid, reason).await?;
        } else if self.seals_after.lock().unwrap().is_some_and(|after| after.is_zero()) {
            self.seal(&uid, fixtures::evidence());
        }
        Ok(Opened::Run(uid))
    }

    async fn end(&self, uid: &str, reason: Reason) -> Result<(), BookError> {
        let interrupted = Some(Interrupted { reason, at: self.clock.now().at });
        self.seal(uid, Evidence { interrupted, ..Evidence::default() });
        Ok(())
    }

    async fn unsealed(&self) -> Result<Vec<String>, BookError> {
        let rows = self.rows.lock().unwrap();
        Ok(rows.iter().filter(|(_, run)| run.row.sealed().is_none()).map(|(uid, _)| uid.clone()).collect())
    }
}

struct Everybody;

#[async_trait]
impl Admission for Everybody {
    async fn vouches(&self, _created: Timestamp) -> Result<Result<(), String>, CallError> {
        Ok(Ok(()))
    }
}

#[async_trait]
impl Processes for Everybody {
    async fn deploy(&self, _policy: &PolicySpec) -> Result<Result<Deployed, String>, String> {
        let pin = ProcessPin { id: "p".to_owned(), bpmn_sha256: "cd".repeat(32) };
        Ok(Ok(Deployed { engine_id: "e".to_owned(), pin, definition: Definition { key: 1, version: 1 } }))
    }
}

pub(super) struct Rig {
    pub(super) api: FakeApi,
    pub(super) book: Arc<MemoryBook>,
    pub(super) heartbeat: Arc<Heartbeat>,
    stop: CancellationToken,
}

impl Rig {
    /// Starts everything over what is in the API server now; `open` are runs that an earlier authority has left open.
    pub(super) fn start_over(api: FakeApi, open: Vec<Run>) -> Self {
        let (queue, metrics) = (Arc::new(Queue::<Work>::default()), Arc::new(Metrics::default()));
        let places = Arc::new(OpenRuns::at_most(3));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock(Instant::now()));
        let sink = RunSink { queue: queue.clone(), open: places.clone(), metrics: metrics.clone() };
        let rows = open.into_iter().map(|run| (run.dossier.run.uid.clone(), run)).collect();
        let book = Arc::new(MemoryBook {
            rows: Mutex::new(rows),
            effects: Mutex::default(),
            clock: clock.clone(),
            sink,
            seals_after: Mutex::default(),
            policy_uid: Mutex::default(),
        });
        let (client, stop) = (api.client(), CancellationToken::new());
        let (events, recording) = events(client.clone(), "test", metrics.clone());
        tokio::spawn(recording.run(stop.clone()));
        let runs: Arc<Index<RunView>> = Arc::default();
        let policies: Arc<Index<PolicyView>> = Arc::default();
        let manifests: Arc<Index<ManifestView>> = Arc::default();
        let reconcilers = Arc::new(Reconcilers {
            runs: Runs {
                client: client.clone(),
                references: ClusterReferences::new(client.clone(), OWN_NAMESPACE),
                index: runs.clone(),
                policies: policies.clone(),
                manifests: manifests.clone(),
                own_namespace: OWN_NAMESPACE.to_owned(),
                queue: queue.clone(),
                book: book.clone(),
                history: Memory::Whole,
                admission: Arc::new(Everybody),
                open: places,
                clock: clock.clone(),
                metrics: metrics.clone(),
                events: events.clone(),
                first_seen: Mutex::default(),
            },
            policies: Policies {
                client: client.clone(),
                index: policies.clone(),
                processes: Arc::new(Everybody),
                own_namespace: OWN_NAMESPACE.to_owned(),
                clock: clock.clone(),
                metrics: metrics.clone(),
                events,
            },
            manifests: Manifests { client: client.clone(), index: manifests.clone(), clock, metrics: metrics.clone() },
            queue: queue.clone(),
            metrics,
        });
        let baseline = Key::baseline(OWN_NAMESPACE);
        let policies_seen = PoliciesSeen::new(queue.clone(), runs.clone(), policies.clone(), baseline);
        let manifests_seen = ReferencesSeen {
            queue: queue.clone(),
            runs: runs.clone(),
            referred: |spec| &spec.manifest_ref.name,
            by_all: None,
            work: Work::Manifest,
        };
        follow::<GovernancePolicySpec, _>(&client, policies, Arc::new(policies_seen), &stop);
        follow::<ManifestSpec, _>(&client, manifests, Arc::new(manifests_seen), &stop);
        let synced = Arc::new(Notify::new());
        let runs_seen = Arc::new(RunsSeen { queue, synced: synced.clone() });
        let heartbeat = follow::<GovernedRunSpec, _>(&client, runs, runs_seen, &stop);
        let (working, until) = (reconcilers.clone(), stop.clone());
        tokio::spawn(async move {
            // As the operator does: only once all is there.
            while !(working.policies.index.is_synced() && working.manifests.index.is_synced()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::spawn(working.clone().run(until));
            loop {
                synced.notified().await;
                working.runs.look_for_gone().await.unwrap();
            }
        });
        Self { api, book, heartbeat, stop }
    }

    /// Everything, over a policy and a manifest.
    pub(super) fn start() -> Self {
        let api = FakeApi::new();
        references(&api);
        Self::start_over(api, Vec::new())
    }

    pub(super) fn run(&self, name: &str) -> String {
        apply_run(&self.api, name, json!({}))
    }

    /// What the status of a run says at that place.
    pub(super) fn says(&self, name: &str, pointer: &str) -> Value {
        self.api.status(GovernedRunSpec::PLURAL, name).pointer(pointer).cloned().unwrap_or_default()
    }

    /// The reason of a run's `Ready` condition.
    pub(super) fn ready_reason(&self, name: &str) -> String {
        let conditions = self.says(name, "/conditions");
        let ready = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "Ready");
        ready.map(|ready| ready["reason"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    pub(super) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn follow<S: Spec, V: View>(
    client: &kube::Client,
    index: Arc<Index<V>>,
    listener: Arc<dyn Listener<V>>,
    stop: &CancellationToken,
) -> Arc<Heartbeat> {
    let heartbeat = Arc::new(Heartbeat::default());
    let api = everywhere::<S>(client.clone());
    let watch = Watch { api, kind: S::KIND, index, listener, heartbeat: heartbeat.clone() };
    let stop = stop.clone();
    tokio::spawn(async move { watch.run(stop).await });
    heartbeat
}

/// A policy and a manifest.
pub(super) fn references(api: &FakeApi) {
    apply_policy(api, json!({}));
    let manifest = ManifestSpec { tools: vec![fixtures::tool()] };
    api.apply(ManifestSpec::KIND, ManifestSpec::PLURAL, "tools", serde_json::to_value(manifest).unwrap(), json!({}));
}

pub(super) fn apply_policy(api: &FakeApi, more: Value) -> String {
    let spec = merged(serde_json::to_value(fixtures::policy()).unwrap(), more);
    api.apply(GovernancePolicySpec::KIND, GovernancePolicySpec::PLURAL, "rules", spec, json!({}))
}

pub(super) fn apply_baseline(api: &FakeApi, more: Value) {
    let spec = merged(serde_json::to_value(fixtures::policy()).unwrap(), more);
    let (kind, plural) = (GovernancePolicySpec::KIND, GovernancePolicySpec::PLURAL);
    api.apply_in(OWN_NAMESPACE, kind, plural, "baseline", spec, json!({}));
}

pub(super) fn apply_run(api: &FakeApi, name: &str, more: Value) -> String {
    let spec = json!({
        "policyRef": {"name": "rules"}, "manifestRef": {"name": "tools"},
        "proposal": fixtures::dossier().proposal, "actor": {"username": "jane"},
    });
    api.apply(GovernedRunSpec::KIND, GovernedRunSpec::PLURAL, name, merged(spec, more), json!({}))
}

fn merged(mut spec: Value, more: Value) -> Value {
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}
