//! What an evaluation has to say besides its value: why a part of it became null, or why it failed.

use std::fmt;

/// The kinds that Zeebe prints in incident messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WarningKind {
    /// A name is neither bound by the expression nor a variable.
    NoVariableFound,
    /// A context lacks the key, or is null.
    NoContextEntryFound,
    /// A value of this type has no such property.
    NoPropertyFound,
    /// The values have types that cannot be compared.
    NotComparable,
    /// An operator or a condition got a value of another type.
    InvalidType,
    /// No function has this name and these parameters.
    NoFunctionFound,
    /// A function refused its arguments.
    FunctionInvocationFailure,
    /// Anything else, such as a number that is out of range.
    Unknown,
}

impl WarningKind {
    /// The name that incident messages carry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoVariableFound => "NO_VARIABLE_FOUND",
            Self::NoContextEntryFound => "NO_CONTEXT_ENTRY_FOUND",
            Self::NoPropertyFound => "NO_PROPERTY_FOUND",
            Self::NotComparable => "NOT_COMPARABLE",
            Self::InvalidType => "INVALID_TYPE",
            Self::NoFunctionFound => "NO_FUNCTION_FOUND",
            Self::FunctionInvocationFailure => "FUNCTION_INVOCATION_FAILURE",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// One reason why a part of the expression became null; printed as `[KIND] message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The kind.
    pub kind: WarningKind,
    /// What was found.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.kind.name(), self.message)
    }
}

/// Why an evaluation gave no value at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// `assert` found its condition not fulfilled.
    #[error("{0}")]
    Assertion(String),
    /// `?` was used outside the right side of `in`.
    #[error("No input value available. '?' can only be used inside an unary-test expression.")]
    NoInput,
    /// The work bound was reached.
    #[error(
        "The evaluation needs more than {} steps; simplify the expression or pass it less data.",
        super::limits::STEPS
    )]
    TooLong,
    /// The nesting bound was reached.
    #[error("The evaluation nests too deeply; simplify the expression.")]
    TooDeep,
    /// A string grew past the bound.
    #[error("The evaluation makes a string of more than {} bytes.", super::limits::STRING)]
    TooLarge,
}
