//! A process as `/proc` shows it. A pid alone names nobody, since pids are used again: with its start time it does.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Clock ticks per second in `/proc`; Linux shows the same number to every program.
pub const TICKS_PER_SECOND: u64 = 100;

/// One line of `/proc/PID/stat`, as far as it is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Whether it has ended and only waits to be reaped.
    pub ended: bool,
    /// Its own processor time, in ticks.
    pub ticks: u64,
    /// The processor time of the children it has reaped and of theirs, in ticks.
    pub reaped_ticks: u64,
    /// Its threads.
    pub threads: u64,
    /// When it started, in ticks since boot.
    pub started: u64,
}

impl Stat {
    /// Every process of this machine, or of this container.
    pub fn all() -> impl Iterator<Item = Self> {
        std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Self::of)
    }

    /// The process with that pid; `None` if there is none.
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// This process.
    pub fn own() -> Option<Self> {
        Self::parse(&std::fs::read("/proc/self/stat").ok()?)
    }

    /// The name stands in parentheses and may itself hold spaces and parentheses: the last one closes it.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let (head, tail) = line.rsplit_once(')')?;
        let pid = head.split_once('(')?.0.trim().parse().ok()?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        // Counted from the state, which proc(5) calls field 3.
        let number = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            ticks: number(14)?.saturating_add(number(15)?),
            reaped_ticks: number(16)?.saturating_add(number(17)?),
            threads: number(20)?,
            started: number(22)?,
        })
    }
}

/// Whether this kernel lists the children of a process (`CONFIG_PROC_CHILDREN`).
pub fn lists_children() -> bool {
    static LISTS: OnceLock<bool> = OnceLock::new();
    *LISTS.get_or_init(|| std::fs::exists("/proc/thread-self/children").unwrap_or(false))
}

/// The children of a process, as the kernel lists them for each of its threads.
pub fn children(pid: i32) -> impl Iterator<Item = i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
}

/// One process for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub started: u64,
}

impl Identity {
    /// This process.
    pub fn own() -> Option<Self> {
        Stat::own().map(Self::from)
    }

    /// Whether that very process still runs.
    pub fn lives(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| !stat.ended && Self::from(stat) == *self)
    }
}

impl From<Stat> for Identity {
    fn from(stat: Stat) -> Self {
        Self { pid: stat.pid, started: stat.started }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_confuse_the_fields() {
        let line = b"42 (a) R (b) S 7 42 42 0 -1 4194560 100 0 0 0 3 4 5 6 20 0 1 0 987 1 2";
        assert_eq!(
            Stat::parse(line),
            Some(Stat {
                pid: 42,
                parent: 7,
                group: 42,
                ended: false,
                ticks: 7,
                reaped_ticks: 11,
                threads: 1,
                started: 987
            })
        );
    }

    #[test]
    fn a_short_or_strange_line_is_nobody() {
        for line in ["", "42", "42 (a", "42 (a) S", "x (a) S 1 2 3", "42 (a) Z 1 1 1 0 0 0 0 0 0 0 a 0 0 0 0 0 0 0 1"] {
            assert_eq!(Stat::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_used_again_pid_is_another_process() {
        let own = Identity::own().unwrap();
        assert!(own.lives());
        let other = Identity { started: own.started + 1, ..own };
        assert!(!other.lives());
    }

    #[test]
    fn a_process_that_ended_but_was_not_reaped_does_not_live() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let identity = loop {
            let stat = Stat::of(pid).unwrap();
            if stat.ended {
                break Identity::from(stat);
            }
            std::thread::yield_now();
        };
        assert!(!identity.lives());
        child.wait().unwrap();
        assert!(!identity.lives());
    }
}
