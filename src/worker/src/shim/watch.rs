//! The first stage: starts the second, and watches over what it has become until that and all its descendants are gone.

use super::ShimError;
use super::link::{self, Become, Done, Go, Said};
use crate::sandbox::family;
use crate::sandbox::process::{Stat, TICKS_PER_SECOND};
use crate::sandbox::{folder, text::Tail};
use m87_core::evidence::{Ended, LimitKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, WaitStatus};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How often the family and its folder are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// One part in so many of the time may go into looking.
const LOOKING_SHARE: u32 = 10;
/// How long killed processes may take to go.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the second stage may take to become the tool.
const START: Duration = Duration::from_secs(10);

/// Runs the command; `None` if `exec` was lost meanwhile, and nobody is there to hear of it.
pub(super) fn run(go: &Go, link: &UnixStream) -> Result<Option<Done>, ShimError> {
    let mut tool = match Tool::start(go) {
        Ok(tool) => tool,
        Err(why) => {
            family::end_all(PATIENCE)?;
            return Ok(Some(Done { ended: Ended::NotStarted(why), millis: 0, output: String::new() }));
        }
    };
    let why = match link::send(link, &Said::Started) {
        Ok(()) => tool.watch(link),
        Err(_) => Ok(None),
    };
    // Whatever happened: nothing of the tool outlives this.
    let elapsed = tool.started.elapsed();
    family::end_all(PATIENCE)?;
    let Some(why) = why.map_err(ShimError::System)? else {
        return Ok(None);
    };
    tool.drain().map_err(ShimError::System)?;
    Ok(Some(Done {
        ended: tool.verdict(why, elapsed),
        millis: u64::try_from(elapsed.as_micros().div_ceil(1000)).unwrap_or(u64::MAX),
        output: tool.tail.readable(),
    }))
}

/// Why watching came to an end.
enum Why {
    Ended(WaitStatus),
    Limit(LimitKind),
}

struct Tool<'a> {
    go: &'a Go,
    pid: Pid,
    /// Becomes readable when the tool ends.
    end: OwnedFd,
    /// Its standard output and error; `None` once nobody can write to it any more.
    output: Option<File>,
    tail: Tail,
    started: Instant,
}

