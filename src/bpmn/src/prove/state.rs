//! Where the tokens are and what is known of the variables.

use super::rules::Set;
use m87_core::reason::Terminal;
use serde_json::Value;
use std::collections::BTreeMap;

/// Everything that what happens next depends on. Two ways to the same state are looked at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// In order, so that equal states are equal.
    pub(super) tokens: Vec<Token>,
    /// Variables; the process's own scope is `ROOT`.
    pub(super) scopes: BTreeMap<u32, Scope>,
    /// Jobs that were created.
    pub(super) begun: Set,
    /// Jobs that were done.
    pub(super) done: Set,
    /// Gates that passed, by what the jobs answered.
    pub(super) passed: Set,
    /// Whether a default flow was taken.
    pub(super) by_default: bool,
    /// The end that was reached.
    pub(super) terminal: Option<Terminal>,
}

/// The scope of the process itself.
pub(super) const ROOT: u32 = 0;

/// Variables of one element instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Scope {
    /// The scope outside; `None` for the process's own.
    pub(super) parent: Option<u32>,
    pub(super) variables: BTreeMap<String, Slot>,
}

/// What is known of a variable that a scope has or may have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Slot {
    /// Its value.
    Known(Value),
    /// Someone outside may have set it to anything, or may have left it as it was.
    Open {
        /// Who: an element's index, or `None` for whoever started the instance.
        from: Option<usize>,
        /// As it was; `None` if it was not there.
        beneath: Option<Box<Slot>>,
    },
}

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Token {
    /// The scope that it flows in.
    pub(super) scope: u32,
    pub(super) place: Place,
}

/// Where a token is. Elements and flows are indices; `local` is the element's own scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    /// On a flow.
    Flow(usize),
    /// Waiting at a parallel gateway for the other flows.
    Joining(usize),
    /// About to be activated.
    Enter(usize),
    /// A listener's job is open, the `at`-th.
    Listening { node: usize, at: usize, local: u32 },
    /// Activated.
    Act { node: usize, local: u32 },
    /// The task's job is open.
    Working { node: usize, local: u32 },
    /// A sub-process is running inside.
    Inside { node: usize, local: u32 },
    /// Done; `results` says whether there are variables from outside to pass on.
    Leave { node: usize, local: u32, results: bool },
}

impl State {
    /// A token at the start, and every variable open.
    pub(super) fn initial(start: usize, names: &[String]) -> Self {
        let variables = names.iter().map(|name| (name.clone(), Slot::Open { from: None, beneath: None })).collect();
        Self {
            tokens: vec![Token { scope: ROOT, place: Place::Enter(start) }],
            scopes: BTreeMap::from([(ROOT, Scope { parent: None, variables })]),
            begun: Set::default(),
            done: Set::default(),
            passed: Set::default(),
            by_default: false,
            terminal: None,
        }
    }

    /// Adds a token.
    pub(super) fn put(&mut self, scope: u32, place: Place) {
        let token = Token { scope, place };
        let at = self.tokens.binary_search(&token).unwrap_or_else(|at| at);
        self.tokens.insert(at, token);
    }
}
