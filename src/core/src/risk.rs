//! Risk classes, ordered: low < medium < high < critical.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much harm an action could do. The order is the meaning: a bound "at most medium" admits low and medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Nothing of value can be lost.
    Low,
    /// Can be undone with some work.
    Medium,
    /// Hard to undo, or seen by others.
    High,
    /// Must not happen without people who know.
    Critical,
}

impl Risk {
    /// Every class, lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The class of that name; an unknown name is no class (seed A: unknown risk is not "low").
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.name() == name)
    }

    /// The name as written in policies and proposals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}
