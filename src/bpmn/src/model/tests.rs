#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use proptest::prelude::*;

fn file(body: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d">
{body}
</bpmn:definitions>"#
    )
}

fn refusal(text: &str) -> String {
    parse(text.as_bytes()).expect_err("must be refused").to_string()
}

#[test]
fn the_shipped_files_parse() {
    for text in [crate::EXECUTABLE, crate::REFERENCE] {
        let definitions = parse(text.as_bytes()).unwrap();
        let process = definitions.process("m87-governed-loop").unwrap();
        assert_eq!(process.elements.len(), 18);
        assert_eq!(process.flows.len(), 17);
    }
}

#[test]
fn outgoing_flows_are_in_document_order_whatever_their_ids() {
    let text = file(
        r#"<bpmn:process id="p"><bpmn:exclusiveGateway id="g"/><bpmn:endEvent id="a"/><bpmn:endEvent id="b"/>
        <bpmn:sequenceFlow id="z" sourceRef="g" targetRef="a"/><bpmn:sequenceFlow id="y" sourceRef="g" targetRef="b"/></bpmn:process>"#,
    );
    let definitions = parse(text.as_bytes()).unwrap();
    let ids: Vec<&str> = definitions.processes[0].outgoing("g").map(|flow| flow.id.as_str()).collect();
    assert_eq!(ids, ["z", "y"]);
}

#[test]
fn nested_scopes_are_flat_and_name_their_scope() {
    let text = file(
        r#"<bpmn:process id="p"><bpmn:subProcess id="s"><bpmn:startEvent id="i"/><bpmn:subProcess id="t"><bpmn:task id="u"/></bpmn:subProcess>
        </bpmn:subProcess></bpmn:process>"#,
    );
    let definitions = parse(text.as_bytes()).unwrap();
    let process = &definitions.processes[0];
    assert_eq!(process.element("u").unwrap().scope.as_deref(), Some("t"));
    assert_eq!(process.element("s").unwrap().scope, None);
    assert_eq!(process.children(Some("s")).map(|element| element.id.as_str()).collect::<Vec<_>>(), ["i", "t"]);
    assert_eq!(process.none_start(Some("s")).unwrap().id, "i");
}

#[test]
fn zeebe_extensions_are_read_and_unknown_ones_are_named() {
    let text = file(
        r#"<bpmn:process id="p"><bpmn:serviceTask id="t"><bpmn:extensionElements>
        <zeebe:taskDefinition type="x" retries="5"/><zeebe:ioMapping><zeebe:input source="=a" target="b"/></zeebe:ioMapping>
        <zeebe:taskHeaders><zeebe:header key="k" value="v"/></zeebe:taskHeaders>
        <zeebe:executionListeners><zeebe:executionListener eventType="end" type="l"/></zeebe:executionListeners>
        <zeebe:calledDecision decisionId="q"/></bpmn:extensionElements></bpmn:serviceTask></bpmn:process>"#,
    );
    let definitions = parse(text.as_bytes()).unwrap();
    let task = definitions.processes[0].element("t").unwrap();
    assert_eq!(task.jobs, [TaskDefinition { job_type: "x".into(), retries: "5".into() }]);
    assert_eq!(task.inputs, [Mapping { source: "=a".into(), target: "b".into() }]);
    assert_eq!(task.headers, [Header { key: "k".into(), value: "v".into() }]);
    assert_eq!(task.listeners, [Listener { event: ListenerEvent::End, job_type: "l".into(), retries: "3".into() }]);
    assert_eq!(task.unsupported, ["zeebe:calledDecision"]);
}

