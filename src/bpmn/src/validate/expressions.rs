//! Every expression must be readable before anything is deployed.

use super::Problems;
use crate::expression;
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
    match expression::of(text) {
        None => problems.add(
            id,
            format!("Expected expression but found static value '{text}'. An expression must start with '=' (e.g. '={text}')."),
        ),
        Some(source) => readable(id, source, problems),
    }
}

fn optional(id: &str, text: &str, problems: &mut Problems) {
    if let Some(source) = expression::of(text) {
        readable(id, source, problems);
    }
}

fn retries(id: &str, text: &str, problems: &mut Problems) {
    match expression::of(text) {
        Some(source) => readable(id, source, problems),
        None if text.trim().parse::<i32>().is_ok() => {}
        None => problems.add(id, format!("Expected retries to be a number or an expression, but found '{text}'")),
    }
}

fn readable(id: &str, source: &str, problems: &mut Problems) {
    if let Err(error) = expression::parse(source) {
        problems.add(id, format!("failed to parse expression '{source}': {error}"));
    }
}
