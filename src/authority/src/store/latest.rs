//! Runs that go on, as they stand in the store: what is asked at every step of a run is not read from the disk.
//!
//! Only the writer tells of them, in the order in which it makes changes durable, so nothing here is ahead of the disk or behind
//! what somebody was told. What is not here is on the disk.

use super::Loaded;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are kept; with more runs going on than this, the others are read.
const MOST: usize = 1024;

/// The runs that go on. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Latest(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    runs: HashMap<String, Arc<Loaded>>,
    /// Uids by their instance's key; of two engines with the same key, only one.
    instances: HashMap<i64, String>,
    /// Nothing is kept any more.
    closed: bool,
}

impl Latest {
    /// The run of that uid, if it is here.
    pub(super) fn get(&self, uid: &str) -> Option<Arc<Loaded>> {
        self.kept().runs.get(uid).cloned()
    }

    /// The run that is bound to that instance, if it is here.
    pub(super) fn by_instance(&self, engine_id: &str, instance_key: i64) -> Option<String> {
        let kept = self.kept();
        let uid = kept.instances.get(&instance_key)?;
        let claim = kept.runs.get(uid)?.run.row.claim()?;
        (claim.engine_id == engine_id && claim.instance_key == instance_key).then(|| uid.clone())
    }

    /// The run is durably like this from now on.
    pub(super) fn became(&self, now: Loaded) {
        let mut kept = self.kept();
        let uid = now.run.dossier.run.uid.clone();
        let before = kept.runs.remove(&uid);
        if let Some(claim) = before.as_ref().and_then(|before| before.run.row.claim()) {
            kept.instances.remove(&claim.instance_key);
        }
        if kept.closed || now.run.row.sealed().is_some() || kept.runs.len() >= MOST {
            return;
        }
        if let Some(claim) = now.run.row.claim() {
            kept.instances.insert(claim.instance_key, uid.clone());
        }
        kept.runs.insert(uid, Arc::new(now));
    }

    /// Something changed of all runs at once: from here on each is read.
    pub(super) fn close(&self) {
        *self.kept() = Kept { closed: true, ..Kept::default() };
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
