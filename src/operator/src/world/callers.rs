//! Who calls the authority on a cluster: from a projected token, by TokenReview, to a principal.
//!
//! A lane is its ServiceAccount in the operator's own namespace. The process of an attempt is its pod: by the uid that the
//! kubelet had put into the token, which must be the one that the executor remembered when it made the pod. Which
//! ServiceAccount the tenant's pod has does not matter: the API server binds a token to a pod only for that pod's own. A pod
//! under a reserved name, or of the same ServiceAccount, that the executor did not make has another uid, and is nobody.

use super::token_review::{Identity, PodIdentity, token_review};
use crate::executor::handle::PodHandle;
use crate::gateway::{Believed, lane_of};
use async_trait::async_trait;
use kube::Client;
use m87_authority::callers::Callers;
use m87_authority::row::{Attempt, Run};
use m87_authority::{AttemptKind, Authority, AuthorityError, Principal};
use m87_core::lane::Lane;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;

/// Token reviews that may be under way at one time, so that strangers cannot flood the API server.
const REVIEWS: usize = 16;

/// The prefix of the names of pods that run tools; admission lets only the operator make such.
pub const TOOL_PREFIX: &str = "m87-tool-";
/// The prefix of the names of pods that validate artifacts.
pub const CHECK_PREFIX: &str = "m87-check-";

/// Callers on a cluster.
pub struct ClusterCallers {
    client: Client,
    namespace: String,
    authority: Arc<Authority>,
    /// Lanes that were answered for in the last seconds. Attempts are never remembered.
    known: Mutex<Believed>,
    reviews: Semaphore,
}

impl ClusterCallers {
    /// Lanes are in this namespace; attempts are the authority's.
    pub fn new(client: Client, namespace: impl Into<String>, authority: Arc<Authority>) -> Self {
        Self {
            client,
            namespace: namespace.into(),
            authority,
            known: Mutex::new(Believed::default()),
            reviews: Semaphore::new(REVIEWS),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Believed> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn attempt(&self, claim: &Claimant) -> Result<Option<Principal>, AuthorityError> {
        let loaded = self.authority.store().load(&claim.run_uid).await;
        let loaded = loaded.map_err(|error| AuthorityError::Unavailable(error.to_string()))?;
        let Some(loaded) = loaded else { return Ok(None) };
        match judge(claim, &loaded.run) {
            Verdict::Theirs => Ok(Some(claim.principal())),
            Verdict::Nobody => Ok(None),
            Verdict::NotYet => Err(AuthorityError::Unavailable(format!(
                "pod {}/{} is not known yet to be the one that was made: ask again",
                claim.namespace, claim.pod.name
            ))),
        }
    }
}

#[async_trait]
impl Callers for ClusterCallers {
    async fn principal(&self, token: &str) -> Result<Option<Principal>, AuthorityError> {
        let unavailable = |error: &dyn std::fmt::Display| AuthorityError::Unavailable(error.to_string());
        let hash = Sha256::digest(token.as_bytes()).into();
        if let Some(lane) = self.known().get(&hash, Instant::now()) {
            return Ok(Some(Principal::Lane(lane)));
        }
        let turn = self.reviews.acquire().await.map_err(|error| unavailable(&error))?;
        let asked = Instant::now();
        let identity = token_review(&self.client, token).await.map_err(|error| unavailable(&error))?;
        drop(turn);
        match identity.map_or(Caller::Nobody, |identity| caller(&identity, &self.namespace)) {
            Caller::Lane(lane) => {
                self.known().put(hash, lane, asked);
                Ok(Some(Principal::Lane(lane)))
            }
            Caller::Attempt(claim) => self.attempt(&claim).await,
            Caller::Nobody => Ok(None),
        }
    }
}

/// Who an identity says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Caller {
    Lane(Lane),
    Attempt(Claimant),
    Nobody,
}

/// A pod says that it is an attempt's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claimant {
    namespace: String,
    pod: PodIdentity,
    kind: AttemptKind,
    run_uid: String,
    attempt: u32,
}

