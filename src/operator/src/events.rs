//! Events: for what a person must see, once, and never at the cost of a reconcile.

use crate::metrics::Metrics;
use crate::world::call::call;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use m87_api::API_VERSION;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::reconcile::view::Meta;

/// Events that may wait to be recorded; more are dropped, and counted.
const WAITING: usize = 256;
/// The API server takes no longer note, in bytes.
const LONGEST_NOTE: usize = 1000;

/// The object that an event is about.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Its kind, of m87's own.
    pub kind: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// Takes events; cheap to clone.
#[derive(Clone)]
pub struct Events {
    waiting: mpsc::Sender<(Event, ObjectReference)>,
    metrics: Arc<Metrics>,
}

/// Records what [`Events`] takes.
pub struct Recording {
    taken: mpsc::Receiver<(Event, ObjectReference)>,
    recorder: Recorder,
    metrics: Arc<Metrics>,
}

/// Both ends.
pub fn events(client: Client, instance: &str, metrics: Arc<Metrics>) -> (Events, Recording) {
    let (waiting, taken) = mpsc::channel(WAITING);
    let reporter = Reporter { controller: "m87.dev/operator".to_owned(), instance: Some(instance.to_owned()) };
    let recorder = Recorder::new(client, reporter);
    (Events { waiting, metrics: metrics.clone() }, Recording { taken, recorder, metrics })
}

impl Events {
    /// A warning about an object.
    pub fn warn(&self, kind: &str, meta: &Meta, reason: &str, note: &str) {
        let about = About { kind, namespace: &meta.key.namespace, name: &meta.key.name, uid: &meta.uid };
        self.warn_about(about, reason, note);
    }

    /// A warning about an object of which no more is known.
    pub fn warn_about(&self, about: About<'_>, reason: &str, note: &str) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(shorten(note)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let reference = ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(about.kind.to_owned()),
            namespace: Some(about.namespace.to_owned()),
            name: Some(about.name.to_owned()),
            uid: Some(about.uid.to_owned()),
            ..ObjectReference::default()
        };
        if self.waiting.try_send((event, reference)).is_err() {
            self.metrics.event("dropped");
        }
    }
}

impl Recording {
    /// Records until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let (event, reference) = tokio::select! {
                taken = self.taken.recv() => match taken {
                    Some(taken) => taken,
                    None => return,
                },
                () = stop.cancelled() => return,
            };
            // With a limit: an answer that never comes would keep every later event from being recorded.
            match call("recording an event", self.recorder.publish(&event, &reference)).await {
                Ok(()) => self.metrics.event("recorded"),
                Err(error) => {
                    self.metrics.event("failed");
                    tracing::warn!(%error, reason = event.reason, "an event could not be recorded");
                }
            }
        }
    }
}

fn shorten(note: &str) -> String {
    let mut end = note.len().min(LONGEST_NOTE);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = shorten(&"ä".repeat(10_000));
        assert_eq!(note.len(), LONGEST_NOTE);
        assert_eq!(shorten("short"), "short");
    }
}
