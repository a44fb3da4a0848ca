//! The reconciler of policies: each one's process is proved, and deployed once for its content.

use super::Failure;
use super::index::{Index, Key};
use super::queue::Next;
use super::view::{Meta, PolicyView, Read};
use super::write::put_status;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::reconcile::index::View;
use async_trait::async_trait;
use kube::Client;
use m87_api::conditions::{Finding, READY, RECONCILING, STALLED, is_true, set_conditions};
use m87_api::status::{Deployment, Proof, Status, to_value};
use m87_api::{GovernancePolicySpec, GovernancePolicyStatus, Spec};
use m87_authority::client::AuthorityError;
use m87_authority::clock::Clock;
use m87_authority::driver::{Deployed, Driver};
use m87_core::case::Rules;
use m87_core::json::sha256_hex;
use m87_core::policy::PolicySpec;
use m87_core::time::Timestamp;
use std::sync::Arc;

/// Deploys processes.
#[async_trait]
pub trait Processes: Send + Sync {
    /// Makes sure that the engine has a policy's process; `Ok(Err(why))` if it never will.
    async fn deploy(&self, policy: &PolicySpec) -> Result<Result<Deployed, String>, String>;
}

#[async_trait]
impl Processes for Driver {
    async fn deploy(&self, policy: &PolicySpec) -> Result<Result<Deployed, String>, String> {
        self.deploy_process(policy).await.map_err(|error: AuthorityError| error.to_string())
    }
}

/// Reconciles policies.
pub struct Policies {
    /// The API server.
    pub client: Client,
    /// Policies as they are.
    pub index: Arc<Index<PolicyView>>,
    /// Where processes are deployed.
    pub processes: Arc<dyn Processes>,
    /// The operator's own namespace, which may have the platform's policy.
    pub own_namespace: String,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Figures.
    pub metrics: Arc<Metrics>,
    /// What people must see.
    pub events: Events,
}

/// How a policy stands.
#[derive(Debug, Clone, PartialEq)]
enum PolicyState {
    /// It cannot be read.
    Unreadable(String),
    /// A list of it cannot be used: every run under it is refused.
    Unusable(String),
    /// Its process is not proved, or the engine will never take it.
    Refused {
        /// SHA-256 of the process.
        bpmn_sha256: String,
        /// The path on which it breaks its promise.
        why: String,
    },
    /// The engine has its process.
    Deployed(Deployed),
    /// Nobody knows yet.
    Unknown(String),
}

impl Policies {
    /// Looks at one policy.
    pub async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(view) = self.index.get(key).filter(|view| !view.meta.deleting) else { return Ok(Next::Await) };
        let state = self.observe(&view.spec).await;
        let is_baseline = *key == Key::baseline(&self.own_namespace);
        let observed = observed(&view);
        if !has_news(&state, &view.meta, &observed) {
            return Ok(Next::Retry);
        }
        let suspended = view.spec.as_ref().is_ok_and(GovernancePolicySpec::is_suspended);
        let next = if matches!(state, PolicyState::Unknown(_)) { Next::Retry } else { Next::Await };
        let now = self.clock.now().at;
        let status = project(&state, &view.meta, observed.clone(), now, Notes { is_baseline, suspended });
        let (value, before) = (to_value(&status), view.status.as_ref());
        if before != Some(&value) {
            let written = put_status::<GovernancePolicySpec>(&self.client, &self.metrics, &view.meta, &value).await?;
            if let Some(object) = written {
                self.index.apply(PolicyView::of(object));
                self.tell(&view.meta, &state, is_true(&observed.conditions, STALLED));
            }
        }
        Ok(next)
    }

    async fn observe(&self, spec: &Read<GovernancePolicySpec>) -> PolicyState {
        let spec = match spec {
            Ok(spec) => spec,
            Err(why) => {
                self.metrics.unreadable(GovernancePolicySpec::KIND);
                return PolicyState::Unreadable(why.clone());
            }
        };
        let rules = Rules::new(&spec.rules, None);
        if let Err(error) = &rules.targets_forbidden {
            return PolicyState::Unusable(format!("spec.constraints.targetsForbidden: {error}"));
        }
        if let Err(error) = &rules.actors_allowed {
            return PolicyState::Unusable(format!("spec.constraints.actorsAllowed: {error}"));
        }
        match self.processes.deploy(&spec.rules).await {
            Ok(Ok(deployed)) => PolicyState::Deployed(deployed),
            Ok(Err(why)) => PolicyState::Refused { bpmn_sha256: bpmn_sha256(&spec.rules), why },
            Err(why) => PolicyState::Unknown(why),
        }
    }

    fn tell(&self, meta: &Meta, state: &PolicyState, was_told: bool) {
        match state {
            PolicyState::Unreadable(why) | PolicyState::Unusable(why) | PolicyState::Refused { why, .. }
                if !was_told =>
            {
                self.events.warn(GovernancePolicySpec::KIND, meta, reason(state), why);
            }
            PolicyState::Unreadable(_)
            | PolicyState::Unusable(_)
            | PolicyState::Refused { .. }
            | PolicyState::Deployed(_)
            | PolicyState::Unknown(_) => {}
        }
    }
}

/// What was said last; what cannot be read is said anew.
fn observed(view: &PolicyView) -> GovernancePolicyStatus {
    let status = view.status.clone().map(serde_json::from_value);
    status.and_then(Result::ok).unwrap_or_default()
}

