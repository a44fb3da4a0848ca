//! What is kept outside the store, as `/readyz` and `/metrics` tell it.

use crate::health::{Health, Part, PartState};
use crate::metrics::Metrics;
use crate::world::mark::nearly_full;
use m87_authority::publish::Unpublished;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Tells it until stopped.
pub(super) async fn tell(
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    mut unpublished: watch::Receiver<Unpublished>,
    mut mark: watch::Receiver<usize>,
    stop: CancellationToken,
) {
    loop {
        let (now, length) = (unpublished.borrow_and_update().clone(), *mark.borrow_and_update());
        metrics.unpublished(now.namespaces);
        health.set(Part::Evidence, standing(&now, length));
        let told = tokio::select! {
            told = unpublished.changed() => told,
            told = mark.changed() => told,
            () = stop.cancelled() => return,
        };
        if told.is_err() {
            return;
        }
    }
}

/// Runs go on safely without it: receipts are in the store, and whoever holds an older checkpoint still has it.
fn standing(unpublished: &Unpublished, mark: usize) -> PartState {
    let Unpublished { namespaces, why } = unpublished;
    let late = match (namespaces, why.as_str()) {
        (_, "") => None,
        (0, why) => Some(format!("checkpoints cannot be published: {why}")),
        (count, why) => Some(format!("checkpoints that cannot be published: {count}; {why}")),
    };
    let told: Vec<String> = nearly_full(mark).into_iter().chain(late).collect();
    if told.is_empty() { PartState::Well } else { PartState::Degraded(told.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_wrong_with_the_evidence_is_told_until_it_is_not() {
        let (health, metrics, stop) = (Arc::<Health>::default(), Arc::<Metrics>::default(), CancellationToken::new());
        let (say, said) = watch::channel(Unpublished { namespaces: 2, why: "namespace a: full".to_owned() });
        let (grow, length) = watch::channel(0);
        let telling = tokio::spawn(tell(health.clone(), metrics.clone(), said, length, stop.clone()));
        let told = async |line: &str, figure: &str| {
            while !(health.report().1.contains(line) && metrics.text().contains(figure)) {
                tokio::task::yield_now().await;
            }
        };
        told(
            "[~] evidence: checkpoints that cannot be published: 2; namespace a: full",
            "m87_checkpoints_unpublished 2",
        )
        .await;
        say.send_replace(Unpublished::default());
        told("[+] evidence", "m87_checkpoints_unpublished 0").await;
        grow.send_replace(900_000);
        told("[~] evidence: the high-water mark has 900000 bytes", "").await;
        stop.cancel();
        assert!(telling.await.is_ok());
    }
}
