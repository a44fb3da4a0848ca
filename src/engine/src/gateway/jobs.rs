//! How jobs leave: held polls and streams, neither of which loses a job that its client did not take.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt};
use m87_zeebe::proto;
use tokio_util::sync::CancellationToken;
use tonic::{Status, metadata::MetadataMap};

use super::wire::{self, check_tenants, invalid};
use crate::engine::Engine;
use crate::machine::{ActivateRequest, ActivatedJob, StreamRequest};
use crate::rejection::Intent;

/// How long a poll is held that leaves it to the gateway.
const HOLD: Duration = Duration::from_secs(10);

/// Held for at least one job, as long as the request asks and its client waits; then perhaps empty.
pub(super) async fn activate(
    engine: &Engine,
    metadata: &MetadataMap,
    ask: proto::ActivateJobsRequest,
    closing: &CancellationToken,
) -> Result<Batch, Status> {
    check_tenants(&ask.tenant_ids)?;
    check_ask(&ask.r#type, ask.timeout)?;
    let max_jobs = usize::try_from(ask.max_jobs_to_activate).ok().filter(|max| *max > 0).ok_or_else(|| {
        let max = ask.max_jobs_to_activate;
        let reason = format!(
            "Expected to activate job batch with max jobs to activate to be greater than zero, but it was '{max}'"
        );
        invalid(Intent::Activate, reason)
    })?;
    let request = ActivateRequest {
        job_type: ask.r#type,
        worker: ask.worker,
        timeout: ask.timeout,
        max_jobs,
        fetch: ask.fetch_variable,
    };
    let jobs = match hold(ask.request_timeout, metadata) {
        None => engine.activate(request).await?,
        Some(wait) => tokio::select! {
            jobs = engine.poll(request, wait) => jobs?,
            () = closing.cancelled() => Vec::new(),
        },
    };
    Ok(Batch { engine: engine.clone(), jobs })
}

/// Pushes jobs until the client or the gateway goes.
pub(super) fn stream(
    engine: &Engine,
    ask: proto::StreamActivatedJobsRequest,
    closing: CancellationToken,
) -> Result<impl Stream<Item = Result<proto::ActivatedJob, Status>> + Send + use<>, Status> {
    check_tenants(&ask.tenant_ids)?;
    check_ask(&ask.r#type, ask.timeout)?;
    let jobs = engine.subscribe(StreamRequest {
        job_type: ask.r#type,
        worker: ask.worker,
        timeout: ask.timeout,
        fetch: ask.fetch_variable,
    });
    let ended =
        futures::stream::once(async { Err(Status::unavailable("the gateway is closing: open the stream again")) });
    Ok(jobs.map(wire::job).take_until(closing.cancelled_owned()).chain(ended))
}

fn check_ask(job_type: &str, timeout: i64) -> Result<(), Status> {
    if job_type.trim().is_empty() {
        return Err(invalid(
            Intent::Activate,
            "Expected to activate job batch with type to be present, but it was blank",
        ));
    }
    if timeout < 1 {
        let reason =
            format!("Expected to activate job batch with timeout to be greater than zero, but it was '{timeout}'");
        return Err(invalid(Intent::Activate, reason));
    }
    Ok(())
}

/// How long to hold a poll; `None`: not at all. It ends before its client stops waiting, so that no job is sent to nobody.
fn hold(request_timeout: i64, metadata: &MetadataMap) -> Option<Duration> {
    let asked = match request_timeout {
        0 => HOLD,
        milliseconds => Duration::from_millis(u64::try_from(milliseconds).ok()?),
    };
    let patience = metadata.get("grpc-timeout").and_then(|value| timeout(value.to_str().ok()?));
    Some(match patience {
        None => asked,
        Some(patience) => {
            let margin = (patience / 10).clamp(Duration::from_millis(100), Duration::from_secs(1));
            asked.min(patience.saturating_sub(margin))
        }
    })
}

/// A `grpc-timeout`: at most eight digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let amount: u64 = text.strip_suffix(unit)?.parse().ok()?;
    match unit {
        'H' => Some(Duration::from_secs(amount.checked_mul(3600)?)),
        'M' => Some(Duration::from_secs(amount.checked_mul(60)?)),
        'S' => Some(Duration::from_secs(amount)),
        'm' => Some(Duration::from_millis(amount)),
        'u' => Some(Duration::from_micros(amount)),
        'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

/// Jobs on their way out, in one message: the engine hands out no more at a time than it carries. What has not left when
/// it is dropped is handed back.
pub(super) struct Batch {
    engine: Engine,
    jobs: Vec<ActivatedJob>,
}

impl Stream for Batch {
    type Item = Result<proto::ActivateJobsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.jobs.is_empty() {
            return Poll::Ready(None);
        }
        let jobs: Result<Vec<_>, Status> = self.jobs.iter().cloned().map(wire::job).collect();
        Poll::Ready(Some(jobs.map(|jobs| {
            self.jobs.clear();
            proto::ActivateJobsResponse { jobs }
        })))
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let left = self.jobs.iter().map(ActivatedJob::activation).collect();
        let engine = self.engine.clone();
        self.engine.inner.runtime.spawn(async move {
            if let Err(error) = engine.hand_back(left).await {
                tracing::warn!(%error, "jobs that their client did not take were not handed back; they time out");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_poll_ends_before_its_client_stops_waiting() {
        let with = |patience: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", patience.parse().unwrap());
            metadata
        };
        let ms = Duration::from_millis;
        let none = MetadataMap::new();
        for (asked, metadata, held) in [
            (50_000, &none, Some(ms(50_000))),
            (0, &none, Some(HOLD)),
            (-1, &none, None),
            (i64::MIN, &none, None),
            (8_999, &with("10S"), Some(ms(8_999))),
            (0, &with("20100m"), Some(HOLD)),
            (60_000, &with("10S"), Some(ms(9_000))),
            (0, &with("2S"), Some(ms(1_800))),
            (0, &with("500000u"), Some(ms(400))),
            (0, &with("50m"), Some(ms(0))),
            (30_000, &with("99999999H"), Some(ms(30_000))),
            (30_000, &with("soon"), Some(ms(30_000))),
        ] {
            assert_eq!(hold(asked, metadata), held, "{asked} {metadata:?}");
        }
    }
}
