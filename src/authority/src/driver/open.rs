//! Opening a run: the snapshot is taken and frozen, the effect's identity claimed, the log told.

use super::{Driver, DriverError, process};
use crate::row::{Ending, Row, Run};
use crate::store::{self, Opening};
use m87_core::actor::{Actor, Attestation};
use m87_core::dossier::{Dossier, Named, Pinned, RunIdentity};
use m87_core::json::{Document, compute_hash};
use m87_core::log::LogEntry;
use m87_core::policy::PolicySpec;
use m87_core::proposal::Proposal;
use m87_core::reason::Reason;
use m87_core::resolve::candidates;
use m87_core::tool::ManifestSpec;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A run as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    /// The tenant.
    pub namespace: Named,
    /// The object's name.
    pub name: String,
    /// The object's uid; where there is none, one is drawn.
    pub uid: Option<String>,
    /// With the namespace, the identity of the effect; the object's name, unless given.
    pub idempotency_key: Option<String>,
    /// Who asks.
    pub actor: Actor,
    /// What is asked for.
    pub proposal: Proposal,
    /// The policy's name.
    pub policy: String,
    /// The manifest's name.
    pub manifest: String,
    /// Seconds from now until the run is ended from outside.
    pub deadline_seconds: i64,
}

/// What came of opening a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// It is on its way, under this uid.
    Run(String),
    /// Nothing is executed: that run has asked for the same before, and its terminal and receipt count for this one too.
    AlreadyDone(String),
}

/// How often references are looked for while they are waited for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What a run refers to: its policy, its manifest, and the baseline.
type Referred = (Option<Pinned<PolicySpec>>, Option<Pinned<ManifestSpec>>, Option<Pinned<PolicySpec>>);

impl Driver {
    /// Opens a run, and lets it go its way. Safe to repeat.
    pub async fn open(&self, request: &RunRequest) -> Result<Opened, DriverError> {
        let opened = self.insert(request, self.inner.options.reference_wait).await?;
        Ok(self.let_go(opened))
    }

    /// Opens a run with the references as they are now: whoever asks has waited for them.
    pub async fn open_now(&self, request: &RunRequest) -> Result<Opened, DriverError> {
        let opened = self.insert(request, Duration::ZERO).await?;
        Ok(self.let_go(opened))
    }

    /// Opens a run that is over before it began, for this reason, so that it leaves a receipt. Nothing is started.
    pub async fn open_ended(&self, request: &RunRequest, reason: Reason) -> Result<Opened, DriverError> {
        let opened = self.insert(request, Duration::ZERO).await?;
        if let Opened::Run(uid) = &opened {
            self.inner.authority.end(uid, Ending::Interrupted(reason)).await?;
        }
        Ok(opened)
    }

    /// The run that has asked for the same effect before, in the same words and by the same actor, whoever vouched for it then;
    /// `None` if there is no other. Looks at no reference: what was done stays done, whatever became of its rules.
    pub async fn first(&self, request: &RunRequest) -> Result<Option<String>, DriverError> {
        let invalid = |error| DriverError::Proposal { run: request.name.clone(), error };
        let key = request.idempotency_key.as_ref().unwrap_or(&request.name);
        let Some(effect) = self.inner.authority.store.effect(&request.namespace.uid, key).await? else {
            return Ok(None);
        };
        let is_other = request.uid.as_ref() != Some(&effect.run_uid);
        let same_words = effect.proposal_hash == compute_hash(&request.proposal).map_err(invalid)?;
        let vouched = [Attestation::Admission, Attestation::Unattested, Attestation::OperatingSystem];
        let same_actor = vouched.into_iter().any(|attestation| {
            compute_hash(&Actor { attestation, ..request.actor.without_credential() }).as_ref()
                == Ok(&effect.actor_hash)
        });
        Ok(Some(effect.run_uid).filter(|_| is_other && same_words && same_actor))
    }

    fn let_go(&self, opened: Opened) -> Opened {
        if let Opened::Run(uid) = &opened {
            self.spawn_start(uid.clone());
        }
        opened
    }

