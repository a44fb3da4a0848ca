//! The authority-facing process of one attempt: it has the credentials, and never runs anything but the shim.
//!
//! All that can fail without an effect is done first (the folder, the shim's process); then it asks for its order, with
//! a nonce that only its memory holds; then the shim gets its one "go", which uses up the shim. So one such process
//! starts at most one tool, and a repeated question after a lost answer never starts another. It outlives whoever
//! started it, and reports until it is heard or its time is over.

mod artifact;
mod persist;
mod shim;
mod tool;
mod validation;
mod workplace;

use crate::sandbox::{family, folder, process::Identity};
use m87_authority::client::CredentialsError;
use m87_authority::{AuthorityClient, AuthorityError, Credentials, GrpcClient};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The file in an attempt's folder that says which process took the attempt.
pub const PROCESS_FILE: &str = "process.json";
/// The folder in an attempt's folder where its tool works; gone when the attempt is over.
pub const WORK_FOLDER: &str = "work";

/// What `m87 exec` is told.
#[derive(Debug, Clone)]
pub struct ExecArgs {
    /// The file with this attempt's way to the authority. It is removed before a tool starts.
    pub credentials: PathBuf,
    /// The attempt's folder; it exists, and no other process has worked in it.
    pub folder: PathBuf,
    /// What to do.
    pub task: Task,
    /// How long after the command's time limit it goes on trying to report.
    pub report_grace: Duration,
}

/// What an attempt is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// To redeem this contract and run the tool.
    Tool {
        /// The contract's id.
        contract_id: String,
    },
    /// To validate the run's artifact.
    Validation,
}

/// How long after its limit `exec` goes on reporting, unless told otherwise.
pub const REPORT_GRACE: Duration = Duration::from_secs(60);
/// How long it asks for its order; longer than the authority waits for a start.
const ORDER_PATIENCE: Duration = Duration::from_secs(150);

/// Why an attempt ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The operating system refused something, before anything was redeemed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The authority refused, or was not heard of for too long.
    #[error("{what}: {source}")]
    Authority {
        /// What was asked for.
        what: &'static str,
        /// The last answer.
        source: AuthorityError,
    },
}

impl ExecError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    fn authority(what: &'static str) -> impl FnOnce(AuthorityError) -> Self {
        move |source| Self::Authority { what, source }
    }
}

/// What `m87 exec` does, over gRPC. To be called before this process has opened anything of its own (a runtime, a log):
/// whatever is open by then is taken for inherited, and closed.
pub fn main_exec(args: &ExecArgs) -> Result<(), ExecError> {
    crate::sandbox::close_inherited(&[]).map_err(ExecError::system("cannot close inherited files"))?;
    let credentials = Credentials::read(&args.credentials)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ExecError::system("cannot start"))?;
    let authority: Arc<dyn AuthorityClient> = Arc::new(GrpcClient::new(credentials));
    runtime.block_on(run(args, authority))
}

/// One attempt, from its folder to its report. Once for each process: it takes the process over.
pub async fn run(args: &ExecArgs, authority: Arc<dyn AuthorityClient>) -> Result<(), ExecError> {
    detach()?;
    let attempt = std::path::absolute(&args.folder).map_err(ExecError::system("the attempt's folder"))?;
    take(&attempt)?;
    let work = attempt.join(WORK_FOLDER);
    let attempt = Attempt { args, authority, work: &work };
    let outcome = match &args.task {
        Task::Tool { contract_id } => tool::run(&attempt, contract_id).await,
        Task::Validation => validation::run(&attempt).await,
    };
    attempt.clear();
    outcome
}

/// A session of its own: what ends the terminal or the process group of whoever started it does not end this.
fn detach() -> Result<(), ExecError> {
    let system = || ExecError::system("cannot stand alone");
    if let Err(error) = rustix::process::setsid() {
        // Already the leader of a group, and thereby out of its starter's.
        if error != rustix::io::Errno::PERM {
            return Err(system()(error.into()));
        }
    }
    crate::sandbox::hide_memory().map_err(system())?;
    family::adopt_orphans().map_err(system())
}

/// Leaves word of who works here, before anything can be redeemed; refuses if someone else has.
fn take(attempt: &Path) -> Result<(), ExecError> {
    let path = attempt.join(PROCESS_FILE);
    let describe = || ExecError::system(path.display().to_string());
    let own = Identity::own().ok_or_else(|| describe()(std::io::Error::other("/proc does not show this process")))?;
    let text = serde_json::to_vec(&own).map_err(|error| describe()(error.into()))?;
    // Complete or absent: it is linked into place once it is written, and a link replaces nothing.
    let draft = attempt.join(format!("{PROCESS_FILE}.{}", own.pid));
    folder::write_read_only(&draft, &text)
        .and_then(|()| std::fs::hard_link(&draft, &path))
        .and_then(|()| std::fs::remove_file(&draft))
        .map_err(describe())
}

/// What the parts of one attempt share.
struct Attempt<'a> {
    args: &'a ExecArgs,
    authority: Arc<dyn AuthorityClient>,
    work: &'a Path,
}

impl Attempt<'_> {
    /// The token has done its part for what follows: it is in this process's memory only.
    fn forget_credentials(&self) {
        if let Err(error) = std::fs::remove_file(&self.args.credentials)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(file = %self.args.credentials.display(), %error, "the credentials could not be removed");
        }
    }

    fn clear(&self) {
        self.forget_credentials();
        if let Err(error) = folder::remove(self.work) {
            tracing::warn!(folder = %self.work.display(), %error, "the work folder could not be removed");
        }
    }
}
