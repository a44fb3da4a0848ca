//! Every expression must be readable before anything is deployed.

use super::Problems;
use crate::feel::Attribute;
use crate::model::{Element, Flow, Mapping};

/// The condition of a flow.
pub(super) fn flow(flow: &Flow, problems: &mut Problems) {
    if let Some(condition) = &flow.condition {
        required(&flow.id, condition, problems);
    }
}

/// Every expression at an element.
pub(super) fn check(element: &Element, problems: &mut Problems) {
    for mapping in element.inputs.iter().chain(&element.outputs) {
        self::mapping(&element.id, mapping, problems);
    }
    for job in &element.jobs {
        optional(&element.id, &job.job_type, problems);
        retries(&element.id, &job.retries, problems);
    }
    for listener in &element.listeners {
        optional(&element.id, &listener.job_type, problems);
        retries(&element.id, &listener.retries, problems);
    }
}

fn mapping(id: &str, mapping: &Mapping, problems: &mut Problems) {
    if mapping.source.trim().is_empty() {
        problems.add(id, "Attribute 'source' must be present and not empty");
    } else {
        required(id, &mapping.source, problems);
    }
    let target = &mapping.target;
    if target.is_empty() {
        problems.add(id, "Attribute 'target' must be present and not empty");
    } else if !target.split('.').all(is_variable_name) {
        problems.add(
            id,
            format!(
                "Expected path expression '{target}' but it is no variable name (letters, digits, '_') or path of names"
            ),
        );
    }
}

/// Whether FEEL can read the name without escaping.
fn is_variable_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|character| character.is_alphanumeric() || character == '_')
}

fn required(id: &str, text: &str, problems: &mut Problems) {
    if optional(id, text, problems) {
        problems.add(
            id,
            format!("Expected expression but found static value '{text}'. An expression must start with '=' (e.g. '={text}')."),
        );
    }
}

/// Whether the text is a static value; an expression that cannot be read is a problem.
fn optional(id: &str, text: &str, problems: &mut Problems) -> bool {
    match Attribute::parse(text) {
        Ok(Attribute::Static(_)) => true,
        Ok(Attribute::Expression(_)) => false,
        Err(error) => {
            let source = text.trim().trim_start_matches('=');
            problems.add(id, format!("failed to parse expression '{source}': {error}"));
            false
        }
    }
}

fn retries(id: &str, text: &str, problems: &mut Problems) {
    if optional(id, text, problems) && text.trim().parse::<i32>().is_err() {
        problems.add(id, format!("Expected retries to be a number or an expression, but found '{text}'"));
    }
}
