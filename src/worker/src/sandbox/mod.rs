//! What the operating system gives for holding a tool: its processes, its folder, its output.
//!
//! Everything here is about untrusted strangers: a tool may fork, hide, link and write what it likes. Each part answers
//! one question in bounded time (who still lives, how much was written, what can be shown) and says so when it cannot.

pub mod family;
pub mod folder;
pub mod process;
pub mod text;

use std::os::fd::RawFd;

/// Closes this process's memory, and what it has open, to other processes of the same user.
pub fn hide_memory() -> std::io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

/// Closes what this process was started with beyond its three standard streams, but for the ones to keep: a shell or a
/// build tool leaves files open by accident, and they are nobody's business here. Only for a process that has opened
/// nothing else of its own yet.
pub fn close_inherited(keep: &[RawFd]) -> std::io::Result<()> {
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && !keep.contains(fd))
        .collect();
    for fd in open {
        // The listing itself was among them, and is closed already.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}