    async fn insert(&self, request: &RunRequest, wait: Duration) -> Result<Opened, DriverError> {
        let authority = &self.inner.authority;
        let invalid = |error| DriverError::Proposal { run: request.name.clone(), error };
        let proposal_hash = compute_hash(&request.proposal).map_err(invalid)?;
        let actor_hash = compute_hash(&request.actor.without_credential()).map_err(invalid)?;
        let dossier = self.snapshot(request, &proposal_hash, wait).await?;
        let uid = dossier.run.uid.clone();
        let entry = LogEntry::opened(&uid, &proposal_hash);
        let patience = Duration::from_secs(u64::try_from(request.deadline_seconds).unwrap_or(0));
        let run = Run { dossier: Arc::new(dossier), row: Row::open(authority.now().wall.plus(patience)) };
        let opening = Opening {
            epoch: authority.epoch(),
            run: &run,
            proposal_hash: &proposal_hash,
            actor_hash: &actor_hash,
            entry: &entry,
        };
        match authority.store.open_run(&opening).await? {
            store::Inserted::New => authority.changed(&uid, &run),
            store::Inserted::Existing => {
                if authority.load(&uid).await?.run.row.sealed().is_some() {
                    return Ok(Opened::AlreadyDone(uid));
                }
            }
            store::Inserted::SameEffect(first) => return Ok(Opened::AlreadyDone(first)),
            store::Inserted::KeyReused(first) => {
                tracing::info!(run = %uid, %first, "the key belongs to a run that asked for something else");
                authority.end(&uid, Ending::Interrupted(Reason::IdempotencyKeyReused)).await?;
            }
        }
        Ok(Opened::Run(uid))
    }

    /// Everything that will be judged, as it is now.
    async fn snapshot(
        &self,
        request: &RunRequest,
        proposal_hash: &str,
        wait: Duration,
    ) -> Result<Dossier, DriverError> {
        let authority = &self.inner.authority;
        let (policy, manifest, baseline) = self.references(request, wait).await?;
        let manifest = match manifest {
            Some(Pinned { name, uid, spec, .. }) => {
                let spec = candidates(&request.proposal, &spec);
                let sha256 =
                    compute_hash(&spec).map_err(|error| DriverError::Proposal { run: request.name.clone(), error })?;
                Some(Pinned { name, uid, sha256, spec })
            }
            None => None,
        };
        let namespace = &request.namespace;
        let uid = request
            .uid
            .clone()
            .unwrap_or_else(|| authority.world.entropy.id(&["run", &namespace.uid, &request.name, proposal_hash]));
        Ok(Dossier {
            kind: Dossier::KIND.to_owned(),
            spec_version: Dossier::SPEC_VERSION.to_owned(),
            cluster_uid: self.inner.options.cluster_uid.clone(),
            namespace: namespace.clone(),
            run: RunIdentity {
                name: request.name.clone(),
                uid,
                idempotency_key: request.idempotency_key.clone().unwrap_or_else(|| request.name.clone()),
            },
            actor: request.actor.clone(),
            trust: self.inner.options.trust,
            clock: self.inner.options.clock,
            opened_at: authority.now().at,
            proposal: request.proposal.clone(),
            process: policy.as_ref().and_then(|policy| process::pin(&policy.spec)),
            policy,
            baseline,
            manifest,
        })
    }

    /// The policy, the manifest and the baseline as they are together; a policy or manifest that does not exist is waited for, up
    /// to the time that is set for it.
    async fn references(&self, request: &RunRequest, wait: Duration) -> Result<Referred, DriverError> {
        let references = &self.inner.authority.world.references;
        let until = Instant::now() + wait;
        loop {
            let (policy, manifest, baseline) = tokio::try_join!(
                references.policy(&request.namespace, &request.policy),
                references.manifest(&request.namespace, &request.manifest),
                references.baseline(),
            )?;
            let left = until.saturating_duration_since(Instant::now());
            if (policy.is_some() && manifest.is_some()) || left.is_zero() {
                return Ok((policy, manifest, baseline));
            }
            if !self.pause(left.min(LOOK_AGAIN)).await {
                return Err(DriverError::Stopped);
            }
        }
    }
}