impl<'a> Tool<'a> {
    /// Starts it; the error is for people.
    fn start(go: &'a Go) -> Result<Self, String> {
        let (pid, output, refusal) = spawn(go).map_err(|error| format!("cannot start a process: {error}"))?;
        if !refusal.is_empty() {
            return Err(refusal);
        }
        let started = Instant::now();
        let end = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| format!("cannot watch the process: {error}"))?;
        Ok(Self { go, pid, end, output: Some(output), tail: Tail::default(), started })
    }

    /// Until it ends or has to; `None` if `exec` is gone.
    fn watch(&mut self, link: &UnixStream) -> std::io::Result<Option<Why>> {
        let limit = Duration::from_secs(figure(self.go.limits.seconds));
        let mut next_look = self.started + LOOK_EVERY;
        loop {
            let now = Instant::now();
            let left = limit.saturating_sub(now.duration_since(self.started));
            let lost = self.wait(link, left.min(next_look.saturating_duration_since(now)))?;
            if lost {
                return Ok(None);
            }
            self.drain()?;
            let mut status = None;
            family::reap(|pid, ended| {
                if pid == self.pid {
                    status = Some(ended);
                }
            });
            if let Some(status) = status {
                return Ok(Some(Why::Ended(status)));
            }
            if self.started.elapsed() >= limit {
                return Ok(Some(Why::Limit(LimitKind::Seconds)));
            }
            let now = Instant::now();
            if now >= next_look {
                if let Some(kind) = self.look() {
                    return Ok(Some(Why::Limit(kind)));
                }
                next_look = Instant::now() + LOOK_EVERY.max(now.elapsed() * LOOKING_SHARE);
            }
        }
    }

    /// Waits until there is something to do; says whether `exec` is gone. It has nothing to say after its order, so
    /// that anything to be read from it is its end.
    fn wait(&self, link: &UnixStream, longest: Duration) -> std::io::Result<bool> {
        let mut watched = vec![PollFd::new(link, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
        if let Some(output) = &self.output {
            watched.push(PollFd::new(output, PollFlags::IN));
        }
        let longest = Timespec::try_from(longest).map_err(std::io::Error::other)?;
        match rustix::event::poll(&mut watched, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(watched.first().is_some_and(|link| !link.revents().is_empty()))
    }

    /// Takes what was printed so far, but not for ever: who prints without end is looked at in between.
    fn drain(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..64 {
            let Some(output) = &mut self.output else {
                return Ok(());
            };
            match output.read(&mut buffer) {
                Ok(0) => self.output = None,
                Ok(count) => self.tail.push(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.tail.total() > figure(self.go.limits.output_bytes) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Which limit the family as a whole is over.
    fn look(&self) -> Option<LimitKind> {
        let members = family::members();
        let running = members.iter().filter(|member| !member.ended).count() as u64;
        let ticks = members
            .iter()
            .fold(reaped_ticks(), |sum, member| sum.saturating_add(member.ticks).saturating_add(member.reaped_ticks));
        if running > figure(self.go.limits.processes) {
            return Some(LimitKind::Processes);
        }
        self.over_cpu(ticks).or_else(|| self.over_output())
    }

    fn over_cpu(&self, ticks: u64) -> Option<LimitKind> {
        let limit = figure(self.go.limits.cpu_seconds).saturating_mul(TICKS_PER_SECOND);
        (ticks > limit).then_some(LimitKind::CpuSeconds)
    }

    fn over_output(&self) -> Option<LimitKind> {
        let written =
            folder::bytes_below(&self.go.folder).map_or(u64::MAX, |bytes| bytes.saturating_add(self.tail.total()));
        (written > figure(self.go.limits.output_bytes)).then_some(LimitKind::OutputBytes)
    }

    /// How it ended, now that nothing of it runs any more and its figures are final.
    fn verdict(&self, why: Why, elapsed: Duration) -> Ended {
        let status = match why {
            Why::Limit(kind) => return Ended::Limit(kind),
            Why::Ended(status) => status,
        };
        let over_time = elapsed > Duration::from_secs(figure(self.go.limits.seconds));
        let over = over_time
            .then_some(LimitKind::Seconds)
            .or_else(|| self.over_cpu(reaped_ticks()))
            .or_else(|| self.over_output());
        match (over, status.exit_status(), status.terminating_signal()) {
            (Some(kind), _, _) => Ended::Limit(kind),
            (None, Some(code), _) => Ended::Exited(code),
            (None, None, signal) => Ended::Signalled(signal.unwrap_or(0)),
        }
    }
}

/// The processor time of all that was reaped, and of what they had reaped.
fn reaped_ticks() -> u64 {
    Stat::own().map_or(u64::MAX, |own| own.reaped_ticks)
}

/// A limit; one that cannot be is none that allows anything.
fn figure(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(0)
}

/// Starts the second stage and waits until it has become the tool, or has said why not.
fn spawn(go: &Go) -> std::io::Result<(Pid, File, String)> {
    let (ours, theirs) = UnixStream::pair()?;
    let (reader, writer) = std::io::pipe()?;
    let child = Command::new("/proc/self/exe")
        .arg0("m87")
        .args(["shim", "--stage", "tool"])
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("no pid"))?;
    let output = File::from(OwnedFd::from(reader));
    let flags = rustix::fs::fcntl_getfl(&output)?;
    rustix::fs::fcntl_setfl(&output, flags | rustix::fs::OFlags::NONBLOCK)?;

    ours.set_write_timeout(Some(START))?;
    ours.set_read_timeout(Some(START))?;
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    link::send(&ours, &Become { go: go.clone(), parent })?;
    let mut refusal = Vec::new();
    ours.take(4096).read_to_end(&mut refusal)?;
    Ok((pid, output, String::from_utf8_lossy(&refusal).into_owned()))
}
