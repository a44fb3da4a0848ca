//! The tool-facing process. It knows no token and no authority: over its standard input, a socket to `exec`, it gets
//! one order to go, runs one command under limits, and answers how that ended.
//!
//! It ends the command with all descendants at a limit, at the command's own end, and when the socket closes, which is
//! how it learns that `exec` is gone.

pub mod link;
mod stage;
mod watch;

use link::{Go, Said};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Which of the shim's two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The one that watches.
    Watch,
    /// The one that sets limits on itself and becomes the tool.
    Tool,
}

/// The shim could not do its part; its other end learns of that by the socket's end.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// Not started by its other half.
    #[error("standard input is not a socket: `m87 shim` is started by `m87 exec`, not by hand ({0})")]
    NoSocket(std::io::Error),
    /// The socket broke.
    #[error("the socket to m87's other half: {0}")]
    Link(std::io::Error),
    /// The operating system refused what the shim cannot do without.
    #[error("cannot watch over a tool: {0}")]
    System(std::io::Error),
    /// Some processes of the tool are still there.
    #[error(transparent)]
    Survivors(#[from] crate::sandbox::family::Survivors),
}

/// What `m87 shim` does.
pub fn main_shim(stage: Stage) -> Result<(), ShimError> {
    let link = socket().map_err(ShimError::NoSocket)?;
    match stage {
        Stage::Watch => watch(&link),
        Stage::Tool => stage::become_tool(&link).map_err(ShimError::Link),
    }
}

fn watch(link: &UnixStream) -> Result<(), ShimError> {
    crate::sandbox::family::adopt_orphans().map_err(ShimError::System)?;
    crate::sandbox::hide_memory().map_err(ShimError::System)?;
    let Some(go) = link::receive::<Go>(link).map_err(ShimError::Link)? else {
        return Ok(());
    };
    match watch::run(&go, link)? {
        Some(done) => link::send(link, &Said::Done(done)).map_err(ShimError::Link),
        None => Ok(()),
    }
}

/// Standard input as the socket that it is. The copy is closed on `exec`, so that no tool inherits it.
fn socket() -> std::io::Result<UnixStream> {
    let stdin = std::io::stdin();
    let stdin = stdin.as_fd();
    rustix::net::sockopt::socket_type(stdin)?;
    Ok(UnixStream::from(stdin.try_clone_to_owned()?))
}
