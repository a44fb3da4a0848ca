//! Told by the authority of every change to a run: what is to be shown is put into the queue, at once where a run is over and a
//! moment later where it is not, so that a run that ends within that moment has one status written.

use super::SETTLING;
use super::places::OpenRuns;
use crate::metrics::Metrics;
use crate::reconcile::Work;
use crate::reconcile::index::Key;
use crate::reconcile::queue::Queue;
use m87_authority::row::{Run, State};
use m87_authority::world::StatusSink;
use m87_core::reason::Reason;
use std::sync::Arc;

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
                let called = self.open.leave_place(namespace, uid);
                called.into_iter().for_each(|run| self.queue.add(Work::Run(run)));
                self.queue.add(Work::Run(key));
            }
            State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) | State::Closing(_) => {
                self.open.hold_place(namespace, uid);
                self.queue.add_after(Work::Run(key), SETTLING);
            }
        }
    }
}
