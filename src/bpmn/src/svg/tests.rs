#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::model;

fn shipped() -> Definitions {
    model::parse(crate::EXECUTABLE.as_bytes()).unwrap()
}

fn ids(path: &[&str]) -> Vec<String> {
    path.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn every_node_flow_and_lane_is_drawn_and_the_picture_is_well_formed() {
    let definitions = shipped();
    let svg = draw(&definitions, &[]);
    crate::xml::read(svg.as_bytes()).expect("well-formed");
    let process = &definitions.processes[0];
    assert_eq!(svg.matches("<polyline ").count(), process.flows.len());
    assert_eq!(svg.matches("class=\"lane\"").count(), process.lanes.len());
    assert_eq!(svg.matches("class=\"node").count(), process.elements.len());
    assert_eq!(svg.matches(" on\"").count(), 0);
}

#[test]
fn a_path_of_elements_marks_the_flows_between_them() {
    let svg = draw(&shipped(), &ids(&["Start", "Propose", "Validate", "Gw_Constraints", "End_Halt"]));
    assert_eq!(svg.matches("<polyline class=\"flow on\"").count(), 4);
    assert_eq!(svg.matches("class=\"node").filter(|_| true).count(), 18);
    assert!(svg.contains("class=\"node end refusal on\""));
}

#[test]
fn the_picture_of_the_shipped_process_is_as_reviewed() {
    insta::assert_snapshot!(draw(&shipped(), &ids(&["Start", "Propose", "Validate", "Gw_Constraints", "End_Halt"])));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(draw(&shipped(), &ids(&["Start"])), draw(&shipped(), &ids(&["Start"])));
}

#[test]
fn text_from_the_model_cannot_become_markup() {
    let hostile = crate::EXECUTABLE
        .replace("name=\"Validate vs policy\"", "name=\"&lt;script>alert(&quot;1&quot;)&lt;/script>&#7;&amp;\"");
    let svg = draw(&model::parse(hostile.as_bytes()).unwrap(), &[]);
    assert!(!svg.contains("<script"));
    crate::xml::read(svg.as_bytes()).expect("well-formed");
}

#[test]
fn a_model_without_a_diagram_says_so() {
    let text = "<definitions xmlns=\"http://www.omg.org/spec/BPMN/20100524/MODEL\"><process id=\"p\"/></definitions>";
    assert!(draw(&model::parse(text.as_bytes()).unwrap(), &[]).contains("no diagram"));
}

#[test]
fn long_names_are_wrapped_and_cut() {
    assert_eq!(text::wrap("ActionProposal + reasoning trace", 96.0), ["ActionProposal", "+ reasoning", "trace"]);
    assert_eq!(text::wrap("ExecutionContract", 96.0), ["Execution", "Contract"]);
    let cut = text::wrap(&"word ".repeat(50), 60.0);
    assert_eq!(cut.len(), 4);
    assert!(cut[3].ends_with('…'));
    assert_eq!(text::wrap(&"x".repeat(15), 66.0), ["x".repeat(10), "x".repeat(5)]);
}
