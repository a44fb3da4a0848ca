//! What an engine accepts and a careful reader would not: warnings for people, which refuse nothing.

use crate::feel::Attribute;
use crate::model::{Definitions, Diagram, Element, Kind, Process};
use m87_core::time::Timestamp;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fmt;

/// One warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where: an element's or flow's id.
    pub element: String,
    /// Its line in the file.
    pub line: usize,
    /// Which rule.
    pub rule: Rule,
    /// What is doubtful and what to write instead.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {} ({})", self.line, self.element, self.message, self.rule.name())
    }
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A condition that is no boolean when its variables are missing.
    MissingIsIncident,
    /// An exclusive gateway that has no default flow.
    NoDefault,
    /// A condition on a default flow, which nothing evaluates.
    ConditionOnDefault,
    /// A task whose whole result goes into the process.
    ResultLeaks,
    /// An element that no path from a start reaches.
    Unreachable,
    /// An element outside of every lane, where there are lanes.
    OutsideLanes,
    /// An element or flow that the diagram does not show.
    NotDrawn,
    /// A process that cannot be deployed.
    NotExecutable,
}

impl Rule {
    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingIsIncident => "missing-is-incident",
            Self::NoDefault => "no-default",
            Self::ConditionOnDefault => "condition-on-default",
            Self::ResultLeaks => "result-leaks",
            Self::Unreachable => "unreachable",
            Self::OutsideLanes => "outside-lanes",
            Self::NotDrawn => "not-drawn",
            Self::NotExecutable => "not-executable",
        }
    }
}

/// Every warning, process by process, in document order within each rule.
pub fn lint(definitions: &Definitions) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for process in &definitions.processes {
        let mut warn = |element: &str, line: usize, rule: Rule, message: String| {
            warnings.push(Warning { element: element.to_owned(), line, rule, message });
        };
        if !process.executable {
            warn(
                &process.id,
                process.line,
                Rule::NotExecutable,
                "isExecutable is not true, so no engine takes the process".to_owned(),
            );
        }
        conditions(process, &mut warn);
        gateways(process, &mut warn);
        tasks(process, &mut warn);
        reach(process, &mut warn);
        lanes(process, &mut warn);
        if let Some(diagram) = &definitions.diagram {
            drawing(process, diagram, &mut warn);
        }
    }
    warnings
}

fn conditions(process: &Process, warn: &mut impl FnMut(&str, usize, Rule, String)) {
    for flow in &process.flows {
        let Some(condition) = &flow.condition else {
            continue;
        };
        if process.element(&flow.source).is_some_and(|source| source.default.as_ref() == Some(&flow.id)) {
            warn(
                &flow.id,
                flow.line,
                Rule::ConditionOnDefault,
                "a default flow's condition is never evaluated; remove one of them".to_owned(),
            );
        }
        // What cannot be read is validation's to say.
        let Ok(Attribute::Expression(expression)) = Attribute::parse(condition) else {
            continue;
        };
        let value = expression.eval(&Map::new(), Timestamp::from_millis(0)).value;
        if value.as_bool().is_none() {
            let names: Vec<String> = expression.variables().into_iter().collect();
            let value: Value = value.to_json();
            let message = format!(
                "the condition {condition:?} is {value} while {} is missing, which stops the engine at an incident; write such as =x = true",
                names.join(", ")
            );
            warn(&flow.id, flow.line, Rule::MissingIsIncident, message);
        }
    }
}

fn gateways(process: &Process, warn: &mut impl FnMut(&str, usize, Rule, String)) {
    for gateway in process.elements.iter().filter(|element| element.kind == Kind::ExclusiveGateway) {
        let conditional = process.outgoing(&gateway.id).any(|flow| flow.condition.is_some());
        if conditional && gateway.default.is_none() {
            let message =
                "there is no default flow, so that an incident follows if no condition holds; add one to a refusal";
            warn(&gateway.id, gateway.line, Rule::NoDefault, message.to_owned());
        }
    }
}

fn tasks(process: &Process, warn: &mut impl FnMut(&str, usize, Rule, String)) {
    for task in process.elements.iter().filter(|element| !element.jobs.is_empty() && element.outputs.is_empty()) {
        let message =
            "without an output mapping every variable of the result goes into the process; map what is needed";
        warn(&task.id, task.line, Rule::ResultLeaks, message.to_owned());
    }
}

