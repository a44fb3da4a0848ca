//! The surroundings of the authority that play no part here: files that say what their names promise, room, a mark.

use async_trait::async_trait;
use m87_authority::mark::{HighWaterMark, Kept, Mark, MarkError};
use m87_authority::store::Disk;
use m87_authority::world::{References, ReferencesUnavailable};
use m87_core::dossier::{Dossier, Named, Pinned};
use m87_core::fixtures;
use m87_core::policy::{PolicySpec, ProcessSource};
use m87_core::tool::{ManifestSpec, Run};
use std::sync::atomic::{AtomicBool, Ordering};

/// Policies and manifests.
#[derive(Default)]
pub struct Files {
    /// Whether the drifting policy was read once.
    read: AtomicBool,
}

#[async_trait]
impl References for Files {
    async fn policy(&self, _: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        let mut policy = fixtures::policy();
        match name {
            "policy" | "suspended" => {}
            "missing" => return Ok(None),
            "drifting" if self.read.swap(true, Ordering::SeqCst) => policy.constraints.risks_allowed.clear(),
            "drifting" => {}
            "unapproved" => policy.approvals.auto_approve = None,
            "unproved" => policy.process = Some(ProcessSource { bpmn: "<no process/>".to_owned() }),
            other => panic!("no policy {other:?}"),
        }
        Ok(Some(fixtures::pinned(name, policy)))
    }

    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(None)
    }

    async fn manifest(&self, _: &Named, name: &str) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        let mut tool = fixtures::tool();
        match name {
            "tools" => {}
            "missing" => return Ok(None),
            "disabled" => tool.enabled = false,
            "tagged" => {
                let Run::Command(command) = &mut tool.run;
                command.image = Some("busybox:1.37".to_owned());
            }
            "careless" => tool.input_schema = serde_json::json!({}),
            other => panic!("no manifest {other:?}"),
        }
        Ok(Some(fixtures::pinned(name, ManifestSpec { tools: vec![tool] })))
    }

    async fn suspended(&self, dossier: &Dossier) -> Result<bool, ReferencesUnavailable> {
        Ok(dossier.policy.as_ref().is_some_and(|policy| policy.name == "suspended"))
    }

    async fn bound(&self, namespace: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(namespace.name != "unbound")
    }
}

pub struct Roomy;

impl Disk for Roomy {
    fn free_bytes(&self) -> std::io::Result<u64> {
        Ok(u64::MAX)
    }
}

/// No mark was ever written, and none is read again.
pub struct Unmarked;

#[async_trait]
impl HighWaterMark for Unmarked {
    async fn read(&self, _: &str) -> Result<Kept, MarkError> {
        Ok(Kept::Nothing)
    }

    async fn accept(&self, _: &str, _: &Mark) -> Result<(), MarkError> {
        Ok(())
    }

    fn accepting(&self, _: &str) -> String {
        "nothing".to_owned()
    }

    async fn write(&self, _: &str, _: &Mark) -> Result<(), MarkError> {
        Ok(())
    }

    fn place(&self, _: &str) -> String {
        "nowhere".to_owned()
    }
}
