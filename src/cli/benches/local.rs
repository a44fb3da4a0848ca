//! Whole runs a second with a tool that does nothing: `m87 run` over a folder of them, beside what the disk can do.
//!
//! `cargo bench -p m87 --bench local`. `M87_BENCH_DIR` chooses the disk, `M87_BENCH_RUNS` how many runs (200).
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OBJECTS: &str = r#"apiVersion: m87.dev/v1alpha1
kind: GovernancePolicy
metadata: {name: policy}
spec:
  constraints: {risksAllowed: [low], targetsForbidden: [], actorsAllowed: ["**"]}
  autonomyBudget: {toolCalls: {limit: 1}, seconds: {limit: 60}, artifactBytes: {limit: 1024}, reported: []}
  approvals: {autoApprove: {riskAtMost: low, nonHumans: []}}
---
apiVersion: m87.dev/v1alpha1
kind: ToolManifest
metadata: {name: tools}
spec:
  tools:
  - name: nothing
    version: 1.0.0
    provides: []
    actionType: nothing
    targetsAllowed: ["**"]
    targetFrom: {pointer: /name, prefix: things/}
    riskClass: low
    reversibility: Reversible
    enabled: true
    effects: [{kind: file, operation: read, targetType: nothing}]
    inputSchema: {type: object}
    run:
      command:
        argv: [sh, -c, ': > "$M87_OUTPUT/artifact"']
        artifact: artifact
        limits: {seconds: 30, cpuSeconds: 30, memoryBytes: 1073741824, outputBytes: 1024, processes: 16}
    validation:
      argv: ["true"]
      limits: {seconds: 30, cpuSeconds: 30, memoryBytes: 1073741824, outputBytes: 1024, processes: 16}
"#;

fn write_objects(folder: &Path, runs: usize) {
    let mut text = OBJECTS.to_owned();
    for n in 0..runs {
        let target = format!("things/r-{n}");
        write!(
            text,
            "---\napiVersion: m87.dev/v1alpha1\nkind: GovernedRun\nmetadata: {{name: r-{n}}}\nspec:\n  policyRef: {{name: policy}}\n  \
             manifestRef: {{name: tools}}\n  proposal: {{tool: nothing, actionType: nothing, target: {target}, risk: low, \
             reasoningTrace: to measure, input: {{name: r-{n}}}}}\n"
        )
        .unwrap();
    }
    std::fs::write(folder.join("objects.yaml"), text).unwrap();
}

/// The median of how long this disk takes to make 512 appended bytes durable.
fn fdatasync(folder: &Path) -> Duration {
    let mut file = File::create(folder.join("probe")).unwrap();
    let mut took: Vec<Duration> = (0..200)
        .map(|_| {
            file.write_all(&[7; 512]).unwrap();
            let begun = Instant::now();
            file.sync_data().unwrap();
            begun.elapsed()
        })
        .collect();
    took.sort();
    took.get(took.len() / 2).copied().unwrap()
}

fn main() {
    // `cargo test --benches` asks whether it runs at all.
    let trial = std::env::args().any(|argument| argument == "--test");
    let runs = std::env::var("M87_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let runs = if trial { 2 } else { runs };
    let folder = match std::env::var_os("M87_BENCH_DIR") {
        Some(disk) => tempfile::tempdir_in(disk).unwrap(),
        None => tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
    };
    write_objects(folder.path(), runs);
    let begun = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_m87"))
        .args(["run", "-f", "objects.yaml", "--out", "out"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let took = begun.elapsed();
    assert!(status.success(), "every run must be COMPLETE");
    let sync = fdatasync(folder.path());
    let (rate, disk) = (runs as f64 / took.as_secs_f64(), 1.0 / sync.as_secs_f64());
    println!(
        "{runs} whole runs in {:.2} s: {rate:.1} runs/s (target 50: {:.2} of it)",
        took.as_secs_f64(),
        rate / 50.0
    );
    println!("fdatasync p50 {:.2} ms: {:.2} runs in the time of one sync", sync.as_secs_f64() * 1e3, rate / disk);
}
