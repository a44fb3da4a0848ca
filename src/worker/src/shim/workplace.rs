//! The private folder of one command: what it may read beside it, and its own folder inside.
//!
//! ```text
//! work/            made by whoever starts the shim
//!   input.json     0400  $M87_INPUT
//!   tool/          0700  the command's own: where it starts, $HOME
//!     usage.json         $M87_USAGE, if it writes one
//!     out/         0700  $M87_OUTPUT
//! ```

use super::link::Task;
use crate::sandbox::folder;
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where programs are looked for.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The name of the usage file in the command's folder.
pub(super) const USAGE: &str = "usage.json";

/// The folder, made before there is anything to do in it.
pub(super) struct Workplace {
    root: PathBuf,
    /// The command's own folder, whatever the command makes of its name.
    pub(super) tool: OwnedFd,
    /// The output folder, likewise.
    pub(super) out: OwnedFd,
}

impl Workplace {
    pub(super) fn make(root: &Path) -> std::io::Result<Self> {
        if root.to_str().is_none() {
            return Err(std::io::Error::other("the path is not UTF-8"));
        }
        let tool = root.join("tool");
        let out = tool.join("out");
        for path in [&tool, &out] {
            folder::make_private(path)?;
        }
        Ok(Self { root: root.to_owned(), tool: folder::open(&tool)?, out: folder::open(&out)? })
    }

    pub(super) fn tool_path(&self) -> PathBuf {
        self.root.join("tool")
    }

    pub(super) fn write_input(&self, input: &Value) -> std::io::Result<()> {
        let text = serde_json::to_vec(input)?;
        folder::write_read_only(&self.root.join("input.json"), &text)
    }

    /// The whole environment of a command.
    pub(super) fn env(&self, task: &Task) -> Vec<(String, String)> {
        let tool = self.tool_path();
        let mut paths = vec![("M87_INPUT", self.root.join("input.json")), ("HOME", tool.clone())];
        match task {
            Task::Tool { .. } => paths.extend([("M87_OUTPUT", tool.join("out")), ("M87_USAGE", tool.join(USAGE))]),
            Task::Check { artifact } => paths.push(("M87_ARTIFACT", artifact.clone())),
        }
        let mut env = vec![("PATH".to_owned(), SEARCH_PATH.to_owned()), ("LANG".to_owned(), "C.UTF-8".to_owned())];
        env.extend(paths.into_iter().map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned())));
        env
    }
}
