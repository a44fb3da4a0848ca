//! Told by the authority of every change to a run: what is to be shown is put into the queue, at once where a run is over and a
//! moment later where it is not, so that a run that ends within that moment has one status written.

use super::SETTLING;
use crate::metrics::Metrics;
use crate::reconcile::Work;
use crate::reconcile::index::Key;
use crate::reconcile::queue::Queue;
use m87_authority::row::{Run, State};
use m87_authority::world::StatusSink;
use m87_core::reason::Reason;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The authority's listener.
pub struct RunSink {
    /// Where what is to be shown is put.
    pub queue: Arc<Queue<Work>>,
    /// Who is on the way.
    pub open: Arc<OpenRuns>,
    /// Figures.
    pub metrics: Arc<Metrics>,
}

impl StatusSink for RunSink {
    fn changed(&self, run: &Run) {
        let (namespace, uid) = (&run.dossier.namespace.name, &run.dossier.run.uid);
        let key = Key { namespace: namespace.clone(), name: run.dossier.run.name.clone() };
        match &run.row.state {
            State::Sealed(closing, sealed) => {
                let millis = closing.at.millis().saturating_sub(run.dossier.opened_at.millis());
                let reason = sealed.reason.map_or("None", Reason::name);
                self.metrics.sealed(sealed.terminal.name(), reason, millis as f64 / 1000.0);
                if let Some(waiting) = self.open.leave_place(namespace, uid) {
                    self.queue.add(Work::Run(waiting));
                }
                self.queue.add(Work::Run(key));
            }
            State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) | State::Closing(_) => {
                self.open.hold_place(namespace, uid);
                self.queue.add_after(Work::Run(key), SETTLING);
            }
        }
    }
}

/// Runs that are open, by tenant, up to so many of each: a tenant that floods waits for itself, and nobody waits for it.
pub struct OpenRuns {
    most: usize,
    tenants: Mutex<HashMap<String, Tenant>>,
}

#[derive(Default)]
struct Tenant {
    open: HashSet<String>,
    waiting: VecDeque<Key>,
}

impl OpenRuns {
    /// At most so many of each tenant.
    pub fn at_most(most: usize) -> Self {
        Self { most, tenants: Mutex::default() }
    }

    /// Whether a run has a place, or could have one.
    pub fn has_place(&self, namespace: &str, uid: &str) -> bool {
        let tenants = self.tenants();
        tenants.get(namespace).is_none_or(|tenant| tenant.open.contains(uid) || tenant.open.len() < self.most)
    }

    /// Gives a run a place, if there is one.
    pub fn take_place(&self, namespace: &str, uid: &str) -> bool {
        let mut tenants = self.tenants();
        let tenant = tenants.entry(namespace.to_owned()).or_default();
        let fits = tenant.open.contains(uid) || tenant.open.len() < self.most;
        if fits {
            tenant.open.insert(uid.to_owned());
        }
        fits
    }

    /// A run is open, whether or not there was a place for it.
    pub fn hold_place(&self, namespace: &str, uid: &str) {
        self.tenants().entry(namespace.to_owned()).or_default().open.insert(uid.to_owned());
    }

    /// A run needs its place no longer; answers whose turn it is.
    pub fn leave_place(&self, namespace: &str, uid: &str) -> Option<Key> {
        let mut tenants = self.tenants();
        let tenant = tenants.get_mut(namespace)?;
        tenant.open.remove(uid);
        let next = tenant.waiting.pop_front();
        if tenant.open.is_empty() && tenant.waiting.is_empty() {
            tenants.remove(namespace);
        }
        next
    }

    /// That run waits for a place.
    pub fn wait(&self, key: &Key) {
        let mut tenants = self.tenants();
        let tenant = tenants.entry(key.namespace.clone()).or_default();
        if !tenant.waiting.contains(key) {
            tenant.waiting.push_back(key.clone());
        }
    }

    /// How many runs are open.
    pub fn len(&self) -> usize {
        self.tenants().values().map(|tenant| tenant.open.len()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_tenant_at_its_cap_waits_in_order_and_nobody_else_does() {
        let open = OpenRuns::at_most(2);
        assert!(open.take_place("a", "1") && open.take_place("a", "2"));
        assert!(!open.take_place("a", "3"));
        assert!(open.take_place("a", "2"), "a run that has its place keeps it");
        assert!(open.take_place("b", "9"));
        let key = |name: &str| Key { namespace: "a".to_owned(), name: name.to_owned() };
        open.wait(&key("third"));
        open.wait(&key("fourth"));
        open.wait(&key("third"));
        assert_eq!(open.leave_place("a", "1"), Some(key("third")));
        assert_eq!(open.leave_place("a", "2"), Some(key("fourth")));
        assert_eq!(open.leave_place("b", "9"), None);
        assert!(open.is_empty());
    }
}