/// An engine that does not answer takes nothing back that was said of this generation.
fn has_news(state: &PolicyState, meta: &Meta, observed: &GovernancePolicyStatus) -> bool {
    match state {
        PolicyState::Unknown(_) => observed.observed_generation() != meta.generation,
        PolicyState::Unreadable(_)
        | PolicyState::Unusable(_)
        | PolicyState::Refused { .. }
        | PolicyState::Deployed(_) => true,
    }
}

#[derive(Debug, Clone, Copy)]
struct Notes {
    is_baseline: bool,
    suspended: bool,
}

fn reason(state: &PolicyState) -> &'static str {
    match state {
        PolicyState::Unreadable(_) => "Unreadable",
        PolicyState::Unusable(_) => "Unusable",
        PolicyState::Refused { .. } => "ProcessNotProved",
        PolicyState::Deployed(_) => "Deployed",
        PolicyState::Unknown(_) => "EngineUnreachable",
    }
}

/// What is said of a policy.
fn project(
    state: &PolicyState,
    meta: &Meta,
    observed: GovernancePolicyStatus,
    now: Timestamp,
    notes: Notes,
) -> GovernancePolicyStatus {
    let reason = reason(state);
    let findings = match state {
        PolicyState::Unreadable(why) | PolicyState::Unusable(why) => stalled(reason, why),
        PolicyState::Refused { why, .. } => stalled(reason, &format!("runs under it are refused: {why}")),
        PolicyState::Deployed(_) => {
            let (reason, message) = match (notes.suspended, notes.is_baseline) {
                (true, _) => ("Suspended", "it is suspended: no run under it is opened, contracted for or let loose"),
                (false, true) => ("Baseline", "it is intersected into every plan of every namespace"),
                (false, false) => (reason, "its process is proved and deployed"),
            };
            vec![Finding::new(READY, true, reason, message)]
        }
        PolicyState::Unknown(why) => {
            vec![
                Finding::new(READY, false, reason, why.as_str()),
                Finding::new(RECONCILING, true, reason, why.as_str()),
            ]
        }
    };
    let mut status = GovernancePolicyStatus { observed_generation: meta.generation, ..observed };
    match state {
        PolicyState::Deployed(Deployed { engine_id, pin, definition }) => {
            status.deployment = Some(Deployment {
                engine_id: Some(engine_id.clone()),
                definition_key: definition.key.to_string(),
                version: definition.version,
                bpmn_sha256: pin.bpmn_sha256.clone(),
            });
            status.proof = Some(Proof { bpmn_sha256: pin.bpmn_sha256.clone(), proved: true, counterexample: None });
        }
        PolicyState::Refused { bpmn_sha256, why } => {
            status.deployment = None;
            let bpmn_sha256 = bpmn_sha256.clone();
            status.proof = Some(Proof { bpmn_sha256, proved: false, counterexample: Some(why.clone()) });
        }
        PolicyState::Unreadable(_) | PolicyState::Unusable(_) | PolicyState::Unknown(_) => {
            (status.deployment, status.proof) = (None, None);
        }
    }
    set_conditions(&mut status.conditions, meta.generation, now, findings);
    status
}

fn stalled(reason: &str, why: &str) -> Vec<Finding> {
    vec![Finding::new(READY, false, reason, why), Finding::new(STALLED, true, reason, why)]
}

fn bpmn_sha256(policy: &PolicySpec) -> String {
    policy.process.as_ref().map_or_else(String::new, |process| sha256_hex(process.bpmn.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_authority::row::Definition;
    use m87_core::dossier::ProcessPin;

    fn meta(generation: i64) -> Meta {
        Meta {
            key: Key { namespace: "n".to_owned(), name: "p".to_owned() },
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            generation,
            created: Timestamp::from_millis(0),
            deleting: false,
        }
    }

    fn deployed() -> PolicyState {
        let pin = ProcessPin { id: "p".to_owned(), bpmn_sha256: "ab".repeat(32) };
        PolicyState::Deployed(Deployed {
            engine_id: "e".to_owned(),
            pin,
            definition: Definition { key: 9, version: 1 },
        })
    }

    const PLAIN: Notes = Notes { is_baseline: false, suspended: false };

    fn said(state: &PolicyState, observed: GovernancePolicyStatus, at: i64) -> GovernancePolicyStatus {
        project(state, &meta(1), observed, Timestamp::from_millis(at), PLAIN)
    }

    #[test]
    fn time_alone_changes_nothing() {
        let first = said(&deployed(), GovernancePolicyStatus::default(), 0);
        assert_eq!(said(&deployed(), first.clone(), 600_000), first);
        assert_eq!(first.deployment.as_ref().unwrap().definition_key, "9");
        assert!(is_true(&first.conditions, READY));
    }

    #[test]
    fn a_process_that_is_not_proved_stalls_and_shows_its_path() {
        let why = "x".repeat(100_000);
        let refused = PolicyState::Refused { bpmn_sha256: "ab".repeat(32), why };
        let status = said(&refused, said(&deployed(), GovernancePolicyStatus::default(), 0), 5_000);
        assert!(is_true(&status.conditions, STALLED) && !is_true(&status.conditions, READY));
        assert_eq!(status.deployment, None);
        assert!(serde_json::to_vec(&to_value(&status)).unwrap().len() < 16 * 1024);
    }

    #[test]
    fn an_engine_that_does_not_answer_takes_nothing_back() {
        let ready = said(&deployed(), GovernancePolicyStatus::default(), 0);
        let unknown = PolicyState::Unknown("no engine".to_owned());
        assert!(!has_news(&unknown, &meta(1), &ready));
        assert!(has_news(&unknown, &meta(2), &ready), "what is new was not looked at yet");
    }
}
