//! Deployment: versions, what is refused, and keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use crate::fixture::*;
use crate::machine::{Answer, Command, CreateRequest, Deployment, Resource, Target};
use crate::rejection::RejectionKind;

fn deploy(lab: &mut Lab, resources: &[(&str, &str)]) -> Deployment {
    let resources = resources.iter().map(|(name, xml)| resource(name, xml)).collect();
    match lab.run(Command::Deploy(resources)).unwrap() {
        Answer::Deployed(deployment) => deployment,
        other => panic!("{other:?}"),
    }
}

fn versions(deployment: &Deployment) -> Vec<(&str, i32)> {
    deployment.processes.iter().map(|process| (process.process_id.as_str(), process.version)).collect()
}

#[test]
fn keys_count_up_from_the_first_of_partition_one() {
    let mut lab = Lab::new();
    let deployment = deploy(&mut lab, &[("a.bpmn", &one_task("p"))]);
    assert_eq!(deployment.key, 2_251_799_813_685_249);
    assert_eq!(deployment.processes[0].key, 2_251_799_813_685_250);
    assert_eq!(lab.create(json!({})).instance, 2_251_799_813_685_251);
}

#[test]
fn keys_do_not_depend_on_time_polling_or_heartbeats() {
    let quiet = |busy: bool| {
        let mut lab = Lab::with(&[one_task("p")]);
        lab.create(json!({}));
        let job = lab.job("work");
        if busy {
            for _ in 0..5 {
                lab.activate("work", 1);
                lab.run(Command::UpdateTimeout { job: job.key, timeout: 10 }).unwrap();
                lab.pass(1_000);
                lab.activate("work", 1);
            }
        }
        lab.complete(job.key, json!({}));
        lab.create(json!({})).instance
    };
    assert_eq!(quiet(false), quiet(true));
}

#[test]
fn unchanged_bytes_keep_their_version_and_changed_ones_get_the_next() {
    let mut lab = Lab::new();
    let (one, two) = (one_task("p"), choice("= true", true));
    let first = deploy(&mut lab, &[("a.bpmn", &one)]);
    let same = deploy(&mut lab, &[("a.bpmn", &one)]);
    assert_eq!(first.processes, same.processes);
    assert_ne!(first.key, same.key);
    assert_eq!(versions(&deploy(&mut lab, &[("b.bpmn", &one)])), [("p", 2)], "another name is another resource");
    assert_eq!(versions(&deploy(&mut lab, &[("b.bpmn", &two)])), [("p", 3)]);
    // As an older one, not as the latest.
    assert_eq!(versions(&deploy(&mut lab, &[("a.bpmn", &one)])), [("p", 4)]);
}

#[test]
fn one_changed_resource_gives_all_of_the_call_a_new_version() {
    let mut lab = Lab::new();
    let (p, q) = (one_task("p"), one_task("q"));
    assert_eq!(versions(&deploy(&mut lab, &[("p.bpmn", &p), ("q.bpmn", &q)])), [("p", 1), ("q", 1)]);
    assert_eq!(versions(&deploy(&mut lab, &[("p.bpmn", &p), ("q.bpmn", &q)])), [("p", 1), ("q", 1)]);
    let changed = p.replace("\"work\"", "\"other\"");
    assert_eq!(versions(&deploy(&mut lab, &[("p.bpmn", &changed), ("q.bpmn", &q)])), [("p", 2), ("q", 2)]);
}

#[test]
fn a_refused_deployment_leaves_no_trace() {
    let good = one_task("p");
    let idle = r#"<bpmn:serviceTask id="s2"/>"#.to_owned();
    let broken = model("q", &[start("s"), idle, flow("s", "s2")]);
    let looped = model("r", &[start("s"), exclusive("g", "g_g"), flow("s", "g"), flow("g", "g")]);
    let cases: Vec<(Vec<Resource>, &str)> = vec![
        (vec![], "Expected to deploy at least one resource, but none given"),
        (vec![resource("a.txt", &good)], "'a.txt': unknown resource type"),
        (vec![resource("a.bpmn", "<nonsense")], "'a.bpmn': line 1"),
        (vec![Resource { name: "a.bpmn".into(), content: vec![0xff, 0xfe, 0x00] }], "'a.bpmn': "),
        (
            vec![resource("a.bpmn", &good), resource("b.bpmn", &good)],
            "Duplicated process id in resources 'a.bpmn' and 'b.bpmn'",
        ),
        (vec![resource("a.bpmn", &good), resource("b.bpmn", &looped)], "straight-through processing loops"),
        (
            vec![resource("a.bpmn", &good), resource("b.bpmn", &broken)],
            "'b.bpmn': - Element: s2\n    - ERROR: Must have exactly one 'zeebe:taskDefinition' extension element",
        ),
        (
            vec![resource("a.bpmn", &good.replace("isExecutable=\"true\"", "isExecutable=\"false\""))],
            "Must contain at least one executable process",
        ),
    ];
    for (resources, text) in cases {
        let mut lab = Lab::new();
        let before = lab.state.clone();
        let rejection = lab.run(Command::Deploy(resources)).unwrap_err();
        assert_eq!(rejection.kind, RejectionKind::InvalidArgument);
        assert!(
            rejection
                .to_string()
                .starts_with("Command 'CREATE' rejected with code 'INVALID_ARGUMENT': Expected to deploy")
        );
        assert!(rejection.reason.contains(text), "{}", rejection.reason);
        assert_eq!(lab.state, before);
    }
}

#[test]
fn an_instance_is_created_by_key_by_version_or_of_the_latest() {
    let mut lab = Lab::new();
    let first = deploy(&mut lab, &[("a.bpmn", &one_task("p"))]).processes[0].key;
    let second = deploy(&mut lab, &[("a.bpmn", &choice("= true", true))]).processes[0].key;
    let id = || "p".to_owned();
    for (target, definition) in [
        (Target::Key(first), first),
        (Target::Version(id(), 1), first),
        (Target::Version(id(), 2), second),
        (Target::Latest(id()), second),
    ] {
        let request = CreateRequest { target, variables: document(json!({})), start_at: vec![] };
        let Answer::Created(created) = lab.run(Command::Create(request)).unwrap() else { panic!() };
        assert_eq!(created.definition, definition);
    }
    for (target, what) in [
        (Target::Key(7), "with key '7'"),
        (Target::Latest("q".into()), "with process ID 'q'"),
        (Target::Version(id(), 0), "with process ID 'p' and version '0'"),
    ] {
        let request = CreateRequest { target, variables: document(json!({})), start_at: vec![] };
        assert_rejected(
            lab.run(Command::Create(request)),
            RejectionKind::NotFound,
            &format!(
                "Command 'CREATE' rejected with code 'NOT_FOUND': Expected to find process definition {what}, but none found"
            ),
        );
    }
}
