//! Clauses: what a gate looked at, what it found, and what would have passed.

use crate::reason::Reason;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where in a run a clause is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Not a gate: what ends a run from outside its process, and what the process must have recorded.
    Process,
    /// `Gw_Constraints`.
    EvaluateConstraints,
    /// `Gw_Manifest`.
    ToolInManifest,
    /// `Gw_Budget`.
    BudgetExceededOrError,
    /// `Gw_Verify`.
    ArtifactVerified,
    /// Not a gate: Memory's acceptance.
    Promotion,
}

impl Gate {
    /// The function's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::EvaluateConstraints => "evaluate_constraints",
            Self::ToolInManifest => "tool_in_manifest",
            Self::BudgetExceededOrError => "budget_exceeded_or_error",
            Self::ArtifactVerified => "artifact_verified",
            Self::Promotion => "promotion",
        }
    }

    /// The id of the process gateway that is this function.
    pub const fn gateway(self) -> Option<&'static str> {
        match self {
            Self::EvaluateConstraints => Some("Gw_Constraints"),
            Self::ToolInManifest => Some("Gw_Manifest"),
            Self::BudgetExceededOrError => Some("Gw_Budget"),
            Self::ArtifactVerified => Some("Gw_Verify"),
            Self::Process | Self::Promotion => None,
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clause {
    /// Where.
    pub gate: Gate,
    /// What was asked, as a short statement that holds if the clause passed.
    pub name: Cow<'static, str>,
    /// The reason of a run that ends here.
    pub reason: Reason,
    /// Whether it passed.
    pub passed: bool,
    /// What was found.
    pub detail: Cow<'static, str>,
    /// What would have passed; empty if it did.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub would_pass: Cow<'static, str>,
}

/// What one clause found: `Ok` passes.
pub(crate) type Check = Result<Cow<'static, str>, No>;

/// A refusal in words.
#[derive(Debug)]
pub(crate) struct No {
    detail: Cow<'static, str>,
    would_pass: Cow<'static, str>,
}

/// It passes, and this was found.
pub(crate) fn yes(detail: impl Into<Cow<'static, str>>) -> Check {
    Ok(detail.into())
}

/// It refuses: this was found, and that would have passed.
pub(crate) fn no(detail: impl Into<Cow<'static, str>>, would_pass: impl Into<Cow<'static, str>>) -> Check {
    Err(No { detail: detail.into(), would_pass: would_pass.into() })
}

/// All clauses that a gate looked at, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clauses {
    gate: Gate,
    clauses: Vec<Clause>,
}

impl Clauses {
    pub(crate) fn of(gate: Gate) -> Self {
        Self { gate, clauses: Vec::with_capacity(12) }
    }

    pub(crate) fn require(mut self, name: &'static str, reason: Reason, check: Check) -> Self {
        let (passed, detail, would_pass) = match check {
            Ok(detail) => (true, detail, Cow::Borrowed("")),
            Err(No { detail, would_pass }) => (false, detail, would_pass),
        };
        self.clauses.push(Clause { gate: self.gate, name: Cow::Borrowed(name), reason, passed, detail, would_pass });
        self
    }

    /// Whether every clause passed. A gate that looked at nothing has not passed.
    pub fn passed(&self) -> bool {
        !self.clauses.is_empty() && self.clauses.iter().all(|clause| clause.passed)
    }

    /// The first clause that refused: the reason of the gate.
    pub fn refusal(&self) -> Option<&Clause> {
        self.clauses.iter().find(|clause| !clause.passed)
    }

    /// All of them, in the order in which they were judged.
    pub fn as_slice(&self) -> &[Clause] {
        &self.clauses
    }
}

impl IntoIterator for Clauses {
    type Item = Clause;
    type IntoIter = std::vec::IntoIter<Clause>;

    fn into_iter(self) -> Self::IntoIter {
        self.clauses.into_iter()
    }
}
