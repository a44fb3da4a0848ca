//! Runs that go on, as they stand in the store: what is asked at every step of a run is not read from the disk.
//!
//! Only the writer tells of them, in the order in which it makes changes durable, so nothing here is ahead of the disk or behind
//! what somebody was told. What is not here is on the disk.

use super::Loaded;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are kept, and of how many bytes as they are encoded; with more runs going on than this, the others are read.
const MOST: usize = 1024;
const MOST_BYTES: usize = 64 << 20;

/// A run as it has become.
pub(super) struct Became {
    pub(super) run: Loaded,
    /// How long its row is as it is encoded.
    pub(super) row_bytes: usize,
}

/// The runs that go on. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Latest(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    runs: HashMap<String, One>,
    /// Of all of them.
    bytes: usize,
    /// Uids by their instance's key; of two engines with the same key, only one.
    instances: HashMap<i64, String>,
    /// Nothing is kept any more.
    closed: bool,
}

struct One {
    run: Arc<Loaded>,
    dossier_bytes: usize,
    row_bytes: usize,
}

impl One {
    const fn bytes(&self) -> usize {
        self.dossier_bytes.saturating_add(self.row_bytes)
    }
}

impl Latest {
    /// The run of that uid, if it is here.
    pub(super) fn get(&self, uid: &str) -> Option<Arc<Loaded>> {
        self.kept().runs.get(uid).map(|one| one.run.clone())
    }

    /// The run that is bound to that instance, if it is here.
    pub(super) fn by_instance(&self, engine_id: &str, instance_key: i64) -> Option<String> {
        let kept = self.kept();
        let uid = kept.instances.get(&instance_key)?;
        let claim = kept.runs.get(uid)?.run.run.row.claim()?;
        (claim.engine_id == engine_id && claim.instance_key == instance_key).then(|| uid.clone())
    }

    /// The run is durably like this from now on.
    pub(super) fn became(&self, now: Became) {
        let Became { run, row_bytes } = now;
        let mut kept = self.kept();
        let uid = run.run.dossier.run.uid.clone();
        let before = kept.remove(&uid);
        if kept.closed || run.run.row.sealed().is_some() || kept.runs.len() >= MOST {
            return;
        }
        // A dossier stays as it is.
        let dossier_bytes = before.map_or_else(|| encoded_len(&run.run.dossier), |before| before.dossier_bytes);
        let one = One { run: Arc::new(run), dossier_bytes, row_bytes };
        if kept.bytes.saturating_add(one.bytes()) <= MOST_BYTES {
            kept.insert(uid, one);
        }
    }

    /// Something changed of all runs at once: from here on each is read.
    pub(super) fn close(&self) {
        *self.kept() = Kept { closed: true, ..Kept::default() };
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn insert(&mut self, uid: String, one: One) {
        if let Some(claim) = one.run.run.row.claim() {
            self.instances.insert(claim.instance_key, uid.clone());
        }
        self.bytes = self.bytes.saturating_add(one.bytes());
        self.runs.insert(uid, one);
    }

    fn remove(&mut self, uid: &str) -> Option<One> {
        let one = self.runs.remove(uid)?;
        self.bytes = self.bytes.saturating_sub(one.bytes());
        if let Some(claim) = one.run.run.row.claim() {
            self.instances.remove(&claim.instance_key);
        }
        Some(one)
    }
}

/// How long something is as it is encoded; what cannot be encoded is too long to be kept.
fn encoded_len(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |encoded| encoded.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::clock::Wall;
    use crate::row::{Closing, Ending, Row, Run, Sealed, State};
    use m87_core::fixtures;
    use m87_core::reason::Terminal;

    fn became(name: &str, trace_bytes: usize) -> Became {
        let mut dossier = fixtures::dossier();
        dossier.run.uid = name.to_owned();
        dossier.proposal.reasoning_trace = Some("x".repeat(trace_bytes));
        let run = Run { dossier: Arc::new(dossier), row: Row::open(Wall(0)) };
        let row_bytes = encoded_len(&run.row);
        Became { run: Loaded { run, version: 1, barred: false }, row_bytes }
    }

    fn over(name: &str) -> Became {
        let mut over = became(name, 0);
        let closing = Closing { claim: None, ending: Ending::Alone, at: fixtures::at(9) };
        let sealed = Sealed { receipt_hash: "h".to_owned(), terminal: Terminal::Complete, reason: None };
        over.run.run.row.state = State::Sealed(closing, sealed);
        over
    }

    #[test]
    fn what_is_kept_is_bounded_by_bytes_and_whoever_is_over_makes_room() {
        let latest = Latest::default();
        let large = MOST_BYTES / 4;
        for name in ["a", "b", "c", "d", "a", "b"] {
            latest.became(became(name, large));
        }
        let kept = |name: &str| latest.get(name).is_some();
        assert_eq!([kept("a"), kept("b"), kept("c"), kept("d")], [true, true, true, false], "three fit, and a little");
        latest.became(over("b"));
        latest.became(became("d", large));
        assert_eq!([kept("a"), kept("b"), kept("c"), kept("d")], [true, false, true, true]);
        ["a", "c", "d"].into_iter().for_each(|name| latest.became(over(name)));
        assert_eq!(latest.kept().bytes, 0);
    }
}
