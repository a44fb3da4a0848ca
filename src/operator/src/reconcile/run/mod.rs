//! The reconciler of runs: observe, decide, apply, show. What it shows comes from the authority's row alone, and nothing that it
//! reads from the API server is taken for something that has happened.

pub mod decide;
mod gone;
mod observe;
mod places;
mod sink;

pub use places::OpenRuns;
pub use sink::RunSink;

use super::book::{Book, BookError};
use super::index::{Index, Key, View};
use super::queue::{Next, Queue};
use super::view::{ManifestView, PolicyView, RunView};
use super::write::{delete, put_status};
use super::{Failure, Work};
use crate::events::Events;
use crate::metrics::Metrics;
use crate::status::{Said, Subject, UNUSABLE, status};
use crate::world::call::CallError;
use crate::world::references::ClusterReferences;
use async_trait::async_trait;
use decide::{Decision, History, Waiting, decide};
use kube::Client;
use m87_api::status::to_value;
use m87_api::{GovernedRunSpec, Spec};
use m87_authority::clock::Clock;
use m87_authority::driver::Opened;
use m87_core::json::compute_hash;
use m87_core::reason::{Reason, Terminal};
use m87_core::time::Timestamp;
use observe::{Observed, Record};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A run that ends within this time has one status written.
pub const SETTLING: Duration = Duration::from_secs(1);
/// How often a run that waits for another one looks at it.
const LOOK_AT_FIRST: Duration = Duration::from_secs(2);
/// How often a run that waits for room looks for it, should nobody call it.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(30);

/// Who vouches for the actors on objects.
#[async_trait]
pub trait Admission: Send + Sync {
    /// Whether what stamps actors was installed, unchanged and old enough when an object was made; else why not.
    async fn vouches(&self, created: Timestamp) -> Result<Result<(), String>, CallError>;
}

/// How much of what happened the authority knows, since its store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// All of it.
    Whole,
    /// The store is older than its high-water mark, and refuses.
    Refusing,
    /// Such a store was accepted then: what was asked for before may have been done, and nobody knows.
    Since(Timestamp),
}

impl Memory {
    /// What it means for an object that was made then.
    fn of(self, created: Timestamp) -> History {
        match self {
            Self::Whole => History::Whole,
            Self::Refusing => History::Refusing,
            Self::Since(accepted) if created <= accepted => History::Lost,
            Self::Since(_) => History::Whole,
        }
    }
}

/// Reconciles runs.
pub struct Runs {
    /// The API server.
    pub client: Client,
    /// What they refer to.
    pub references: ClusterReferences,
    /// Runs as they are asked for.
    pub index: Arc<Index<RunView>>,
    /// Policies as they are.
    pub policies: Arc<Index<PolicyView>>,
    /// Manifests as they are.
    pub manifests: Arc<Index<ManifestView>>,
    /// Where the baseline is.
    pub own_namespace: String,
    /// What is to be looked at.
    pub queue: Arc<Queue<Work>>,
    /// Runs as they are.
    pub book: Arc<dyn Book>,
    /// How much the authority knows.
    pub history: Memory,
    /// Who vouches for actors.
    pub admission: Arc<dyn Admission>,
    /// Who is on the way, by tenant.
    pub open: Arc<OpenRuns>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Figures.
    pub metrics: Arc<Metrics>,
    /// What people must see.
    pub events: Events,
    /// When runs that are not opened were seen first, by uid.
    pub first_seen: Mutex<HashMap<String, Instant>>,
}

/// What there is to show, and when to look again.
enum Shown<'a> {
    /// Nothing new.
    Nothing(Next),
    /// This.
    Status(Said<'a>, Next),
}

