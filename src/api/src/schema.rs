//! JSON Schemas of the kinds, generated from the types and made structural, as Kubernetes wants them: no `oneOf` where a
//! plain `enum` or a set of properties says the same. The strict form also refuses every field that it does not name.

use crate::metadata::WRITTEN_BY_SERVERS;
use crate::object::{API_VERSION, Object, Spec};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// The structural schema of a kind as it is written: without the status.
pub fn structural<S: Spec + JsonSchema>() -> Value {
    let mut schema = of_type::<Object<S>>();
    if let Some(keywords) = schema.as_object_mut() {
        keywords.insert("title".to_owned(), json!(S::KIND));
    }
    if let Some(properties) = properties_mut(&mut schema) {
        properties.insert("apiVersion".to_owned(), json!({"type": "string", "enum": [API_VERSION]}));
        properties.insert("kind".to_owned(), json!({"type": "string", "enum": [S::KIND]}));
    }
    schema
}

/// The structural schema of a type.
pub fn of_type<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    Flatten.transform(&mut schema);
    schema.to_value()
}

/// The structural schema, closed: every field that is not named is refused, save what an API server writes.
pub fn strict<S: Spec + JsonSchema>() -> Value {
    let mut schema = structural::<S>();
    if let Some(properties) = properties_mut(&mut schema) {
        properties.insert("status".to_owned(), Value::Bool(true));
        if let Some(metadata) = properties.get_mut("metadata").and_then(properties_mut) {
            metadata.extend(WRITTEN_BY_SERVERS.map(|name| (name.to_owned(), Value::Bool(true))));
        }
    }
    let mut schema = Schema::try_from(schema).unwrap_or_default();
    RecursiveTransform(close).transform(&mut schema);
    schema.to_value()
}

fn properties_mut(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.get_mut("properties").and_then(Value::as_object_mut)
}

fn close(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// Rewrites what schemars makes of Rust's enums and options into structural form.
struct Flatten;

impl Transform for Flatten {
    fn transform(&mut self, schema: &mut Schema) {
        schemars::transform::transform_subschemas(self, schema);
        if let Some(Value::Array(variants)) = schema.get("oneOf").cloned() {
            let flat = flat_enum(&variants).or_else(|| flat_union(&variants));
            if let Some(flat) = flat {
                schema.remove("oneOf");
                merge(schema, flat);
            }
        }
        if let Some(Value::Array(choices)) = schema.get("anyOf").cloned()
            && let [Value::Object(choice), Value::Object(null)] = choices.as_slice()
            && null.get("type") == Some(&json!("null"))
        {
            schema.remove("anyOf");
            merge(schema, choice.clone());
        }
        no_null(schema);
        known_formats_only(schema);
    }
}

/// Unit variants become one `enum` of strings.
fn flat_enum(variants: &[Value]) -> Option<Map<String, Value>> {
    let mut names = Vec::new();
    for variant in variants {
        match (variant.get("const"), variant.get("enum")) {
            (Some(name @ Value::String(_)), None) => names.push(name.clone()),
            (None, Some(Value::Array(some))) => names.extend(some.iter().cloned()),
            _ => return None,
        }
    }
    json!({"type": "string", "enum": names}).as_object().cloned()
}

/// Externally tagged variants become an object with exactly one of the properties.
fn flat_union(variants: &[Value]) -> Option<Map<String, Value>> {
    let mut properties = Map::new();
    for variant in variants {
        let own = variant.get("properties")?.as_object()?;
        let (name, body) = own.iter().next().filter(|_| own.len() == 1)?;
        let mut body = body.clone();
        if let (Some(body), Some(text)) = (body.as_object_mut(), variant.get("description")) {
            body.insert("description".to_owned(), text.clone());
        }
        properties.insert(name.clone(), body);
    }
    json!({"type": "object", "properties": properties, "minProperties": 1, "maxProperties": 1}).as_object().cloned()
}

fn merge(schema: &mut Schema, from: Map<String, Value>) {
    for (keyword, value) in from {
        if schema.get(&keyword).is_none() {
            schema.insert(keyword, value);
        }
    }
}

/// What is optional is left out, not null: an API server refuses null, and so does a file's reader.
fn no_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get("type").cloned()
        && let [kind, null] = types.as_slice()
        && null == "null"
    {
        schema.insert("type".to_owned(), kind.clone());
    }
    if let Some(Value::Array(mut names)) = schema.get("enum").cloned() {
        names.retain(|name| !name.is_null());
        schema.insert("enum".to_owned(), Value::Array(names));
    }
}

/// An API server knows no unsigned formats; bounds say the same.
fn known_formats_only(schema: &mut Schema) {
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        schema.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::GovernancePolicySpec;
    use crate::run::GovernedRunSpec;
    use m87_core::tool::ManifestSpec;

    #[test]
    fn schemas_are_structural_and_strict_ones_are_closed() {
        fn walk(schema: &Value, path: &str) {
            let Value::Object(keywords) = schema else { return };
            for keyword in ["oneOf", "anyOf", "allOf", "$ref"] {
                assert!(!keywords.contains_key(keyword), "{path} has {keyword}: {schema}");
            }
            if let Some(Value::Object(properties)) = keywords.get("properties") {
                assert_eq!(keywords.get("additionalProperties"), Some(&Value::Bool(false)), "{path} is open");
                properties.iter().for_each(|(name, inner)| walk(inner, &format!("{path}.{name}")));
            }
            if let Some(items) = keywords.get("items") {
                walk(items, &format!("{path}[]"));
            }
        }
        walk(&strict::<GovernancePolicySpec>(), "policy");
        walk(&strict::<ManifestSpec>(), "manifest");
        walk(&strict::<GovernedRunSpec>(), "run");
    }

    #[test]
    fn every_text_and_list_of_a_spec_is_bounded() {
        fn walk(schema: &Value, path: &str) {
            let is = |kind: &str| schema.get("type").is_some_and(|only| only == kind);
            if is("string") {
                assert!(schema.get("maxLength").or_else(|| schema.get("enum")).is_some(), "{path} is unbounded");
            }
            if is("array") {
                assert!(schema.get("maxItems").is_some(), "{path} is unbounded");
            }
            if let Some(Value::Object(properties)) = schema.get("properties") {
                properties.iter().for_each(|(name, inner)| walk(inner, &format!("{path}.{name}")));
            }
            if let Some(items) = schema.get("items") {
                walk(items, &format!("{path}[]"));
            }
        }
        walk(&structural::<GovernancePolicySpec>(), "policy");
        walk(&structural::<ManifestSpec>(), "manifest");
        walk(&structural::<GovernedRunSpec>(), "run");
    }
}