#[test]
fn what_does_not_hold_together_is_refused_with_line_and_id() {
    let cases = [
        ("<bpmn:process id=\"p\"><bpmn:task/></bpmn:process>", "has no id"),
        ("<bpmn:process id=\"p\"><bpmn:task id=\"a\"/><bpmn:task id=\"a\"/></bpmn:process>", "already used on line 3"),
        ("<bpmn:process id=\"p\"><bpmn:task id=\"a\"/><bpmn:sequenceFlow id=\"f\" sourceRef=\"a\"/></bpmn:process>", "has no targetRef"),
        (
            "<bpmn:process id=\"p\"><bpmn:task id=\"a\"/><bpmn:sequenceFlow id=\"f\" sourceRef=\"a\" targetRef=\"b\"/></bpmn:process>",
            "is no element of this process",
        ),
        (
            "<bpmn:process id=\"p\"><bpmn:task id=\"a\"/><bpmn:subProcess id=\"s\"><bpmn:task id=\"b\"/></bpmn:subProcess>
            <bpmn:sequenceFlow id=\"f\" sourceRef=\"a\" targetRef=\"b\"/></bpmn:process>",
            "is in another sub-process",
        ),
        ("<bpmn:process id=\"p\"><bpmn:boundaryEvent id=\"b\" attachedToRef=\"x\"/></bpmn:process>", "is no element of its scope"),
        ("<bpmn:process id=\"p\"><bpmn:exclusiveGateway id=\"g\" default=\"x\"/></bpmn:process>", "is no sequence flow"),
    ];
    for (body, expected) in cases {
        let message = refusal(&file(body));
        assert!(message.contains(expected), "{message}");
        assert!(message.starts_with("line "), "{message}");
    }
}

#[test]
fn hostile_xml_is_refused() {
    let bomb = "<!DOCTYPE d [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><d>&b;</d>";
    assert!(refusal(bomb).contains("document type definition"));
    assert!(refusal(&file("<bpmn:process id=\"p\" name=\"&b;\"/>")).contains("b"));
    assert!(refusal(&file("&b;")).contains("&b;"));
    assert!(refusal(&format!("{}{}", "<a>".repeat(100), "</a>".repeat(100))).contains("deep"));
    assert!(refusal(&"<a/>".repeat(2)).contains("follows the root"));
    assert!(refusal("").contains("no element"));
    assert!(refusal("{\"a\": 1}").contains("outside the root"));
    assert!(refusal("<html/>").contains("not BPMN"));
    assert!(refusal("<a><b></a>").starts_with("line 1"));
    assert!(refusal(&" ".repeat(crate::xml::MAX_BYTES + 1)).contains("bytes"));
    assert!(refusal(&format!("<a>{}</a>", "<b/>".repeat(crate::xml::MAX_ELEMENTS))).contains("elements"));
    let attributes: String = (0..1000).map(|at| format!(" a{at}=\"\"")).collect();
    assert!(refusal(&format!("<a{attributes}/>")).contains("attributes"));
    assert!(parse(b"<a>\xff</a>").unwrap_err().message.contains("UTF-8"));
    assert!(refusal("<?xml version=\"1.0\" encoding=\"UTF-16\"?><a/>").contains("encoding"));
}

proptest! {
    #[test]
    fn parse_never_panics_on_any_text(text in "\\PC{0,400}") {
        let _ = parse(text.as_bytes());
    }

    #[test]
    fn parse_never_panics_on_tags(text in "(</?(bpmn:)?(definitions|process|task|sequenceFlow)( (id|sourceRef|default)=\"[a-c&;]{0,3}\")*/?>|&#x?[0-9a-f]{1,9};|<!|]]>){0,40}") {
        let _ = parse(file(&text).as_bytes());
        let _ = parse(text.as_bytes());
    }

    #[test]
    fn parse_never_panics_on_a_damaged_file(cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..60, any::<u8>()), 1..6)) {
        let mut bytes = crate::EXECUTABLE.as_bytes().to_vec();
        for (at, length, byte) in cuts {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, [byte]);
        }
        if let Ok(definitions) = parse(&bytes) {
            let _ = crate::validate::deployable(&definitions);
        }
    }
}
