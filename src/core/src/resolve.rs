//! From a proposal to the one tool it means, and to the target that this tool would really touch.
//!
//! A manifest is indexed once; what a tool's rules compile to (globs, schema) is made when the tool is first meant.

use crate::dossier::{Candidates, Dossier};
use crate::globs::Plainly;
use crate::json;
use crate::proposal::Proposal;
use crate::reason::Reason;
use crate::target::{GlobError, Globs, Of};
use crate::tool::{ManifestSpec, TargetFrom, ToolEntry};
use semver::Version;
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;

/// How large an input may be as canonical JSON, in bytes.
pub const MAX_INPUT: usize = 4096;
/// How many bytes a tool's schema may have as canonical JSON. It is kept with every run of the tool.
const MAX_SCHEMA: usize = 64 << 10;

/// The tools of a manifest, found by name and by capability.
#[derive(Debug)]
pub struct Tools<'m> {
    tools: Vec<Tool<'m>>,
    by_name: HashMap<&'m str, Vec<usize>, Plainly>,
    /// The best first.
    by_capability: HashMap<&'m str, Vec<usize>, Plainly>,
}

/// One tool with its rules.
#[derive(Debug)]
pub struct Tool<'m> {
    /// What the manifest says of it.
    pub entry: &'m ToolEntry,
    targets: OnceLock<Result<Globs, GlobError>>,
    schema: OnceLock<Result<jsonschema::Validator, String>>,
}

/// The tool that a run's proposal means, or why it means none.
pub fn resolve(dossier: &Dossier) -> Result<&ToolEntry, Reason> {
    let manifest = dossier.manifest.as_ref().ok_or(Reason::ManifestMissing)?;
    let tools = Tools::new(&manifest.spec.tools);
    tools.resolve(&dossier.proposal).map(|tool| tool.entry).map_err(Unresolved::reason)
}

/// The entries that a proposal could mean; they are all that a run needs to pin of a manifest.
pub fn candidates(proposal: &Proposal, manifest: &ManifestSpec) -> Candidates {
    let meant = |tool: &&ToolEntry| match named(proposal) {
        Ok(Name::Tool(name)) => tool.name == name,
        Ok(Name::Capability(name)) => tool.provides.iter().any(|provided| provided == name),
        Err(_) => false,
    };
    Candidates { tools: manifest.tools.iter().filter(meant).cloned().collect() }
}

/// Why a proposal means no tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no manifest.
    NoManifest,
    /// Neither a tool nor a capability is named, or both.
    NotNamed,
    /// No tool has the name, or more than one: nobody can say which is meant.
    ToolUnknown,
    /// No tool provides the capability.
    CapabilityUnknown,
    /// What is meant may not be used.
    Disabled,
}

impl Unresolved {
    /// The reason of a run that ends by this.
    pub const fn reason(self) -> Reason {
        match self {
            Self::NoManifest => Reason::ManifestMissing,
            Self::NotNamed => Reason::ToolNotNamed,
            Self::ToolUnknown => Reason::ToolUnknown,
            Self::CapabilityUnknown => Reason::CapabilityUnknown,
            Self::Disabled => Reason::ToolDisabled,
        }
    }
}

enum Name<'p> {
    Tool(&'p str),
    Capability(&'p str),
}

/// A proposal names a tool or a capability: one of them, and not with a blank.
fn named(proposal: &Proposal) -> Result<Name<'_>, Unresolved> {
    match (proposal.tool.as_deref(), proposal.capability.as_deref()) {
        (Some(tool), None) if !tool.trim().is_empty() => Ok(Name::Tool(tool)),
        (None, Some(capability)) if !capability.trim().is_empty() => Ok(Name::Capability(capability)),
        (Some(_), None) | (None, Some(_)) | (None, None) | (Some(_), Some(_)) => Err(Unresolved::NotNamed),
    }
}

