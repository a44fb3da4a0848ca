#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::model;

fn check(body: &str) -> Vec<String> {
    let text = format!(
        r#"<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d">
        <bpmn:error id="E" errorCode="boom"/><bpmn:error id="Empty"/>{body}</bpmn:definitions>"#
    );
    let definitions = model::parse(text.as_bytes()).expect("the model parses");
    deployable(&definitions).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// A process that is right, with `more` in it.
fn process(more: &str) -> Vec<String> {
    check(&format!(r#"<bpmn:process id="p" isExecutable="true"><bpmn:startEvent id="start"/>{more}</bpmn:process>"#))
}

const JOB: &str = r#"<bpmn:extensionElements><zeebe:taskDefinition type="x"/></bpmn:extensionElements>"#;

#[test]
fn the_shipped_process_is_deployable() {
    let definitions = model::parse(crate::EXECUTABLE.as_bytes()).unwrap();
    assert_eq!(deployable(&definitions), Ok(()));
}

#[test]
fn the_reference_is_not_executable() {
    let definitions = model::parse(crate::REFERENCE.as_bytes()).unwrap();
    let problems = deployable(&definitions).unwrap_err();
    assert_eq!(problems[0].to_string(), "Definitions_m87: Must contain at least one executable process");
}

#[test]
fn each_rule_refuses_in_zeebes_words() {
    let flow = |id: &str, from: &str, to: &str| {
        format!(r#"<bpmn:sequenceFlow id="{id}" sourceRef="{from}" targetRef="{to}"/>"#)
    };
    let cases: Vec<(&str, String, &str)> = vec![
        ("two starts", r#"<bpmn:startEvent id="again"/>"#.into(), "p: Multiple none start events are not allowed"),
        ("timer start", r#"<bpmn:startEvent id="s"><bpmn:timerEventDefinition/></bpmn:startEvent>"#.into(), "s: Event definition of this type is not supported"),
        ("complex gateway", r#"<bpmn:complexGateway id="g"/>"#.into(), "g: Elements of type 'ComplexGateway' are currently not supported."),
        ("inclusive gateway", r#"<bpmn:inclusiveGateway id="g"/>"#.into(), "g: Elements of type 'InclusiveGateway' are currently not supported."),
        ("call activity", r#"<bpmn:callActivity id="c"/>"#.into(), "c: Elements of type 'CallActivity' are currently not supported."),
        ("user task", r#"<bpmn:userTask id="u"/>"#.into(), "u: Elements of type 'UserTask' are currently not supported."),
        ("receive task", r#"<bpmn:receiveTask id="u"/>"#.into(), "u: Elements of type 'ReceiveTask'"),
        ("timer catch", r#"<bpmn:intermediateCatchEvent id="i"><bpmn:timerEventDefinition/></bpmn:intermediateCatchEvent>"#.into(), "i: Elements of type 'IntermediateCatchEvent'"),
        ("multi-instance", format!(r#"<bpmn:serviceTask id="t">{JOB}<bpmn:multiInstanceLoopCharacteristics/></bpmn:serviceTask>"#), "t: Elements of type 'MultiInstanceLoopCharacteristics'"),
        ("event sub-process", r#"<bpmn:subProcess id="s" triggeredByEvent="true"><bpmn:startEvent id="i"/></bpmn:subProcess>"#.into(), "s: Elements of type 'TriggeredByEvent (event sub-process)'"),
        ("script with FEEL", r#"<bpmn:scriptTask id="t"><bpmn:extensionElements><zeebe:script expression="=1"/></bpmn:extensionElements></bpmn:scriptTask>"#.into(), "t: Elements of type 'zeebe:script'"),
        ("no job type", r#"<bpmn:serviceTask id="t"/>"#.into(), "t: Must have exactly one 'zeebe:taskDefinition' extension element"),
        ("send task", r#"<bpmn:sendTask id="t"/>"#.into(), "t: Must have either one 'zeebe:publishMessage' or one 'zeebe:taskDefinition' extension element"),
        ("script task", r#"<bpmn:scriptTask id="t"/>"#.into(), "t: Must have either one 'zeebe:script' or one 'zeebe:taskDefinition' extension element"),
        ("business rule task", r#"<bpmn:businessRuleTask id="t"/>"#.into(), "t: Must have either one 'zeebe:calledDecision' or one 'zeebe:taskDefinition' extension element"),
        ("timer end", r#"<bpmn:endEvent id="e"><bpmn:timerEventDefinition/></bpmn:endEvent>"#.into(), "e: End events must be one of: none, error, message, terminate, signal, escalation or compensation"),
        ("two catch-alls", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:errorEventDefinition/></bpmn:boundaryEvent><bpmn:boundaryEvent id="c" attachedToRef="t"><bpmn:errorEventDefinition/></bpmn:boundaryEvent><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/><bpmn:sequenceFlow id="g" sourceRef="c" targetRef="e"/>"#.into(), "t: The same scope can not contain more than one error catch event without error code."),
        ("blank job type", r#"<bpmn:serviceTask id="t"><bpmn:extensionElements><zeebe:taskDefinition type=" "/></bpmn:extensionElements></bpmn:serviceTask>"#.into(), "t: Attribute 'type' must be present and not empty"),
        ("bad retries", r#"<bpmn:serviceTask id="t"><bpmn:extensionElements><zeebe:taskDefinition type="x" retries="some"/></bpmn:extensionElements></bpmn:serviceTask>"#.into(), "t: Expected retries to be a number"),
        ("job at a manual task", format!(r#"<bpmn:manualTask id="t">{JOB}</bpmn:manualTask>"#), "t: Elements of type 'zeebe:taskDefinition at this element'"),
        ("end with a way out", format!("{}{}", r#"<bpmn:endEvent id="e"/><bpmn:task id="t"/>"#, flow("f", "e", "t")), "e: End events must not have outgoing sequence flows"),
        ("error end without code", r#"<bpmn:endEvent id="e"><bpmn:errorEventDefinition errorRef="Empty"/></bpmn:endEvent>"#.into(), "e: ErrorCode must be present and not empty"),
        ("message end", r#"<bpmn:endEvent id="e"><bpmn:messageEventDefinition/></bpmn:endEvent>"#.into(), "e: Event definition of this type is not supported"),
        ("two ends in one", r#"<bpmn:endEvent id="e"><bpmn:terminateEventDefinition/><bpmn:terminateEventDefinition/></bpmn:endEvent>"#.into(), "e: Must have at most one event definition"),
        ("condition at a task", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:sequenceFlow id="f" sourceRef="t" targetRef="e"><bpmn:conditionExpression>=true</bpmn:conditionExpression></bpmn:sequenceFlow>"#.into(), "t: Conditional sequence flows are only supported at exclusive or inclusive gateway"),
        ("gateway flow without condition", format!("{}{}{}", r#"<bpmn:exclusiveGateway id="g" default="f"/><bpmn:endEvent id="e"/>"#, flow("f", "g", "e"), flow("h", "g", "e")), "h: Must have a condition or be default flow"),
        ("foreign default", format!("{}{}", r#"<bpmn:exclusiveGateway id="g" default="f"/><bpmn:task id="t"/><bpmn:endEvent id="e"/>"#, flow("f", "t", "e")), "g: Default flow must start at gateway"),
        ("static condition", r#"<bpmn:exclusiveGateway id="g"/><bpmn:endEvent id="e"/><bpmn:sequenceFlow id="f" sourceRef="g" targetRef="e"><bpmn:conditionExpression>true</bpmn:conditionExpression></bpmn:sequenceFlow>"#.into(), "f: Expected expression but found static value 'true'. An expression must start with '=' (e.g. '=true')."),
        ("broken condition", r#"<bpmn:exclusiveGateway id="g"/><bpmn:endEvent id="e"/><bpmn:sequenceFlow id="f" sourceRef="g" targetRef="e"><bpmn:conditionExpression>=</bpmn:conditionExpression></bpmn:sequenceFlow>"#.into(), "f: failed to parse expression ''"),
        ("blank mapping", r#"<bpmn:task id="t"><bpmn:extensionElements><zeebe:ioMapping><zeebe:input source="" target="a"/></zeebe:ioMapping></bpmn:extensionElements></bpmn:task>"#.into(), "t: Attribute 'source' must be present and not empty"),
        ("mapping to no name", r#"<bpmn:task id="t"><bpmn:extensionElements><zeebe:ioMapping><zeebe:input source="=1" target="a-b"/></zeebe:ioMapping></bpmn:extensionElements></bpmn:task>"#.into(), "t: Expected path expression 'a-b'"),
        ("two headers with one key", r#"<bpmn:task id="t"><bpmn:extensionElements><zeebe:taskHeaders><zeebe:header key="k"/><zeebe:header key="k"/></zeebe:taskHeaders></bpmn:extensionElements></bpmn:task>"#.into(), "t: Duplicate task header key 'k'"),
        ("two equal listeners", r#"<bpmn:task id="t"><bpmn:extensionElements><zeebe:executionListeners><zeebe:executionListener eventType="end" type="l"/><zeebe:executionListener eventType="end" type="l"/></zeebe:executionListeners></bpmn:extensionElements></bpmn:task>"#.into(), "t: Found '2' duplicates based on eventType[end] and type[l], these combinations should be unique."),
        ("listener of no moment", r#"<bpmn:task id="t"><bpmn:extensionElements><zeebe:executionListeners><zeebe:executionListener eventType="now" type="l"/></zeebe:executionListeners></bpmn:extensionElements></bpmn:task>"#.into(), "t: Execution listeners of type 'now' are not supported"),
        ("start listener at a boundary event", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:extensionElements><zeebe:executionListeners><zeebe:executionListener eventType="start" type="l"/></zeebe:executionListeners></bpmn:extensionElements><bpmn:errorEventDefinition/></bpmn:boundaryEvent><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/>"#.into(), "b: Execution listeners of type 'start' are not supported by boundary events"),
        ("empty sub-process", r#"<bpmn:subProcess id="s"/>"#.into(), "s: Must have exactly one start event"),
        ("boundary of an event", r#"<bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="e"><bpmn:errorEventDefinition/></bpmn:boundaryEvent><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/>"#.into(), "b: Must be attached to an activity"),
        ("boundary without a way out", r#"<bpmn:task id="t"/><bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:errorEventDefinition/></bpmn:boundaryEvent>"#.into(), "b: Must have at least one outgoing sequence flow or association"),
        ("boundary without event", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="t"/><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/>"#.into(), "b: Must have exactly one event definition"),
        ("error boundary that does not interrupt", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="t" cancelActivity="false"><bpmn:errorEventDefinition/></bpmn:boundaryEvent><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/>"#.into(), "b: Non-Interrupting event of this type is not allowed"),
        ("timer boundary", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:timerEventDefinition/></bpmn:boundaryEvent><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/>"#.into(), "b: Event definition of this type is not supported"),
        ("two boundaries for one code", r#"<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:boundaryEvent id="b" attachedToRef="t"><bpmn:errorEventDefinition errorRef="E"/></bpmn:boundaryEvent><bpmn:boundaryEvent id="c" attachedToRef="t"><bpmn:errorEventDefinition errorRef="E"/></bpmn:boundaryEvent><bpmn:sequenceFlow id="f" sourceRef="b" targetRef="e"/><bpmn:sequenceFlow id="g" sourceRef="c" targetRef="e"/>"#.into(), "t: Multiple error catch events with the same error code 'boom' are not supported on the same scope."),
    ];
    for (name, more, expected) in cases {
        let problems = process(&more);
        assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{name}: {problems:?}");
    }
}

#[test]
fn a_process_needs_a_start() {
    assert_eq!(check(r#"<bpmn:process id="p" isExecutable="true"/>"#), ["p: Must have at least one start event"]);
}

#[test]
fn a_loop_in_which_nothing_waits_is_refused() {
    let looped = |middle: &str| {
        process(&format!(
            r#"<bpmn:exclusiveGateway id="g" default="out"/>{middle}<bpmn:endEvent id="e"/>
            <bpmn:sequenceFlow id="in" sourceRef="start" targetRef="g"/><bpmn:sequenceFlow id="out" sourceRef="g" targetRef="e"/>
            <bpmn:sequenceFlow id="round" sourceRef="g" targetRef="m"><bpmn:conditionExpression>=x = true</bpmn:conditionExpression></bpmn:sequenceFlow>
            <bpmn:sequenceFlow id="back" sourceRef="m" targetRef="g"/>"#
        ))
    };
    let loops = "p: Processes are not allowed to contain any straight-through processing loops: g > m > g";
    assert_eq!(looped(r#"<bpmn:task id="m"/>"#), [loops]);
    assert_eq!(looped(&format!(r#"<bpmn:serviceTask id="m">{JOB}</bpmn:serviceTask>"#)), Vec::<String>::new());
    let inner =
        |inside: &str| format!(r#"<bpmn:subProcess id="m"><bpmn:startEvent id="i"/>{inside}</bpmn:subProcess>"#);
    assert_eq!(looped(&inner("")), [loops]);
    let waiting = format!(
        r#"<bpmn:serviceTask id="w">{JOB}</bpmn:serviceTask><bpmn:sequenceFlow id="iw" sourceRef="i" targetRef="w"/>"#
    );
    assert_eq!(looped(&inner(&waiting)), Vec::<String>::new());
    let listening = r#"<bpmn:task id="m"><bpmn:extensionElements><zeebe:executionListeners><zeebe:executionListener eventType="end" type="l"/>
        </zeebe:executionListeners></bpmn:extensionElements></bpmn:task>"#;
    assert_eq!(looped(listening), Vec::<String>::new());
}

#[test]
fn a_loop_through_a_caught_error_is_refused() {
    let problems = process(
        r#"<bpmn:subProcess id="s"><bpmn:startEvent id="i"/><bpmn:endEvent id="x"><bpmn:errorEventDefinition errorRef="E"/></bpmn:endEvent>
        <bpmn:sequenceFlow id="ix" sourceRef="i" targetRef="x"/></bpmn:subProcess>
        <bpmn:boundaryEvent id="b" attachedToRef="s"><bpmn:errorEventDefinition errorRef="E"/></bpmn:boundaryEvent>
        <bpmn:sequenceFlow id="in" sourceRef="start" targetRef="s"/><bpmn:sequenceFlow id="again" sourceRef="b" targetRef="s"/>"#,
    );
    assert_eq!(problems, ["p: Processes are not allowed to contain any straight-through processing loops: s > b > s"]);
}

#[test]
fn a_very_long_chain_neither_overflows_nor_hangs() {
    let mut more = String::from(r#"<bpmn:task id="t0"/><bpmn:sequenceFlow id="f" sourceRef="start" targetRef="t0"/>"#);
    for at in 1..15_000 {
        let before = at - 1;
        more.push_str(&format!(
            r#"<bpmn:task id="t{at}"/><bpmn:sequenceFlow id="f{at}" sourceRef="t{before}" targetRef="t{at}"/>"#
        ));
    }
    assert_eq!(process(&more), Vec::<String>::new());
}

#[test]
fn the_report_reads_as_zeebes() {
    let problems = [("a", "one"), ("a", "two"), ("b", "three")]
        .map(|(element, message)| Problem { element: element.into(), message: message.into() });
    assert_eq!(
        report("p.bpmn", &problems),
        "'p.bpmn': - Element: a\n    - ERROR: one\n    - ERROR: two\n- Element: b\n    - ERROR: three\n"
    );
}
