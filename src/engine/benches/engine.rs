//! How fast the engine is with every acknowledged command on disk: instances per second, push latency beside the disk's own,
//! and recovery.
//!
//! `cargo bench -p m87-engine`. Criterion reports the rates; what is compared with something measured in the same run (the
//! disk's `fdatasync`) is printed at the end, as ratios too. `M87_BENCH_DIR` chooses the disk.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use m87_engine::gateway::{Open, Protection};
use m87_engine::{CreateRequest, Document, Engine, EngineOptions, Resource, StreamRequest, Target};
use m87_zeebe::proto;
use m87_zeebe::proto::gateway_client::GatewayClient;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const MODEL: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d" targetNamespace="bench">
<bpmn:process id="p" isExecutable="true"><bpmn:startEvent id="s"/><bpmn:sequenceFlow id="f" sourceRef="s" targetRef="t"/>
<bpmn:serviceTask id="t"><bpmn:extensionElements><zeebe:taskDefinition type="work"/></bpmn:extensionElements></bpmn:serviceTask>
<bpmn:sequenceFlow id="g" sourceRef="t" targetRef="e"/><bpmn:endEvent id="e"/></bpmn:process></bpmn:definitions>"#;
const VARIABLES: &str = r#"{"run":"0123456789abcdef0123456789abcdef.1"}"#;

/// Callers at once, for the rates.
const CALLERS: u64 = 64;

fn folder() -> TempDir {
    match std::env::var_os("M87_BENCH_DIR") {
        Some(disk) => TempDir::new_in(disk).unwrap(),
        // Beside the build, which is on a disk; the system's temporary folder may be memory.
        None => TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
    }
}

async fn open(folder: &Path) -> Engine {
    let options = EngineOptions { data: Some(folder.to_owned()), ..EngineOptions::default() };
    let engine = Engine::open(options).await.unwrap();
    engine.deploy(vec![Resource { name: "p.bpmn".into(), content: MODEL.into() }]).await.unwrap();
    engine
}

fn request() -> CreateRequest {
    let variables = Document::parse(VARIABLES).unwrap();
    CreateRequest { target: Target::Latest("p".into()), variables, start_at: Vec::new() }
}

fn stream() -> StreamRequest {
    StreamRequest { job_type: "work".into(), worker: "bench".into(), timeout: 60_000, fetch: Vec::new() }
}

