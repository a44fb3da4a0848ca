//! Finding and killing the processes of one scene, and of no other.

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// A process as /proc shows it.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub arguments: Vec<String>,
}

/// Every process that mentions the scene's folder in its arguments, environment or working folder, and all that descend from
/// one: a shim mentions nothing.
pub fn of_scene(folder: &Path) -> Vec<Process> {
    let needle = folder.to_str().unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if pid == own {
            continue;
        }
        let read = |what: &str| std::fs::read(entry.path().join(what)).unwrap_or_default();
        let arguments = read("cmdline");
        let folder = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let mentions = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(needle);
        let is_of_scene =
            mentions(&arguments) || mentions(&read("environ")) || folder.to_string_lossy().contains(needle);
        let arguments = arguments.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
        let process = Process { pid, arguments: arguments.filter(|part| !part.is_empty()).collect() };
        if is_of_scene { found.push(process) } else { others.push((parent(&read("stat")), process)) }
    }
    loop {
        let is_child =
            |parent: &Option<i32>| parent.is_some_and(|parent| found.iter().any(|known| known.pid == parent));
        let (children, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|(parent, _)| is_child(parent));
        if children.is_empty() {
            return found;
        }
        found.extend(children.into_iter().map(|(_, child)| child));
        others = rest;
    }
}

/// The parent in a `/proc/PID/stat`; the name before it may hold anything, also parentheses.
fn parent(stat: &[u8]) -> Option<i32> {
    let stat = String::from_utf8_lossy(stat);
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What a process of m87 is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Exec,
    Shim,
    Tool,
}

impl Process {
    /// `m87 exec`, `m87 shim`, or else something that the shim started.
    pub fn role(&self) -> Option<Role> {
        let binary = Path::new(self.arguments.first()?).file_name()?.to_str()?;
        match (binary, self.arguments.get(1).map(String::as_str)) {
            ("m87", Some("exec")) => Some(Role::Exec),
            ("m87", Some("shim")) => Some(Role::Shim),
            ("m87", _) => None,
            _ => Some(Role::Tool),
        }
    }
}

/// Sends SIGKILL; a process that is already gone is fine.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
