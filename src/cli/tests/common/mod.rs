//! The built binary, in a folder of its own.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that is gone when the test is over.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs `m87` here.
    pub fn m87<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Done {
        let output = self.command(arguments).output().unwrap();
        Done::of(output)
    }

    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_m87"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).env_remove("M87_LOG");
        command
    }

    /// Runs files with `-o json`.
    pub fn run(&self, files: &Path, more: &[&str]) -> Done {
        let mut arguments = vec!["run", "-f", files.to_str().unwrap(), "-o", "json"];
        arguments.extend(more);
        self.m87(arguments)
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The runs that `m87 run -o json` tells of, by name.
    pub fn runs(&self) -> BTreeMap<String, Value> {
        let report: Value = serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        let runs = report["runs"].as_array().unwrap_or_else(|| panic!("{self:?}"));
        runs.iter().map(|run| (run["name"].as_str().unwrap().to_owned(), run.clone())).collect()
    }
}

/// The repository's `policy/`.
pub fn policy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policy")
}

/// A policy, and a manifest with one tool that appends a line to `ledger`, leaves an artifact and says what it used.
pub fn ledger_tool(ledger: &Path) -> String {
    tool(&format!(
        "echo once >> {}; echo done > \"$M87_OUTPUT/a\"; echo '{{\"steps\":1}}' > \"$M87_USAGE\"",
        ledger.display()
    ))
}

/// A policy and a manifest with one tool `t` that is this script, and a validation that passes.
pub fn tool(script: &str) -> String {
    tools(&[Tool { script, ..Tool::default() }])
}

/// A tool of a manifest.
pub struct Tool<'a> {
    pub name: &'a str,
    pub script: &'a str,
    pub validation: &'a str,
    pub seconds: u32,
}

impl Default for Tool<'_> {
    fn default() -> Self {
        Self { name: "t", script: "true", validation: "exit 0", seconds: 20 }
    }
}

/// A policy and a manifest with these tools.
pub fn tools(tools: &[Tool<'_>]) -> String {
    let mut text = String::from(
        r#"
apiVersion: m87.dev/v1alpha1
kind: GovernancePolicy
metadata: {name: p}
spec:
  constraints: {risksAllowed: [low], targetsForbidden: [], actorsAllowed: ["*"]}
  autonomyBudget: {steps: {limit: 20}, toolCalls: {limit: 1}, seconds: {limit: 60}, artifactBytes: {limit: 4096}, reported: [steps]}
  approvals: {autoApprove: {riskAtMost: low, nonHumans: []}}
---
apiVersion: m87.dev/v1alpha1
kind: ToolManifest
metadata: {name: m}
spec:
  tools:
"#,
    );
    for Tool { name, script, validation, seconds } in tools {
        let limits = format!(
            "{{seconds: {seconds}, cpuSeconds: 10, memoryBytes: 268435456, outputBytes: 1000000, processes: 64}}"
        );
        let (script, validation) = (serde_json::to_string(script).unwrap(), serde_json::to_string(validation).unwrap());
        text += &format!(
            r#"
    - name: {name}
      version: 1.0.0
      provides: []
      actionType: act
      targetsAllowed: ["x/*"]
      targetFrom: {{pointer: /to, prefix: x/}}
      riskClass: low
      reversibility: Reversible
      enabled: true
      effects: [{{kind: file, operation: create, targetType: line}}]
      inputSchema: {{type: object}}
      run: {{command: {{artifact: a, argv: [sh, -c, {script}], limits: {limits}}}}}
      validation: {{argv: [sh, -c, {validation}], limits: {limits}}}
"#
        );
    }
    text
}

/// A run of that tool.
pub fn run_of(name: &str) -> String {
    format!(
        r#"
---
apiVersion: m87.dev/v1alpha1
kind: GovernedRun
metadata: {{name: {name}}}
spec:
  policyRef: {{name: p}}
  manifestRef: {{name: m}}
  proposal: {{tool: t, actionType: act, target: x/{name}, risk: low, reasoningTrace: a test, input: {{to: {name}}}}}
"#
    )
}
