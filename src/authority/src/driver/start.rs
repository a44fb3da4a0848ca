//! Starting the process instance of a run. The intent is in the row before the engine is asked; should two instances come of
//! it, one claims the run and the other is cancelled.

use super::open::LOOK_AGAIN;
use super::{Driver, process};
use crate::authority::{Authority, unavailable};
use crate::client::AuthorityError;
use crate::event::Event;
use crate::row::{Definition, Ending, Start, State};
use m87_core::dossier::{Dossier, Named, ProcessPin};
use m87_core::gates::{evaluate_constraints, tool_in_manifest};
use m87_core::plan::plan;
use m87_core::policy::PolicySpec;
use m87_core::reason::Reason;
use m87_zeebe::Error;
use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tonic::Code;
use tracing::Instrument;

/// The first wait after a failure, doubled with each one more, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A process as an engine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// The engine.
    pub engine_id: String,
    /// The process.
    pub pin: ProcessPin,
    /// What the engine calls it.
    pub definition: Definition,
}

/// How far starting has come.
enum Outcome {
    /// Nothing more to do.
    Done,
    /// The engine does not know the definition: it is to be deployed again.
    Undeployed(String, String),
}

impl Driver {
    /// Starts the run's instance in a task of its own, trying until it is done, unless this process has it in hand already: who opens
    /// it and who looks after all may come at the same time.
    pub(super) fn spawn_start(&self, uid: String) {
        if !self.in_hand().insert(uid.clone()) {
            return;
        }
        let driver = self.clone();
        let tenant = tracing::field::Empty;
        let span = tracing::info_span!("run", run = %uid, tenant, trace = %uid.replace('-', ""));
        let starting = async move {
            let mut wait = FIRST_WAIT;
            while let Err(error) = driver.start(&uid).await {
                match error {
                    AuthorityError::Refused { reason, message } => {
                        tracing::debug!(run = %uid, %reason, message, "not started any more");
                        return;
                    }
                    AuthorityError::Unavailable(message) => {
                        tracing::debug!(run = %uid, message, "not started yet");
                    }
                }
                if !driver.pause(wait).await {
                    return;
                }
                wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            }
        };
        self.inner.tasks.spawn(starting.instrument(span));
    }

    /// The runs whose instances this process has started, or is starting.
    pub(super) fn in_hand(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self, uid: &str) -> Result<(), AuthorityError> {
        match self.try_start(uid, None).await? {
            Outcome::Done => Ok(()),
            Outcome::Undeployed(engine_id, sha256) => {
                let redeploy = Some((engine_id, sha256));
                match self.try_start(uid, redeploy).await? {
                    Outcome::Done => Ok(()),
                    Outcome::Undeployed(..) => {
                        Err(AuthorityError::Unavailable("the engine forgets definitions".into()))
                    }
                }
            }
        }
    }

    async fn try_start(&self, uid: &str, redeploy: Option<(String, String)>) -> Result<Outcome, AuthorityError> {
        let authority = &self.inner.authority;
        let loaded = authority.load(uid).await?;
        let dossier = &loaded.run.dossier;
        tracing::Span::current().record("tenant", dossier.namespace.name.as_str());
        let State::Open(before) = &loaded.run.row.state else { return Ok(Outcome::Done) };
        if let Some(reason) = foreign_key(authority, &loaded.run).await? {
            authority.end(uid, Ending::Interrupted(reason)).await?;
            return Ok(Outcome::Done);
        }
        if would_run(dossier) && !self.bound(&dossier.namespace).await? {
            authority.end(uid, Ending::Interrupted(Reason::TenantNotBound)).await?;
            return Ok(Outcome::Done);
        }
        let (Some(policy), Some(pin)) = (&dossier.policy, &dossier.process) else {
            authority.end(uid, Ending::Alone).await?;
            return Ok(Outcome::Done);
        };
        let engine_id = self.engine_id().await?;
        let known = match redeploy {
            Some(_) => None,
            None => authority.store.definition(&engine_id, &pin.bpmn_sha256).await.map_err(unavailable)?,
        };
        let definition = match known {
            Some(definition) => definition,
            None => match self.deploy(&engine_id, &pin.bpmn_sha256, process::bpmn(&policy.spec)).await? {
                Some(definition) => definition,
                None => {
                    authority.end(uid, Ending::Interrupted(Reason::EngineIncident)).await?;
                    return Ok(Outcome::Done);
                }
            },
        };
        let start = match before {
            Some(start) if start.engine_id == engine_id && start.definition == definition => start.clone(),
            Some(_) | None => {
                let nonce = authority.world.entropy.secret().map_err(unavailable)?;
                Start { engine_id: engine_id.clone(), definition, nonce }
            }
        };
        authority.apply(uid, |_| Event::Start(start.clone())).await?;
        match self.inner.engine.start(definition, &format!("{uid}.{}", start.nonce)).await {
            Ok(instance_key) => {
                tracing::debug!(run = %uid, instance_key, "started");
                Ok(Outcome::Done)
            }
            Err(Error::NotFound(_)) => Ok(Outcome::Undeployed(engine_id, pin.bpmn_sha256.clone())),
            Err(error @ (Error::Unavailable { .. } | Error::Refused { .. } | Error::Malformed(_))) => {
                Err(unavailable(error))
            }
        }
    }

