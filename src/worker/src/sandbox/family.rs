//! All descendants of this process, and their end.
//!
//! A descendant whose parent dies is given to the nearest *subreaper* above it, whatever it did to get away (a double
//! fork, a session of its own). As long as this process is one, none can leave, and "no children" as the kernel answers
//! to `wait` is the proof that none is left.

use super::process::{self, Stat};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Makes this process the one to which orphaned descendants are given.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Some descendants could not be ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} processes of the tool could not be killed; they may hang in the kernel")]
pub struct Survivors(usize);

/// Every descendant of this process, those that only wait to be reaped included. Who forks or ends meanwhile may be missed, as
/// with every look at `/proc`: nothing may be concluded from one look but that a process was there.
pub fn members() -> Vec<Stat> {
    if process::lists_children() { by_lists() } else { by_looking_at_all() }
}

/// Asks the kernel for the children of each: on a machine with many processes that is the smaller work by far.
fn by_lists() -> Vec<Stat> {
    let mut found = Vec::new();
    let mut known = HashSet::new();
    let mut parents = vec![own_pid()];
    while let Some(parent) = parents.pop() {
        for child in process::children(parent).filter(|child| known.insert(*child)) {
            parents.push(child);
            found.extend(Stat::of(child));
        }
    }
    found
}

fn by_looking_at_all() -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in Stat::all() {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut parents = vec![own_pid()];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Kills every descendant and reaps it; returns when the kernel says that there is none.
///
/// Whole process groups first: that is one step for the kernel, which no fork can slip through. Then each that is left,
/// again and again: each round kills more than can be forked while it lasts, and who is killed frees its time for it.
pub fn end_all(patience: Duration) -> Result<(), Survivors> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    while reap(|_, _| ()) == Children::Left {
        let members = members();
        kill_groups(&members);
        for member in &members {
            if let Some(pid) = Pid::from_raw(member.pid) {
                // It was there a moment ago; if it has ended since, that is what is wanted.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        if Instant::now() > deadline {
            return Err(Survivors(members.len()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(())
}

/// A group lies within one session, and a descendant in another session than ours can only be with its own kind there.
fn kill_groups(members: &[Stat]) {
    // Not by `getpgrp`: in a container the group may lie outside, and is then 0, which rustix takes for impossible.
    let Some(own) = Stat::of(own_pid()) else { return };
    let groups: HashSet<i32> = members.iter().map(|member| member.group).filter(|group| *group != own.group).collect();
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// Whether there are children, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// At least one runs.
    Left,
    /// None, running or not.
    None,
}

/// Reaps every child that has ended, tells of each, and says whether there are others.
pub fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> Children {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return Children::Left,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Children::None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn both_ways_find_children_and_theirs_also_of_a_thread_and_who_waits_to_be_reaped() {
        // From another thread than the one that looks; the shell has a child, and one more that has ended.
        let script = "sleep 60 & sleep 0 & echo $!; exec sleep 60";
        let start = || Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut shell = std::thread::spawn(start).join().unwrap();
        let mut ended = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut ended).unwrap();
        let (ended, shell_pid) = (ended.trim().parse().unwrap(), i32::try_from(shell.id()).unwrap());
        while !Stat::of(ended).unwrap().ended {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Other tests have children of their own meanwhile.
        let of_shell = |members: Vec<Stat>| {
            let of = members.into_iter().filter(|member| [member.pid, member.parent].contains(&shell_pid));
            of.map(|member| member.pid).collect::<HashSet<i32>>()
        };
        let (lists, all) = (of_shell(by_lists()), of_shell(by_looking_at_all()));
        assert_eq!(lists, all);
        assert!(lists.contains(&shell_pid) && lists.contains(&ended) && lists.len() == 3, "{lists:?}");
        for pid in lists.into_iter().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        shell.wait().unwrap();
    }
}
