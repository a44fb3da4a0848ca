//! The lint of the definitions. What a real API server makes of them is in `tests/kube/crds`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use std::collections::BTreeSet;

/// Every schema of a definition with its path, the whole object's first.
fn schemas(definition: &Value) -> Vec<(String, &Value)> {
    fn walk<'s>(path: String, schema: &'s Value, found: &mut Vec<(String, &'s Value)>) {
        found.push((path.clone(), schema));
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, inner) in properties {
                walk(format!("{path}.{name}"), inner, found);
            }
        }
        for (keyword, shown) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(inner) = schema.get(keyword) {
                walk(format!("{path}{shown}"), inner, found);
            }
        }
    }
    let mut found = Vec::new();
    let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
    walk(kind.to_owned(), &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
    found
}

#[test]
fn every_schema_is_structural() {
    const KNOWN: [&str; 21] = [
        "type",
        "format",
        "description",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "enum",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minimum",
        "maximum",
        "default",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    ];
    for (_, definition) in all() {
        for (path, schema) in schemas(&definition) {
            let keywords = schema.as_object().unwrap_or_else(|| panic!("{path} is {schema}"));
            for keyword in keywords.keys() {
                let known = KNOWN.contains(&keyword.as_str()) || keyword == "x-kubernetes-validations";
                assert!(known, "{path} has {keyword}");
            }
            let kind = schema.get("type").and_then(Value::as_str);
            assert_ne!(kind, Some("number"), "{path} is a float");
            assert!(
                kind.is_some() || keywords.contains_key("x-kubernetes-preserve-unknown-fields"),
                "{path} has neither a type nor a licence to be anything"
            );
            if let Some(format) = schema.get("format").and_then(Value::as_str) {
                assert!(["int32", "int64", "date-time"].contains(&format), "{path} has the format {format}");
            }
            let status_default = path.ends_with(".status") && path.matches('.').count() == 1;
            assert_eq!(keywords.contains_key("default"), status_default, "{path}");
            if let Some(names) = schema.get("enum").and_then(Value::as_array) {
                assert!(!names.is_empty() && !names.contains(&Value::Null), "{path}");
            }
        }
    }
}

#[test]
fn only_input_and_input_schema_are_untyped() {
    let mut untyped = BTreeSet::new();
    for (_, definition) in all() {
        let found = schemas(&definition).into_iter();
        untyped.extend(found.filter(|(_, schema)| schema.get("x-kubernetes-preserve-unknown-fields").is_some()).map(
            |(path, schema)| {
                assert!(schema.get("type").is_none(), "{path} is typed, and so would escape comparison");
                path
            },
        ));
    }
    let expected = ["GovernedRun.spec.proposal.input", "ToolManifest.spec.tools[].inputSchema"];
    assert_eq!(untyped.into_iter().collect::<Vec<_>>(), expected);
}

/// Rule 16: without bounds the API server takes a rule for too dear.
#[test]
fn every_text_list_and_map_is_bounded() {
    for (_, definition) in all() {
        for (path, schema) in schemas(&definition).into_iter().filter(|(path, _)| {
            path.matches('.').count() > 1 // apiVersion, kind and metadata are the API server's own
        }) {
            let has = |keyword: &str| schema.get(keyword).is_some();
            match schema.get("type").and_then(Value::as_str) {
                Some("string") => assert!(has("maxLength") || has("enum"), "{path} has no maxLength"),
                Some("array") => assert!(has("maxItems"), "{path} has no maxItems"),
                Some("object") => assert!(has("properties") || has("maxProperties"), "{path} has no maxProperties"),
                Some("integer") => assert!(
                    has("minimum") || path.contains(".status"),
                    "{path} has no minimum, and what people write has one"
                ),
                Some(_) | None => {}
            }
        }
    }
}

/// Rule 2: client-side apply keeps the whole object in an annotation. Rule 37: Flux substitutes what looks like a variable.
#[test]
fn each_fits_an_annotation_and_has_no_variables() {
    for (file, definition) in all() {
        let text = definition.to_string();
        assert!(text.len() < 200_000, "{file} has {} bytes", text.len());
        assert!(!text.contains("${"), "{file}");
    }
}

/// Rule 5: what is empty is left out, or Argo CD sees a difference for ever.
#[test]
fn nothing_is_written_that_reads_back_otherwise() {
    fn walk(path: &str, value: &Value) {
        match value {
            Value::Array(items) => {
                assert!(!items.is_empty(), "{path} is an empty list");
                items.iter().for_each(|item| walk(path, item));
            }
            Value::Object(fields) => {
                assert!(!fields.is_empty() || path.ends_with("subresources.status"), "{path} is empty");
                assert!(!fields.contains_key("preserveUnknownFields"), "{path}");
                fields.iter().for_each(|(name, inner)| walk(&format!("{path}.{name}"), inner));
            }
            Value::Null => panic!("{path} is null"),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    all().iter().for_each(|(file, definition)| walk(file, definition));
}

#[test]
fn all_that_a_run_says_is_immutable_but_suspend_and_cancel() {
    let definition = definition::<GovernedRunSpec>();
    let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let rules: Vec<&str> = spec["x-kubernetes-validations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    for field in spec["properties"].as_object().unwrap().keys() {
        let compared = rules.iter().any(|rule| rule.contains(&same(field)));
        assert_eq!(compared, !GovernedRunSpec::MUTABLE.contains(&field.as_str()), "{field}");
    }
    // Where a field can be left out, its coming and going are compared too.
    assert!(rules.iter().any(|rule| rule.starts_with("has(self.actor) == has(oldSelf.actor) && ")), "{rules:?}");
}

#[test]
fn a_schema_hash_is_of_all_that_is_served() {
    let definition = definition::<GovernedRunSpec>();
    assert_eq!(definition["metadata"]["annotations"][SCHEMA_HASH], schema_hash::<GovernedRunSpec>().as_str());
    assert_eq!(compute_hash(&definition["spec"]).unwrap(), schema_hash::<GovernedRunSpec>());
    assert_ne!(schema_hash::<GovernedRunSpec>(), schema_hash::<ManifestSpec>());
}

#[test]
fn the_files_are_current() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    for (name, text) in files().unwrap() {
        let current = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(current == text, "crds/{name} is not current; run: cargo run -- gen");
    }
}