impl Claimant {
    fn principal(&self) -> Principal {
        let (run_uid, attempt) = (self.run_uid.clone(), self.attempt);
        match self.kind {
            AttemptKind::Tool => Principal::Exec { run_uid, attempt },
            AttemptKind::Validation => Principal::Validator { run_uid, attempt },
        }
    }
}

fn caller(identity: &Identity, own_namespace: &str) -> Caller {
    if let Some(lane) = lane_of(identity, own_namespace) {
        return Caller::Lane(lane);
    }
    let Some(((namespace, _), pod)) = identity.service_account().zip(identity.pod.as_ref()) else {
        return Caller::Nobody;
    };
    match attempt_of(&pod.name) {
        Some((kind, run_uid, attempt)) => Caller::Attempt(Claimant {
            namespace: namespace.to_owned(),
            pod: pod.clone(),
            kind,
            run_uid: run_uid.to_owned(),
            attempt,
        }),
        None => Caller::Nobody,
    }
}

/// Which attempt a pod's name is for: its kind, the run's uid, its number.
pub fn attempt_of(pod_name: &str) -> Option<(AttemptKind, &str, u32)> {
    let (kind, rest) = match (pod_name.strip_prefix(TOOL_PREFIX), pod_name.strip_prefix(CHECK_PREFIX)) {
        (Some(rest), _) => (AttemptKind::Tool, rest),
        (None, Some(rest)) => (AttemptKind::Validation, rest),
        (None, None) => return None,
    };
    let (run_uid, digits) = rest.rsplit_once('-')?;
    let number: u32 = digits.parse().ok().filter(|number: &u32| *number > 0 && number.to_string() == digits)?;
    (!run_uid.is_empty()).then_some((kind, run_uid, number))
}

/// What a pod is, to the run that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The attempt's own pod.
    Theirs,
    /// The attempt's pod is not known yet.
    NotYet,
    /// Somebody else.
    Nobody,
}

