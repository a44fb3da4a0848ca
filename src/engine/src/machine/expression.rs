//! FEEL as the machine uses it: a text that is either static or, after `=`, an expression.

/// A parsed FEEL expression and its source, without the leading `=`.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    pub(super) source: String,
}

/// A static text or an expression.
#[derive(Debug, Clone)]
pub(super) enum Template {
    Static(String),
    Feel(Expression),
}
