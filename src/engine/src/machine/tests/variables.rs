//! Where variables live and how mappings move them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::json;

use crate::fixture::*;
use crate::machine::Reach;
use crate::rejection::RejectionKind;

fn mapped(list: &[(&str, &str, &str)]) -> String {
    let parts =
        [start("s"), task_with("t", "work", "3", &mappings(list)), task("u", "next"), flow("s", "t"), flow("t", "u")];
    model("p", &parts)
}

#[test]
fn without_an_output_mapping_the_whole_result_leaves_the_task() {
    let mut lab = Lab::with(&[mapped(&[])]);
    let created = lab.create(json!({"a": 1}));
    let job = lab.job("work");
    lab.complete(job.key, json!({"a": 2, "b": {"c": [1]}}));
    assert_eq!(lab.variables(created.instance), json!({"a": 2, "b": {"c": [1]}}));
}

#[test]
fn with_an_output_mapping_only_its_targets_leave_the_task() {
    let mut lab = Lab::with(&[mapped(&[("out", "= a + 1", "b"), ("out", "= b * 10", "c")])]);
    let created = lab.create(json!({}));
    let job = lab.job("work");
    lab.complete(job.key, json!({"a": 1, "secret": 1}));
    assert_eq!(lab.variables(created.instance), json!({"b": 2, "c": 20}));
}

#[test]
fn a_result_stays_in_the_task_where_an_input_mapping_made_the_variable() {
    let mut lab = Lab::with(&[mapped(&[("in", "= null", "a")])]);
    let created = lab.create(json!({"a": "outer"}));
    let job = lab.job("work");
    assert_eq!(json!(job.variables), json!({"a": null}));
    lab.complete(job.key, json!({"a": "inner", "b": 1}));
    assert_eq!(lab.variables(created.instance), json!({"a": "outer", "b": 1}));
}

#[test]
fn input_mappings_see_the_ones_before_them_and_build_contexts() {
    let list = [("in", "= x", "o.a"), ("in", "= o.a + 1", "o.b"), ("in", "= o", "copy"), ("in", "= missing", "gone")];
    let mut lab = Lab::with(&[mapped(&list)]);
    let created = lab.create(json!({"x": 1, "o": {"old": true}}));
    let job = lab.job("work");
    assert_eq!(json!(job.variables), json!({"x": 1, "o": {"a": 1, "b": 2}, "copy": {"a": 1, "b": 2}, "gone": null}));
    assert_eq!(lab.variables(created.instance), json!({"x": 1, "o": {"old": true}}));
}

#[test]
fn an_output_mapping_to_a_path_changes_one_leaf() {
    let mut lab = Lab::with(&[mapped(&[("out", "= r", "o.a.b"), ("out", "= r", "new.leaf")])]);
    let created = lab.create(json!({"o": {"keep": 1, "a": {"keep": 2, "b": 0}}}));
    let job = lab.job("work");
    lab.complete(job.key, json!({"r": 9}));
    assert_eq!(
        lab.variables(created.instance),
        json!({"o": {"keep": 1, "a": {"keep": 2, "b": 9}}, "new": {"leaf": 9}})
    );
}

#[test]
fn a_hardened_gate_variable_is_a_boolean_whatever_the_worker_sends() {
    let list = [("in", "= null", "ok"), ("out", "= get or else(ok = true, false)", "ok")];
    for seeded in [json!({}), json!({"ok": true}), json!({"ok": "true"})] {
        for (sent, expected) in [
            (json!({"ok": true}), true),
            (json!({"ok": false}), false),
            (json!({}), false),
            (json!({"ok": null}), false),
            (json!({"ok": "true"}), false),
            (json!({"ok": 1}), false),
            (json!({"ok": [true]}), false),
            (json!({"ok": {"ok": true}}), false),
        ] {
            let mut lab = Lab::with(&[mapped(&list)]);
            let created = lab.create(seeded.clone());
            let job = lab.job("work");
            lab.complete(job.key, sent.clone());
            assert_eq!(lab.variables(created.instance), json!({"ok": expected}), "seeded {seeded}, sent {sent}");
        }
    }
}

#[test]
fn set_variables_is_local_or_goes_to_the_scope_that_has_them() {
    let inside = [start("is"), task_with("t", "work", "3", &mappings(&[("in", "= 0", "here")])), flow("is", "t")];
    let mut lab = Lab::with(&[model("p", &[start("s"), subprocess("sub", &inside), flow("s", "sub")])]);
    let created = lab.create(json!({"root": 0}));
    let job = lab.job("work");
    let sub = lab.state.element(job.element).unwrap().parent.unwrap();
    lab.set(sub, json!({"mid": 0}), Reach::Local).unwrap();
    lab.set(job.element, json!({"here": 1, "mid": 1, "root": 1, "new": 1}), Reach::Propagated).unwrap();
    assert_eq!(lab.variables(created.instance), json!({"root": 1, "new": 1}));
    assert_eq!(lab.variables(sub), json!({"root": 1, "new": 1, "mid": 1}));
    assert_eq!(lab.variables(job.element), json!({"root": 1, "new": 1, "mid": 1, "here": 1}));
    lab.set(job.element, json!({"root": 2}), Reach::Local).unwrap();
    assert_eq!(lab.variables(created.instance), json!({"root": 1, "new": 1}));
    lab.complete(job.key, json!({}));
    assert_rejected(
        lab.set(job.element, json!({}), Reach::Local),
        RejectionKind::NotFound,
        &format!(
            "Command 'UPDATE' rejected with code 'NOT_FOUND': Expected to update variables for element with key '{}', but no such \
             element was found",
            job.element
        ),
    );
}

#[test]
fn what_a_sub_process_made_for_itself_goes_with_it() {
    let sub_mappings = format!(
        "<bpmn:extensionElements>{}</bpmn:extensionElements>",
        mappings(&[("in", "= 1", "mine"), ("out", "= mine + 1", "yours")])
    );
    let inside = [sub_mappings, start("is"), task("t", "work"), flow("is", "t")];
    let parts = [start("s"), subprocess("sub", &inside), task("u", "next"), flow("s", "sub"), flow("sub", "u")];
    let mut lab = Lab::with(&[model("p", &parts)]);
    let created = lab.create(json!({}));
    let job = lab.job("work");
    lab.complete(job.key, json!({"mine": 41}));
    assert_eq!(lab.variables(created.instance), json!({"yours": 42}));
}

#[test]
fn expressions_see_the_time_they_are_given() {
    let mut lab = Lab::with(&[mapped(&[("out", "= string(now())", "at")])]);
    let created = lab.create(json!({}));
    let job = lab.job("work");
    lab.now.millis += 123_456;
    lab.complete(job.key, json!({}));
    let at = lab.variables(created.instance);
    assert!(at["at"].as_str().unwrap().starts_with("1970-01-01T00:00:00"), "{at}");
}
