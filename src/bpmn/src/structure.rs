//! The two shipped files, held to the design: same nodes, lanes as the table says, four defaults, four conditions word for
//! word, eight jobs, the listeners, the mappings, and no way from the Proposer's lane into the Runner's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::model::{self, Definitions, Kind, ListenerEvent, Process, TaskKind};
use std::collections::{BTreeMap, BTreeSet};

fn files() -> [Definitions; 2] {
    [crate::EXECUTABLE, crate::REFERENCE].map(|text| model::parse(text.as_bytes()).unwrap())
}

fn process(definitions: &Definitions) -> &Process {
    definitions.process("m87-governed-loop").unwrap()
}

const LANES: [(&str, &[&str]); 4] = [
    ("Proposer", &["Start", "Propose"]),
    (
        "Governance",
        &[
            "Validate",
            "Gw_Constraints",
            "End_Halt",
            "Gw_Manifest",
            "End_RejManifest",
            "Contract",
            "Gw_Budget",
            "FailReceipt",
            "End_Failed",
            "Verify",
            "Gw_Verify",
            "End_RejVerify",
        ],
    ),
    ("Runner", &["Execute", "Artifact"]),
    ("Memory", &["Memory", "End_Complete"]),
];

#[test]
fn one_file_runs_and_the_other_does_not() {
    let [executable, reference] = files();
    assert!(process(&executable).executable);
    assert!(!process(&reference).executable);
}

#[test]
fn nodes_flows_names_conditions_and_defaults_are_the_same_in_both_files() {
    let [executable, reference] = files();
    let nodes = |definitions: &Definitions| -> Vec<_> {
        process(definitions)
            .elements
            .iter()
            .map(|element| (element.id.clone(), element.name.clone(), element.kind.clone(), element.default.clone()))
            .collect()
    };
    let flows = |definitions: &Definitions| -> Vec<_> {
        process(definitions)
            .flows
            .iter()
            .map(|flow| {
                (flow.id.clone(), flow.name.clone(), flow.source.clone(), flow.target.clone(), flow.condition.clone())
            })
            .collect()
    };
    assert_eq!(nodes(&executable), nodes(&reference));
    assert_eq!(flows(&executable), flows(&reference));
    assert_eq!(executable.diagram, reference.diagram);
}

