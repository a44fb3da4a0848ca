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
pub(crate) type Check = Result<Found, Box<No>>;

/// What a clause that passes found. It is put into words only for whoever reads the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// In words.
    Words(&'static str),
    /// So many of so many.
    Figure {
        /// What was used.
        used: i64,
        /// What may be used.
        limit: i64,
    },
}

impl From<Found> for Cow<'static, str> {
    fn from(found: Found) -> Self {
        match found {
            Found::Words(words) => Self::Borrowed(words),
            Found::Figure { used, limit } => Self::Owned(format!("{used} of {limit}")),
        }
    }
}

/// A refusal in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct No {
    detail: Cow<'static, str>,
    would_pass: Cow<'static, str>,
}

/// It passes, and this was found.
pub(crate) const fn yes(detail: &'static str) -> Check {
    Ok(Found::Words(detail))
}

/// It refuses: this was found, and that would have passed.
pub(crate) fn no(detail: impl Into<Cow<'static, str>>, would_pass: impl Into<Cow<'static, str>>) -> Check {
    Err(Box::new(No { detail: detail.into(), would_pass: would_pass.into() }))
}

/// All clauses that a gate looked at, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clauses {
    gate: Gate,
    looked: Vec<Looked>,
    /// Whether one of them refused.
    refused: bool,
}

/// A clause before it is put into words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Looked {
    name: &'static str,
    reason: Reason,
    check: Check,
}

impl Looked {
    fn into_clause(self, gate: Gate) -> Clause {
        let Self { name, reason, check } = self;
        let (passed, detail, would_pass) = match check {
            Ok(found) => (true, found.into(), Cow::Borrowed("")),
            Err(no) => (false, no.detail, no.would_pass),
        };
        Clause { gate, name: Cow::Borrowed(name), reason, passed, detail, would_pass }
    }
}

/// No gate has more clauses.
const MOST: usize = 12;

impl Clauses {
    pub(crate) fn of(gate: Gate) -> Self {
        Self { gate, looked: Vec::with_capacity(MOST), refused: false }
    }

    pub(crate) fn require(mut self, name: &'static str, reason: Reason, check: Check) -> Self {
        self.refused |= check.is_err();
        self.looked.push(Looked { name, reason, check });
        self
    }

    /// Whether every clause passed. A gate that looked at nothing has not passed.
    pub fn passed(&self) -> bool {
        !self.looked.is_empty() && !self.refused
    }

    /// The first clause that refused: the reason of the gate.
    pub fn refusal(&self) -> Option<Clause> {
        let first = self.looked.iter().find(|looked| looked.check.is_err());
        first.map(|looked| looked.clone().into_clause(self.gate))
    }

    /// The reasons of all clauses that refused, in the order in which they were judged.
    pub fn reasons(&self) -> impl Iterator<Item = Reason> {
        self.looked.iter().filter(|looked| looked.check.is_err()).map(|looked| looked.reason)
    }
}

/// All of them in words, in the order in which they were judged.
impl IntoIterator for Clauses {
    type Item = Clause;
    type IntoIter = std::vec::IntoIter<Clause>;

    fn into_iter(self) -> Self::IntoIter {
        let Self { gate, looked, refused: _ } = self;
        looked.into_iter().map(|looked| looked.into_clause(gate)).collect::<Vec<_>>().into_iter()
    }
}
