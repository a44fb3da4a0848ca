//! The watches, the reconcilers behind them, and what readiness has to say of both.

use super::Shared;
use crate::admission::{Admission, Judgement};
use crate::health::{Part, PartState};
use crate::lanes::Reports;
use crate::objects::everywhere;
use crate::reconcile::index::{Index, Key, View};
use crate::reconcile::manifest::Manifests;
use crate::reconcile::policy::Policies;
use crate::reconcile::queue::Queue;
use crate::reconcile::retention::PoliciesSeen;
use crate::reconcile::run::{self, Memory, OpenRuns, Runs};
use crate::reconcile::view::{ManifestView, PolicyView, RunView};
use crate::reconcile::watch::{Heartbeat, Listener, Watch};
use crate::reconcile::{Reconcilers, ReferencesSeen, RunsSeen, Work};
use crate::world::call::CallError;
use async_trait::async_trait;
use m87_api::{GovernancePolicySpec, GovernedRunSpec, Spec};
use m87_authority::clock::{Clock, SystemClock};
use m87_authority::driver::Driver;
use m87_core::time::Timestamp;
use m87_core::tool::ManifestSpec;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Between two looks at the watches and at admission.
const LOOK: Duration = Duration::from_secs(2);
/// The same, while somebody waits for readiness.
const LOOK_UNTIL_READY: Duration = Duration::from_millis(100);
/// A watch from which nothing was heard for so long is not to be counted on: the server ends each after a minute.
const SILENT: Duration = Duration::from_secs(150);

/// What is known of each kind, and what is to be looked at.
pub(super) struct Kinds {
    pub(super) queue: Arc<Queue<Work>>,
    pub(super) open: Arc<OpenRuns>,
    runs: Arc<Index<RunView>>,
    policies: Arc<Index<PolicyView>>,
    manifests: Arc<Index<ManifestView>>,
}

impl Kinds {
    pub(super) fn new(max_open_runs: usize) -> Self {
        Self {
            queue: Arc::default(),
            open: Arc::new(OpenRuns::at_most(max_open_runs)),
            runs: Arc::default(),
            policies: Arc::default(),
            manifests: Arc::default(),
        }
    }
}

/// The admission policies as the reconciler of runs asks for them.
#[async_trait]
impl run::Admission for Admission {
    async fn vouches(&self, created: Timestamp) -> Result<Result<(), String>, CallError> {
        Ok(match self.attest(created).await? {
            Judgement::Attested => Ok(()),
            Judgement::Unattested { why } => Err(why),
        })
    }
}

