//! What is known of a run: the only step that reads.

use super::Runs;
use super::decide::{Capacity, Facts, References, Stand, needs_request};
use crate::objects::within;
use crate::reconcile::Failure;
use crate::reconcile::index::{Key, View};
use crate::reconcile::view::RunView;
use crate::status::{Said, Subject, status};
use crate::world::call::found;
use m87_api::status::to_value;
use m87_api::{GovernedRunSpec, Spec};
use m87_authority::driver::RunRequest;
use m87_authority::row::{Run, State};
use m87_core::actor::{Actor, Attestation};
use m87_core::dossier::Named;
use m87_core::json::compute_hash;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Seconds of patience with a run that names none.
const DEADLINE_SECONDS: i64 = 3600;

/// What was found.
pub(super) struct Observed {
    /// What is decided by.
    pub(super) facts: Facts,
    /// What the authority has.
    pub(super) record: Record,
    /// What would be opened; `None` where nothing would be.
    pub(super) request: Option<RunRequest>,
    /// Why the object cannot be read; `None` if it can.
    pub(super) unreadable: Option<String>,
}

/// What the authority has of a run, and where the receipt is.
pub(super) enum Record {
    /// Nothing.
    None,
    /// Its own row.
    Own(Run, Option<u64>),
    /// The row of the run that has done the same before.
    First(Run, Option<u64>),
}

impl Runs {
    pub(super) async fn observe(&self, view: &RunView) -> Result<Observed, Failure> {
        let own = self.book.load(view.uid()).await?;
        let spec = match &view.spec {
            Some(spec) => Some(spec.clone()),
            // It looks as if it were over, and that is said by the authority alone.
            None if own.as_ref().is_none_or(|run| run.row.sealed().is_none()) => self.read_again(view).await?,
            None => None,
        };
        let unreadable = spec.as_ref().and_then(|spec| spec.as_ref().err().cloned());
        let spec = spec.and_then(Result::ok);
        let asks = |flag: fn(&GovernedRunSpec) -> bool| spec.as_deref().is_some_and(flag);
        let mut facts = Facts {
            deleting: view.meta.deleting,
            readable: spec.is_some() || own.is_some(),
            cancel: asks(GovernedRunSpec::is_cancelled),
            suspend: asks(GovernedRunSpec::is_suspended),
            policy_suspended: spec.as_deref().is_some_and(|spec| self.is_policy_suspended(view, spec)),
            stand: Stand::Unknown,
            history: self.history.of(view.meta.created),
            shown_over: view.shown_over,
            references: References::There,
            capacity: Capacity::Free,
            keep: None,
            tracked: view.tracked,
            shown: false,
            now: self.clock.now().at,
        };
        let (record, request) = match own {
            Some(run) => (Record::Own(run, self.book.log_index(view.uid()).await?), None),
            None => self.unopened(view, spec.as_deref(), &mut facts).await?,
        };
        self.judge_record(view, &record, &mut facts);
        Ok(Observed { facts, record, request, unreadable })
    }

    /// A run that the authority does not have: what would be opened, unless another has done the same.
    async fn unopened(
        &self,
        view: &RunView,
        spec: Option<&GovernedRunSpec>,
        facts: &mut Facts,
    ) -> Result<(Record, Option<RunRequest>), Failure> {
        let Some(spec) = spec.filter(|_| !facts.deleting) else { return Ok((Record::None, None)) };
        let key = view.key();
        let is_there = |name: &str, there: bool| !name.is_empty() && there;
        let policy = self.policies.get(&key.beside(&spec.policy_ref.name)).is_some_and(|policy| policy.spec.is_ok());
        let manifest = self.manifests.get(&key.beside(&spec.manifest_ref.name)).is_some_and(|one| one.spec.is_ok());
        if !(is_there(&spec.policy_ref.name, policy) && is_there(&spec.manifest_ref.name, manifest)) {
            facts.references = References::Missing(since(&self.first_seen, view.uid()));
        }
        if !self.open.has_place(key, view.uid()) {
            facts.capacity = Capacity::Full;
        }
        if !needs_request(facts) {
            return Ok((Record::None, None));
        }
        let Some(request) = self.request(view, spec).await? else { return Ok((Record::None, None)) };
        let record = match self.book.first(&request).await? {
            Some(first) => match self.book.load(&first).await? {
                Some(run) => Record::First(run, self.book.log_index(&first).await?),
                None => Record::None,
            },
            None => Record::None,
        };
        Ok((record, Some(request)))
    }

