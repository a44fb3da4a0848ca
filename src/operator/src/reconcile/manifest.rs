//! The reconciler of manifests: which tools can be used, and what is wrong with those that cannot. It judges nothing that a run is
//! judged by: it tells beforehand what the gates would say.

use super::Failure;
use super::index::{Index, Key};
use super::queue::Next;
use super::view::{ManifestView, Meta, Read};
use super::write::put_status;
use crate::metrics::Metrics;
use crate::reconcile::index::View;
use kube::Client;
use m87_api::Spec;
use m87_api::conditions::{Finding, READY, STALLED, set_conditions};
use m87_api::status::{RefusedTool, ToolCounts, ToolManifestStatus, to_value};
use m87_authority::clock::Clock;
use m87_core::json::compute_hash;
use m87_core::reason::Reason;
use m87_core::resolve::{Tool, Tools};
use m87_core::time::Timestamp;
use m87_core::tool::ManifestSpec;
use semver::Version;
use std::sync::Arc;

/// Reconciles manifests.
pub struct Manifests {
    /// The API server.
    pub client: Client,
    /// Manifests as they are.
    pub index: Arc<Index<ManifestView>>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Figures.
    pub metrics: Arc<Metrics>,
}

impl Manifests {
    /// Looks at one manifest.
    pub async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(view) = self.index.get(key).filter(|view| !view.meta.deleting) else { return Ok(Next::Await) };
        if view.spec.is_err() {
            self.metrics.unreadable(ManifestSpec::KIND);
        }
        let observed = view.status.clone().map(serde_json::from_value).and_then(Result::ok).unwrap_or_default();
        let status = project(&view.spec, &view.meta, observed, self.clock.now().at);
        let (value, before) = (to_value(&status), view.status.as_ref());
        if before != Some(&value) {
            let written = put_status::<ManifestSpec>(&self.client, &self.metrics, &view.meta, &value).await?;
            if let Some(object) = written {
                self.index.apply(ManifestView::of(object));
            }
        }
        Ok(Next::Await)
    }
}

/// What is said of a manifest.
fn project(spec: &Read<ManifestSpec>, meta: &Meta, observed: ToolManifestStatus, now: Timestamp) -> ToolManifestStatus {
    let mut status = ToolManifestStatus {
        observed_generation: meta.generation,
        sha256: None,
        tools: None,
        refused: Vec::new(),
        conditions: observed.conditions,
    };
    let findings = match spec {
        Err(why) => {
            let finding = |kind, so: bool| Finding::new(kind, so, "Unreadable", why.as_str());
            vec![finding(READY, false), finding(STALLED, true)]
        }
        Ok(spec) => {
            let refused = refused(spec);
            let ready = spec.tools.len().saturating_sub(refused.len());
            let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
            status.tools = Some(ToolCounts { ready: count(ready), refused: count(refused.len()) });
            status.sha256 = compute_hash(spec).ok();
            // The others can be used: it is as ready as it will become without a change.
            let reason = if refused.is_empty() { "AllReady" } else { "SomeRefused" };
            let counts = format!("{ready} tools can be used, {} cannot", refused.len());
            let finding = Finding::new(READY, true, reason, counts + &unversioned(spec));
            status.refused = refused;
            vec![finding]
        }
    };
    set_conditions(&mut status.conditions, meta.generation, now, findings);
    status
}

/// Tools can be used without a semantic version, but then lose against every other where a capability is asked for.
fn unversioned(spec: &ManifestSpec) -> String {
    match spec.tools.iter().find(|tool| Version::parse(&tool.version).is_err()) {
        Some(tool) => {
            format!("; {}: version {:?} is no semantic version and counts as the lowest", tool.name, tool.version)
        }
        None => String::new(),
    }
}

/// The tools that no proposal can use.
fn refused(spec: &ManifestSpec) -> Vec<RefusedTool> {
    let tools = Tools::new(&spec.tools);
    let mut refused = Vec::new();
    for tool in tools.iter() {
        let name = &tool.entry.name;
        // One line for a name, however often it stands there.
        if let Some((reason, message)) = fault(&tools, tool)
            && !refused.iter().any(|known: &RefusedTool| known.name == *name)
        {
            refused.push(RefusedTool { name: name.clone(), reason, message });
        }
    }
    refused
}

/// The first thing that is wrong with a tool, in the order in which the gates would find it.
fn fault(tools: &Tools<'_>, tool: &Tool<'_>) -> Option<(Reason, String)> {
    let entry = tool.entry;
    if tools.named(&entry.name) > 1 {
        return Some((
            Reason::ToolUnknown,
            "more than one tool has this name; nobody can say which is meant".to_owned(),
        ));
    }
    if !entry.enabled {
        return Some((Reason::ToolDisabled, "enabled is false".to_owned()));
    }
    if let Some(error) = tool.schema_error() {
        return Some((Reason::InputInvalid, format!("inputSchema: {error}")));
    }
    if entry.targets_allowed.is_empty() {
        return Some((Reason::TargetNotAllowed, "targetsAllowed is empty: it may touch nothing".to_owned()));
    }
    if let Err(error) = tool.targets() {
        return Some((Reason::TargetNotAllowed, format!("targetsAllowed: {error}")));
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_api::conditions::is_true;
    use m87_core::fixtures;
    use m87_core::tool::ToolEntry;
    use serde_json::json;

    fn meta() -> Meta {
        Meta {
            key: Key { namespace: "n".to_owned(), name: "m".to_owned() },
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            generation: 2,
            created: Timestamp::from_millis(0),
            deleting: false,
        }
    }

    fn tool(name: &str) -> ToolEntry {
        ToolEntry { name: name.to_owned(), ..fixtures::tool() }
    }

    fn say(tools: Vec<ToolEntry>, at: i64) -> ToolManifestStatus {
        project(&Ok(ManifestSpec { tools }), &meta(), ToolManifestStatus::default(), Timestamp::from_millis(at))
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_named_and_stops_no_other() {
        let status = say(
            vec![
                tool("good"),
                ToolEntry { enabled: false, ..tool("off") },
                ToolEntry { input_schema: json!({"pattern": "("}), ..tool("broken") },
                ToolEntry { targets_allowed: vec![], ..tool("nowhere") },
                tool("twice"),
                tool("twice"),
            ],
            0,
        );
        let named: Vec<_> = status.refused.iter().map(|tool| (tool.name.as_str(), tool.reason)).collect();
        assert_eq!(
            named,
            [
                ("off", Reason::ToolDisabled),
                ("broken", Reason::InputInvalid),
                ("nowhere", Reason::TargetNotAllowed),
                ("twice", Reason::ToolUnknown),
            ]
        );
        assert!(is_true(&status.conditions, READY));
    }

    #[test]
    fn time_alone_changes_nothing_and_the_hash_is_that_of_the_spec() {
        let first = say(vec![tool("good")], 0);
        let spec = Ok(ManifestSpec { tools: vec![tool("good")] });
        assert_eq!(project(&spec, &meta(), first.clone(), Timestamp::from_millis(600_000)), first);
        assert_eq!(first.sha256, compute_hash(spec.as_ref().unwrap()).ok());
    }

    #[test]
    fn what_cannot_be_read_stalls() {
        let status = project(
            &Err("spec.tools: no".to_owned()),
            &meta(),
            ToolManifestStatus::default(),
            Timestamp::from_millis(0),
        );
        assert!(is_true(&status.conditions, STALLED) && !is_true(&status.conditions, READY));
    }
}
