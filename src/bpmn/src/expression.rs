//! Where FEEL meets BPMN: a text that starts with `=` is an expression, anything else is a static value.

/// The FEEL source of an attribute or condition; `None` if it is a static value.
pub fn of(text: &str) -> Option<&str> {
    text.trim().strip_prefix('=')
}

/// Until FEEL is there: an expression must not be empty.
pub(crate) fn parse(source: &str) -> Result<(), &'static str> {
    if source.trim().is_empty() { Err("there is no expression") } else { Ok(()) }
}
