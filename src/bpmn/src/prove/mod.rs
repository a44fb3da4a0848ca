//! The prover: does a drawn process keep the promise, for every value that anybody could give it?
//!
//! It walks through every order of every token of the model, with the model's own FEEL. Whatever comes from outside (the
//! variables an instance is started with, the result of a job, the variables of a thrown error) is *open*: a value that is
//! chosen only where an expression reads it, and then every choice is followed. The choices are true, false, null, missing, a
//! list, a context, and for numbers and strings one from each region that the model's own literals divide them into; since only
//! comparisons with literals and boolean logic are allowed in a proved model, no other value could take another way.
//! So a pass is a proof, within the rules below, and a refusal comes with the path and the values that break one.
//!
//! Constructs that are not modelled are refused by name, and a model with more states than the bound is refused too.

mod checks;
mod domain;
mod explore;
mod program;
mod rules;
mod scopes;
mod state;
mod step;
#[cfg(test)]
mod tests;

use crate::model::Definitions;
use m87_core::reason::Terminal;
use std::collections::BTreeMap;
use std::fmt;

pub use explore::MAX_STATES;

/// Proves the one executable process of a file.
///
/// # Errors
/// The first rule that is broken, with the shortest path to it.
pub fn prove(definitions: &Definitions) -> Result<Proof, Counterexample> {
    let program = program::compile(definitions)?;
    explore::explore(&program)
}

/// What was looked at, none of which breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The process id.
    pub process: String,
    /// Distinct states of the process that were visited.
    pub states: usize,
    /// Choices of a value for something that comes from outside, counted over all states.
    pub assignments: usize,
    /// In how many distinct states each terminal was reached; all five names are not required, COMPLETE is.
    pub ends: BTreeMap<Terminal, usize>,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is proved: {} states, {} assignments; ends reached:",
            self.process, self.states, self.assignments
        )?;
        for terminal in self.ends.keys() {
            write!(f, " {}", terminal.name())?;
        }
        Ok(())
    }
}

/// How a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// Which rule.
    pub rule: Rule,
    /// What is wrong and how to put it right.
    pub message: String,
    /// The values from outside with which it happens, in the order in which they matter.
    pub assignment: Vec<Assigned>,
    /// The ids of the elements and flows that are passed, in order; for a rule of the drawing itself just where.
    pub path: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.message)?;
        if !self.path.is_empty() {
            write!(f, "\n  path: {}", self.path.join(" > "))?;
        }
        for assigned in &self.assignment {
            write!(f, "\n  with: {assigned}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Counterexample {}

/// One value from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The id of the element whose job gave it, or `start` for a variable that the instance was started with.
    pub from: String,
    /// The variable.
    pub variable: String,
    /// The value as JSON, or `missing`.
    pub value: String,
}

impl fmt::Display for Assigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} (from {})", self.variable, self.value, self.from)
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal;)*) => {
        /// The rules that a proved process keeps.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[$doc])* $rule,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            /// The rule's name, as people read it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)* }
            }
        }
    };
}

rules! {
    /// The file has one executable process, and an engine takes it.
    Deployable = "deployable";
    /// Only constructs that the prover models.
    Supported = "supported";
    /// Only jobs that somebody does, named by fixed types.
    JobsAreKnown = "jobs-are-known";
    /// Nothing is done before the run is claimed, at the start of Propose.
    ClaimRunFirst = "claim-run-first";
    /// Each root end has a `record-terminal` listener at its start, and nothing else has one.
    RecordTerminal = "record-terminal";
    /// Each root end is one of the five.
    EndsAreKnown = "ends-are-known";
    /// A job's result leaves its task as the booleans of its own gates only.
    HardenedMappings = "hardened-mappings";
    /// Each exclusive gateway has a default, and after a default nothing is permitted any more.
    DefaultsRefuse = "defaults-refuse";
    /// No contract and no execution without both gates passed, and no execution without a contract.
    GatesBeforeExecute = "gates-before-execute";
    /// Jobs come in their order.
    JobsInOrder = "jobs-in-order";
    /// No job is created twice on one path.
    JobsOnce = "jobs-once";
    /// Each end is the one that `decide`'s table gives for the gate values.
    TerminalAgrees = "terminal-agrees";
    /// COMPLETE only after the artifact is verified and taken into memory.
    CompleteIsProven = "complete-is-proven";
    /// FAILED only after the failure has left its receipt.
    FailureLeavesReceipt = "failure-leaves-receipt";
    /// An end is reached by the last token only.
    OneTerminal = "one-terminal";
    /// Every path reaches an end.
    EveryPathEnds = "every-path-ends";
    /// No condition or error leaves the engine with an incident.
    NoIncident = "no-incident";
    /// COMPLETE can be reached at all.
    CompleteIsReachable = "complete-is-reachable";
    /// The model is small enough to be walked through.
    Bounded = "bounded";
}
