//! One attempt for each test: its authority's folder, its own folder, the process.

use m87_authority::Credentials;
use m87_core::contract::{ValidationOrder, WorkOrder};
use m87_core::evidence::{Ended, ExecutionReport, ValidationReport};
use m87_core::tool::{Command as ToolCommand, CommandLimits, Run, Validation};
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const CONTRACT: &str = "contract-1";

pub const LIMITS: CommandLimits =
    CommandLimits { seconds: 20, cpu_seconds: 20, memory_bytes: 1 << 32, output_bytes: 1 << 20, processes: 32 };

/// A tool that runs a shell script, valid by default.
pub fn tool(script: &str) -> WorkOrder {
    WorkOrder {
        kind: "WorkOrder".to_owned(),
        spec_version: "1".to_owned(),
        contract_id: CONTRACT.to_owned(),
        plan_hash: "0".repeat(64),
        run: Run::Command(ToolCommand {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            image: None,
            artifact: "result".to_owned(),
            limits: LIMITS,
        }),
        input: json!({"question": "secret-of-the-input"}),
        injected_clock: false,
    }
}

/// With other limits.
pub fn limited(script: &str, change: impl FnOnce(&mut CommandLimits)) -> WorkOrder {
    let mut order = tool(script);
    let Run::Command(command) = &mut order.run;
    change(&mut command.limits);
    order
}

pub fn validation(script: &str, artifact: &[u8]) -> ValidationOrder {
    ValidationOrder {
        kind: "ValidationOrder".to_owned(),
        spec_version: "1".to_owned(),
        validation: Validation { argv: ["sh", "-c", script].map(str::to_owned).to_vec(), limits: LIMITS },
        input: json!({"question": "secret-of-the-input"}),
        sha256: m87_core::json::sha256_hex(artifact),
    }
}

/// A number of seconds to sleep that no other process on this machine sleeps: by it a tool's processes are found.
pub fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("7{}.{:06}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The processes that have this word on their command line.
pub fn processes_with(word: &str) -> Vec<i32> {
    let entries =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    entries
        .filter(|pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
        })
        .collect()
}

/// Waits until it holds; the test fails if it does not within ten seconds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The way to the folder that plays the authority.
pub fn credentials_of(authority: &Path) -> Credentials {
    Credentials { address_file: authority.to_owned(), ca_pem: String::new(), token: "secret-of-the-token".to_owned() }
}

pub struct Attempt {
    root: tempfile::TempDir,
    child: Child,
}

impl Attempt {
    pub fn of_tool(order: &WorkOrder) -> Self {
        Self::start(order, &["--contract", CONTRACT], |_| ())
    }

    pub fn of_validation(order: &ValidationOrder, stored: &[u8]) -> Self {
        Self::start(order, &["--validation"], |authority| std::fs::write(authority.join("artifact"), stored).unwrap())
    }

    pub fn prepared(order: &WorkOrder, prepare: impl FnOnce(&Path)) -> Self {
        Self::start(order, &["--contract", CONTRACT], prepare)
    }

    /// As a user without rights, where the tests run as root; else as who we are.
    pub fn unprivileged(order: &WorkOrder) -> Self {
        let user = rustix::process::getuid().is_root().then_some(65_534);
        Self::start_as(user, order, &["--contract", CONTRACT], |_| ())
    }

    fn start(order: &impl serde::Serialize, task: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        Self::start_as(None, order, task, prepare)
    }

    fn start_as(user: Option<u32>, order: &impl serde::Serialize, task: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let authority = root.path().join("authority");
        let folder = root.path().join("attempt");
        for path in [&authority, &folder] {
            std::fs::create_dir(path).unwrap();
        }
        let order = m87_core::json::to_canonical(order).unwrap();
        std::fs::write(authority.join("order.json"), order).unwrap();
        prepare(&authority);
        let credentials = folder.join("credentials");
        credentials_of(&authority).write(&credentials).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_m87-worker-harness"));
        if let Some(user) = user {
            for path in [root.path(), &authority, &authority.join("order.json"), &folder, &credentials] {
                std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
            }
            command.uid(user).gid(user);
        }
        let child = command
            .args(["exec", "--credentials"])
            .arg(&credentials)
            .arg("--work")
            .arg(&folder)
            .args(["--report-grace", "3"])
            .args(task)
            .env("SECRET_OF_THE_SURROUNDINGS", "secret-of-the-environment")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { root, child }
    }

    /// A second process on the same attempt's folder.
    pub fn again(&self) -> std::process::ExitStatus {
        let credentials = self.root.path().join("again");
        credentials_of(&self.authority("")).write(&credentials).unwrap();
        Command::new(env!("CARGO_BIN_EXE_m87-worker-harness"))
            .args(["exec", "--credentials"])
            .arg(&credentials)
            .arg("--work")
            .arg(self.folder(""))
            .args(["--report-grace", "3", "--contract", CONTRACT])
            .stderr(Stdio::null())
            .status()
            .unwrap()
    }

    pub fn authority(&self, name: &str) -> PathBuf {
        self.root.path().join("authority").join(name)
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join("attempt").join(name)
    }

    pub fn exec(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The pid of its shim: the one child of `exec` while no tool was orphaned.
    pub fn shim(&self) -> i32 {
        let children = self.children();
        assert_eq!(children.len(), 1, "{children:?}");
        children[0]
    }

    /// The children of `exec`.
    pub fn children(&self) -> Vec<i32> {
        let exec = self.exec();
        m87_worker::sandbox::process::Stat::all().filter(|stat| stat.parent == exec).map(|stat| stat.pid).collect()
    }

    /// The calls that the authority heard, one line each.
    pub fn calls(&self, call: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.authority("calls")).unwrap_or_default();
        text.lines().filter(|line| line.split(' ').next() == Some(call)).map(str::to_owned).collect()
    }

    /// Waits for the end of `exec`.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "exec hangs: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder("log")).unwrap_or_default()
    }

    pub fn report_text(&self) -> Option<String> {
        std::fs::read_to_string(self.authority("report.json")).ok()
    }

    /// Waits for the end, and for a report.
    pub fn report(&mut self) -> ExecutionReport {
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
        serde_json::from_str(&self.report_text().expect("a report")).unwrap()
    }

    pub fn validation_report(&mut self) -> ValidationReport {
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
        serde_json::from_str(&self.report_text().expect("a report")).unwrap()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole of one attempt.
pub fn run(order: &WorkOrder) -> ExecutionReport {
    Attempt::of_tool(order).report()
}

/// How a script ends.
pub fn ended(script: &str) -> Ended {
    run(&tool(script)).ended
}

/// What a script's usage file comes to.
pub fn reported(content: &str) -> Option<Value> {
    run(&tool(&format!("printf '%s' '{content}' > $M87_USAGE"))).reported
}
