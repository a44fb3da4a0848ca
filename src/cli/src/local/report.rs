//! What is told of runs when they are over: the story for people, one JSON document for programs. Both are projections of
//! what is recorded of the runs, judged again; nothing is told from memory.

use crate::say::counted;
use m87_core::decide::Verdict;
use m87_core::gates::Gate;
use m87_core::reason::Terminal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One run that is over.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// True if nothing was done for it now: its action had been done, or refused, before.
    pub(crate) already_done: bool,
    /// How it should end, if its author said so.
    pub(crate) expected: Option<Terminal>,
    pub(crate) verdict: Verdict,
    /// What tool and validation said, line by line.
    pub(crate) said: Vec<String>,
    pub(crate) receipt_hash: String,
    pub(crate) bundle: PathBuf,
}

impl Told {
    /// Whether it ended as it should: as written, or COMPLETE.
    pub(crate) fn as_expected(&self) -> bool {
        self.verdict.terminal == self.expected.unwrap_or(Terminal::Complete)
    }

    /// The run's name, with its namespace unless that is the default one.
    pub(crate) fn title(&self) -> String {
        match self.namespace.as_str() {
            "default" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// One line: name, terminal, reason, and whether that is as it should be.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{}: {}", self.title(), self.verdict.terminal.name());
        if let Some(reason) = self.verdict.reason {
            let _ = write!(line, " {}", reason.name());
        }
        if self.already_done {
            line.push_str(", AlreadyDone");
        }
        match self.expected {
            Some(expected) if !self.as_expected() => {
                let _ = write!(line, " (expected {})", expected.name());
            }
            Some(_) if self.verdict.terminal != Terminal::Complete => line.push_str(" (as expected)"),
            Some(_) | None => {}
        }
        line
    }
}

/// Of what was said, so many lines are told with a run that did not end well: programs say last why they gave up.
const SAID_LINES: usize = 3;

/// The story for people; nothing, of no run.
pub(crate) fn story(runs: &[Told]) -> String {
    let mut story = String::new();
    if runs.is_empty() {
        return story;
    }
    for run in runs {
        let _ = writeln!(story, "{}", run.line());
        let _ = writeln!(story, "  gates    {}", gates(&run.verdict));
        if run.verdict.terminal != Terminal::Complete {
            let _ = writeln!(story, "  because  {}", printable(&run.verdict.message));
            let last = run.said.len().saturating_sub(SAID_LINES);
            run.said.iter().skip(last).for_each(|line| {
                let _ = writeln!(story, "           {line}");
            });
        }
        let _ = writeln!(story, "  receipt  {}  {}", run.receipt_hash, near(&run.bundle).display());
    }
    if runs.iter().any(|run| run.already_done) {
        story.push_str("AlreadyDone: nothing was done again; a new name or idempotencyKey makes it another action\n");
    }
    let mut counts: BTreeMap<Terminal, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *counts.entry(run.verdict.terminal).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(terminal, count)| format!("{count} {}", terminal.name())).collect();
    let otherwise = runs.iter().filter(|run| !run.as_expected()).count();
    let verdict = if otherwise == 0 { "all as expected".to_owned() } else { format!("{otherwise} not as expected") };
    let _ = writeln!(story, "{}: {}; {verdict}", counted(runs.len(), "run"), counts.join(", "));
    story
}

/// Each gate that was reached, by its name, and what it said: `yes` lets the run go on.
fn gates(verdict: &Verdict) -> String {
    let results = &verdict.gates;
    let said = [
        (Gate::EvaluateConstraints, results.constraints_ok),
        (Gate::ToolInManifest, results.tool_in_manifest),
        (Gate::BudgetExceededOrError, results.budget_exceeded.map(|exceeded| !exceeded)),
        (Gate::ArtifactVerified, results.artifact_verified),
    ];
    let reached = said.into_iter().filter_map(|(gate, passed)| passed.map(|passed| (gate, passed)));
    let words: Vec<String> =
        reached.map(|(gate, passed)| format!("{} {}", gate.name(), if passed { "yes" } else { "NO" })).collect();
    if words.is_empty() { "none was reached".to_owned() } else { words.join(", ") }
}

/// Texts of users and tools cannot steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The document for programs.
pub(crate) fn json(runs: &[Told]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Run<'a> {
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
        terminal: &'a str,
        reason: Option<&'a str>,
        failure_class: Option<m87_core::reason::FailureClass>,
        message: &'a str,
        effect: m87_core::decide::Effect,
        gates: m87_core::decide::GateResults,
        expected: Option<&'a str>,
        as_expected: bool,
        already_done: bool,
        receipt: Receipt<'a>,
    }
    #[derive(Serialize)]
    struct Receipt<'a> {
        hash: &'a str,
        bundle: &'a std::path::Path,
    }
    #[derive(Serialize)]
    struct Report<'a> {
        runs: Vec<Run<'a>>,
    }
    let runs = runs.iter().map(|run| Run {
        namespace: &run.namespace,
        name: &run.name,
        uid: &run.uid,
        terminal: run.verdict.terminal.name(),
        reason: run.verdict.reason.map(m87_core::reason::Reason::name),
        failure_class: run.verdict.failure_class,
        message: &run.verdict.message,
        effect: run.verdict.effect,
        gates: run.verdict.gates,
        expected: run.expected.map(Terminal::name),
        as_expected: run.as_expected(),
        already_done: run.already_done,
        receipt: Receipt { hash: &run.receipt_hash, bundle: &run.bundle },
    });
    Ok(serde_json::to_string_pretty(&Report { runs: runs.collect() })? + "\n")
}

/// A path as one would type it here.
fn near(path: &Path) -> &Path {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path)
}
