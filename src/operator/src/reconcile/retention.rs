//! How long a policy keeps the objects of runs that are over may change while they are kept. They are looked at again then, a few
//! at a time, so that whoever waits to be opened does not wait for them.

use super::index::{Index, Key, View};
use super::queue::Queue;
use super::view::{PolicyView, RunView, Tracked};
use super::watch::Listener;
use super::{ReferencesSeen, Work};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two runs that are looked at again.
const APART: Duration = Duration::from_millis(10);

/// Told of policies: the runs that refer to one are looked at, and those that are over if it keeps them for another time.
pub struct PoliciesSeen {
    references: ReferencesSeen,
    policies: Arc<Index<PolicyView>>,
    /// Of each policy that has been seen, by its place, its uid and for how many seconds it keeps what is over.
    kept: Mutex<HashMap<Key, (String, Option<i64>)>>,
}

impl PoliciesSeen {
    /// Knows no policy yet.
    pub fn new(queue: Arc<Queue<Work>>, runs: Arc<Index<RunView>>, policies: Arc<Index<PolicyView>>, all: Key) -> Self {
        let references = ReferencesSeen {
            queue,
            runs,
            referred: |spec| &spec.policy_ref.name,
            by_all: Some(all),
            work: Work::Policy,
        };
        Self { references, policies, kept: Mutex::default() }
    }

    /// Whether a policy keeps what is over for another time than it did. One that keeps it for ever has no need to be told:
    /// what would have expired finds that out in its time.
    fn keeps_otherwise(&self, key: &Key) -> bool {
        let Some(policy) = self.policies.get(key) else { return false };
        // What cannot be read says nothing new.
        let Ok(spec) = &policy.spec else { return false };
        let seconds = spec.retention.map(|retention| retention.ttl_seconds_after_sealed);
        let now = (policy.uid().to_owned(), seconds);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.insert(key.clone(), now.clone());
        before.is_some_and(|before| before.0 == now.0 && before.1 != now.1 && now.1.is_some())
    }

    fn wake_what_is_over(&self, key: &Key) {
        let expires = |run: &RunView| {
            let is_its = run.meta.key.namespace == key.namespace && run.policy.as_ref() == Some(&key.name);
            is_its && run.shown_over && !run.meta.deleting && run.tracked == Tracked::No
        };
        let mut wait = Duration::ZERO;
        for run in self.references.runs.matching(expires) {
            self.references.queue.add_after(Work::Run(run), wait);
            wait = wait.saturating_add(APART);
        }
    }
}

impl Listener<PolicyView> for PoliciesSeen {
    fn applied(&self, key: Key) {
        if self.keeps_otherwise(&key) {
            self.wake_what_is_over(&key);
        }
        self.references.wake(&key);
        self.references.queue.add(Work::Policy(key));
    }

    fn gone(&self, key: Key, _uid: String) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        self.references.wake(&key);
    }

    fn synced(&self) {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::fixtures;
    use serde_json::{Value, json};

    fn apply<V: View>(index: &Index<V>, namespace: &str, name: &str, spec: &Value, status: &Value, notes: &Value) {
        let object = json!({
            "apiVersion": "m87.dev/v1alpha1", "kind": "K",
            "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-of-{name}"), "annotations": notes},
            "spec": spec, "status": status,
        });
        index.apply(V::of(serde_json::from_value(object).unwrap()));
    }

    fn drain(queue: &Queue<Work>) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(Some(work)) = futures::FutureExt::now_or_never(queue.take()) {
            if let Work::Run(key) = &work {
                names.push(format!("{key}"));
            }
            queue.done(&work, crate::reconcile::queue::Next::Await);
        }
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn only_another_time_wakes_what_is_over_and_only_of_that_policy_and_a_few_at_a_time() {
        let (queue, runs): (Arc<Queue<Work>>, Arc<Index<RunView>>) = (Arc::default(), Arc::default());
        let policies: Arc<Index<PolicyView>> = Arc::default();
        let all = Key::baseline("m87-system");
        let seen = PoliciesSeen::new(queue.clone(), runs.clone(), policies.clone(), all);
        let says = |retention: Value| {
            let mut spec = serde_json::to_value(fixtures::policy()).unwrap();
            spec.as_object_mut().unwrap().insert("retention".to_owned(), retention);
            apply(&policies, "ns", "rules", &spec, &json!(null), &json!({}));
            seen.applied(Key { namespace: "ns".to_owned(), name: "rules".to_owned() });
        };
        let over = json!({"terminal": "COMPLETE", "receipt": {"hash": "h", "logIndex": 0}});
        let run = |namespace: &str, name: &str, policy: &str, notes: Value| {
            let spec = json!({
                "policyRef": {"name": policy}, "manifestRef": {"name": "tools"},
                "proposal": fixtures::dossier().proposal,
            });
            apply(&runs, namespace, name, &spec, &over, &notes);
        };
        for at in 0..300 {
            run("ns", &format!("over-{at}"), "rules", json!({}));
        }
        run("ns", "of-another", "other", json!({}));
        run("elsewhere", "over", "rules", json!({}));
        run("ns", "tracked", "rules", json!({"argocd.argoproj.io/tracking-id": "app:x"}));
        says(json!(null));
        says(json!(null));
        assert_eq!(drain(&queue), Vec::<String>::new());
        says(json!({"ttlSecondsAfterSealed": 60}));
        let first = drain(&queue);
        assert!(!first.is_empty() && first.len() < 10, "{} at one time", first.len());
        tokio::time::sleep(Duration::from_secs(4)).await;
        let rest = drain(&queue);
        assert_eq!(first.len() + rest.len(), 300);
        assert!(first.iter().chain(&rest).all(|name| name.starts_with("ns/over-")), "{rest:?}");
        says(json!({"ttlSecondsAfterSealed": 60}));
        says(json!(null));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(drain(&queue), Vec::<String>::new());
    }
}