/// `instances` are created by callers of the handle; workers are pushed the jobs and complete them.
async fn by_handle(engine: &Engine, instances: u64) -> Duration {
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let finished = Finished::new(instances);
    for _ in 0..CALLERS {
        let (worker, finished) = (engine.clone(), Arc::clone(&finished));
        let mut jobs = engine.subscribe(stream());
        tasks.spawn(async move {
            while let Some(job) = finished.unless_all(jobs.next_job()).await {
                worker.complete_job(job.unwrap().key, Document::default()).await.unwrap();
                finished.one();
            }
        });
    }
    for caller in 0..CALLERS {
        let engine = engine.clone();
        tasks.spawn(async move {
            for _ in 0..share(instances, caller) {
                engine.create_instance(request()).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    began.elapsed()
}

/// The same through the gateway: each caller and each worker has a connection of its own.
async fn by_grpc(address: &str, instances: u64) -> Duration {
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(GatewayClient::connect(address.to_owned()).await.unwrap());
    }
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let finished = Finished::new(instances);
    for at in 0..CALLERS {
        let mut client = clients[at as usize % clients.len()].clone();
        let finished = Arc::clone(&finished);
        let ask = proto::StreamActivatedJobsRequest {
            r#type: "work".into(),
            worker: "bench".into(),
            timeout: 60_000,
            ..Default::default()
        };
        let mut jobs = client.stream_activated_jobs(ask).await.unwrap().into_inner();
        tasks.spawn(async move {
            while let Some(job) = finished.unless_all(jobs.message()).await {
                let job_key = job.unwrap().unwrap().key;
                client.complete_job(proto::CompleteJobRequest { job_key, ..Default::default() }).await.unwrap();
                finished.one();
            }
        });
    }
    for caller in 0..CALLERS {
        let mut client = clients[caller as usize % clients.len()].clone();
        tasks.spawn(async move {
            for _ in 0..share(instances, caller) {
                let ask = proto::CreateProcessInstanceRequest {
                    bpmn_process_id: "p".into(),
                    version: -1,
                    variables: VARIABLES.into(),
                    ..Default::default()
                };
                client.create_process_instance(ask).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    began.elapsed()
}

const fn share(instances: u64, caller: u64) -> u64 {
    instances / CALLERS + (caller < instances % CALLERS) as u64
}

/// How many instances are finished, and whether all are.
struct Finished {
    left: AtomicU64,
    all: CancellationToken,
}

impl Finished {
    fn new(instances: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(instances), all: CancellationToken::new() })
    }

    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.all.cancel();
        }
    }

    async fn unless_all<T>(&self, next: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            next = next => Some(next),
            () = self.all.cancelled() => None,
        }
    }
}

/// From the call that creates an instance until its job is in the worker's hands, one at a time.
async fn push_latencies(engine: &Engine, count: usize) -> Vec<Duration> {
    let mut jobs = engine.subscribe(stream());
    let mut latencies = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        let (created, job) = tokio::join!(engine.create_instance(request()), jobs.next_job());
        latencies.push(began.elapsed());
        created.unwrap();
        engine.complete_job(job.unwrap().key, Document::default()).await.unwrap();
    }
    latencies
}

/// What the disk takes for a small append and `fdatasync`.
fn sync_latencies(folder: &Path, count: usize) -> Vec<Duration> {
    let mut file = File::create(folder.join("sync")).unwrap();
    let append = vec![7; 4096];
    let sync = |_| {
        let began = Instant::now();
        file.write_all(&append).unwrap();
        file.sync_data().unwrap();
        began.elapsed()
    };
    (0..count).map(sync).collect()
}

fn percentile(latencies: &mut [Duration], percent: usize) -> Duration {
    latencies.sort_unstable();
    latencies[latencies.len() * percent / 100]
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = Runtime::new().unwrap();
    let data = folder();
    let engine = runtime.block_on(open(data.path()));

    let mut group = criterion.benchmark_group("one-task instances, on disk");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(10));
    group.bench_function("by the handle", |bencher| {
        bencher.to_async(&runtime).iter_custom(|instances| {
            let engine = engine.clone();
            async move { by_handle(&engine, instances).await }
        });
    });
    let address = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let engine = engine.clone();
        let serve = async move {
            engine
                .serve(listener, Protection::PlainOnLoopback, Arc::new(Open), CancellationToken::new())
                .await
                .unwrap();
        };
        tokio::spawn(serve);
        address
    });
    group.bench_function("by gRPC", |bencher| {
        bencher.to_async(&runtime).iter_custom(|instances| {
            let address = address.clone();
            async move { by_grpc(&address, instances).await }
        });
    });
    group.finish();

    // In turns, so that both meet the disk in the same mood.
    let (mut pushes, mut syncs) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        syncs.extend(sync_latencies(data.path(), 50));
        pushes.extend(runtime.block_on(push_latencies(&engine, 50)));
    }
    let (push, sync) = (percentile(&mut pushes, 50), percentile(&mut syncs, 50));
    let allowed = 2 * sync + Duration::from_millis(1);
    println!(
        "push: p50 {push:?}, p99 {:?}; fdatasync of 4 KiB: p50 {sync:?}, p99 {:?}",
        percentile(&mut pushes, 99),
        percentile(&mut syncs, 99)
    );
    println!(
        "push p50 / (2 × fdatasync p50 + 1 ms = {allowed:?}) = {:.2} (at most 1)",
        push.as_secs_f64() / allowed.as_secs_f64()
    );
    runtime.block_on(engine.stop());

    let rate = runtime.block_on(async {
        let data = folder();
        let engine = open(data.path()).await;
        let rate = 10_000.0 / by_handle(&engine, 10_000).await.as_secs_f64();
        engine.stop().await;
        rate
    });
    println!("10,000 instances by the handle: {rate:.0}/s; / 1,000 = {:.2} (at least 1)", rate / 1_000.0);

    let (fill, recovery) = runtime.block_on(async {
        let data = folder();
        let engine = open(data.path()).await;
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let engine = engine.clone();
            tasks.spawn(async move {
                for _ in 0..share(10_000, caller) {
                    engine.create_instance(request()).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let fill = began.elapsed();
        engine.stop().await;
        let began = Instant::now();
        let options = EngineOptions { data: Some(data.path().to_owned()), ..EngineOptions::default() };
        let engine = Engine::open(options).await.unwrap();
        let recovery = began.elapsed();
        assert_eq!(engine.committed().running(), 10_000);
        engine.stop().await;
        (fill, recovery)
    });
    println!(
        "10,000 waiting instances: filled in {fill:?}, recovered in {recovery:?}; recovered / filled = {:.2}",
        recovery.as_secs_f64() / fill.as_secs_f64()
    );
    criterion.final_summary();
}
