//! The engine as a process that dies: what it acknowledged is there when it starts again.
//!
//! The children are this very test binary, asked for one of the `child_*` tests with the folder in the environment.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use m87_engine::{ActivateRequest, CreateRequest, Document, Engine, EngineOptions, RejectionKind, Resource, Target};
use rustix::process::{Resource as Limited, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

const FOLDER: &str = "M87_CRASH_TEST_FOLDER";
const MODEL: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d" targetNamespace="test">
<bpmn:process id="p" isExecutable="true"><bpmn:startEvent id="s"/><bpmn:sequenceFlow id="f" sourceRef="s" targetRef="t"/>
<bpmn:serviceTask id="t"><bpmn:extensionElements><zeebe:taskDefinition type="work"/></bpmn:extensionElements></bpmn:serviceTask>
<bpmn:sequenceFlow id="g" sourceRef="t" targetRef="e"/><bpmn:endEvent id="e"/></bpmn:process></bpmn:definitions>"#;

async fn open(folder: &Path) -> Engine {
    let options = EngineOptions { data: Some(folder.to_owned()), ..EngineOptions::default() };
    let engine = Engine::open(options).await.unwrap();
    let resource = Resource { name: "p.bpmn".into(), content: MODEL.into() };
    engine.deploy(vec![resource]).await.unwrap();
    engine
}

fn request() -> CreateRequest {
    let variables = Document::parse(r#"{"run":"0123456789abcdef0123456789abcdef.1"}"#).unwrap();
    CreateRequest { target: Target::Latest("p".into()), variables, start_at: Vec::new() }
}

fn jobs(max_jobs: usize) -> ActivateRequest {
    let (job_type, worker) = ("work".to_owned(), "w".to_owned());
    ActivateRequest { job_type, worker, timeout: 600_000, max_jobs, fetch: Vec::new() }
}

fn child(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// What a child was told by its engine, in lines; a line that was cut by the kill does not count.
#[derive(Default)]
struct Acknowledged {
    created: BTreeSet<i64>,
    completed: BTreeSet<i64>,
}

impl Acknowledged {
    fn read(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("+created", key)) => self.created.insert(key.parse().unwrap()),
            Some(("+completed", key)) => self.completed.insert(key.parse().unwrap()),
            _ => false,
        }
    }
}

/// Lets the child work until it has acknowledged so many, kills it, and reads the rest of what it said.
fn kill_after(mut child: Child, lines: usize) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    let mut seen = 0;
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut killed = false;
    while output.read_line(&mut line).unwrap() > 0 {
        if line.ends_with('\n') && acknowledged.read(line.trim()) {
            seen += 1;
        }
        line.clear();
        if seen >= lines && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child ended by itself after {seen} lines");
    acknowledged
}

async fn recovered(folder: &Path, acknowledged: &Acknowledged) -> usize {
    let began = Instant::now();
    let options = EngineOptions { data: Some(folder.to_owned()), ..EngineOptions::default() };
    let engine = Engine::open(options).await.unwrap();
    let state = engine.committed();
    println!("recovered {} instances in {:?}", state.running(), began.elapsed());
    if acknowledged.completed.is_empty() {
        let lost: Vec<_> = acknowledged.created.iter().filter(|key| state.element(**key).is_none()).collect();
        assert!(lost.is_empty(), "instances {lost:?} are lost");
    }
    for key in &acknowledged.completed {
        assert!(state.element(*key).is_none(), "instance {key} was completed, and is there again");
    }
    let running = state.running();
    engine.stop().await;
    running
}

fn say(word: &str, key: i64) {
    // One write, so that lines of different tasks do not mix.
    std::io::stdout().lock().write_all(format!("\n+{word} {key}\n").as_bytes()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_fills() {
    let Some(folder) = folder() else { return };
    let engine = open(&folder).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..128 {
        let engine = engine.clone();
        callers.spawn(async move {
            loop {
                say("created", engine.create_instance(request()).await.unwrap().instance);
            }
        });
    }
    callers.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_fills_and_works() {
    let Some(folder) = folder() else { return };
    let engine = open(&folder).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let creator = engine.clone();
        callers.spawn(async move {
            loop {
                say("created", creator.create_instance(request()).await.unwrap().instance);
            }
        });
        let worker = engine.clone();
        callers.spawn(async move {
            loop {
                for job in worker.poll(jobs(8), Duration::from_secs(1)).await.unwrap() {
                    worker.complete_job(job.key, Document::default()).await.unwrap();
                    say("completed", job.instance);
                }
            }
        });
    }
    callers.join_all().await;
}

#[tokio::test]
async fn ten_thousand_instances_survive_a_kill() {
    let folder = TempDir::new().unwrap();
    let acknowledged = kill_after(child("child_fills", folder.path()), 10_000);
    assert!(acknowledged.created.len() >= 10_000);
    let running = recovered(folder.path(), &acknowledged).await;
    assert!(running >= acknowledged.created.len());
}

#[tokio::test]
async fn no_acknowledged_command_is_lost_by_a_kill_at_any_moment() {
    let folder = TempDir::new().unwrap();
    let mut all = Acknowledged::default();
    for lines in [1, 700, 2_345] {
        let acknowledged = kill_after(child("child_fills_and_works", folder.path()), lines);
        all.created.extend(&acknowledged.created);
        all.completed.extend(&acknowledged.completed);
        recovered(folder.path(), &all).await;
    }
    // What is neither completed nor there was completed just before a kill, and its worker not told in time.
    let engine = open(folder.path()).await;
    let state = engine.committed();
    let untold =
        all.created.iter().filter(|key| !all.completed.contains(key) && state.element(**key).is_none()).count();
    assert!(untold <= 3 * 16 * 8, "{untold} instances are gone, and nobody completed them");
    engine.stop().await;
}

/// A child whose files cannot grow past a limit: to SQLite a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_with_a_full_disk() {
    let Some(folder) = folder() else { return };
    // The kernel would kill the process; with a handler the write fails, as on a full disk.
    let _handled = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(25)).unwrap();
    let engine = open(&folder).await;
    let before = engine.create_instance(request()).await.unwrap().instance;
    let size = std::fs::metadata(folder.join("journal.db-wal")).unwrap().len();
    let limits = getrlimit(Limited::Fsize);
    setrlimit(Limited::Fsize, Rlimit { current: Some(size + 1_000), maximum: limits.maximum }).unwrap();
    let committed = engine.committed();
    for _ in 0..3 {
        let rejection = engine.create_instance(request()).await.unwrap_err();
        assert_eq!(rejection.kind, RejectionKind::Unavailable);
        assert!(rejection.reason.starts_with("the journal cannot be written: "), "{rejection}");
    }
    assert_eq!(engine.committed(), committed, "what was refused has left a trace");
    assert!(engine.instance(before).is_some(), "it goes on answering");
    setrlimit(Limited::Fsize, limits).unwrap();
    let after = engine.create_instance(request()).await.unwrap().instance;
    assert_eq!(after, before + 4, "a refused command has used keys");
    let job = engine.activate(jobs(1)).await.unwrap().remove(0);
    engine.complete_job(job.key, Document::default()).await.unwrap();
    say("created", after);
    say("completed", job.instance);
    std::process::exit(0);
}

#[tokio::test]
async fn a_full_disk_refuses_loses_nothing_and_passes() {
    let folder = TempDir::new().unwrap();
    let mut child = child("child_with_a_full_disk", folder.path());
    let mut acknowledged = Acknowledged::default();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        acknowledged.read(line.unwrap().trim());
    }
    assert!(child.wait().unwrap().success());
    assert_eq!((acknowledged.created.len(), acknowledged.completed.len()), (1, 1));
    let options = EngineOptions { data: Some(folder.path().to_owned()), ..EngineOptions::default() };
    let state = Engine::open(options).await.unwrap().committed();
    assert_eq!(state.running(), 1);
    assert!(acknowledged.created.iter().all(|key| state.element(*key).is_some()));
}
