//! What is kept outside the store, as `/readyz` and `/metrics` tell it.

use crate::health::{Health, Part, Standing};
use crate::metrics::Metrics;
use m87_authority::publish::Unpublished;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Tells it until stopped.
pub(super) async fn tell(
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    mut unpublished: watch::Receiver<Unpublished>,
    stop: CancellationToken,
) {
    loop {
        let now = unpublished.borrow_and_update().clone();
        metrics.unpublished(now.namespaces);
        health.set(Part::Evidence, standing(&now));
        if !matches!(stop.run_until_cancelled(unpublished.changed()).await, Some(Ok(()))) {
            return;
        }
    }
}

/// Runs go on safely without it: receipts are in the store, and whoever holds an older checkpoint still has it.
fn standing(unpublished: &Unpublished) -> Standing {
    let Unpublished { namespaces, why } = unpublished;
    match (namespaces, why.as_str()) {
        (_, "") => Standing::Well,
        (0, why) => Standing::Degraded(format!("checkpoints cannot be published: {why}")),
        (count, why) => Standing::Degraded(format!("checkpoints that cannot be published: {count}; {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_checkpoint_that_cannot_be_published_is_told_until_it_is() {
        let (health, metrics, stop) = (Arc::<Health>::default(), Arc::<Metrics>::default(), CancellationToken::new());
        let (say, said) = watch::channel(Unpublished { namespaces: 2, why: "namespace a: full".to_owned() });
        let telling = tokio::spawn(tell(health.clone(), metrics.clone(), said, stop.clone()));
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
        stop.cancel();
        assert!(telling.await.is_ok());
    }
}