impl<'m> Tools<'m> {
    /// Indexes a manifest's entries.
    pub fn new(entries: &'m [ToolEntry]) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>, _> =
            HashMap::with_capacity_and_hasher(entries.len(), Plainly::default());
        let mut by_capability: HashMap<&str, Vec<usize>, _> = HashMap::with_hasher(Plainly::default());
        for (index, entry) in entries.iter().enumerate() {
            by_name.entry(&entry.name).or_default().push(index);
            for capability in &entry.provides {
                by_capability.entry(capability).or_default().push(index);
            }
        }
        for providers in by_capability.values_mut() {
            providers.sort_by_cached_key(|&index| entries.get(index).map(preference));
        }
        let tool = |entry| Tool { entry, targets: OnceLock::new(), schema: OnceLock::new() };
        Self { tools: entries.iter().map(tool).collect(), by_name, by_capability }
    }

    /// Every tool, in the manifest's order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool<'m>> {
        self.tools.iter()
    }

    /// How many tools have that name; where it is not one, nobody can say which is meant.
    pub fn named(&self, name: &str) -> usize {
        self.by_name.get(name).map_or(0, Vec::len)
    }

    /// The tool that a proposal means: by name, or the enabled provider of the capability with the lowest risk, then the
    /// highest version, then the first name.
    pub fn resolve(&self, proposal: &Proposal) -> Result<&Tool<'m>, Unresolved> {
        let meant = match named(proposal)? {
            Name::Tool(name) => match self.by_name.get(name).map(Vec::as_slice) {
                Some([only]) => std::slice::from_ref(only),
                Some(_) | None => return Err(Unresolved::ToolUnknown),
            },
            Name::Capability(name) => self.by_capability.get(name).ok_or(Unresolved::CapabilityUnknown)?.as_slice(),
        };
        let mut tools = meant.iter().filter_map(|&index| self.tools.get(index));
        tools.find(|tool| tool.entry.enabled).ok_or(Unresolved::Disabled)
    }
}

/// What orders the providers of a capability, best first. A version that is no semantic version counts as the lowest.
fn preference(tool: &ToolEntry) -> (crate::risk::Risk, Reverse<Option<Version>>, String) {
    (tool.risk_class, Reverse(Version::parse(&tool.version).ok()), tool.name.clone())
}

impl Tool<'_> {
    /// Globs of what it may touch.
    pub fn targets(&self) -> Result<&Globs, &GlobError> {
        self.targets.get_or_init(|| Globs::new(&self.entry.targets_allowed, Of::Targets)).as_ref()
    }

    /// What is wrong with its schema; `None` if inputs can be checked by it.
    pub fn schema_error(&self) -> Option<&str> {
        self.schema.get_or_init(|| compile(&self.entry.input_schema)).as_ref().err().map(String::as_str)
    }

    /// Whether an input fits its schema, else what is wrong, with the place. Patterns run in linear time; nothing is ever
    /// fetched.
    pub fn check_input(&self, input: &Value) -> Result<(), String> {
        let schema = self.schema.get_or_init(|| compile(&self.entry.input_schema)).as_ref();
        let schema = schema.map_err(|error| format!("the tool's inputSchema cannot be used: {error}"))?;
        if schema.is_valid(input) {
            return Ok(());
        }
        match schema.validate(input) {
            Ok(()) => Ok(()),
            Err(error) => {
                Err(format!("at {:?}: {}", error.instance_path().to_string(), shorten(&error.masked().to_string())))
            }
        }
    }
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    if !schema.is_object() {
        return Err("a schema is an object; write {\"type\": \"object\"} and its properties".to_owned());
    }
    // As its canonical text reads, so that whoever reads it back from a bundle finds the same words.
    let text = json::canonical(schema).map_err(|error| error.to_string())?;
    if text.len() > MAX_SCHEMA {
        return Err(format!("it has {} bytes as canonical JSON; at most {MAX_SCHEMA} are allowed", text.len()));
    }
    let schema = &json::from_canonical::<Value>(text.as_bytes()).map_err(|error| error.to_string())?;
    match schema.get("$schema") {
        None => {}
        Some(Value::String(dialect)) if dialect.trim_end_matches('#') == DIALECT => {}
        Some(other) => return Err(format!("$schema is {other}; leave it out or write {DIALECT:?}")),
    }
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
        .should_ignore_unknown_formats(false)
        .should_validate_formats(true)
        .offline()
        .build(schema)
        .map_err(|error| shorten(&error.to_string()))
}