    /// Whether the run's own policy is suspended, or the baseline, which stops every namespace.
    fn is_policy_suspended(&self, view: &RunView, spec: &GovernedRunSpec) -> bool {
        let own = view.key().beside(&spec.policy_ref.name);
        [own, Key::baseline(&self.own_namespace)].into_iter().any(|key| {
            let policy = self.policies.get(&key);
            policy.as_ref().and_then(|policy| policy.spec.as_ref().ok()).is_some_and(|policy| policy.is_suspended())
        })
    }

    fn judge_record(&self, view: &RunView, record: &Record, facts: &mut Facts) {
        let (run, said) = match record {
            Record::None => return,
            Record::Own(run, log_index) => (run, Said::Run { run, log_index: *log_index }),
            Record::First(first, log_index) => (first, Said::AlreadyDone { first, log_index: *log_index }),
        };
        let is_own = matches!(record, Record::Own(..));
        facts.stand = match &run.row.state {
            State::Sealed(closing, _) if is_own => Stand::Sealed { at: closing.at },
            State::Sealed(closing, _) => Stand::AlreadyDone { at: Some(closing.at) },
            State::Closing(_) if is_own => Stand::Closing,
            State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) if is_own => {
                Stand::Going
            }
            State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) | State::Closing(_) => {
                Stand::AlreadyDone { at: None }
            }
        };
        facts.keep = self.keep(view, run);
        if facts.keep.is_some() {
            let subject = Subject { generation: view.meta.generation, created: view.meta.created };
            let hash = status(subject, said).and_then(|status| compute_hash(&to_value(&status)));
            facts.shown = hash.is_ok_and(|hash| view.status.as_ref() == Some(&hash));
        }
    }

    /// How long the policy that a run has pinned keeps objects, as it says now. A policy made again is another.
    fn keep(&self, view: &RunView, run: &Run) -> Option<Duration> {
        let pinned = run.dossier.policy.as_ref()?;
        let policy = self.policies.get(&view.key().beside(&pinned.name)).filter(|policy| policy.uid() == pinned.uid)?;
        let seconds = policy.spec.as_ref().ok()?.retention?.ttl_seconds_after_sealed;
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    async fn read_again(
        &self,
        view: &RunView,
    ) -> Result<Option<super::super::view::Read<Arc<GovernedRunSpec>>>, Failure> {
        let key = view.key();
        let what = format!("reading {} {key}", GovernedRunSpec::KIND);
        let object =
            found(&what, within::<GovernedRunSpec>(self.client.clone(), &key.namespace).get(&key.name)).await?;
        Ok(object.map(|object| RunView::whole(&object)).filter(|now| now.uid() == view.uid()).and_then(|now| now.spec))
    }

    /// What would be opened; `None` if the namespace is gone.
    async fn request(&self, view: &RunView, spec: &GovernedRunSpec) -> Result<Option<RunRequest>, Failure> {
        let key = view.key();
        // Together: what an API server under load takes its time for is asked once, not one after another.
        let namespace = async { Ok(self.references.namespace(&key.namespace).await?) };
        let (namespace, actor) = tokio::try_join!(namespace, self.actor(view, spec))?;
        let Some(uid) = namespace else { return Ok(None) };
        Ok(Some(RunRequest {
            namespace: Named { name: key.namespace.clone(), uid },
            name: key.name.clone(),
            uid: Some(view.uid().to_owned()),
            idempotency_key: spec.idempotency_key.clone(),
            actor,
            proposal: spec.proposal.clone(),
            policy: spec.policy_ref.name.clone(),
            manifest: spec.manifest_ref.name.clone(),
            deadline_seconds: spec.deadline_seconds.unwrap_or(DEADLINE_SECONDS),
        }))
    }

    async fn actor(&self, view: &RunView, spec: &GovernedRunSpec) -> Result<Actor, Failure> {
        let Some(stamped) = &spec.actor else {
            let (username, uid) = (String::new(), String::new());
            return Ok(Actor { username, uid, credential_id: None, attestation: Attestation::Unattested });
        };
        let attestation = match self.admission.vouches(view.meta.created).await? {
            Ok(()) => Attestation::Admission,
            Err(why) => {
                tracing::warn!(why, "nobody vouches for the actor: it counts as non-human");
                Attestation::Unattested
            }
        };
        let (username, uid) = (stamped.username.clone(), stamped.uid.clone().unwrap_or_default());
        Ok(Actor { username, uid, credential_id: stamped.credential_id.clone(), attestation })
    }
}

/// How long ago a run that is not opened was seen first.
pub(super) fn since(first_seen: &Mutex<HashMap<String, Instant>>, uid: &str) -> Duration {
    let mut seen = first_seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.entry(uid.to_owned()).or_insert_with(Instant::now).elapsed()
}

pub(super) fn forget(first_seen: &Mutex<HashMap<String, Instant>>, uid: &str) {
    first_seen.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
}
