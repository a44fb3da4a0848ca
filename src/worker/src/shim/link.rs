//! What `exec`, the shim and its second stage say to each other: JSON, each message with its length before it.

use m87_core::evidence::Ended;
use m87_core::tool::CommandLimits;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Larger than the largest command a manifest can hold (64 arguments of 64 KiB), also where JSON escapes much of it.
const MAX_BYTES: u32 = 32 * 1024 * 1024;

/// The one order of `exec`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The tool's own folder: where it starts, and in which its output is measured.
    pub folder: PathBuf,
    /// Its limits.
    pub limits: CommandLimits,
}

/// What the shim answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The tool runs.
    Started,
    /// It has ended, and all its descendants are gone.
    Done(Done),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// By itself, at a limit, or never started.
    pub ended: Ended,
    /// Wall-clock time by a monotonic clock, in milliseconds, begun ones counted whole.
    pub millis: u64,
    /// The end of what it printed, cleaned, for people.
    pub output: String,
}

/// The order to the second stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Become {
    /// What to become.
    pub(super) go: Go,
    /// The pid of the shim: who it is not a child of any more has been orphaned, and ends.
    pub(super) parent: i32,
}

/// A message as it travels.
pub fn frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message).map_err(invalid)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= MAX_BYTES);
    let length = length.ok_or_else(|| invalid("the message is too long"))?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(body);
    Ok(frame)
}

/// The length that was read before a message, if it can be one.
pub fn length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_be_bytes(head);
    if length > MAX_BYTES {
        return Err(invalid("the message is too long"));
    }
    usize::try_from(length).map_err(invalid)
}

/// A message from its bytes.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(invalid)
}

/// Sends one message.
pub(super) fn send<T: Serialize>(mut link: &UnixStream, message: &T) -> io::Result<()> {
    link.write_all(&frame(message)?)
}

/// Waits for one message; `None` when the other end is gone.
pub(super) fn receive<T: DeserializeOwned>(mut link: &UnixStream) -> io::Result<Option<T>> {
    let mut head = [0; 4];
    match link.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; length(head)?];
    link.read_exact(&mut body)?;
    parse(&body).map(Some)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
