//! How many runs a second a cluster takes from create to terminal, and how long each takes, all seen from outside by a watch.
//!
//! `tests/kube/figures` runs it in a cluster of its own:
//!
//! - `cluster alone COUNT [RATE]`: before m87 is installed. This process writes one status as soon as it sees a run: what the API
//!   server allows at best.
//! - `cluster judged COUNT [RATE]`: m87 refuses each run.
//!
//! Runs are created as fast as that goes, or RATE a second.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use m87_api::GovernedRunSpec;
use m87_operator::objects::{resource, within};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Requests under way at once, where no rate is asked for.
const CREATORS: usize = 32;
/// Nothing ended for so long: it never will.
const STUCK: Duration = Duration::from_secs(120);
/// The label by which the runs of one measurement are watched.
const LABEL: &str = "m87-bench";

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // `cargo test --benches` asks whether it runs at all; there is no cluster to ask.
    if words.is_empty() {
        println!("cluster: nothing measured; tests/kube/figures runs it on a cluster");
        return;
    }
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let mut load = Load { runs: runs().await, series: format!("s{}", std::process::id()), alone: false };
    let (what, count, rate) = match words.as_slice() {
        [what @ ("alone" | "judged"), count] => (*what, count, None),
        [what @ ("alone" | "judged"), count, rate] => (*what, count, Some(*rate)),
        other => panic!("alone COUNT [RATE], or judged COUNT [RATE]; not {other:?}"),
    };
    load.alone = what == "alone";
    let what = rate.map_or_else(|| what.to_owned(), |rate| format!("{what} at {rate}/s"));
    load.measure(&what, count.parse().unwrap(), rate.map(|rate| rate.parse().unwrap())).await;
}

/// The runs of the namespace `bench`.
async fn runs() -> Api<DynamicObject> {
    let client = Client::try_default().await.expect("a cluster: tests/kube/figures starts one");
    within::<GovernedRunSpec>(client, "bench")
}

struct Load {
    runs: Api<DynamicObject>,
    series: String,
    alone: bool,
}

/// When each run's end was seen.
type Ends = Arc<Mutex<HashMap<String, Instant>>>;

impl Load {
    async fn measure(&self, what: &str, count: usize, rate: Option<f64>) {
        let (ends, (progress, mut seen)) = (Ends::default(), watch::channel(0));
        let watching = tokio::spawn(follow(self.runs.clone(), self.series.clone(), self.alone, ends.clone(), progress));
        let begun = Instant::now();
        let sent = self.create(count, rate).await;
        let created = begun.elapsed();
        while *seen.borrow_and_update() < count {
            tokio::time::timeout(STUCK, seen.changed()).await.expect("the runs end").unwrap();
        }
        watching.abort();
        let ends = ends.lock().unwrap();
        let last = ends.values().max().unwrap().duration_since(begun).as_secs_f64();
        let mut took: Vec<Duration> =
            sent.iter().map(|(name, at)| ends.get(name).unwrap().duration_since(*at)).collect();
        took.sort();
        let ms = |part: usize| took.get((took.len() * part / 100).min(took.len() - 1)).unwrap().as_secs_f64() * 1e3;
        println!(
            "{what}: {count} runs in {last:.2} s: {:.1} runs/s (created in {:.2} s); create to terminal: p50 {:.0} ms, p99 {:.0} ms",
            count as f64 / last,
            created.as_secs_f64(),
            ms(50),
            ms(99)
        );
    }

    /// Creates them; says when each was asked for.
    async fn create(&self, count: usize, rate: Option<f64>) -> HashMap<String, Instant> {
        let begun = tokio::time::Instant::now();
        futures::stream::iter(0..count)
            .map(|number| async move {
                if let Some(rate) = rate {
                    tokio::time::sleep_until(begun + Duration::from_secs_f64(number as f64 / rate)).await;
                }
                let name = format!("{}-{number}", self.series);
                let sent = Instant::now();
                self.runs.create(&PostParams::default(), &self.run(&name)).await.unwrap();
                (name, sent)
            })
            .buffer_unordered(if rate.is_some() { count } else { CREATORS })
            .collect()
            .await
    }

    /// A run whose risk its policy does not allow.
    fn run(&self, name: &str) -> DynamicObject {
        let mut object = DynamicObject::new(name, &resource::<GovernedRunSpec>());
        object.labels_mut().insert(LABEL.to_owned(), self.series.clone());
        object.data = json!({"spec": {
            "policyRef": {"name": "slow"},
            "manifestRef": {"name": "slow"},
            "proposal": {
                "tool": "ring", "actionType": "ring", "target": format!("bells/{name}"), "risk": "critical",
                "reasoningTrace": "To measure how fast it is refused.", "input": {"bell": name, "seconds": 0},
            },
        }});
        object
    }
}

/// Watches one series; notes the end of each run, and writes it itself where there is nobody else.
async fn follow(runs: Api<DynamicObject>, series: String, alone: bool, ends: Ends, progress: watch::Sender<usize>) {
    let params = WatchParams::default().labels(&format!("{LABEL}={series}")).timeout(290);
    let mut version = "0".to_owned();
    loop {
        let mut events = runs.watch(&params, &version).await.unwrap().boxed();
        while let Ok(Some(event)) = events.try_next().await {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
            version = object.resource_version().unwrap();
            if object.data.pointer("/status/terminal").is_some_and(Value::is_string) {
                let mut ends = ends.lock().unwrap();
                ends.entry(object.name_any()).or_insert_with(Instant::now);
                progress.send_replace(ends.len());
            } else if alone {
                tokio::spawn(end(runs.clone(), object));
            }
        }
    }
}

/// A status of the size that m87 writes.
async fn end(runs: Api<DynamicObject>, mut object: DynamicObject) {
    let at = "2026-01-31T12:00:00Z";
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Refused", "message": "x".repeat(160), "lastTransitionTime": at, "observedGeneration": 1});
    object.data["status"] = json!({
        "observedGeneration": 1, "phase": "Sealed", "terminal": "HALT", "reason": "RiskNotAllowed", "message": "x".repeat(300),
        "conditions": [condition("Ready", "True"), condition("Reconciling", "False"), condition("Stalled", "False"),
            condition("Succeeded", "False"), condition("ReceiptSealed", "True"), condition("PolicyPinned", "True")],
    });
    runs.replace_status(&object.name_any(), &PostParams::default(), &object).await.unwrap();
}