/// Messages of the schema library can be long; people need their start only.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What the tool would really touch, derived from its input; `None` if there is no string where the target should stand.
pub fn effective_target<'i>(from: &'i TargetFrom, input: &'i Value) -> Option<Cow<'i, str>> {
    let stem = at(input, &from.pointer)?.as_str()?;
    Some(if from.prefix.is_empty() { Cow::Borrowed(stem) } else { Cow::Owned([&from.prefix, stem].concat()) })
}

/// What a JSON pointer points at. Most pointers go through objects by plain names, which needs no copy of them.
fn at<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    let mut names = pointer.split('/');
    if pointer.contains('~') || names.next() != Some("") {
        return value.pointer(pointer);
    }
    let mut at = value;
    for name in names {
        match at {
            Value::Object(members) => at = members.get(name)?,
            Value::Array(_) => return value.pointer(pointer),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        }
    }
    Some(at)
}

/// The size of an input as canonical JSON.
pub fn input_size(input: &Value) -> Result<usize, json::JsonError> {
    json::canonical_size(input)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::fixtures::tool;
    use crate::risk::Risk;
    use serde_json::json;

    fn wanting(capability: &str) -> Proposal {
        Proposal { capability: Some(capability.to_owned()), ..Proposal::default() }
    }

    fn provider(name: &str, version: &str, risk: Risk) -> ToolEntry {
        ToolEntry {
            name: name.to_owned(),
            version: version.to_owned(),
            risk_class: risk,
            provides: vec!["sum".to_owned()],
            ..tool()
        }
    }

    #[test]
    fn a_capability_means_the_lowest_risk_then_the_highest_version_then_the_first_name() {
        let mut entries = vec![
            provider("e", "9.0.0", Risk::High),
            provider("d", "not a version", Risk::Low),
            provider("c", "1.9.0", Risk::Low),
            provider("b", "1.10.0", Risk::Low),
            provider("a", "1.10.0", Risk::Low),
        ];
        for expected in ["a", "b", "c", "d", "e"] {
            let tools = Tools::new(&entries);
            let index = entries
                .iter()
                .position(|entry| entry.name == tools.resolve(&wanting("sum")).unwrap().entry.name)
                .unwrap();
            assert_eq!(entries[index].name, expected);
            entries[index].enabled = false;
        }
        assert_eq!(Tools::new(&entries).resolve(&wanting("sum")).unwrap_err(), Unresolved::Disabled);
        assert_eq!(Tools::new(&entries).resolve(&wanting("other")).unwrap_err(), Unresolved::CapabilityUnknown);
    }

    #[test]
    fn a_proposal_names_one_tool_or_one_capability() {
        let entries = [
            tool(),
            ToolEntry { name: "twice".to_owned(), ..tool() },
            ToolEntry { name: "twice".to_owned(), ..tool() },
        ];
        let tools = Tools::new(&entries);
        let asking = |tool: Option<&str>, capability: Option<&str>| {
            let proposal = Proposal {
                tool: tool.map(str::to_owned),
                capability: capability.map(str::to_owned),
                ..Proposal::default()
            };
            tools.resolve(&proposal).map(|tool| tool.entry.name.clone())
        };
        assert_eq!(asking(Some("totals"), None), Ok("totals".to_owned()));
        for (tool, capability) in [(None, None), (Some(""), None), (None, Some(" ")), (Some("totals"), Some("x"))] {
            assert_eq!(asking(tool, capability), Err(Unresolved::NotNamed));
        }
        assert_eq!(asking(Some("nope"), None), Err(Unresolved::ToolUnknown));
        assert_eq!(asking(Some("twice"), None), Err(Unresolved::ToolUnknown));
    }

    #[test]
    fn only_what_could_be_meant_is_pinned() {
        let manifest =
            ManifestSpec { tools: vec![tool(), provider("a", "1.0.0", Risk::Low), provider("b", "1.0.0", Risk::Low)] };
        let names = |proposal: &Proposal| {
            candidates(proposal, &manifest).tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&wanting("sum")), ["a", "b"]);
        assert_eq!(names(&Proposal { tool: Some("totals".to_owned()), ..Proposal::default() }), ["totals"]);
        assert!(names(&Proposal::default()).is_empty());
    }

    #[test]
    fn the_effective_target_is_the_prefix_and_a_string_of_the_input() {
        let from = |pointer: &str, prefix: &str| TargetFrom { pointer: pointer.to_owned(), prefix: prefix.to_owned() };
        let input = json!({"out": {"name": "a.json", "n": 1}});
        assert_eq!(effective_target(&from("/out/name", "reports/"), &input).as_deref(), Some("reports/a.json"));
        assert_eq!(effective_target(&from("/out/name", ""), &input).as_deref(), Some("a.json"));
        for absent in ["/out/n", "/out", "/nope", "out/name", "/out/name/0"] {
            assert_eq!(effective_target(&from(absent, ""), &input), None, "{absent}");
        }
    }

    #[test]
    fn a_pointer_means_what_it_means_elsewhere() {
        let value = json!({"": {"": 1}, "a": {"b": [{"c": 2}, [3]], "0": 4}, "~": 5, "x/y": {"~1": 6}});
        for pointer in [
            "",
            "/",
            "//",
            "/a",
            "/a/b",
            "/a/b/0/c",
            "/a/b/1/0",
            "/a/b/01",
            "/a/b/+0",
            "/a/b/9",
            "/a/b/c",
            "/a/0",
            "a",
            "a/b",
            "/~0",
            "/~",
            "/x~1y/~01",
            "/x~1y",
            "/a/b/",
            "/a/b/0/c/d",
        ] {
            assert_eq!(at(&value, pointer), value.pointer(pointer), "{pointer:?}");
        }
    }

    #[test]
    fn a_broken_or_remote_schema_refuses_every_input() {
        for schema in [
            json!(null),
            json!("object"),
            json!(true),
            json!({"type": 7}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"pattern": "(?=look)ahead"}),
            json!({"pattern": "("}),
            json!({"$schema": "https://example.com/own-dialect", "type": "object"}),
            json!({"description": "x".repeat(MAX_SCHEMA)}),
        ] {
            let entry = ToolEntry { input_schema: schema.clone(), ..tool() };
            let entries = [entry];
            let tools = Tools::new(&entries);
            let tool = tools.resolve(&Proposal { tool: Some("totals".to_owned()), ..Proposal::default() }).unwrap();
            let error = tool.check_input(&json!({"out": "x"})).expect_err(&schema.to_string());
            assert!(error.contains("inputSchema"), "{schema}: {error}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"not": {"$ref": "#"}}),
            json!({"$dynamicRef": "#"}),
            json!({"if": {"$ref": "#"}, "then": {"$ref": "#"}}),
        ] {
            let entries = [ToolEntry { input_schema: schema, ..tool() }];
            let tools = Tools::new(&entries);
            let tool = tools.resolve(&Proposal { tool: Some("totals".to_owned()), ..Proposal::default() }).unwrap();
            let _ = tool.check_input(&json!({"out": "x"}));
        }
    }

    #[test]
    fn a_pattern_that_explodes_elsewhere_is_linear_here() {
        let entry = ToolEntry { input_schema: json!({"properties": {"s": {"pattern": "^(a+)+$"}}}), ..tool() };
        let entries = [entry];
        let tools = Tools::new(&entries);
        let tool = tools.resolve(&Proposal { tool: Some("totals".to_owned()), ..Proposal::default() }).unwrap();
        assert!(tool.check_input(&json!({"s": format!("{}!", "a".repeat(4000))})).is_err());
    }
}
