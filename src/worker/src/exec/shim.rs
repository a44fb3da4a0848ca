//! `exec`'s end of the shim: a process that waits, is told to go once, and is used up by that.
//!
//! On one machine it is a child. In a pod it is the first process of another container, which connects; there it can only
//! be let go, by closing the link.

use crate::sandbox::family;
use crate::sandbox::text::readable;
use crate::shim::link::{self, Done, Go, Left, MAX_FILES, Said};
use m87_core::evidence::{Ended, LimitKind};
use rustix::fs::FileType;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::fs::File;
use std::io::{Error, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};

/// How long a shim may take to be ready.
const READY: Duration = Duration::from_secs(30);
/// How much longer than the tool's limit the shim may take to end it before this side does.
pub const SHIM_GRACE: Duration = Duration::from_secs(15);
/// How long killed processes may take to go.
const PATIENCE: Duration = Duration::from_secs(10);
/// SIGKILL, which is what befalls a tool whose shim dies.
const KILLED: i32 = 9;
/// What the shim says is short.
const MAX_SAID: usize = 64 * 1024;

/// A shim that waits for its order.
pub(super) struct Shim {
    process: Option<Child>,
    link: UnixStream,
}

/// How the command ended, and what it left, open.
pub(super) struct Over {
    pub(super) done: Done,
    pub(super) usage: Option<File>,
    pub(super) artifact: Option<File>,
    /// Open until the report was heard: a shim in another container ends, and its pod with it, when this is closed.
    _link: Option<UnixStream>,
}

impl Over {
    /// A command that was never handed to a shim.
    pub(super) const fn not_started(why: String) -> Self {
        Self {
            done: Done::without_files(Ended::NotStarted(why), 0, String::new()),
            usage: None,
            artifact: None,
            _link: None,
        }
    }
}

impl Shim {
    /// Starts it, to work in that folder: this very program, which stays the same even if its file is replaced meanwhile.
    pub(super) async fn start(work: &Path) -> std::io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let link = UnixStream::from_std(ours)?;
        let process = Command::new("/proc/self/exe")
            .arg0("m87")
            .arg("shim")
            .arg("--work")
            .arg(work)
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        Self { process: Some(process), link }.when_ready().await
    }

    /// Waits for the one shim that connects, as that user; nobody else is listened to, then or later.
    pub(super) async fn connected(socket: &Path, peer: u32, patience: Duration) -> std::io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        // The shim is another user; which one, the kernel says once it has connected.
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
        let link = tokio::time::timeout(patience, accept(&listener, peer)).await.map_err(|_| late("connect"))??;
        drop(listener);
        std::fs::remove_file(socket)?;
        Self { process: None, link }.when_ready().await
    }

    async fn when_ready(mut self) -> std::io::Result<Self> {
        match tokio::time::timeout(READY, self.hear()).await {
            Ok(Ok((Said::Ready, _))) => Ok(self),
            Ok(Ok(_)) => Err(Error::other("the shim says something else than that it is ready")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(late("be ready")),
        }
    }

    /// "Go". Returns when the command and all its descendants are gone, whoever ended them.
    pub(super) async fn run(mut self, go: &Go) -> Over {
        let started = Instant::now();
        let limit = Duration::from_secs(u64::try_from(go.limits.seconds).unwrap_or(0)) + SHIM_GRACE;
        let said = tokio::time::timeout(limit, self.converse(go)).await;
        let survivors = self.end();
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let lost = |ended, output: String| (Done::without_files(ended, millis, output), Vec::new());
        let (mut done, files) = match said {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => lost(Ended::Signalled(KILLED), format!("m87's shim died, and the tool with it: {error}")),
            Err(_) => lost(Ended::Limit(LimitKind::Seconds), "m87's shim gave no answer and was let go".to_owned()),
        };
        if let Some(survivors) = survivors {
            tracing::error!(%survivors, "the tool is not wholly gone");
            done.output = format!("{survivors}\n{}", done.output);
        }
        let mut files = files.into_iter();
        let mut take = |left: &Left| if *left == Left::File { files.next() } else { None };
        let (usage, artifact) = (take(&done.usage), take(&done.artifact));
        Over { done, usage, artifact, _link: self.process.is_none().then_some(self.link) }
    }

    /// A shim of this process has nothing more to do; and what it may have left falls to this process with its end.
    fn end(&mut self) -> Option<family::Survivors> {
        let process = self.process.as_mut()?;
        let _ = process.kill();
        let _ = process.wait();
        family::end_all(PATIENCE).err()
    }

    async fn converse(&mut self, go: &Go) -> std::io::Result<(Done, Vec<File>)> {
        self.link.write_all(&link::frame(go)?).await?;
        loop {
            match self.hear().await? {
                (Said::Ready, _) => return Err(Error::other("the shim says that it is ready, after its order")),
                (Said::Started, _) => tracing::debug!("the tool runs"),
                (Said::Done(done), files) => {
                    return Ok((clean(done), files.into_iter().map(usable).collect::<Result<_, _>>()?));
                }
            }
        }
    }

    /// One message, and the files that came with it.
    async fn hear(&mut self) -> std::io::Result<(Said, Vec<OwnedFd>)> {
        let mut files = Vec::new();
        let mut head = [0; 4];
        self.fill(&mut head, &mut files).await?;
        let length = link::length(head)?;
        if length > MAX_SAID {
            return Err(Error::new(ErrorKind::InvalidData, "the shim says too much"));
        }
        let mut body = vec![0; length];
        self.fill(&mut body, &mut files).await?;
        Ok((link::parse(&body)?, files))
    }

    async fn fill(&mut self, buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> std::io::Result<()> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let link = &self.link;
            let count = link.async_io(Interest::READABLE, || receive(link, rest, files)).await?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            filled += count;
        }
        Ok(())
    }
}

async fn accept(listener: &UnixListener, peer: u32) -> std::io::Result<UnixStream> {
    loop {
        let (link, _) = listener.accept().await?;
        // Not by rustix: it takes a peer of another pid namespace, whose pid is 0 here, for none.
        let user = link.peer_cred()?.uid();
        if user == peer {
            return Ok(link);
        }
        tracing::warn!(user, peer, "somebody else than the shim has connected");
    }
}

/// What is there to be read, with the files that come with it; none stays open in a program that this one becomes.
fn receive(link: &UnixStream, buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> std::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(link, &mut pieces, &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            files.extend(more.take(MAX_FILES.saturating_sub(files.len())));
        }
    }
    Ok(received.bytes)
}

/// A file that a stranger handed over: whatever else it may be, reading it must not block or speak to a device.
fn usable(file: OwnedFd) -> std::io::Result<File> {
    let stat = rustix::fs::fstat(file.as_fd())?;
    let mode = rustix::fs::fcntl_getfl(file.as_fd())? & rustix::fs::OFlags::ACCMODE;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if regular && mode == rustix::fs::OFlags::RDONLY {
        Ok(File::from(file))
    } else {
        Err(Error::new(ErrorKind::InvalidData, "the shim handed over something else than a file to be read"))
    }
}

/// What it says for people is made fit to be shown once more, where it cannot be tampered with.
fn clean(mut done: Done) -> Done {
    done.output = readable(done.output.as_bytes());
    if let Ended::NotStarted(why) = &mut done.ended {
        *why = readable(why.as_bytes());
    }
    for left in [&mut done.usage, &mut done.artifact] {
        if let Left::Unusable(why) = left {
            *why = readable(why.as_bytes());
        }
    }
    done
}

fn late(what: &str) -> Error {
    Error::new(ErrorKind::TimedOut, format!("the shim takes too long to {what}"))
}
