//! How many runs of a tenant may be open at one time, and who is next. A tenant that floods waits for itself, and nobody waits
//! for it.
//!
//! Places that are free belong to those who wait first, and those are called. A newcomer has a place only where there is one more
//! than runs that wait. Who is called and has no use for a place any more gives it up; who does not come in time loses its turn,
//! so that no place stays empty for somebody who is gone.

use crate::reconcile::index::Key;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a place is kept for a run that was called.
const KEPT: Duration = Duration::from_secs(30);

/// Runs that are open and runs that wait, by tenant.
pub struct OpenRuns {
    most: usize,
    tenants: Mutex<HashMap<String, Tenant>>,
}

impl OpenRuns {
    /// At most so many of each tenant.
    pub fn at_most(most: usize) -> Self {
        Self { most, tenants: Mutex::default() }
    }

    /// Whether a run has a place, or could have one.
    pub fn has_place(&self, key: &Key, uid: &str) -> bool {
        self.tenants().get(&key.namespace).map_or(self.most > 0, |tenant| tenant.has_place(self.most, key, uid))
    }

    /// Gives a run a place, if there is one for it.
    pub fn take_place(&self, key: &Key, uid: &str) -> bool {
        self.change(&key.namespace, |tenant| tenant.take_place(self.most, key, uid))
    }

    /// A run is open, whether or not there was a place for it.
    pub fn hold_place(&self, namespace: &str, uid: &str) {
        self.change(namespace, |tenant| tenant.open.insert(uid.to_owned()));
    }

    /// A run needs its place no longer; answers who is called.
    pub fn leave_place(&self, namespace: &str, uid: &str) -> Vec<Key> {
        self.change(namespace, |tenant| {
            tenant.open.remove(uid);
            tenant.call(self.most, Instant::now())
        })
    }

    /// That run waits for a place; answers who is called.
    pub fn wait(&self, key: &Key) -> Vec<Key> {
        self.change(&key.namespace, |tenant| tenant.wait(self.most, key, Instant::now()))
    }

    /// That run waits no longer; answers who is called.
    pub fn give_up(&self, key: &Key) -> Vec<Key> {
        self.change(&key.namespace, |tenant| {
            tenant.forget(key);
            tenant.call(self.most, Instant::now())
        })
    }

