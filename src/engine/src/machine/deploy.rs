//! Deployment and the creation of instances.

use std::collections::BTreeMap;

use super::command::{Answer, CreateRequest, Created, DeployedProcess, Deployment, Resource, Target};
use super::compile::read;
use super::event::{DeployedResource, Event};
use super::graph::Kind;
use super::process::{Stop, Walk, reject};
use super::state::{Definition, Stage};
use crate::rejection::RejectionKind;

impl Walk {
    pub(super) fn deploy(&mut self, resources: &[Resource]) -> Result<Answer, Stop> {
        let invalid = |reason: String| reject(RejectionKind::InvalidArgument, reason);
        if resources.is_empty() {
            return invalid("Expected to deploy at least one resource, but none given".to_owned());
        }
        let mut read_resources = Vec::new();
        let mut errors = String::new();
        for resource in resources {
            match read(resource) {
                Ok((xml, ids)) => read_resources.push((resource.name.as_str(), xml, ids)),
                Err(report) => errors.push_str(&report),
            }
        }
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, _, ids) in &read_resources {
            for id in ids {
                if let Some(other) = owners.insert(id, name) {
                    errors.push_str(&format!("Duplicated process id in resources '{other}' and '{name}'\n"));
                }
            }
        }
        if !errors.is_empty() {
            return invalid(format!(
                "Expected to deploy new resources, but encountered the following errors:\n{errors}"
            ));
        }
        // One changed resource gives every one of the call a new version: they were written to go together.
        let unchanged = read_resources.iter().all(|(name, xml, ids)| {
            ids.iter()
                .all(|id| self.state.latest(id).is_some_and(|latest| latest.resource == *name && latest.xml == *xml))
        });
        let key = self.new_key();
        let mut next = key;
        let mut deployed = Vec::new();
        let mut processes = Vec::new();
        for (name, xml, ids) in read_resources {
            let mut of_resource = Vec::new();
            for id in ids {
                let latest = self.state.latest(&id).map(|latest| (latest.key, latest.version));
                let (key, version) = match latest {
                    Some(same) if unchanged => same,
                    other => {
                        next += 1;
                        (next, other.map_or(0, |(_, version)| version).saturating_add(1))
                    }
                };
                let process = DeployedProcess { key, process_id: id, version, resource: name.to_owned() };
                of_resource.push(process.clone());
                processes.push(process);
            }
            if !unchanged {
                deployed.push(DeployedResource { xml, processes: of_resource });
            }
        }
        self.emit(Event::Deployed { key, resources: deployed })?;
        Ok(Answer::Deployed(Deployment { key, processes }))
    }

    pub(super) fn create(&mut self, request: &CreateRequest) -> Result<Answer, Stop> {
        let definition = self.find(&request.target)?;
        let created = Created {
            instance: self.new_key(),
            definition: definition.key,
            process_id: definition.process.id.clone(),
            version: definition.version,
        };
        let root = definition.process.node(&definition.process.id);
        if request.start_at.is_empty() && !matches!(root.map(|root| &root.kind), Some(Kind::Scope { start: Some(_) })) {
            return reject(
                RejectionKind::InvalidState,
                "Expected to create instance of process with none start event, but there is no such event",
            );
        }
        for id in &request.start_at {
            if !definition
                .process
                .node(id)
                .is_some_and(|node| node.scope.is_some() && !matches!(node.kind, Kind::Catch))
            {
                let reason = format!(
                    "Expected to create instance of process with start instructions, but no element that can be started at \
                     has the id '{id}'"
                );
                return reject(RejectionKind::InvalidArgument, reason);
            }
        }
        let key = created.instance;
        self.emit(Event::Entered {
            key,
            parent: None,
            definition: created.definition,
            node: created.process_id.clone(),
            start_at: request.start_at.clone(),
        })?;
        self.set_local(key, request.variables.clone().into_map())?;
        self.todo.push_back((key, Stage::Entering));
        Ok(Answer::Created(created))
    }

    fn find(&self, target: &Target) -> Result<&Definition, Stop> {
        let (found, what) = match target {
            Target::Key(key) => (self.state.definition(*key), format!("with key '{key}'")),
            Target::Latest(id) => (self.state.latest(id), format!("with process ID '{id}'")),
            Target::Version(id, version) => {
                (self.state.version(id, *version), format!("with process ID '{id}' and version '{version}'"))
            }
        };
        found.map_or_else(
            || reject(RejectionKind::NotFound, format!("Expected to find process definition {what}, but none found")),
            Ok,
        )
    }
}
