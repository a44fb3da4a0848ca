//! What `exec`, the shim and its second stage say to each other: JSON, each message with its length before it. What a tool
//! left is handed over as open files, so that neither side ever needs the other's folders.

use m87_core::evidence::Ended;
use m87_core::tool::CommandLimits;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Larger than the largest command a manifest can hold (64 arguments of 64 KiB), also where JSON escapes much of it.
const MAX_BYTES: u32 = 32 * 1024 * 1024;

/// Open files that come with one message at most: what the tool reported of its usage, and its artifact.
pub const MAX_FILES: usize = 2;

/// The one order of `exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Go {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What it finds as its input.
    pub input: Value,
    /// What it is for.
    pub task: Task,
    /// Its limits.
    pub limits: CommandLimits,
}

/// What a command is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// To do the work, and leave an artifact of that name in its output folder.
    Tool {
        /// The file's name.
        artifact: String,
    },
    /// To check this artifact.
    Check {
        /// Its path.
        artifact: PathBuf,
    },
}

/// What the shim answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// It waits for its order; all that could fail beforehand has not.
    Ready,
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
    /// Its report of usage.
    pub usage: Left,
    /// Its artifact.
    pub artifact: Left,
}

/// Whether a tool left a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Left {
    /// Nothing has its name.
    Nothing,
    /// Something has, and it is no file to be read; why, for people.
    Unusable(String),
    /// A regular file: it comes open with this message, the usage before the artifact.
    File,
}

impl Done {
    /// A tool that left nothing.
    pub const fn without_files(ended: Ended, millis: u64, output: String) -> Self {
        Self { ended, millis, output, usage: Left::Nothing, artifact: Left::Nothing }
    }
}

/// The order to the second stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Become {
    /// Program and arguments.
    pub(super) argv: Vec<String>,
    /// The whole environment.
    pub(super) env: Vec<(String, String)>,
    /// Where it starts.
    pub(super) folder: PathBuf,
    /// Its limits.
    pub(super) limits: CommandLimits,
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

/// Sends one message with open files. They travel with its first byte.
pub(super) fn send_with_files<T: Serialize>(link: &UnixStream, message: &T, files: &[File]) -> io::Result<()> {
    if files.is_empty() {
        return send(link, message);
    }
    let frame = frame(message)?;
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(invalid("too many files for one message"));
    }
    let sent = loop {
        match rustix::net::sendmsg(link, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    let mut rest = link;
    rest.write_all(frame.get(sent..).unwrap_or_default())
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