    /// How many runs are open.
    pub fn len(&self) -> usize {
        self.tenants().values().map(|tenant| tenant.open.len()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn change<T>(&self, namespace: &str, change: impl FnOnce(&mut Tenant) -> T) -> T {
        let mut tenants = self.tenants();
        let tenant = tenants.entry(namespace.to_owned()).or_default();
        let answer = change(tenant);
        if tenant.open.is_empty() && tenant.waiting.is_empty() {
            tenants.remove(namespace);
        }
        answer
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Tenant {
    open: HashSet<String>,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    key: Key,
    /// When it was told that there is a place for it.
    called: Option<Instant>,
}

impl Tenant {
    fn free(&self, most: usize) -> usize {
        most.saturating_sub(self.open.len())
    }

    fn has_place(&self, most: usize, key: &Key, uid: &str) -> bool {
        let before = self.waiting.iter().take_while(|waiter| waiter.key != *key).count();
        self.open.contains(uid) || before < self.free(most)
    }

    fn take_place(&mut self, most: usize, key: &Key, uid: &str) -> bool {
        let fits = self.has_place(most, key, uid);
        if fits {
            self.forget(key);
            self.open.insert(uid.to_owned());
        }
        fits
    }

    fn wait(&mut self, most: usize, key: &Key, now: Instant) -> Vec<Key> {
        match self.waiting.iter_mut().find(|waiter| waiter.key == *key) {
            // It has come, and there was no place after all.
            Some(waiter) => waiter.called = None,
            None => self.waiting.push_back(Waiter { key: key.clone(), called: None }),
        }
        self.call(most, now)
    }

    fn forget(&mut self, key: &Key) {
        self.waiting.retain(|waiter| waiter.key != *key);
    }

    /// Calls those for whom there is a place. Who was called and did not come is forgotten: it waits anew when it comes.
    fn call(&mut self, most: usize, now: Instant) -> Vec<Key> {
        self.waiting.retain(|waiter| waiter.called.is_none_or(|called| now.saturating_duration_since(called) < KEPT));
        let free = self.free(most);
        let next = self.waiting.iter_mut().take(free).filter(|waiter| waiter.called.is_none());
        next.map(|waiter| {
            waiter.called = Some(now);
            waiter.key.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn key(name: &str) -> Key {
        Key { namespace: "a".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_tenant_at_its_cap_waits_in_order_and_nobody_else_does() {
        let open = OpenRuns::at_most(2);
        assert!(open.take_place(&key("first"), "1") && open.take_place(&key("second"), "2"));
        assert!(!open.take_place(&key("third"), "3"));
        assert!(open.take_place(&key("second"), "2"), "a run that has its place keeps it");
        assert!(open.take_place(&Key { namespace: "b".to_owned(), name: "first".to_owned() }, "9"));
        for name in ["third", "fourth", "third"] {
            assert_eq!(open.wait(&key(name)), []);
        }
        assert_eq!(open.leave_place("a", "1"), [key("third")]);
        assert!(!open.take_place(&key("fifth"), "5"), "a newcomer took the place of a run that was called");
        assert_eq!(open.leave_place("a", "2"), [key("fourth")]);
        assert_eq!(open.leave_place("b", "9"), []);
        assert!(open.is_empty() && open.take_place(&key("fourth"), "4") && open.take_place(&key("third"), "3"));
    }

    /// What a run, by its number, or the time does.
    #[derive(Debug, Clone, Copy)]
    enum Does {
        /// It is looked at: it takes its place, or waits.
        Comes(usize),
        /// It is over, if it is open.
        Ends(usize),
        /// It is suspended, or gone, and that is seen.
        GivesUp(usize),
        /// It is not heard of any more, and nobody is told.
        Dies(usize),
        /// So many seconds pass.
        Pass(u64),
    }

    const RUNS: usize = 8;

    fn does() -> impl Strategy<Value = Does> {
        prop_oneof![
            6 => (0..RUNS).prop_map(Does::Comes),
            4 => (0..RUNS).prop_map(Does::Ends),
            1 => (0..RUNS).prop_map(Does::GivesUp),
            1 => (0..RUNS).prop_map(Does::Dies),
            1 => (1..40_u64).prop_map(Does::Pass),
        ]
    }

    /// A tenant, and what has to hold of it whatever happens.
    struct Model {
        most: usize,
        tenant: Tenant,
        now: Instant,
        dead: HashSet<usize>,
        /// Who waits, since which turn.
        since: HashMap<usize, usize>,
        turn: usize,
        /// Called, and to be looked at.
        called: Vec<usize>,
    }

    impl Model {
        fn take_in(&mut self, called: Vec<Key>) {
            self.called.extend(called.iter().map(|key| key.name.parse::<usize>().unwrap()));
        }

        fn comes(&mut self, run: usize) {
            let (key, uid) = (key(&run.to_string()), run.to_string());
            if self.dead.contains(&run) || self.tenant.open.contains(&uid) {
                return;
            }
            if self.tenant.take_place(self.most, &key, &uid) {
                let own = self.since.remove(&run).unwrap_or(self.turn);
                for waiter in &self.tenant.waiting {
                    let other: usize = waiter.key.name.parse().unwrap();
                    let is_called = self.tenant.waiting.iter().take(self.tenant.free(self.most));
                    let has_its_own = is_called.into_iter().any(|one| one.key == waiter.key);
                    assert!(self.since[&other] > own || has_its_own, "{run} overtook {other}, which has no place");
                }
            } else {
                let called = self.tenant.wait(self.most, &key, self.now);
                self.since.entry(run).or_insert(self.turn);
                self.take_in(called);
            }
        }

        fn step(&mut self, does: Does) {
            self.turn += 1;
            match does {
                Does::Comes(run) => self.comes(run),
                Does::Ends(run) => {
                    if self.tenant.open.remove(&run.to_string()) {
                        let called = self.tenant.call(self.most, self.now);
                        self.take_in(called);
                    }
                }
                Does::GivesUp(run) => {
                    self.tenant.forget(&key(&run.to_string()));
                    let called = self.tenant.call(self.most, self.now);
                    self.take_in(called);
                }
                Does::Dies(run) => drop(self.dead.insert(run)),
                Does::Pass(seconds) => self.now += Duration::from_secs(seconds),
            }
            let waits: HashSet<usize> = self.tenant.waiting.iter().map(|one| one.key.name.parse().unwrap()).collect();
            self.since.retain(|run, _| waits.contains(run));
            assert!(self.tenant.open.len() <= self.most);
        }

        /// Whoever is called comes.
        fn answer_calls(&mut self) {
            while let Some(run) = self.called.pop() {
                self.step(Does::Comes(run));
            }
        }
    }

    proptest! {
        #[test]
        fn nobody_is_overtaken_and_no_place_is_lost(most in 1..4_usize, all in vec((does(), any::<bool>()), 0..120)) {
            let mut model = Model {
                most, tenant: Tenant::default(), now: Instant::now(), dead: HashSet::new(), since: HashMap::new(),
                turn: 0, called: Vec::new(),
            };
            for (does, answered) in all {
                model.step(does);
                if answered {
                    model.answer_calls();
                }
            }
            // Those who wait look again from time to time; that is all it needs, once for each that is dead before them.
            for _ in 0..=RUNS {
                model.step(Does::Pass(KEPT.as_secs()));
                for run in 0..RUNS {
                    if model.since.contains_key(&run) {
                        model.step(Does::Comes(run));
                    }
                }
                model.answer_calls();
            }
            let waits = model.since.keys().filter(|run| !model.dead.contains(run)).count();
            prop_assert!(waits == 0 || model.tenant.free(most) == 0, "{waits} wait, and there is a place");
        }
    }
}