    /// Whether tools may run in that namespace; if not yet, that is waited for like a reference.
    async fn bound(&self, namespace: &Named) -> Result<bool, AuthorityError> {
        let until = Instant::now() + self.inner.options.reference_wait;
        loop {
            if self.inner.authority.world.references.bound(namespace).await.map_err(unavailable)? {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if !self.pause(left.min(LOOK_AGAIN)).await {
                return Err(AuthorityError::Unavailable("stopped".to_owned()));
            }
        }
    }

    /// Makes sure that the engine has a policy's process, before any run asks for it. `Ok(Err(why))` if it is not proved, or
    /// the engine will never take it.
    pub async fn deploy_process(&self, policy: &PolicySpec) -> Result<Result<Deployed, String>, AuthorityError> {
        let owned = policy.clone();
        let proof = tokio::task::spawn_blocking(move || process::proof(&owned)).await.map_err(unavailable)?;
        let pin = match proof {
            Ok(pin) => pin,
            Err(why) => return Ok(Err(why)),
        };
        let engine_id = self.engine_id().await?;
        let store = &self.inner.authority.store;
        let known = store.definition(&engine_id, &pin.bpmn_sha256).await.map_err(unavailable)?;
        let definition = match known {
            Some(definition) => Some(definition),
            None => self.deploy(&engine_id, &pin.bpmn_sha256, process::bpmn(policy)).await?,
        };
        let refused = || format!("engine {engine_id} does not take it, although it is proved");
        Ok(definition.map(|definition| Deployed { engine_id: engine_id.clone(), pin, definition }).ok_or_else(refused))
    }

    /// Deploys a process once for each content, and remembers what the engine calls it. `None` if the engine will never take
    /// it; any other no is about the caller, and may be put right.
    async fn deploy(&self, engine_id: &str, sha256: &str, bpmn: &str) -> Result<Option<Definition>, AuthorityError> {
        let authority = &self.inner.authority;
        let name = format!("m87-{sha256}.bpmn");
        let definition = match self.inner.engine.deploy(&name, bpmn.as_bytes()).await {
            Ok(definition) => definition,
            Err(Error::Refused { status: Code::InvalidArgument, message }) => {
                tracing::warn!(sha256, message, "the engine does not take a process that is proved");
                return Ok(None);
            }
            Err(error) => return Err(unavailable(error)),
        };
        authority
            .store
            .remember_definition(authority.epoch(), engine_id, sha256, definition)
            .await
            .map_err(unavailable)?;
        Ok(Some(definition))
    }
}

/// Whether a tool would be run: what the first gates refuse needs nothing of its tenant.
fn would_run(dossier: &Dossier) -> bool {
    plan(dossier).is_some() && evaluate_constraints(dossier).passed() && tool_in_manifest(dossier).passed()
}

/// A run whose key belongs to another run is refused, also when the authority died between opening and ending it.
async fn foreign_key(authority: &Authority, run: &crate::row::Run) -> Result<Option<Reason>, AuthorityError> {
    let identity = &run.dossier.run;
    let owner =
        authority.store.effect(&run.dossier.namespace.uid, &identity.idempotency_key).await.map_err(unavailable)?;
    Ok(owner.filter(|owner| owner.run_uid != identity.uid).map(|_| Reason::IdempotencyKeyReused))
}
