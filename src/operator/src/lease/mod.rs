//! The Lease `m87`: at most one process leads. [`decide`](decide::decide) decides; this reads and writes.
//!
//! The times in the object are for people; nothing here reads them. Where two could still lead, because somebody deletes
//! Leases or because a machine stands still between a look at the clock and a write, the store's epoch and the high-water
//! mark, both compare-and-set, keep the one that is late from having any effect.

pub mod decide;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use crate::world::call::{CallError, call, found};
use crate::world::names::LEASE;
use decide::{Config, Decision, Identity, Knowledge, Loss, Monotonic, Record, decide};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use m87_authority::world::Epoch;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// What is to be said of the lease, for readiness and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenure {
    /// Nothing is known yet.
    Unknown,
    /// Another holds it.
    Waiting(String),
    /// It cannot be read or written; the message says why.
    Blocked(String),
    /// This process leads.
    Leading,
    /// This process leads no more.
    Lost(Loss),
}

/// The lead: everything that writes stops when it is lost.
#[derive(Debug)]
pub struct Leadership {
    transitions: i64,
    until: watch::Receiver<Option<Monotonic>>,
    lost: CancellationToken,
    release: CancellationToken,
    keeper: JoinHandle<()>,
}

impl Leadership {
    /// Cancelled when this process leads no more: it must then stop everything and end.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether this process leads at this very moment.
    pub fn holds(&self) -> bool {
        self.until.borrow().is_some_and(|until| now() < until)
    }

    /// The epoch that belongs to it.
    pub const fn epoch(&self) -> LeaseEpoch {
        LeaseEpoch { transitions: self.transitions }
    }

    /// Gives it back, so that the next one need not wait. Only after everything has stopped that writes.
    pub async fn release(self) {
        self.release.cancel();
        if let Err(error) = self.keeper.await {
            tracing::error!(%error, "the lease's keeper broke");
        }
    }
}

/// The epoch of a leader: how often the lease was taken, and always later than what store and mark know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseEpoch {
    transitions: i64,
}

impl Epoch for LeaseEpoch {
    fn epoch(&self, last: i64) -> i64 {
        self.transitions.max(last.saturating_add(1))
    }
}

