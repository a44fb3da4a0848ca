//! One document against the schema of its kind: everything that is wrong, each with the path of its field.

use super::MAX_OBJECT_BYTES;
use super::error::{ReadError, suggestion};
use crate::metadata::Metadata;
use crate::names;
use crate::object::{Object, Spec};
use crate::policy::GovernancePolicySpec;
use crate::run::{EXPECT_TERMINAL, GovernedRunSpec};
use crate::schema;
use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use m87_core::reason::Terminal;
use m87_core::tool::ManifestSpec;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A spec with rules beyond its schema.
pub(super) trait Checked: Spec + JsonSchema + DeserializeOwned {
    /// What is wrong: field and problem.
    fn problems(object: &Object<Self>) -> Vec<(String, String)>;
}

impl Checked for GovernancePolicySpec {
    fn problems(_: &Object<Self>) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl Checked for ManifestSpec {
    fn problems(object: &Object<Self>) -> Vec<(String, String)> {
        let mut seen = BTreeSet::new();
        let twice = |(at, name): (usize, &String)| {
            let problem = format!("a tool before it is also called {name:?}; names are unique in a manifest");
            (!seen.insert(name.clone())).then(|| (format!("spec.tools[{at}].name"), problem))
        };
        object.spec.tools.iter().map(|tool| &tool.name).enumerate().filter_map(twice).collect()
    }
}

impl Checked for GovernedRunSpec {
    fn problems(object: &Object<Self>) -> Vec<(String, String)> {
        let expected = object.metadata.annotations.get(EXPECT_TERMINAL);
        let unknown = expected.filter(|name| !Terminal::ALL.iter().any(|terminal| terminal.name() == name.as_str()));
        let all = Terminal::ALL.map(Terminal::name).join(", ");
        let problem = |name: &String| {
            (
                format!("metadata.annotations[{EXPECT_TERMINAL:?}]"),
                format!("{name:?} is not a terminal; write one of {all}"),
            )
        };
        let stamped = object.spec.actor.as_ref().map(|_| {
            let problem = "is not written by hand: a cluster stamps who applied the run, and m87 run takes who started it; \
                           leave it out";
            ("spec.actor".to_owned(), problem.to_owned())
        });
        unknown.map(problem).into_iter().chain(stamped).collect()
    }
}

/// How messages call an object.
pub(super) fn called<S: Spec>(metadata: &Metadata) -> String {
    match metadata.namespace.as_str() {
        "default" => format!("{} {:?}", S::WORD, metadata.name),
        namespace => format!("{} {:?}", S::WORD, format!("{namespace}/{}", metadata.name)),
    }
}

/// The compiled schemas, one a kind.
#[derive(Default)]
pub(super) struct Checker {
    schemas: BTreeMap<&'static str, (Value, Option<Validator>)>,
}

impl Checker {
    /// The object, or all that is wrong with it.
    pub(super) fn check<S: Checked>(
        &mut self,
        place: &ReadError,
        document: Value,
    ) -> Result<Object<S>, Vec<ReadError>> {
        let place = match document.pointer("/metadata/name").and_then(Value::as_str) {
            Some(name) => place.clone().of(format!("{} {name:?}", S::WORD)),
            None => place.clone(),
        };
        if let Some((field, size)) = oversize(&document) {
            let problem = format!("has {size} bytes; an object has at most {MAX_OBJECT_BYTES} as JSON");
            return Err(vec![place.at(field).saying(problem)]);
        }
        let (schema, validator) = self.schemas.entry(S::KIND).or_insert_with(|| {
            let schema = schema::strict::<S>();
            let validator = jsonschema::draft202012::new(&schema).ok();
            (schema, validator)
        });
        let Some(validator) = validator else {
            return Err(vec![place.saying(format!("the schema of {} is broken; this is an error in m87", S::KIND))]);
        };
        let mut found = Vec::new();
        for error in validator.iter_errors(&document) {
            found.extend(explain(schema, &error).into_iter().map(|(field, problem)| place.at(field).saying(problem)));
        }
        if !found.is_empty() {
            return Err(found);
        }
        // What the schema lets through and serde does not is rare (1.0 for an integer); then there is no path.
        let object: Object<S> =
            serde_json::from_value(document).map_err(|error| vec![place.saying(error.to_string())])?;
        let place = place.of(called::<S>(&object.metadata));
        let mut problems = names_of(&object.metadata);
        problems.extend(S::problems(&object));
        if problems.is_empty() {
            return Ok(object);
        }
        Err(problems.into_iter().map(|(field, problem)| place.at(field).saying(problem)).collect())
    }
}

fn names_of(metadata: &Metadata) -> Vec<(String, String)> {
    let problem = |field: &str, value: &str, checked: Result<(), names::NameProblem>| {
        checked.err().map(|problem| (field.to_owned(), format!("{value:?} {problem}")))
    };
    let name = problem("metadata.name", &metadata.name, names::subdomain(&metadata.name));
    let namespace = problem("metadata.namespace", &metadata.namespace, names::label(&metadata.namespace));
    name.into_iter().chain(namespace).collect()
}

/// The field that makes an object too large, and its size.
fn oversize(document: &Value) -> Option<(String, usize)> {
    let mut size = weight(document);
    if size <= MAX_OBJECT_BYTES {
        return None;
    }
    let (mut path, mut value) = (String::new(), document);
    loop {
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, inner)| (join(&path, name), inner)).collect(),
            Value::Array(items) => items.iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        // Follow the one member that is itself too much; if there is none, it is all of them together.
        match inner.into_iter().map(|(path, inner)| (weight(inner), path, inner)).max_by_key(|(size, ..)| *size) {
            Some((heavy, deeper, inner)) if heavy > MAX_OBJECT_BYTES / 2 => {
                (size, path, value) = (heavy, deeper, inner)
            }
            _ => return Some((path, size)),
        }
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, inner)| name.len() + weight(inner) + 4).sum::<usize>() + 2,
    }
}