fn judge(claim: &Claimant, run: &Run) -> Verdict {
    let attempts = match claim.kind {
        AttemptKind::Tool => &run.row.attempts,
        AttemptKind::Validation => &run.row.validations,
    };
    let own = attempts.iter().find(|attempt| attempt.number == claim.attempt);
    match own {
        Some(Attempt { handle: Some(handle), .. }) => {
            let made = PodHandle::parse(handle);
            let is_made = made.is_ok_and(|made| {
                (made.namespace, made.name, made.uid)
                    == (claim.namespace.clone(), claim.pod.name.clone(), claim.pod.uid.clone())
            });
            if is_made && run.dossier.namespace.name == claim.namespace { Verdict::Theirs } else { Verdict::Nobody }
        }
        // The pod may be faster than the note of its uid; an attempt that holds no longer gets none any more.
        Some(Attempt { handle: None, void: false, .. }) if run.row.sealed().is_none() => Verdict::NotYet,
        Some(_) | None => Verdict::Nobody,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_authority::clock::Wall;
    use m87_authority::row::Row;
    use m87_core::fixtures;

    fn identity(account: &str, pod: Option<(&str, &str)>) -> Identity {
        Identity {
            username: format!("system:serviceaccount:{account}"),
            uid: String::new(),
            groups: Vec::new(),
            pod: pod.map(|(name, uid)| PodIdentity { name: name.to_owned(), uid: uid.to_owned() }),
        }
    }

    fn run(kind: AttemptKind, handle: Option<PodHandle>) -> Run {
        let mut row = Row::open(Wall(0));
        let attempt = Attempt {
            number: 2,
            contract_id: "c".to_owned(),
            token_sha256: String::new(),
            begun: Wall(0),
            handle: handle.map(|handle| handle.to_handle()),
            void: false,
        };
        match kind {
            AttemptKind::Tool => row.attempts.push(attempt),
            AttemptKind::Validation => row.validations.push(attempt),
        }
        Run { dossier: Arc::new(fixtures::dossier()), row }
    }

    fn tenant() -> String {
        fixtures::dossier().namespace.name
    }

    fn claim(name: &str, uid: &str) -> Claimant {
        match caller(&identity(&format!("{}:default", tenant()), Some((name, uid))), "m87-system") {
            Caller::Attempt(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_of_pods_say_which_attempt_they_are_for() {
        let uid = "0b6a4c1e-1f8e-4c39-9a51-7b1c2f3d4e5f";
        assert_eq!(attempt_of(&format!("m87-tool-{uid}-1")), Some((AttemptKind::Tool, uid, 1)));
        assert_eq!(attempt_of(&format!("m87-check-{uid}-12")), Some((AttemptKind::Validation, uid, 12)));
        for bad in
            ["", "m87-tool-", "m87-tool-1", "m87-tool--1", "m87-tool-u-0", "m87-tool-u-01", "m87-tool-u-+1", "x-u-1"]
        {
            assert_eq!(attempt_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_lanes_and_pods_of_attempts_are_anybody() {
        let own = identity("m87-system:m87-lane-runner", Some(("m87-lane-runner-x", "u")));
        assert_eq!(caller(&own, "m87-system"), Caller::Lane(Lane::Runner));
        for other in [
            identity("m87-system:m87", Some(("m87-0", "u"))),
            identity("tenant:m87-lane-runner", Some(("m87-lane-runner-x", "u"))),
            identity("tenant:default", None),
            Identity { username: "admin".to_owned(), ..identity("", Some(("m87-tool-u-1", "u"))) },
        ] {
            assert_eq!(caller(&other, "m87-system"), Caller::Nobody, "{other:?}");
        }
    }

    #[test]
    fn an_attempt_is_the_pod_that_was_made_and_no_other() {
        let made = PodHandle { namespace: tenant(), name: "m87-tool-u-2".to_owned(), uid: "pod-1".to_owned() };
        let known = run(AttemptKind::Tool, Some(made.clone()));
        assert_eq!(judge(&claim("m87-tool-u-2", "pod-1"), &known), Verdict::Theirs);
        // A pod made again under the same name, another attempt, the other kind.
        assert_eq!(judge(&claim("m87-tool-u-2", "pod-2"), &known), Verdict::Nobody);
        assert_eq!(judge(&claim("m87-tool-u-1", "pod-1"), &known), Verdict::Nobody);
        assert_eq!(judge(&claim("m87-check-u-2", "pod-1"), &known), Verdict::Nobody);
        // A namesake in another tenant's namespace.
        let foreign = Claimant { namespace: "another".to_owned(), ..claim("m87-tool-u-2", "pod-1") };
        assert_eq!(judge(&foreign, &known), Verdict::Nobody);
        let elsewhere = run(AttemptKind::Tool, Some(PodHandle { namespace: "another".to_owned(), ..made }));
        assert_eq!(judge(&foreign, &elsewhere), Verdict::Nobody);
    }

    #[test]
    fn a_pod_that_is_not_noted_yet_asks_again_and_a_void_one_is_nobody() {
        let mut unknown = run(AttemptKind::Validation, None);
        assert_eq!(judge(&claim("m87-check-u-2", "pod-1"), &unknown), Verdict::NotYet);
        unknown.row.validations[0].void = true;
        assert_eq!(judge(&claim("m87-check-u-2", "pod-1"), &unknown), Verdict::Nobody);
    }

    #[test]
    fn a_claim_becomes_the_principal_of_its_own_kind() {
        let (run_uid, attempt) = ("u".to_owned(), 2);
        let exec = Principal::Exec { run_uid: run_uid.clone(), attempt };
        assert_eq!(claim("m87-tool-u-2", "p").principal(), exec);
        assert_eq!(claim("m87-check-u-2", "p").principal(), Principal::Validator { run_uid, attempt });
    }
}
