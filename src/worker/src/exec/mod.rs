//! The authority-facing process of one attempt: it has the credentials, and never runs anything but the shim.
//!
//! All that can fail without an effect is done first (the folder, the shim's process); then it asks for its order, with
//! a nonce that only its memory holds; then the shim gets its one "go", which uses up the shim. So one such process
//! starts at most one tool, and a repeated question after a lost answer never starts another. It outlives whoever
//! started it, and reports until it is heard or its time is over.
//!
//! The same process works on one machine, where the shim is its child, and as the sidecar of a pod, where the shim is in
//! the tool's container and connects to a socket in a folder that both have.

mod artifact;
mod persist;
mod shim;
mod tool;
mod validation;

pub use shim::SHIM_GRACE;
pub use validation::{FetchArgs, Fetched, fetch_for_check};

use crate::sandbox::{family, folder, process::Identity};
use m87_authority::client::CredentialsError;
use m87_authority::{AuthorityClient, AuthorityError, Credentials, GrpcClient, Reach};
use shim::Shim;
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
    /// Where it works.
    pub place: Place,
    /// What to do.
    pub task: Task,
    /// How long after the command's time limit it goes on trying to report.
    pub report_grace: Duration,
}

/// Where `exec` works, and how it comes by its shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On one machine, with a shim of its own.
    Machine {
        /// The file with this attempt's way to the authority. It is removed before a tool starts.
        credentials: PathBuf,
        /// The attempt's folder; it exists, and no other process has worked in it.
        folder: PathBuf,
    },
    /// In a pod, beside the tool's container.
    Pod {
        /// Where the shim connects. The socket's folder is one that the tool's container can only read.
        socket: PathBuf,
        /// The user of the tool's container.
        peer: u32,
        /// How long the tool's container may take to start.
        patience: Duration,
    },
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
    /// Nobody said where the authority is.
    #[error("in a pod, the way to the authority is needed: --authority, --token-file and --ca")]
    NoWay,
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
/// whatever is open by then is taken for inherited, and closed. `reach` is the way to the authority, unless the place has
/// credentials of its own.
pub fn main_exec(args: &ExecArgs, reach: impl FnOnce() -> Option<Reach>) -> Result<(), ExecError> {
    crate::sandbox::close_inherited(&[]).map_err(ExecError::system("cannot close inherited files"))?;
    let reach = match &args.place {
        Place::Machine { credentials, .. } => Reach::from(Credentials::read(credentials)?),
        Place::Pod { .. } => reach().ok_or(ExecError::NoWay)?,
    };
    let authority: Arc<dyn AuthorityClient> = Arc::new(GrpcClient::new(reach));
    runtime()?.block_on(run(args, authority))
}

/// What `m87 exec --fetch` does, over gRPC.
pub fn main_fetch(args: &FetchArgs, reach: Reach) -> Result<Fetched, ExecError> {
    runtime()?.block_on(fetch_for_check(args, &GrpcClient::new(reach)))
}

fn runtime() -> Result<tokio::runtime::Runtime, ExecError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ExecError::system("cannot start"))
}

/// One attempt, from its folder to its report. Once for each process: it takes the process over.
pub async fn run(args: &ExecArgs, authority: Arc<dyn AuthorityClient>) -> Result<(), ExecError> {
    detach()?;
    let work = match &args.place {
        Place::Machine { folder, .. } => {
            let attempt = std::path::absolute(folder).map_err(ExecError::system("the attempt's folder"))?;
            take(&attempt)?;
            let work = attempt.join(WORK_FOLDER);
            folder::make_private(&work).map_err(ExecError::system("the work folder"))?;
            work
        }
        // The mark is where the tool cannot remove it, and stays when this container is started again.
        Place::Pod { socket, .. } => {
            take(socket.parent().unwrap_or(Path::new("/")))?;
            PathBuf::new()
        }
    };
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
    /// A shim that is ready: nothing is asked of the authority before.
    async fn shim(&self) -> Result<Shim, ExecError> {
        match &self.args.place {
            Place::Machine { .. } => Shim::start(self.work).await.map_err(ExecError::system("cannot start the shim")),
            Place::Pod { socket, peer, patience } => {
                Shim::connected(socket, *peer, *patience).await.map_err(ExecError::system("there is no shim"))
            }
        }
    }

    /// The token has done its part for what follows: it is in this process's memory only. (In a pod it is a file that the
    /// tool's container does not have.)
    fn forget_credentials(&self) {
        let Place::Machine { credentials, .. } = &self.args.place else { return };
        if let Err(error) = std::fs::remove_file(credentials)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(file = %credentials.display(), %error, "the credentials could not be removed");
        }
    }

    fn clear(&self) {
        self.forget_credentials();
        let Place::Machine { .. } = &self.args.place else { return };
        if let Err(error) = folder::remove(self.work) {
            tracing::warn!(folder = %self.work.display(), %error, "the work folder could not be removed");
        }
    }
}
