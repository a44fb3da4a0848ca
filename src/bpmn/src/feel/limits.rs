//! What one expression may cost. Expressions come from models and variables from jobs, so neither may take the
//! process down: every dimension has a bound, and past it the evaluation fails with a reason.

/// Longest expression, in bytes of UTF-8.
pub(super) const TEXT: usize = 64 * 1024;

/// Deepest nesting of syntax (parentheses, literals, calls, tighter operators); chains such as `1 + 1 + …` do not nest.
/// Unoptimized, a level takes up to 9 KiB of stack.
pub(super) const SYNTAX_DEPTH: usize = 100;

/// Deepest nesting of evaluation: syntax plus calls of functions that the expression defines. Unoptimized, a level takes
/// up to 4 KiB of stack.
pub(super) const EVALUATION_DEPTH: usize = 200;

/// Deepest nesting of a value, and of the scopes that a function captured.
pub(super) const VALUE_DEPTH: usize = 100;

/// Work of one evaluation: one step is about one operator, one list item or 16 bytes of text made.
pub(super) const STEPS: usize = 2_000_000;

/// Longest string that an expression may make, in bytes.
pub(super) const STRING: usize = 16 * 1024 * 1024;

/// Most distinct warnings that are kept.
pub(super) const WARNINGS: usize = 64;

/// Longest value that a warning quotes, in bytes.
pub(super) const QUOTE: usize = 400;

/// Largest compiled regular expression, in bytes.
pub(super) const PATTERN: usize = 256 * 1024;

/// Steps for matching one byte of text with a regular expression: far more than is usual, for the worst of patterns.
pub(super) const MATCHING: usize = 4;