/// One violation in words: usually one field, several where several fields are unknown.
fn explain(schema: &Value, error: &jsonschema::ValidationError<'_>) -> Vec<(String, String)> {
    let field = dotted(error.instance_path().as_str());
    let value = shown(error.instance());
    let one = |problem: String| vec![(field.clone(), problem)];
    match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            let known = fields_at(schema, error.instance_path().as_str());
            let unknown = |name: &String| {
                let hint = match (field.as_str(), name.as_str()) {
                    ("metadata", "generateName") => "write metadata.name: the name is the run's identity".to_owned(),
                    _ => suggestion(name, known.iter().map(String::as_str)),
                };
                (join(&field, name), format!("is not a field; {hint}"))
            };
            unexpected.iter().map(unknown).collect()
        }
        Kind::Required { property } => {
            vec![(join(&field, property.as_str().unwrap_or_default()), "is missing".to_owned())]
        }
        Kind::Type { kind } => one(format!("is {}; must be {}", described(error.instance()), wanted(kind))),
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let names: Vec<String> = options
                .iter()
                .filter(|option| !option.is_null())
                .map(|option| match option {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
                .collect();
            one(format!("is {value}; must be {}{}", if names.len() == 1 { "" } else { "one of " }, names.join(", ")))
        }
        Kind::MaxLength { limit } => one(format!("is longer than {limit} characters")),
        Kind::MinLength { limit } => one(format!("is shorter than {limit} characters")),
        Kind::MaxItems { limit } => one(format!("has more than {limit} items")),
        Kind::MinItems { limit } => one(format!("has fewer than {limit} items")),
        Kind::Maximum { limit } => one(format!("is {value}; at most {limit}")),
        Kind::Minimum { limit } => one(format!("is {value}; at least {limit}")),
        Kind::MinProperties { .. } | Kind::MaxProperties { .. } => {
            let known = fields_at(schema, error.instance_path().as_str());
            one(format!("must hold exactly one of {}", known.join(", ")))
        }
        _ => one(error.masked().to_string()),
    }
}

/// The fields that the schema knows at an instance's path.
fn fields_at(schema: &Value, pointer: &str) -> Vec<String> {
    let mut at = schema;
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        let property = at.get("properties").and_then(|properties| properties.get(&name));
        match property.or_else(|| at.get("items")).or_else(|| at.get("additionalProperties")) {
            Some(inner) => at = inner,
            None => return Vec::new(),
        }
    }
    let properties = at.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

/// `/spec/tools/0/name` as `spec.tools[0].name`.
fn dotted(pointer: &str) -> String {
    pointer.split('/').skip(1).fold(String::new(), |path, step| {
        let name = step.replace("~1", "/").replace("~0", "~");
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("{path}[{name}]")
        } else {
            join(&path, &name)
        }
    })
}

fn join(path: &str, name: &str) -> String {
    let plain =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match (path, plain) {
        ("", _) => name.to_owned(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}

fn wanted(kind: &TypeKind) -> String {
    let names: Vec<String> = match kind {
        TypeKind::Single(one) => vec![one.to_string()],
        TypeKind::Multiple(some) => some.iter().map(|one| one.to_string()).collect(),
    };
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "null").collect();
    let named = names.join(" or ");
    format!("{} {named}", if named.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" })
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::String(_) => format!("the string {}", shown(value)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain("…".chars()).collect()
}