/// The time since the machine was booted, also while it slept.
pub fn now() -> Monotonic {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Monotonic(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// The lease, as one process sees it.
pub struct Keeper {
    api: Api<Lease>,
    place: String,
    knowledge: Knowledge,
    config: Config,
    tenure: watch::Sender<Tenure>,
}

impl Keeper {
    /// The lease `m87` of the operator's own namespace.
    pub fn new(client: Client, namespace: &str, identity: Identity, config: Config) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            place: format!("Lease {namespace}/{LEASE}"),
            knowledge: Knowledge::new(identity),
            config,
            tenure: watch::Sender::new(Tenure::Unknown),
        }
    }

    /// What is to be said of the lease from now on.
    pub fn tenure(&self) -> watch::Receiver<Tenure> {
        self.tenure.subscribe()
    }

    /// Waits for the lead; `None` if `stop` comes first, or if it is lost at once.
    pub async fn lead(mut self, stop: &CancellationToken) -> Option<Leadership> {
        loop {
            if stop.is_cancelled() {
                self.knowledge.stop();
            }
            if let Some(transitions) = self.knowledge.transitions()
                && self.knowledge.leads_until(&self.config).is_some_and(|until| now() < until)
            {
                tracing::info!(holder = self.knowledge.identity().name(), transitions, "this process leads");
                return Some(self.keep(transitions));
            }
            match decide(&self.knowledge, now(), &self.config) {
                Decision::Lost(loss) => {
                    self.say(Tenure::Lost(loss));
                    return None;
                }
                Decision::Wait(until) => {
                    self.say_waiting();
                    self.pause(until, stop).await;
                    self.look(stop).await;
                }
                Decision::Look => self.look(stop).await,
                decision @ (Decision::Create | Decision::Acquire(_) | Decision::Renew(_) | Decision::Release(_)) => {
                    self.write(&decision, stop).await
                }
            }
        }
    }

    fn keep(self, transitions: i64) -> Leadership {
        let (lost, release) = (CancellationToken::new(), CancellationToken::new());
        let (leads, until) = watch::channel(self.knowledge.leads_until(&self.config));
        self.say(Tenure::Leading);
        let keeper = tokio::spawn(self.renew(leads, lost.clone(), release.clone()));
        Leadership { transitions, until, lost, release, keeper }
    }

    /// Keeps the lead until it is lost or given back.
    async fn renew(
        mut self,
        leads: watch::Sender<Option<Monotonic>>,
        lost: CancellationToken,
        release: CancellationToken,
    ) {
        loop {
            if release.is_cancelled() {
                self.knowledge.stop();
            }
            let until = self.knowledge.holds_until(&self.config);
            leads.send_replace(self.knowledge.leads_until(&self.config));
            match decide(&self.knowledge, now(), &self.config) {
                Decision::Lost(loss) => {
                    match &loss {
                        Loss::Released => tracing::info!("the lease was released"),
                        Loss::Expired | Loss::Taken(_) | Loss::Deleted => {
                            tracing::error!(%loss, "this process leads no more")
                        }
                    }
                    leads.send_replace(None);
                    self.say(Tenure::Lost(loss));
                    lost.cancel();
                    return;
                }
                Decision::Wait(until) => {
                    // Nothing is due: whatever a call said meanwhile, the lead was confirmed after it.
                    self.say(Tenure::Leading);
                    self.pause(until, &release).await;
                }
                step @ (Decision::Look
                | Decision::Create
                | Decision::Acquire(_)
                | Decision::Renew(_)
                | Decision::Release(_)) => {
                    // Whatever a call takes: it is not waited for beyond the end of the lead.
                    let left = until.map_or(Duration::ZERO, |until| until.after(now()));
                    let step = async {
                        match &step {
                            Decision::Look => self.look(&release).await,
                            write => self.write(write, &release).await,
                        }
                    };
                    if tokio::time::timeout(left, step).await.is_err() {
                        self.knowledge.must_look();
                    }
                }
            }
        }
    }

    async fn pause(&self, until: Monotonic, wake: &CancellationToken) {
        let pause = until.after(now()).min(self.config.retry);
        wake.run_until_cancelled(sleep(pause)).await;
    }

    async fn look(&mut self, wake: &CancellationToken) {
        match found(&format!("reading {}", self.place), self.api.get(LEASE)).await {
            Ok(lease) => self.knowledge.saw(lease.as_ref().map(record), now()),
            Err(error) => self.failed(error, wake).await,
        }
    }

    async fn write(&mut self, decision: &Decision, wake: &CancellationToken) {
        let holder = self.knowledge.identity().name();
        let (what, lease, replaced) = match decision {
            Decision::Create => {
                ("creating", taken(&self.config, &holder, self.config.transitions_when_created()), None)
            }
            Decision::Acquire(record) => {
                ("taking", taken(&self.config, &holder, record.transitions.saturating_add(1)), Some(record))
            }
            Decision::Renew(record) => ("renewing", taken(&self.config, &holder, record.transitions), Some(record)),
            Decision::Release(record) => ("releasing", released(record), Some(record)),
            Decision::Look | Decision::Wait(_) | Decision::Lost(_) => return,
        };
        let (what, sent, parameters) = (format!("{what} {}", self.place), now(), PostParams::default());
        let written = match replaced {
            Some(record) => {
                let lease = Lease {
                    metadata: ObjectMeta { resource_version: Some(record.version.clone()), ..lease.metadata },
                    ..lease
                };
                call(&what, self.api.replace(LEASE, &parameters, &lease)).await
            }
            None => call(&what, self.api.create(&parameters, &lease)).await,
        };
        match written {
            Ok(lease) if replaced.is_none() => self.knowledge.created(record(&lease), sent, now(), &self.config),
            Ok(lease) => self.knowledge.wrote(record(&lease), sent, now()),
            Err(error) => self.failed(error, wake).await,
        }
    }

    /// Whatever was seen is in doubt now. Unless somebody was only quicker, it is not asked again at once.
    async fn failed(&mut self, error: CallError, wake: &CancellationToken) {
        self.knowledge.must_look();
        match &error {
            CallError::Conflict(_) | CallError::NotFound(_) => {}
            CallError::Forbidden(_) | CallError::Refused(_) | CallError::Unavailable(_) => {
                tracing::warn!(%error, "the lease cannot be read or written");
                self.say(Tenure::Blocked(error.to_string()));
                // A leader has no time to lose, and others none to waste.
                let pause = self.config.retry / if self.knowledge.holds_until(&self.config).is_some() { 4 } else { 1 };
                wake.run_until_cancelled(sleep(pause)).await;
                if wake.is_cancelled() {
                    sleep(pause).await;
                }
            }
        }
    }

    fn say_waiting(&self) {
        if let Some(holder) = self.knowledge.other_holder() {
            self.say(Tenure::Waiting(holder.to_owned()));
        }
    }

    fn say(&self, tenure: Tenure) {
        self.tenure.send_if_modified(|before| {
            let is_news = *before != tenure;
            *before = tenure;
            is_news
        });
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: Duration::from_secs(spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok()).unwrap_or(0)),
        transitions: spec.lease_transitions.map_or(0, i64::from),
    }
}

fn lease(holder: &str, seconds: i32, transitions: i64) -> Lease {
    let at = Some(MicroTime(Timestamp::now()));
    Lease {
        metadata: ObjectMeta {
            name: Some(LEASE.to_owned()),
            labels: Some(crate::world::labels()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            // What does not fit any more is what the store and the mark count on from.
            lease_transitions: Some(i32::try_from(transitions).unwrap_or(i32::MAX)),
            acquire_time: at.clone(),
            renew_time: at,
            ..LeaseSpec::default()
        }),
    }
}

fn taken(config: &Config, holder: &str, transitions: i64) -> Lease {
    lease(holder, i32::try_from(config.duration.as_secs()).unwrap_or(i32::MAX), transitions)
}

/// Nobody's, and short, so that older readers do not wait for it either.
fn released(record: &Record) -> Lease {
    lease("", 1, record.transitions)
}