/// Starts watches and reconcilers.
pub(super) async fn start(shared: &Shared, kinds: Kinds, driver: Driver, history: Memory) -> anyhow::Result<()> {
    let Shared { config, client, metrics, events, tasks, .. } = shared;
    hold_places(&kinds.open, &driver).await?;
    let admission = Arc::new(Admission::new(client.clone(), &config.namespace, "m87")?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let reconcilers = Arc::new(Reconcilers {
        runs: Runs {
            client: client.clone(),
            references: shared.references.clone(),
            index: kinds.runs.clone(),
            policies: kinds.policies.clone(),
            manifests: kinds.manifests.clone(),
            own_namespace: config.namespace.clone(),
            queue: kinds.queue.clone(),
            book: Arc::new(driver.clone()),
            history,
            admission: admission.clone(),
            open: kinds.open.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            events: events.clone(),
            first_seen: Mutex::default(),
        },
        policies: Policies {
            client: client.clone(),
            index: kinds.policies.clone(),
            processes: Arc::new(driver),
            own_namespace: config.namespace.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            events: events.clone(),
        },
        manifests: Manifests {
            client: client.clone(),
            index: kinds.manifests.clone(),
            clock,
            metrics: metrics.clone(),
        },
        queue: kinds.queue.clone(),
        metrics: metrics.clone(),
    });
    let synced = Arc::new(Notify::new());
    let beats = watches(shared, &kinds, synced.clone());
    tasks.spawn(look(shared.clone(), kinds, beats, admission));
    tasks.spawn(begin(shared.clone(), reconcilers, synced));
    Ok(())
}

/// Runs that an earlier leader has opened are open.
async fn hold_places(open: &OpenRuns, driver: &Driver) -> anyhow::Result<()> {
    let store = driver.authority().store();
    for uid in store.unsealed().await? {
        if let Some(loaded) = store.load(&uid).await? {
            open.hold_place(&loaded.run.dossier.namespace.name, &uid);
        }
    }
    Ok(())
}

/// Nothing is decided about runs before policies and manifests have been seen; and after each full list, runs whose objects
/// went unseen are looked for.
async fn begin(shared: Shared, reconcilers: Arc<Reconcilers>, synced: Arc<Notify>) {
    let Shared { stop, tasks, .. } = shared;
    let all_there = async {
        while !(reconcilers.policies.index.is_synced() && reconcilers.manifests.index.is_synced()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if stop.run_until_cancelled(all_there).await.is_none() {
        return;
    }
    tasks.spawn(reconcilers.clone().run(stop.clone()));
    while stop.run_until_cancelled(synced.notified()).await.is_some() {
        if let Err(error) = reconcilers.runs.look_for_gone().await {
            tracing::warn!(%error, "runs without objects could not be looked for; it is done again within a minute");
        }
    }
}

/// The heartbeats of the watches, by kind.
struct Beats {
    runs: Arc<Heartbeat>,
    policies: Arc<Heartbeat>,
    manifests: Arc<Heartbeat>,
}

fn watches(shared: &Shared, kinds: &Kinds, synced: Arc<Notify>) -> Beats {
    let (queue, runs) = (&kinds.queue, &kinds.runs);
    Beats {
        policies: follow::<GovernancePolicySpec, _>(
            shared,
            kinds.policies.clone(),
            Arc::new(PoliciesSeen::new(
                queue.clone(),
                runs.clone(),
                kinds.policies.clone(),
                Key::baseline(&shared.config.namespace),
            )),
        ),
        manifests: follow::<ManifestSpec, _>(
            shared,
            kinds.manifests.clone(),
            Arc::new(ReferencesSeen {
                queue: queue.clone(),
                runs: runs.clone(),
                referred: |spec| &spec.manifest_ref.name,
                by_all: None,
                work: Work::Manifest,
            }),
        ),
        runs: follow::<GovernedRunSpec, _>(shared, runs.clone(), Arc::new(RunsSeen { queue: queue.clone(), synced })),
    }
}

fn follow<S: Spec, V: View>(shared: &Shared, index: Arc<Index<V>>, listener: Arc<dyn Listener<V>>) -> Arc<Heartbeat> {
    let heartbeat = Arc::new(Heartbeat::default());
    let api = everywhere::<S>(shared.client.clone());
    let watch = Watch { api, kind: S::KIND, index, listener, heartbeat: heartbeat.clone() };
    let stop = shared.stop.clone();
    shared.tasks.spawn(async move { watch.run(stop).await });
    heartbeat
}

/// Tells readiness and figures how things stand, until stopped.
async fn look(shared: Shared, kinds: Kinds, beats: Beats, admission: Arc<Admission>) {
    let mut installed_once = false;
    loop {
        let figures = [
            (GovernedRunSpec::KIND, kinds.runs.len(), kinds.runs.is_synced(), beats.runs.age()),
            (GovernancePolicySpec::KIND, kinds.policies.len(), kinds.policies.is_synced(), beats.policies.age()),
            (ManifestSpec::KIND, kinds.manifests.len(), kinds.manifests.is_synced(), beats.manifests.age()),
        ];
        for (kind, objects, _, age) in figures {
            shared.metrics.watch(kind, objects, age.as_secs());
        }
        shared.metrics.load(kinds.open.len(), kinds.queue.depth());
        shared.health.set(Part::Watches, of_watches(&figures));
        let judged = admission.standing(SystemClock.now().at).await;
        installed_once |= matches!(judged, Ok(Judgement::Attested));
        shared.health.set(Part::Admission, of_admission(judged, installed_once));
        let pause = if shared.health.is_ready() { LOOK } else { LOOK_UNTIL_READY };
        if shared.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

fn of_watches(figures: &[(&'static str, usize, bool, Duration)]) -> PartState {
    for (kind, _, synced, age) in figures {
        if !synced {
            return PartState::Waiting(format!("not every {kind} has been seen"));
        }
        if *age > SILENT {
            return PartState::Waiting(format!("nothing was heard of {kind} for more than {} s", SILENT.as_secs()));
        }
    }
    PartState::Well
}

/// Without the policies every actor is a non-human one, which is safe: only on a first install is it worth waiting for them.
fn of_admission(judged: Result<Judgement, CallError>, installed_once: bool) -> PartState {
    let worse = |why: String| if installed_once { PartState::Degraded(why) } else { PartState::Waiting(why) };
    match judged {
        Ok(Judgement::Attested) => PartState::Well,
        Ok(Judgement::Unattested { why }) => worse(why),
        Err(error) => worse(error.to_string()),
    }
}

/// Says in readiness and figures whether the lanes have pods. Runs wait for them safely.
pub(super) async fn lanes(shared: Shared, mut reports: watch::Receiver<Reports>) {
    loop {
        let reports_now = reports.borrow_and_update().clone();
        shared.health.set(Part::Lanes, of_lanes(&reports_now));
        for (lane, report) in &reports_now {
            shared.metrics.lane(*lane, report);
        }
        let changed = shared.stop.run_until_cancelled(reports.changed()).await;
        if !matches!(changed, Some(Ok(()))) {
            return;
        }
    }
}

fn of_lanes(reports: &Reports) -> PartState {
    let waiting = reports.iter().find_map(|(lane, report)| match &report.error {
        Some(error) => Some(format!("{}: {error}", lane.name())),
        None => (report.ready == 0).then(|| format!("{} has no pod that is ready", lane.name())),
    });
    match (reports.is_empty(), waiting) {
        (true, _) => PartState::Degraded("nothing is known of the lanes yet".to_owned()),
        (false, Some(why)) => PartState::Degraded(why),
        (false, None) => PartState::Well,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_is_waited_for_on_a_first_install_and_degraded_later() {
        let absent = || Ok(Judgement::Unattested { why: "it is absent".to_owned() });
        assert_eq!(of_admission(absent(), false), PartState::Waiting("it is absent".to_owned()));
        assert_eq!(of_admission(absent(), true), PartState::Degraded("it is absent".to_owned()));
        assert_eq!(of_admission(Ok(Judgement::Attested), false), PartState::Well);
    }

    #[test]
    fn a_watch_that_is_silent_or_not_complete_is_not_counted_on() {
        let second = Duration::from_secs(1);
        assert_eq!(of_watches(&[("a", 0, true, second), ("b", 9, true, second)]), PartState::Well);
        assert!(matches!(of_watches(&[("a", 0, true, second), ("b", 9, false, second)]), PartState::Waiting(_)));
        assert!(matches!(of_watches(&[("a", 0, true, SILENT + second)]), PartState::Waiting(_)));
    }
}