#[test]
fn lanes_are_as_the_table_says() {
    for definitions in files() {
        let lanes: Vec<(&str, Vec<&str>)> = process(&definitions)
            .lanes
            .iter()
            .map(|lane| (lane.name.as_deref().unwrap(), lane.elements.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<(&str, Vec<&str>)> =
            LANES.iter().map(|(name, elements)| (*name, elements.to_vec())).collect();
        assert_eq!(lanes, expected);
    }
}

#[test]
fn all_gateways_and_every_end_but_complete_are_governances() {
    for definitions in files() {
        let process = process(&definitions);
        for element in &process.elements {
            if element.kind == Kind::ExclusiveGateway
                || (element.kind == Kind::EndEvent && element.id != "End_Complete")
            {
                assert_eq!(process.lane_of(&element.id).unwrap().name.as_deref(), Some("Governance"), "{}", element.id);
            }
        }
    }
}

#[test]
fn the_flow_graph_is_the_designs() {
    let expected = [
        "Start → Propose",
        "Propose → Validate",
        "Validate → Gw_Constraints",
        "Gw_Constraints → End_Halt (default)",
        "Gw_Constraints → Gw_Manifest if =constraints_ok = true",
        "Gw_Manifest → End_RejManifest (default)",
        "Gw_Manifest → Contract if =tool_in_manifest = true",
        "Contract → Execute",
        "Execute → Gw_Budget",
        "Gw_Budget → FailReceipt (default)",
        "FailReceipt → End_Failed",
        "Gw_Budget → Artifact if =budget_exceeded = false",
        "Artifact → Verify",
        "Verify → Gw_Verify",
        "Gw_Verify → End_RejVerify (default)",
        "Gw_Verify → Memory if =artifact_verified = true",
        "Memory → End_Complete",
    ];
    for definitions in files() {
        let process = process(&definitions);
        let flows: Vec<String> = process
            .flows
            .iter()
            .map(|flow| {
                let is_default = process.element(&flow.source).unwrap().default.as_ref() == Some(&flow.id);
                let how = match (&flow.condition, is_default) {
                    (Some(condition), false) => format!(" if {condition}"),
                    (None, true) => " (default)".to_owned(),
                    (None, false) => String::new(),
                    (Some(_), true) => panic!("{} is a default with a condition", flow.id),
                };
                format!("{} → {}{how}", flow.source, flow.target)
            })
            .collect();
        assert_eq!(flows, expected);
    }
}

#[test]
fn no_flow_leads_from_the_proposers_lane_into_the_runners() {
    for definitions in files() {
        let process = process(&definitions);
        let lane = |id: &str| process.lane_of(id).and_then(|lane| lane.name.as_deref()).unwrap();
        assert!(process.flows.iter().all(|flow| (lane(&flow.source), lane(&flow.target)) != ("Proposer", "Runner")));
        let entries: Vec<&str> = process
            .flows
            .iter()
            .filter(|flow| lane(&flow.target) == "Runner" && lane(&flow.source) != "Runner")
            .map(|flow| flow.source.as_str())
            .collect();
        assert_eq!(entries, ["Contract", "Gw_Budget"]);
    }
}

#[test]
fn the_eight_jobs_have_their_types_and_default_retries() {
    let [executable, reference] = files();
    let jobs: BTreeMap<&str, (&str, &str)> = process(&executable)
        .elements
        .iter()
        .filter_map(|element| {
            element.job().map(|job| (element.id.as_str(), (job.job_type.as_str(), job.retries.as_str())))
        })
        .collect();
    let expected = BTreeMap::from([
        ("Propose", ("propose", "3")),
        ("Validate", ("validate", "3")),
        ("Contract", ("build-contract", "3")),
        ("Execute", ("execute", "3")),
        ("FailReceipt", ("failure-receipt", "3")),
        ("Artifact", ("emit-artifact", "3")),
        ("Verify", ("verify-artifact", "3")),
        ("Memory", ("route-memory", "3")),
    ]);
    assert_eq!(jobs, expected);
    let tasks =
        process(&executable).elements.iter().filter(|element| element.kind == Kind::Task(TaskKind::Service)).count();
    assert_eq!(tasks, 8);
    assert!(process(&reference).elements.iter().all(|element| element.jobs.is_empty() && element.listeners.is_empty()));
}

#[test]
fn the_operators_listeners_are_at_propose_and_at_every_end() {
    let [executable, _] = files();
    for element in &process(&executable).elements {
        let expected: &[&str] = match element.kind {
            Kind::EndEvent => &["record-terminal"],
            _ if element.id == "Propose" => &["claim-run"],
            _ => &[],
        };
        let found: Vec<&str> =
            element.listeners(&ListenerEvent::Start).map(|listener| listener.job_type.as_str()).collect();
        assert_eq!(found, expected, "{}", element.id);
        assert_eq!(element.listeners.len(), expected.len(), "{}", element.id);
    }
}

#[test]
fn gate_variables_are_null_inside_and_boolean_outside_of_the_tasks_that_set_them() {
    let [executable, _] = files();
    let setters = [
        ("Validate", "constraints_ok", "=get or else(constraints_ok = true, false)"),
        ("Validate", "tool_in_manifest", "=get or else(tool_in_manifest = true, false)"),
        ("Execute", "budget_exceeded", "=not(get or else(budget_exceeded = false, false))"),
        ("Verify", "artifact_verified", "=get or else(artifact_verified = true, false)"),
    ];
    for (task, variable, output) in setters {
        let element = process(&executable).element(task).unwrap();
        assert!(element.inputs.iter().any(|input| input.target == variable && input.source == "=null"), "{task}");
        assert!(element.outputs.iter().any(|mapping| mapping.target == variable && mapping.source == output), "{task}");
    }
    let set: BTreeSet<&str> = setters.iter().map(|(task, ..)| *task).collect();
    for element in process(&executable).elements.iter().filter(|element| element.job().is_some()) {
        assert!(!element.outputs.is_empty(), "{} leaks", element.id);
        if !set.contains(element.id.as_str()) {
            assert!(
                element.outputs.iter().all(|output| ["=true", "=false"].contains(&output.source.as_str())),
                "{}",
                element.id
            );
        }
    }
}

#[test]
fn every_node_flow_lane_and_pool_is_drawn_inside_of_its_lane() {
    for definitions in files() {
        let process = process(&definitions);
        let diagram = definitions.diagram.as_ref().unwrap();
        assert_eq!(diagram.shapes.len(), process.elements.len() + process.lanes.len() + definitions.participants.len());
        assert_eq!(diagram.edges.len(), process.flows.len());
        for element in &process.elements {
            let (node, lane) = (
                diagram.shape(&element.id).unwrap(),
                diagram.shape(&process.lane_of(&element.id).unwrap().id).unwrap(),
            );
            let (inner, outer) = (node.bounds, lane.bounds);
            assert!(inner.x >= outer.x && inner.x + inner.width <= outer.x + outer.width, "{}", element.id);
            assert!(inner.y >= outer.y && inner.y + inner.height <= outer.y + outer.height, "{}", element.id);
        }
        for flow in &process.flows {
            let points = &diagram.edge(&flow.id).unwrap().points;
            for (point, id) in [(points.first().unwrap(), &flow.source), (points.last().unwrap(), &flow.target)] {
                let bounds = diagram.shape(id).unwrap().bounds;
                assert!((bounds.x..=bounds.x + bounds.width).contains(&point.x), "{} at {id}", flow.id);
                assert!((bounds.y..=bounds.y + bounds.height).contains(&point.y), "{} at {id}", flow.id);
            }
        }
    }
}
