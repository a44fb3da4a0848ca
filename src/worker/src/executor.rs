//! The authority's [`Executor`] on one machine: each attempt is a process of its own, `m87 exec`, that outlives the
//! authority, with a private folder for its credentials, its log and its work.

use crate::exec::PROCESS_FILE;
use crate::sandbox::folder;
use crate::sandbox::process::{Identity, Stat};
use async_trait::async_trait;
use m87_authority::{AttemptKind, AttemptName, AttemptOrder, Executor, ExecutorError, Handle};
use m87_core::evidence::ValidationReport;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Display;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Child;

/// How long a process that was killed, and the shim that it leaves, may take to be gone.
const PATIENCE: Duration = Duration::from_secs(15);

/// The one variable that `exec` inherits: what it logs.
const LOG: &str = "M87_LOG";

/// Starts attempts as processes of this machine.
#[derive(Debug, Clone)]
pub struct LocalExecutor {
    /// Where the folders of attempts are.
    root: PathBuf,
    /// The program whose subcommand `exec` is started; this one, unless a test says otherwise.
    program: PathBuf,
    /// How long after its limit an attempt goes on trying to report.
    report_grace: Duration,
}

/// What a handle says: which folder, and which process was started for it.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    folder: String,
    process: Identity,
}

impl LocalExecutor {
    /// Keeps the folders of attempts in `root`, which is made when it is first needed.
    pub fn new(root: impl AsRef<Path>, report_grace: Duration) -> std::io::Result<Self> {
        // This very program, even if its file is replaced meanwhile.
        let program = PathBuf::from("/proc/self/exe");
        Ok(Self { root: std::path::absolute(root)?, program, report_grace })
    }

    /// Starts another program in place of this one; for tests.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..self }
    }

    /// Ends and clears away what attempts have left of runs that are not among these: whoever started them was killed before
    /// it could write down how to find them, or before it had cleared up. What cannot be removed now stays for the next time.
    pub fn sweep(&self, open: &HashSet<String>) -> std::io::Result<()> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.rsplit_once('.')).map(|(run, _)| run);
            if run.is_some_and(|run| !open.contains(run))
                && let Err(error) = end_left(&entry.path()).and_then(|()| folder::remove(&entry.path()).map_err(failed))
            {
                tracing::warn!(folder = %entry.path().display(), %error, "what an attempt has left cannot be removed yet");
            }
        }
        Ok(())
    }

    fn start_in_folder(&self, order: &AttemptOrder) -> Result<(Child, Started), ExecutorError> {
        let name = folder_name(&order.name())?;
        let folder = self.root.join(&name);
        std::fs::create_dir_all(&self.root).map_err(at(&self.root))?;
        // Who finds it there was started before, and may have an effect: never twice.
        folder::make_private(&folder).map_err(at(&folder))?;
        match self.spawn(order, &folder) {
            Ok((child, process)) => Ok((child, Started { folder: name, process })),
            Err(error) => {
                let _ = folder::remove(&folder);
                Err(error)
            }
        }
    }

    fn spawn(&self, order: &AttemptOrder, folder: &Path) -> Result<(Child, Identity), ExecutorError> {
        let credentials = folder.join("credentials");
        order.credentials.write(&credentials).map_err(failed)?;
        let log_file = folder.join("log");
        let log = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&log_file);
        let log = log.map_err(at(&log_file))?;

        let mut command = std::process::Command::new(&self.program);
        command
            .arg0("m87")
            .arg("exec")
            .arg("--credentials")
            .arg(&credentials)
            .arg("--work")
            .arg(folder)
            .arg("--report-grace")
            .arg(self.report_grace.as_secs().to_string())
            .env_clear()
            .envs(std::env::var_os(LOG).map(|level| (LOG, level)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(at(&log_file))?)
            .stderr(log);
        match order.kind {
            AttemptKind::Tool => command.arg("--contract").arg(&order.contract_id),
            AttemptKind::Validation => command.arg("--validation"),
        };
        let mut child = tokio::process::Command::from(command).spawn().map_err(failed)?;
        match child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Stat::of) {
            Some(stat) => Ok((child, stat.into())),
            None => {
                let _ = child.start_kill();
                Err(failed("/proc does not show the process that was started"))
            }
        }
    }
}

