//! How soon a tool runs once its order is there (target: within 50 ms), and how long a whole attempt with a tool that
//! does nothing takes: process, folder, shim, tool, artifact, report.
#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use m87_authority::Credentials;
use m87_core::contract::WorkOrder;
use m87_core::json::to_canonical;
use m87_core::tool::{Command as ToolCommand, CommandLimits, Run};
use m87_worker::shim::link::{Go, Said, Task, frame, length, parse};
use serde_json::json;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HARNESS: &str = env!("CARGO_BIN_EXE_m87-worker-harness");
const LIMITS: CommandLimits =
    CommandLimits { seconds: 10, cpu_seconds: 10, memory_bytes: 1 << 32, output_bytes: 1 << 20, processes: 8 };

/// From "go" to the word that the tool runs.
fn go_to_started(folder: &Path) -> Duration {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let work = tempfile::tempdir_in(folder).unwrap();
    let mut shim = Command::new(HARNESS);
    shim.args(["shim", "--work"]).arg(work.path()).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    let mut shim = shim.spawn().unwrap();
    // It has long been waiting when an order comes.
    assert_eq!(hear(&mut ours), Said::Ready);
    let task = Task::Tool { artifact: "result".to_owned() };
    let go = Go { argv: vec!["true".to_owned()], input: json!({}), task, limits: LIMITS };
    let start = Instant::now();
    ours.write_all(&frame(&go).unwrap()).unwrap();
    let said = hear(&mut ours);
    let elapsed = start.elapsed();
    assert_eq!(said, Said::Started);
    drop(ours);
    shim.wait().unwrap();
    elapsed
}

fn hear(link: &mut UnixStream) -> Said {
    let mut head = [0; 4];
    link.read_exact(&mut head).unwrap();
    let mut body = vec![0; length(head).unwrap()];
    link.read_exact(&mut body).unwrap();
    parse(&body).unwrap()
}

/// One attempt, from the start of `exec` to its end.
fn whole_attempt() -> Duration {
    let root = tempfile::tempdir().unwrap();
    let (authority, folder) = (root.path().join("authority"), root.path().join("attempt"));
    for path in [&authority, &folder] {
        std::fs::create_dir(path).unwrap();
    }
    let argv = ["sh", "-c", "echo x > $M87_OUTPUT/result"].map(str::to_owned).to_vec();
    let order = WorkOrder {
        kind: "WorkOrder".to_owned(),
        spec_version: "1".to_owned(),
        contract_id: "c".to_owned(),
        plan_hash: "0".repeat(64),
        run: Run::Command(ToolCommand { argv, image: None, artifact: "result".to_owned(), limits: LIMITS }),
        input: json!({}),
        injected_clock: false,
    };
    std::fs::write(authority.join("order.json"), to_canonical(&order).unwrap()).unwrap();
    let credentials = folder.join("credentials");
    let way = Credentials { address_file: authority.clone(), ca_pem: String::new(), token: "t".to_owned() };
    way.write(&credentials).unwrap();
    let start = Instant::now();
    let mut exec = Command::new(HARNESS);
    exec.args(["exec", "--credentials"]).arg(&credentials).arg("--work").arg(&folder);
    let status = exec.args(["--report-grace", "1", "--contract", "c"]).status().unwrap();
    let elapsed = start.elapsed();
    assert!(status.success() && authority.join("report.json").exists());
    elapsed
}

fn benches(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("tool");
    group.sample_size(20);
    group.bench_function("go to started", |bencher| {
        bencher.iter_custom(|times| (0..times).map(|_| go_to_started(folder.path())).sum());
    });
    group.bench_function("whole attempt", |bencher| {
        bencher.iter_custom(|times| (0..times).map(|_| whole_attempt()).sum());
    });
    group.finish();
}

criterion_group!(start, benches);
criterion_main!(start);
