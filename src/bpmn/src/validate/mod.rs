//! What may be deployed: Zeebe's rules, in Zeebe's words, so that a model that works here works there, and people find help
//! for the text they see. What Zeebe runs and this engine does not is refused in the same words.

mod elements;
mod events;
mod expressions;
mod loops;
#[cfg(test)]
mod tests;

use crate::model::{Definitions, Process};
use std::fmt;

/// One reason why a model is not deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The id of the element that is wrong.
    pub element: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.element, self.message)
    }
}

/// Whether the file's executable processes may be deployed.
///
/// # Errors
/// Every problem found, in document order.
pub fn deployable(definitions: &Definitions) -> Result<(), Vec<Problem>> {
    let mut problems = Problems::default();
    if definitions.executable().next().is_none() {
        problems
            .add(definitions.id.as_deref().unwrap_or("definitions"), "Must contain at least one executable process");
    }
    for process in definitions.executable() {
        check(process, &mut problems);
    }
    if problems.0.is_empty() { Ok(()) } else { Err(problems.0) }
}

/// The problems of one resource as Zeebe's deployment rejection lists them.
pub fn report(resource: &str, problems: &[Problem]) -> String {
    let mut report = format!("'{resource}':");
    let mut last = None;
    for problem in problems {
        if last != Some(&problem.element) {
            report.push_str(&format!("{}- Element: {}\n", if last.is_none() { " " } else { "" }, problem.element));
            last = Some(&problem.element);
        }
        report.push_str(&format!("    - ERROR: {}\n", problem.message));
    }
    report
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, element: &str, message: impl Into<String>) {
        self.0.push(Problem { element: element.to_owned(), message: message.into() });
    }
}

fn check(process: &Process, problems: &mut Problems) {
    elements::starts(process, None, &process.id, problems);
    for element in &process.elements {
        elements::check(process, element, problems);
        expressions::check(element, problems);
    }
    for flow in &process.flows {
        elements::flow(process, flow, problems);
        expressions::flow(flow, problems);
    }
    if let Some(path) = loops::find(process) {
        let path = path.join(" > ");
        problems.add(
            &process.id,
            format!("Processes are not allowed to contain any straight-through processing loops: {path}"),
        );
    }
}
