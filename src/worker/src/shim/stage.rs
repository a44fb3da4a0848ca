//! The second stage: one process that sets limits on itself and then becomes the tool.
//!
//! The socket it was started with is closed by becoming another program. So its other end reads either nothing, and the
//! tool runs, or why it does not.

use super::link::{self, Become};
use crate::sandbox::close_inherited;
use crate::sandbox::process::Stat;
use m87_core::tool::CommandLimits;
use rustix::process::{Resource, Rlimit, Signal};
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Open files of one tool process.
const OPEN_FILES: u64 = 1024;
/// How many tasks the user may start elsewhere while the tool runs, before the kernel holds that against the tool.
const SPARE_TASKS: u64 = 1024;

/// The pid of a container's first process.
const FIRST: i32 = 1;

/// Becomes the tool; returns only if that was not possible, after having said so.
pub(super) fn become_tool(mut link: &UnixStream) -> std::io::Result<()> {
    let Some(order) = link::receive::<Become>(link)? else {
        return Ok(());
    };
    let error = attempt(&order, link.as_raw_fd());
    link.write_all(error.to_string().as_bytes())
}

/// The error that prevented it.
fn attempt(order: &Become, link: RawFd) -> std::io::Error {
    let Some((program, arguments)) = order.argv.split_first() else {
        return std::io::Error::other("the command is empty");
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(order.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&order.folder)
        .stdin(Stdio::null());
    match close_inherited(&[link]).and_then(|()| confine(order)) {
        Ok(()) => describe(command.exec(), program),
        Err(error) => std::io::Error::other(format!("cannot set limits: {error}")),
    }
}

fn describe(error: std::io::Error, program: &str) -> std::io::Error {
    std::io::Error::other(format!("{program:?}: {error}"))
}

/// What holds from here on for this process and for all that descend from it.
fn confine(order: &Become) -> std::io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::setsid()?;
    // No set-user-id program gains rights by which it could not be killed.
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(order.parent) {
        return Err(std::io::Error::other("the shim has died"));
    }
    limit(&order.limits, order.parent)
}

/// What the kernel can limit for each process. Wall-clock time, the processes and bytes of all together and their
/// processor time are the shim's to watch. The kernel's limits of processor time and file size lie a little above the
/// tool's, so that the shim sees the tool exceed its own, also where a descendant was stopped by these.
fn limit(limits: &CommandLimits, shim: i32) -> std::io::Result<()> {
    let figure = |value: i64| u64::try_from(value).unwrap_or(0);
    let cpu = figure(limits.cpu_seconds);
    set(Resource::Core, 0, 0)?;
    set(Resource::Nofile, OPEN_FILES, OPEN_FILES)?;
    set(Resource::Cpu, cpu.saturating_add(1), cpu.saturating_add(2))?;
    let size = figure(limits.output_bytes).saturating_add(1);
    set(Resource::Fsize, size, size)?;
    if let Some(tasks) = tasks_of_user(shim) {
        let processes = tasks + SPARE_TASKS + figure(limits.processes);
        set(Resource::Nproc, processes, processes)?;
    }
    // Last, since this process too has to live within it until it is the tool.
    let memory = figure(limits.memory_bytes);
    set(Resource::As, memory, memory)
}

/// A limit that is already lower stays.
fn set(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    let held = rustix::process::getrlimit(resource);
    let lower = |limit: u64, held: Option<u64>| Some(held.map_or(limit, |held| held.min(limit)));
    let maximum = lower(hard, held.maximum);
    let current = lower(soft, maximum);
    Ok(rustix::process::setrlimit(resource, Rlimit { current, maximum })?)
}

/// The kernel counts all tasks of the user, not those of the tool, so its limit can only be a backstop against those
/// who fork faster than the shim can look. `None` for root, who is exempt from it, and in a container: there this sees
/// its own tasks only, while the kernel counts those of the user in every container of the machine.
fn tasks_of_user(shim: i32) -> Option<u64> {
    let user = rustix::process::getuid();
    if user.is_root() || shim == FIRST {
        return None;
    }
    let own = |stat: &Stat| {
        let folder = std::fs::metadata(format!("/proc/{}", stat.pid));
        folder.is_ok_and(|folder| std::os::unix::fs::MetadataExt::uid(&folder) == user.as_raw())
    };
    Some(Stat::all().filter(own).map(|stat| stat.threads).sum())
}
