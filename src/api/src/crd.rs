//! The kinds as an API server serves them: CustomResourceDefinitions out of the same types as everything else.
//!
//! What an API server does not know it prunes before it checks anything, so a field that restricts is required, and what may not
//! change is compared on the *parent*: a rule on a field is not asked when the field goes away. `input` stays untyped, since a
//! typed object that preserves unknown fields escapes comparison.

use crate::object::{GROUP, Spec, VERSION};
use crate::policy::GovernancePolicySpec;
use crate::run::GovernedRunSpec;
use crate::schema;
use crate::status::{NEVER_OBSERVED, Status};
use m87_core::json::compute_hash;
use m87_core::tool::ManifestSpec;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// The annotation by which an operator sees whether the installed definition is its own.
pub const SCHEMA_HASH: &str = "m87.dev/schema-sha256";

/// A kind that an API server serves.
pub trait Served: Spec + JsonSchema {
    /// What `kubectl explain` says first.
    const ABOUT: &'static str;
    /// For people who type.
    const SHORT_NAME: &'static str;
    /// What `kubectl get` shows, between name and age.
    const COLUMNS: &'static [Column];
    /// What can be selected by, beside name and namespace.
    const SELECTABLE: &'static [&'static str];
    /// What may not change, given the schema of the spec.
    fn spec_rules(spec: &Value) -> Vec<Rule>;
    /// What is written once in the status.
    const WRITTEN_ONCE: &'static [&'static str];
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub name: &'static str,
    /// Where its value stands.
    pub path: &'static str,
    /// Whether it is shown only with `-o wide`.
    pub wide: bool,
}

/// A rule in CEL, with what it says to whoever breaks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Over `self` and `oldSelf`.
    pub expression: String,
    /// What is wrong and what to do.
    pub message: String,
}

const fn column(name: &'static str, path: &'static str) -> Column {
    Column { name, path, wide: false }
}

const fn wide(name: &'static str, path: &'static str) -> Column {
    Column { name, path, wide: true }
}

const READY: Column = column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#);
const WHY_READY: Column = column("Reason", r#".status.conditions[?(@.type=="Ready")].reason"#);

impl Served for GovernancePolicySpec {
    const ABOUT: &'static str = "The rules under which proposals of a namespace are judged.";
    const SHORT_NAME: &'static str = "gpol";
    const COLUMNS: &'static [Column] = &[
        READY,
        WHY_READY,
        wide("Suspended", ".spec.suspend"),
        wide("Definition", ".status.deployment.definitionKey"),
        wide("Version", ".status.deployment.version"),
    ];
    const SELECTABLE: &'static [&'static str] = &[];
    const WRITTEN_ONCE: &'static [&'static str] = &[];

    fn spec_rules(_: &Value) -> Vec<Rule> {
        Vec::new()
    }
}

impl Served for ManifestSpec {
    const ABOUT: &'static str = "The tools that proposals of a namespace may name.";
    const SHORT_NAME: &'static str = "tman";
    const COLUMNS: &'static [Column] = &[
        READY,
        WHY_READY,
        column("Tools", ".status.tools.ready"),
        column("Refused", ".status.tools.refused"),
        wide("SHA-256", ".status.sha256"),
    ];
    const SELECTABLE: &'static [&'static str] = &[];
    const WRITTEN_ONCE: &'static [&'static str] = &[];

    fn spec_rules(_: &Value) -> Vec<Rule> {
        Vec::new()
    }
}

impl Served for GovernedRunSpec {
    const ABOUT: &'static str = "One proposal: judged, run at most once if it passes, and recorded in a receipt.";
    const SHORT_NAME: &'static str = "grun";
    const COLUMNS: &'static [Column] = &[
        column("Phase", ".status.phase"),
        column("Terminal", ".status.terminal"),
        column("Reason", ".status.reason"),
        wide("Ready", READY.path),
        wide("Effect", ".status.effect"),
        wide("Actor", ".spec.actor.username"),
        wide("Receipt", ".status.receipt.hash"),
    ];
    const SELECTABLE: &'static [&'static str] = &[".spec.policyRef.name", ".spec.manifestRef.name"];
    const WRITTEN_ONCE: &'static [&'static str] = &["terminal", "receipt"];

    fn spec_rules(spec: &Value) -> Vec<Rule> {
        let fields = spec.get("properties").and_then(Value::as_object);
        let immutable =
            fields.into_iter().flat_map(Map::keys).filter(|field| !Self::MUTABLE.contains(&field.as_str())).map(
                |field| Rule {
                    expression: if is_required(spec, field) { same(field) } else { same_if_any(field) },
                    message: format!(
                        "spec.{field} cannot change: of a run only {} may; make another run under another name",
                        Self::MUTABLE.join(" and ")
                    ),
                },
            );
        let cancel = Rule {
            expression: "!(has(oldSelf.cancel) && oldSelf.cancel) || (has(self.cancel) && self.cancel)".to_owned(),
            message: "spec.cancel cannot be taken back; make another run under another name".to_owned(),
        };
        immutable.chain([cancel]).collect()
    }
}

fn is_required(schema: &Value, field: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == field))
}

