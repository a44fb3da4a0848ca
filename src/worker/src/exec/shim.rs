//! `exec`'s end of the shim: a process that waits, is told to go once, and is used up by that.

use crate::sandbox::family;
use crate::shim::link::{self, Done, Go, Said};
use m87_core::evidence::{Ended, LimitKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// How much longer than the tool's limit the shim may take to end it before this side does.
const SHIM_GRACE: Duration = Duration::from_secs(15);
/// How long killed processes may take to go.
const PATIENCE: Duration = Duration::from_secs(10);
/// SIGKILL, which is what befalls a tool whose shim dies.
const KILLED: i32 = 9;

/// A shim that waits for its order.
pub(super) struct Shim {
    process: Child,
    link: UnixStream,
}

impl Shim {
    /// Starts it: this very program, which stays the same even if its file is replaced meanwhile.
    pub(super) fn start() -> std::io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let process = Command::new("/proc/self/exe")
            .arg0("m87")
            .arg("shim")
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        ours.set_nonblocking(true)?;
        Ok(Self { process, link: UnixStream::from_std(ours)? })
    }

    /// "Go". Returns when the command and all its descendants are gone, whoever ended them.
    pub(super) async fn run(mut self, go: &Go) -> Done {
        let started = Instant::now();
        let limit = Duration::from_secs(u64::try_from(go.limits.seconds).unwrap_or(0)) + SHIM_GRACE;
        let said = tokio::time::timeout(limit, self.converse(go)).await;
        // It has nothing more to do; and what it may have left falls to this process with its end.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let survivors = family::end_all(PATIENCE).err();
        let here = |ended, output: String| Done {
            ended,
            millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            output,
        };
        let mut done = match said {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => here(Ended::Signalled(KILLED), format!("m87's shim died, and the tool with it: {error}")),
            Err(_) => here(Ended::Limit(LimitKind::Seconds), "m87's shim gave no answer and was killed".to_owned()),
        };
        if let Some(survivors) = survivors {
            tracing::error!(%survivors, "the tool is not wholly gone");
            done.output = format!("{survivors}\n{}", done.output);
        }
        done
    }

    async fn converse(&mut self, go: &Go) -> std::io::Result<Done> {
        self.link.write_all(&link::frame(go)?).await?;
        loop {
            match self.hear().await? {
                Said::Started => tracing::debug!("the tool runs"),
                Said::Done(done) => return Ok(done),
            }
        }
    }

    async fn hear(&mut self) -> std::io::Result<Said> {
        let mut head = [0; 4];
        self.link.read_exact(&mut head).await?;
        let mut body = vec![0; link::length(head)?];
        self.link.read_exact(&mut body).await?;
        link::parse(&body)
    }
}
