//! The tool-facing process. It knows no token and no authority: over a socket to `exec` it gets one order to go, runs one
//! command under limits, answers how that ended, and hands over what it left as open files.
//!
//! On one machine `exec` starts it with that socket as its standard input; in a pod it is the process of the tool's
//! container, and connects to a socket in a shared folder. It ends the command with all descendants at a limit, at the
//! command's own end, and when the socket closes, which is how it learns that `exec` is gone. It ends itself only once
//! `exec` has closed the socket: in a pod everything is over with it, and the report has to be heard before that.

mod check;
pub mod link;
mod log;
mod stage;
mod watch;
mod workplace;

pub use check::{ARTIFACT, CheckArgs, ORDER, main_check, write_report};

use link::{Go, Said};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workplace::Workplace;

/// How long `exec` may take to have its socket there.
const CONNECT: Duration = Duration::from_secs(60);
/// How often it is tried.
const CONNECT_EVERY: Duration = Duration::from_millis(50);

/// What `m87 shim` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShimArgs {
    /// To watch over a command, ordered over the socket that is its standard input.
    Inherited {
        /// The folder to work in; it exists.
        work: PathBuf,
    },
    /// To watch over a command, ordered over a socket to connect to.
    Connect {
        /// Where `exec` listens.
        socket: PathBuf,
        /// The folder to work in; it exists.
        work: PathBuf,
    },
    /// To set limits on itself and become the command.
    Stage,
}

/// The shim could not do its part; its other end learns of that by the socket's end.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// Not started by its other half.
    #[error("standard input is not a socket: `m87 shim` is started by `m87 exec`, not by hand ({0})")]
    NoSocket(std::io::Error),
    /// Nobody listens.
    #[error("{socket}: `m87 exec` cannot be reached there: {source}", socket = socket.display())]
    NoExec {
        /// Where.
        socket: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The socket broke.
    #[error("the socket to m87's other half: {0}")]
    Link(std::io::Error),
    /// The operating system refused what the shim cannot do without.
    #[error("cannot watch over a tool: {0}")]
    System(std::io::Error),
    /// A file that it was told of cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Some processes of the tool are still there.
    #[error(transparent)]
    Survivors(#[from] crate::sandbox::family::Survivors),
}

/// What `m87 shim` does.
pub fn main_shim(args: &ShimArgs) -> Result<(), ShimError> {
    match args {
        ShimArgs::Inherited { work } => {
            prepare()?;
            watch(&socket().map_err(ShimError::NoSocket)?, work)
        }
        ShimArgs::Connect { socket, work } => {
            prepare()?;
            let link = connect(socket).map_err(|source| ShimError::NoExec { socket: socket.clone(), source })?;
            watch(&link, work)
        }
        ShimArgs::Stage => stage::become_tool(&socket().map_err(ShimError::NoSocket)?).map_err(ShimError::Link),
    }
}

/// Nothing of a command may leave this process's family or look into its memory.
fn prepare() -> Result<(), ShimError> {
    crate::sandbox::family::adopt_orphans().map_err(ShimError::System)?;
    crate::sandbox::hide_memory().map_err(ShimError::System)
}

fn watch(link: &UnixStream, work: &Path) -> Result<(), ShimError> {
    let place = Workplace::make(work).map_err(|source| ShimError::File { path: work.to_owned(), source })?;
    link::send(link, &Said::Ready).map_err(ShimError::Link)?;
    let Some(go) = link::receive::<Go>(link).map_err(ShimError::Link)? else {
        return Ok(());
    };
    let Some(over) = watch::run(&go, &place, Some(link))? else {
        return Ok(());
    };
    link::send_with_files(link, &Said::Done(over.done), &over.files).map_err(ShimError::Link)?;
    until_closed(link);
    Ok(())
}

/// Waits until the other end has closed; it has nothing more to say.
fn until_closed(mut link: &UnixStream) {
    while matches!(link.read(&mut [0; 64]), Ok(count) if count > 0) {}
}

/// Standard input as the socket that it is. The copy is closed on `exec`, so that no tool inherits it.
fn socket() -> std::io::Result<UnixStream> {
    let stdin = std::io::stdin();
    let stdin = stdin.as_fd();
    rustix::net::sockopt::socket_type(stdin)?;
    Ok(UnixStream::from(stdin.try_clone_to_owned()?))
}

/// Containers start in no order that could be relied on: the socket may not be there yet.
fn connect(path: &Path) -> std::io::Result<UnixStream> {
    let deadline = Instant::now() + CONNECT;
    loop {
        match UnixStream::connect(path) {
            Ok(link) => return Ok(link),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(CONNECT_EVERY),
        }
    }
}