impl Runs {
    /// Brings one run a step further, and says of it what is to be said.
    pub async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(view) = self.index.get(key) else {
            self.call(self.open.give_up(key));
            return Ok(Next::Await);
        };
        let observed = self.observe(&view).await?;
        let decision = decide(&observed.facts);
        tracing::debug!(?decision, "decided");
        if !wants_a_place(decision) {
            self.call(self.open.give_up(key));
        }
        if let Record::Own(run, _) = &observed.record
            && run.row.sealed().is_some()
        {
            // What was told of it late, or not at all, keeps no place.
            self.make_room(&key.namespace, &view.meta.uid);
        }
        match self.apply(&view, &observed, decision).await? {
            Shown::Nothing(next) => Ok(next),
            Shown::Status(said, next) => self.show(&view, said).await.map(|()| next),
        }
    }

    async fn apply<'o>(
        &self,
        view: &RunView,
        observed: &'o Observed,
        decision: Decision,
    ) -> Result<Shown<'o>, Failure> {
        let uid = &view.meta.uid;
        match decision {
            Decision::Leave => Ok(self.leave(observed)),
            Decision::Refuse => {
                // Gone between two questions: its deletion is told of too.
                let Some(why) = observed.unreadable.as_deref() else { return Ok(Shown::Nothing(Next::Await)) };
                self.metrics.unreadable(GovernedRunSpec::KIND);
                tracing::warn!(why, "the run cannot be read");
                Ok(Shown::Status(Said::Unusable(why), Next::Await))
            }
            Decision::Wait(waiting) => Ok(self.wait(view, waiting)),
            Decision::Open => self.open(view, observed, None).await,
            Decision::OpenEnded(reason) => self.open(view, observed, Some(reason)).await,
            Decision::End(reason) => {
                self.book.end(uid, reason).await?;
                tracing::info!(reason = reason.name(), "the run was ended");
                Ok(Shown::Nothing(Next::After(Duration::ZERO)))
            }
            Decision::Expire => {
                delete::<GovernedRunSpec>(&self.client, &self.metrics, &view.meta).await?;
                tracing::info!("the object has expired and was deleted; its receipt stays");
                Ok(Shown::Nothing(Next::Await))
            }
            Decision::ExpireLater(left) => Ok(match self.leave(observed) {
                Shown::Status(said, _) => Shown::Status(said, Next::After(left)),
                Shown::Nothing(_) => Shown::Nothing(Next::After(left)),
            }),
        }
    }

    fn leave<'o>(&self, observed: &'o Observed) -> Shown<'o> {
        match &observed.record {
            Record::None => Shown::Nothing(Next::Await),
            Record::Own(run, log_index) => {
                let age = self.clock.now().at.millis().saturating_sub(run.dossier.opened_at.millis());
                let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
                match SETTLING.checked_sub(age) {
                    Some(rest) if !rest.is_zero() && run.row.sealed().is_none() => Shown::Nothing(Next::After(rest)),
                    Some(_) | None => Shown::Status(Said::Run { run, log_index: *log_index }, Next::Await),
                }
            }
            Record::First(first, log_index) => {
                let next = if first.row.sealed().is_some() { Next::Await } else { Next::After(LOOK_AT_FIRST) };
                Shown::Status(Said::AlreadyDone { first, log_index: *log_index }, next)
            }
        }
    }

    fn wait<'o>(&self, view: &RunView, waiting: Waiting) -> Shown<'o> {
        let next = match waiting {
            // A change of the object, or of its policy, brings it back.
            Waiting::Suspended | Waiting::PolicySuspended => Next::Await,
            // Accepting it is a restart.
            Waiting::StoreRestored => Next::Await,
            Waiting::Capacity => {
                self.call(self.open.wait(view.key()));
                Next::After(LOOK_FOR_ROOM)
            }
            Waiting::References(left) => {
                let seen = observe::since(&self.first_seen, view.uid());
                // What appears within a moment is not worth a status.
                if seen < SETTLING {
                    return Shown::Nothing(Next::After(SETTLING.saturating_sub(seen).min(left)));
                }
                Next::After(left)
            }
        };
        Shown::Status(Said::Waiting(waiting), next)
    }

    async fn open<'o>(
        &self,
        view: &RunView,
        observed: &'o Observed,
        ended: Option<Reason>,
    ) -> Result<Shown<'o>, Failure> {
        let Some(request) = &observed.request else { return Ok(Shown::Nothing(Next::Retry)) };
        let (namespace, uid) = (&view.meta.key.namespace, &view.meta.uid);
        if ended.is_none() && !self.open.take_place(view.key(), uid) {
            return Ok(self.wait(view, Waiting::Capacity));
        }
        let opened = self.book.open(request, ended).await;
        match &opened {
            Ok(Opened::Run(_)) => {
                self.metrics.opened();
                observe::forget(&self.first_seen, uid);
                tracing::info!("the run was opened");
                // The authority tells of each change, and so brings it back.
                Ok(Shown::Nothing(Next::After(SETTLING)))
            }
            Ok(Opened::AlreadyDone(first)) => {
                self.make_room(namespace, uid);
                observe::forget(&self.first_seen, uid);
                tracing::info!(%first, "that run has done the same before; nothing is executed");
                Ok(Shown::Nothing(Next::After(Duration::ZERO)))
            }
            Err(error) => {
                self.make_room(namespace, uid);
                match error {
                    BookError::Unusable(why) => {
                        self.show(view, Said::Unusable(why)).await?;
                        Ok(Shown::Nothing(Next::Await))
                    }
                    BookError::Unavailable(_) => Err(error.clone().into()),
                }
            }
        }
    }

    /// Gives a place back; whoever waits for one is looked at.
    fn make_room(&self, namespace: &str, uid: &str) {
        self.call(self.open.leave_place(namespace, uid));
    }

    /// For those there is a place.
    fn call(&self, called: Vec<Key>) {
        called.into_iter().for_each(|run| self.queue.add(Work::Run(run)));
    }

    /// Writes what is to be said, unless it is said already.
    async fn show(&self, view: &RunView, said: Said<'_>) -> Result<(), Failure> {
        let subject = Subject { generation: view.meta.generation, created: view.meta.created };
        let status = status(subject, said).map_err(|error| Failure::Unwritable(error.to_string()))?;
        let value = to_value(&status);
        let hash = compute_hash(&value).map_err(|error| Failure::Unwritable(error.to_string()))?;
        if view.status.as_ref() == Some(&hash) {
            return Ok(());
        }
        if view.shown_over && self.history.of(view.meta.created) != History::Whole {
            tracing::warn!(
                "its status says how it ended in the history that is lost; that stays, though the store has another end"
            );
            return Ok(());
        }
        let written = put_status::<GovernedRunSpec>(&self.client, &self.metrics, &view.meta, &value).await?;
        if let Some(object) = written {
            self.index.apply(RunView::of(object));
            self.tell(view, said, &status);
        }
        Ok(())
    }

    /// Events are for what a person must see: a run that did not become COMPLETE, an object that cannot become a run.
    fn tell(&self, view: &RunView, said: Said<'_>, status: &m87_api::GovernedRunStatus) {
        let note = status.message.as_deref().unwrap_or_default();
        match (said, status.terminal) {
            (Said::Unusable(why), _) => self.events.warn(GovernedRunSpec::KIND, &view.meta, UNUSABLE, why),
            (Said::Run { .. }, Some(terminal)) if terminal != Terminal::Complete && !view.shown_over => {
                let reason = status.reason.map_or("Refused", Reason::name);
                let note = format!("{}: {note}", terminal.name());
                self.events.warn(GovernedRunSpec::KIND, &view.meta, reason, &note);
            }
            (Said::Run { .. } | Said::Waiting(_) | Said::AlreadyDone { .. }, _) => {}
        }
    }
}

/// Whether a run for which that was decided is opened, or would be if there were room.
const fn wants_a_place(decision: Decision) -> bool {
    match decision {
        Decision::Open | Decision::Wait(Waiting::Capacity) => true,
        Decision::Leave
        | Decision::Refuse
        | Decision::Wait(
            Waiting::StoreRestored | Waiting::Suspended | Waiting::PolicySuspended | Waiting::References(_),
        )
        | Decision::OpenEnded(_)
        | Decision::End(_)
        | Decision::Expire
        | Decision::ExpireLater(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepted_store_knows_only_of_what_was_asked_for_since() {
        let at = Timestamp::from_millis;
        let accepted = Memory::Since(at(10));
        assert_eq!(
            (accepted.of(at(9)), accepted.of(at(10)), accepted.of(at(11))),
            (History::Lost, History::Lost, History::Whole)
        );
        assert_eq!((Memory::Whole.of(at(0)), Memory::Refusing.of(at(99))), (History::Whole, History::Refusing));
    }
}
