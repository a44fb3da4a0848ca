//! The first stage: starts the second, and watches over what it has become until that and all its descendants are gone.

use super::ShimError;
use super::link::{self, Become, Done, Go, Left, Said, Task};
use super::log::Log;
use super::workplace::{USAGE, Workplace};
use crate::sandbox::family;
use crate::sandbox::folder::{self, NoFile};
use crate::sandbox::process::{Stat, TICKS_PER_SECOND};
use crate::sandbox::text::{Tail, readable};
use m87_core::evidence::{Ended, LimitKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, WaitStatus};
use std::fs::File;
use std::io::{Read, Stdout};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
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

/// SIGKILL, which is what befalls a tool that cannot be watched.
const KILLED: i32 = 9;

/// A command that is over, and what it left, open.
pub(super) struct Over {
    pub(super) done: Done,
    /// The usage before the artifact, as far as there are such files.
    pub(super) files: Vec<File>,
}

impl Over {
    fn nothing(ended: Ended, output: String) -> Self {
        Self { done: Done::without_files(ended, 0, output), files: Vec::new() }
    }
}

/// Why there is no command to watch.
enum Failed {
    /// It certainly never ran.
    NotStarted(String),
    /// It may have: it was killed at once.
    Lost(String),
}

/// Runs the command; `None` if `exec` was lost meanwhile, and nobody is there to hear of it.
pub(super) fn run(go: &Go, place: &Workplace, link: Option<&UnixStream>) -> Result<Option<Over>, ShimError> {
    if let Err(error) = place.write_input(&go.input) {
        let why = format!("the input cannot be written: {error}");
        return Ok(Some(Over::nothing(Ended::NotStarted(why), String::new())));
    }
    let home = place.tool_path();
    let mut tool = match Tool::start(go, &home, place) {
        Ok(tool) => tool,
        Err(failed) => {
            family::end_all(PATIENCE)?;
            return Ok(Some(match failed {
                Failed::NotStarted(why) => Over::nothing(Ended::NotStarted(why), String::new()),
                Failed::Lost(why) => Over::nothing(Ended::Signalled(KILLED), why),
            }));
        }
    };
    let why = match link.map_or(Ok(()), |link| link::send(link, &Said::Started)) {
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
    let ended = tool.verdict(why, elapsed);
    let millis = u64::try_from(elapsed.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    let done = Done::without_files(ended, millis, tool.tail.readable());
    Ok(Some(collect(done, &go.task, place)))
}

/// Opens what the tool left, now that nobody can exchange it any more. A tool that failed has no artifact: whatever lies
/// there was not finished.
fn collect(mut done: Done, task: &Task, place: &Workplace) -> Over {
    let mut files = Vec::new();
    let mut open = |folder: &OwnedFd, name: &str| match folder::open_regular(folder, name) {
        Ok(file) => {
            files.push(file);
            Left::File
        }
        Err(NoFile::Absent) => Left::Nothing,
        Err(error) => Left::Unusable(readable(error.to_string().as_bytes())),
    };
    match task {
        Task::Tool { artifact } => {
            done.usage = open(&place.tool, USAGE);
            if done.ended == Ended::Exited(0) {
                done.artifact = open(&place.out, artifact);
            }
        }
        Task::Check { .. } => {}
    }
    Over { done, files }
}

/// Why watching came to an end.
enum Why {
    Ended(WaitStatus),
    Limit(LimitKind),
}

struct Tool<'a> {
    go: &'a Go,
    /// The folder in which its output is measured.
    home: &'a Path,
    pid: Pid,
    /// Becomes readable when the tool ends.
    end: OwnedFd,
    /// Its standard output and error; `None` once nobody can write to it any more.
    output: Option<File>,
    tail: Tail,
    log: Log<Stdout>,
    started: Instant,
}

impl<'a> Tool<'a> {
    fn start(go: &'a Go, home: &'a Path, place: &Workplace) -> Result<Self, Failed> {
        let become_it = Become {
            argv: go.argv.clone(),
            env: place.env(&go.task),
            folder: home.to_owned(),
            limits: go.limits,
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        };
        let (pid, output) = spawn(&become_it)?;
        let started = Instant::now();
        let end = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| Failed::Lost(format!("the process could not be watched and was killed: {error}")))?;
        let log = Log::new(std::io::stdout());
        Ok(Self { go, home, pid, end, output: Some(output), tail: Tail::default(), log, started })
    }

    /// Until it ends or has to; `None` if `exec` is gone.
    fn watch(&mut self, link: Option<&UnixStream>) -> std::io::Result<Option<Why>> {
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
    fn wait(&self, link: Option<&UnixStream>, longest: Duration) -> std::io::Result<bool> {
        let mut watched = vec![PollFd::new(&self.end, PollFlags::IN)];
        if let Some(link) = link {
            watched.push(PollFd::new(link, PollFlags::IN));
        }
        if let Some(output) = &self.output {
            watched.push(PollFd::new(output, PollFlags::IN));
        }
        let longest = Timespec::try_from(longest).map_err(std::io::Error::other)?;
        match rustix::event::poll(&mut watched, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(link.is_some() && watched.get(1).is_some_and(|link| !link.revents().is_empty()))
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
                Ok(count) => {
                    let printed = buffer.get(..count).unwrap_or_default();
                    self.tail.push(printed);
                    self.log.pass_on(printed);
                }
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
        let written = folder::bytes_below(self.home).map_or(u64::MAX, |bytes| bytes.saturating_add(self.tail.total()));
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
fn spawn(order: &Become) -> Result<(Pid, File), Failed> {
    let not_started = |error: std::io::Error| Failed::NotStarted(format!("cannot start a process: {error}"));
    let (ours, pid, output) = second_stage().map_err(not_started)?;
    // An order that did not arrive whole is none.
    link::send(&ours, order).map_err(not_started)?;
    let mut refusal = Vec::new();
    let heard = ours.take(4096).read_to_end(&mut refusal);
    match heard {
        Ok(0) => Ok((pid, output)),
        Ok(_) => Err(Failed::NotStarted(String::from_utf8_lossy(&refusal).into_owned())),
        Err(error) => Err(Failed::Lost(format!("whether it started was not heard, and it was killed: {error}"))),
    }
}

fn second_stage() -> std::io::Result<(UnixStream, Pid, File)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_write_timeout(Some(START))?;
    ours.set_read_timeout(Some(START))?;
    let (reader, writer) = std::io::pipe()?;
    let output = File::from(OwnedFd::from(reader));
    let flags = rustix::fs::fcntl_getfl(&output)?;
    rustix::fs::fcntl_setfl(&output, flags | rustix::fs::OFlags::NONBLOCK)?;
    let child = Command::new("/proc/self/exe")
        .arg0("m87")
        .args(["shim", "--stage", "tool"])
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((ours, pid.ok_or_else(|| std::io::Error::other("no pid"))?, output))
}
