//! The dossiers of runs that go on. A dossier is frozen when its run is opened, so it is read once and not at every step.

use m87_core::dossier::Dossier;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are kept; with more runs going on than this, some are read again.
const MOST: usize = 1024;

/// Dossiers by their run's uid.
#[derive(Debug, Default)]
pub(super) struct Dossiers(Mutex<HashMap<String, Arc<Dossier>>>);

impl Dossiers {
    pub(super) fn get(&self, uid: &str) -> Option<Arc<Dossier>> {
        self.kept().get(uid).cloned()
    }

    pub(super) fn keep(&self, dossier: &Arc<Dossier>) {
        let mut kept = self.kept();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(dossier.run.uid.clone(), dossier.clone());
    }

    /// Its run is over.
    pub(super) fn forget(&self, uid: &str) {
        self.kept().remove(uid);
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Arc<Dossier>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