fn reach(process: &Process, warn: &mut impl FnMut(&str, usize, Rule, String)) {
    let mut open: Vec<&Element> = process.children(None).filter(|element| element.kind == Kind::StartEvent).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    while let Some(element) = open.pop() {
        if seen.insert(&element.id) {
            open.extend(process.outgoing(&element.id).filter_map(|flow| process.element(&flow.target)));
            open.extend(process.boundary_events(&element.id));
            if element.kind == Kind::SubProcess {
                open.extend(process.children(Some(&element.id)).filter(|inner| inner.kind == Kind::StartEvent));
            }
        }
    }
    for element in process.elements.iter().filter(|element| !seen.contains(element.id.as_str())) {
        warn(&element.id, element.line, Rule::Unreachable, "no path from a start event leads here".to_owned());
    }
}

fn lanes(process: &Process, warn: &mut impl FnMut(&str, usize, Rule, String)) {
    if process.lanes.is_empty() {
        return;
    }
    for element in process.children(None).filter(|element| process.lane_of(&element.id).is_none()) {
        warn(
            &element.id,
            element.line,
            Rule::OutsideLanes,
            "the element is in no lane; say who is responsible".to_owned(),
        );
    }
}

fn drawing(process: &Process, diagram: &Diagram, warn: &mut impl FnMut(&str, usize, Rule, String)) {
    let shapes: HashSet<&str> = diagram.shapes.iter().map(|shape| shape.of.as_str()).collect();
    let edges: HashSet<&str> = diagram.edges.iter().map(|edge| edge.of.as_str()).collect();
    for element in process.elements.iter().filter(|element| !shapes.contains(element.id.as_str())) {
        warn(&element.id, element.line, Rule::NotDrawn, "the diagram has no shape for it".to_owned());
    }
    for flow in process.flows.iter().filter(|flow| !edges.contains(flow.id.as_str())) {
        warn(&flow.id, flow.line, Rule::NotDrawn, "the diagram has no edge for it".to_owned());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::model;

    fn warnings(edits: &[(&str, &str)]) -> Vec<(String, Rule)> {
        let text = edits.iter().fold(crate::EXECUTABLE.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        lint(&model::parse(text.as_bytes()).unwrap())
            .into_iter()
            .map(|warning| (warning.element, warning.rule))
            .collect()
    }

    #[test]
    fn the_shipped_process_has_no_warning() {
        assert_eq!(lint(&model::parse(crate::EXECUTABLE.as_bytes()).unwrap()), []);
    }

    #[test]
    fn the_reference_is_only_not_executable() {
        let warnings = lint(&model::parse(crate::REFERENCE.as_bytes()).unwrap());
        assert_eq!(warnings.iter().map(|warning| warning.rule).collect::<Vec<_>>(), [Rule::NotExecutable]);
    }

    #[test]
    fn conditions_that_a_missing_variable_turns_into_an_incident_are_found() {
        for condition in
            ["=constraints_ok", "=not(constraints_ok)", "=constraints_ok &gt; 5", "=constraints_ok and true", "=1"]
        {
            let found = warnings(&[("=constraints_ok = true<", &format!("{condition}<"))]);
            assert_eq!(found, [("Flow_Constraints_Manifest".to_owned(), Rule::MissingIsIncident)], "{condition}");
        }
        for condition in [
            "=true = constraints_ok",
            "=constraints_ok != null",
            "=is defined(constraints_ok)",
            "=get or else(constraints_ok, false)",
        ] {
            assert_eq!(warnings(&[("=constraints_ok = true<", &format!("{condition}<"))]), [], "{condition}");
        }
    }

    #[test]
    fn each_other_rule_finds_its_case() {
        let cases = [
            (" default=\"Flow_Verified_Reject\"", "", "Gw_Verify", Rule::NoDefault),
            (
                " default=\"Flow_Verified_Reject\"",
                " default=\"Flow_Verified_Memory\"",
                "Flow_Verified_Memory",
                Rule::ConditionOnDefault,
            ),
            ("<zeebe:output source=\"=true\" target=\"artifact_verified\" />", "", "Memory", Rule::ResultLeaks),
            (
                "sourceRef=\"Memory\" targetRef=\"End_Complete\"",
                "sourceRef=\"Memory\" targetRef=\"Memory\"",
                "End_Complete",
                Rule::Unreachable,
            ),
            ("<bpmn:flowNodeRef>Execute</bpmn:flowNodeRef>", "", "Execute", Rule::OutsideLanes),
            ("bpmnElement=\"Execute\"", "bpmnElement=\"Gone\"", "Execute", Rule::NotDrawn),
            ("bpmnElement=\"Flow_Start_Propose\"", "bpmnElement=\"Gone\"", "Flow_Start_Propose", Rule::NotDrawn),
        ];
        for (from, to, element, rule) in cases {
            assert_eq!(warnings(&[(from, to)]), [(element.to_owned(), rule)], "{rule:?}");
        }
    }
}