/// A folder name of the attempt's own; uids are words of the authority, and are still not trusted with a path.
fn folder_name(attempt: &AttemptName) -> Result<String, ExecutorError> {
    let plain = |text: &str| {
        let word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        word && !text.is_empty() && text.len() <= 200
    };
    let AttemptName { run_uid, kind, attempt, .. } = attempt;
    if !plain(run_uid) {
        return Err(failed(format!("the run's uid {run_uid:?} cannot name a folder")));
    }
    Ok(format!("{run_uid}.{}-{attempt}", kind.name()))
}

#[async_trait]
impl Executor for LocalExecutor {
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError> {
        let (this, order) = (self.clone(), order.clone());
        let spawned = tokio::task::spawn_blocking(move || this.start_in_folder(&order));
        let (mut child, started) = spawned.await.map_err(failed)??;
        // Nobody needs its exit status, but while this process lives somebody has to take it.
        tokio::spawn(async move { child.wait().await });
        serde_json::to_string(&started).map(Handle).map_err(failed)
    }

    async fn alive(&self, handle: &Handle) -> Result<bool, ExecutorError> {
        Ok(parse(handle)?.process.lives())
    }

    async fn as_made(&self, _handle: &Handle) -> Result<Result<(), String>, ExecutorError> {
        // Nobody but this user could have changed it, and locally that user is total.
        Ok(Ok(()))
    }

    async fn verdict(&self, _handle: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        Ok(None)
    }

    async fn discard(&self, handle: &Handle) -> Result<(), ExecutorError> {
        let started = parse(handle)?;
        clear(started.process, &self.root.join(&started.folder)).await
    }

    async fn discard_unheard(&self, attempt: &AttemptName) -> Result<(), ExecutorError> {
        let folder = self.root.join(folder_name(attempt)?);
        match left(&folder) {
            Some(process) => clear(process, &folder).await,
            None => folder::remove(&folder).map_err(at(&folder)),
        }
    }
}

/// Ends that process, and removes its folder.
async fn clear(process: Identity, folder: &Path) -> Result<(), ExecutorError> {
    end(process)?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        // The shim ends the tool when it finds `exec` gone; until then the tool may still write.
        let error = match (process.lives(), folder::remove(folder)) {
            (false, Ok(())) => return Ok(()),
            (true, _) => failed("the process is still there"),
            (false, Err(error)) => at(folder)(error),
        };
        if tokio::time::Instant::now() > deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Kills that very process, if it is there.
fn end(process: Identity) -> Result<(), ExecutorError> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(());
    };
    // Held before it is looked at: then it cannot be another that is hit.
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(held) if process.lives() => match rustix::process::pidfd_send_signal(held, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(failed(error)),
        },
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Ends the process that says in this folder that it works there, if it still does.
fn end_left(folder: &Path) -> Result<(), ExecutorError> {
    left(folder).map_or(Ok(()), end)
}

/// The process that says in this folder that it works there.
fn left(folder: &Path) -> Option<Identity> {
    let word = std::fs::read(folder.join(PROCESS_FILE)).ok();
    word.and_then(|word| serde_json::from_slice(&word).ok())
}

fn parse(handle: &Handle) -> Result<Started, ExecutorError> {
    let started: Started = serde_json::from_str(&handle.0).map_err(failed)?;
    let plain = Path::new(&started.folder).file_name().is_some_and(|name| name == started.folder.as_str());
    if plain { Ok(started) } else { Err(failed("the handle names no folder of an attempt")) }
}

fn failed(error: impl Display) -> ExecutorError {
    ExecutorError(error.to_string())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> ExecutorError {
    move |error| ExecutorError(format!("{}: {error}", path.display()))
}
