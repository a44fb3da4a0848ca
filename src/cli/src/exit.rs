//! What the exit code says. Scripts depend on it, so it is a closed set.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: everything is as it was asked for.
    AsAsked,
    /// 1: some run ended otherwise than expected, a check failed, or the command could not be carried out.
    Otherwise,
    /// 2: the input is invalid; nothing was run.
    Invalid,
    /// 3: the receipt holds together, but no key was given to hold it against.
    Untrusted,
    /// What a tenant's check came to; of hidden commands only.
    Verdict(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::AsAsked => 0,
            Exit::Otherwise => 1,
            Exit::Invalid => 2,
            Exit::Untrusted => 3,
            Exit::Verdict(code) => code,
        })
    }
}