fn same(field: &str) -> String {
    format!("self.{field} == oldSelf.{field}")
}

fn same_if_any(field: &str) -> String {
    format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {})", same(field))
}

fn written_once(field: &str) -> Rule {
    Rule {
        expression: format!("!has(oldSelf.{field}) || (has(self.{field}) && {})", same(field)),
        message: format!("status.{field} is written once"),
    }
}

/// Every definition, by its file's name.
pub fn all() -> [(&'static str, Value); 3] {
    [
        ("governancepolicies.m87.dev.yaml", definition::<GovernancePolicySpec>()),
        ("toolmanifests.m87.dev.yaml", definition::<ManifestSpec>()),
        ("governedruns.m87.dev.yaml", definition::<GovernedRunSpec>()),
    ]
}

/// Every definition as a file of `crds/`: its name and its text.
///
/// # Errors
/// None that is known: a definition always has a text.
pub fn files() -> Result<Vec<(String, String)>, serde_yaml::Error> {
    let text =
        |definition: &Value| serde_yaml::to_string(definition).map(|yaml| format!("# generated by m87 gen\n{yaml}"));
    all().iter().map(|(name, definition)| Ok(((*name).to_owned(), text(definition)?))).collect()
}

/// The name of a kind's definition.
pub fn name<S: Served>() -> String {
    format!("{}.{GROUP}", S::PLURAL)
}

/// What [`SCHEMA_HASH`] says on the definition of this program.
pub fn schema_hash<S: Served>() -> String {
    // A definition always has a canonical text.
    compute_hash(&body::<S>()).unwrap_or_default()
}

/// The definition of a kind.
pub fn definition<S: Served>() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name::<S>(),
            "annotations": {
                SCHEMA_HASH: schema_hash::<S>(),
                // Helm leaves it, and so every object of it, where it is.
                "helm.sh/resource-policy": "keep",
            },
            "labels": {"app.kubernetes.io/name": "m87", "app.kubernetes.io/component": "crds"},
        },
        "spec": body::<S>(),
    })
}

fn body<S: Served>() -> Value {
    let mut version = json!({
        "name": VERSION,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns::<S>(),
        "schema": {"openAPIV3Schema": schema_of::<S>()},
    });
    if let Some(version) = version.as_object_mut().filter(|_| !S::SELECTABLE.is_empty()) {
        let fields = S::SELECTABLE.iter().map(|path| json!({"jsonPath": path}));
        version.insert("selectableFields".to_owned(), fields.collect());
    }
    json!({
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": S::KIND,
            "listKind": format!("{}List", S::KIND),
            "plural": S::PLURAL,
            "singular": S::KIND.to_lowercase(),
            "shortNames": [S::SHORT_NAME],
            "categories": ["m87"],
        },
        "versions": [version],
    })
}

fn columns<S: Served>() -> Vec<Value> {
    let shown = S::COLUMNS.iter().map(|column| {
        let mut shown = json!({"name": column.name, "type": "string", "jsonPath": column.path});
        if let Some(shown) = shown.as_object_mut().filter(|_| column.wide) {
            shown.insert("priority".to_owned(), json!(1));
        }
        shown
    });
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    shown.chain([age]).collect()
}

/// The schema of a whole object, status included.
fn schema_of<S: Served>() -> Value {
    let whole = schema::structural::<S>();
    let part = |name: &str| whole.pointer(name).cloned().unwrap_or_default();
    let mut spec = part("/properties/spec");
    plain(&mut spec);
    let rules = S::spec_rules(&spec);
    enforce(&mut spec, &rules);

    let mut status = S::Status::schema().clone();
    plain(&mut status);
    enforce(&mut status, &S::WRITTEN_ONCE.iter().map(|field| written_once(field)).collect::<Vec<_>>());
    if let Some(status) = status.as_object_mut() {
        // A new object is never taken for one that m87 has seen.
        status.insert("default".to_owned(), json!({"observedGeneration": NEVER_OBSERVED}));
    }
    json!({
        "type": "object",
        "description": S::ABOUT,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    })
}

fn enforce(schema: &mut Value, rules: &[Rule]) {
    if let Some(schema) = schema.as_object_mut().filter(|_| !rules.is_empty()) {
        let rules = rules.iter().map(|rule| json!({"rule": rule.expression, "message": rule.message}));
        schema.insert("x-kubernetes-validations".to_owned(), rules.collect());
    }
}

/// Leaves of a schema only what an API server takes. A default is no part of it: what is not written stays unwritten, so that an
/// object reads back as it was applied.
fn plain(schema: &mut Value) {
    if schema == &Value::Bool(true) {
        *schema = json!({});
    }
    let Some(keywords) = schema.as_object_mut() else { return };
    for dropped in ["$schema", "title", "default", "propertyNames"] {
        keywords.remove(dropped);
    }
    // What is not named is pruned anyway.
    if keywords.get("additionalProperties") == Some(&Value::Bool(false)) {
        keywords.remove("additionalProperties");
    }
    if !keywords.contains_key("type") {
        keywords.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
    }
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        properties.values_mut().for_each(plain);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = keywords.get_mut(inner) {
            plain(inner);
        }
    }
}

#[cfg(test)]
mod tests;
