//! No field is decoration: each field of a spec is read, and each field of a status is written, by a line that is named here.
//!
//! The line is looked for in the source without comments and tests. A new field has no line, a removed reader leaves a line that
//! is not found; either way this fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use m87_api::crd;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const CONSTRAINTS: &str = "src/core/src/gates/constraints.rs";
const MANIFEST: &str = "src/core/src/gates/manifest.rs";
const RESOLVE: &str = "src/core/src/resolve.rs";
const BUDGET: &str = "src/core/src/budget.rs";
const STAGE: &str = "src/worker/src/shim/stage.rs";
const WATCH: &str = "src/worker/src/shim/watch.rs";
const OBSERVE: &str = "src/operator/src/reconcile/run/observe.rs";
const RUN: &str = "src/operator/src/status.rs";
const POLICY_STATUS: &str = "src/operator/src/reconcile/policy.rs";
const MANIFEST_STATUS: &str = "src/operator/src/reconcile/manifest.rs";

/// Where a field is read or written: its path, the file, and what stands there.
const FIELDS: &[(&str, &str, &str)] = &[
    ("GovernancePolicy.spec.constraints.reasoningTrace", CONSTRAINTS, "effective.reasoning_trace"),
    ("GovernancePolicy.spec.constraints.risksAllowed", CONSTRAINTS, "effective.risks_allowed"),
    ("GovernancePolicy.spec.constraints.targetsForbidden", CONSTRAINTS, "rules.targets_forbidden"),
    ("GovernancePolicy.spec.constraints.actorsAllowed", CONSTRAINTS, "rules.actors_allowed"),
    ("GovernancePolicy.spec.constraints.imageTags", MANIFEST, "effective.image_tags"),
    ("GovernancePolicy.spec.autonomyBudget.steps", BUDGET, "Dimension::Steps => self.steps"),
    ("GovernancePolicy.spec.autonomyBudget.toolCalls", BUDGET, "Dimension::ToolCalls => self.tool_calls"),
    ("GovernancePolicy.spec.autonomyBudget.tokens", BUDGET, "Dimension::Tokens => self.tokens"),
    ("GovernancePolicy.spec.autonomyBudget.seconds", BUDGET, "Dimension::Seconds => self.seconds"),
    ("GovernancePolicy.spec.autonomyBudget.externalCalls", BUDGET, "Dimension::ExternalCalls => self.external_calls"),
    ("GovernancePolicy.spec.autonomyBudget.artifactBytes", BUDGET, "Dimension::ArtifactBytes => self.artifact_bytes"),
    ("GovernancePolicy.spec.autonomyBudget.reported", "src/core/src/gates/budget.rs", "budget.reported.contains("),
    ("GovernancePolicy.spec.approvals.autoApprove.riskAtMost", CONSTRAINTS, "auto.risk_at_most"),
    ("GovernancePolicy.spec.approvals.autoApprove.nonHumans", CONSTRAINTS, "auto.non_humans"),
    ("GovernancePolicy.spec.process.bpmn", "src/authority/src/driver/process.rs", "&process.bpmn"),
    ("GovernancePolicy.spec.suspend", OBSERVE, "policy.is_suspended()"),
    ("GovernancePolicy.spec.retention.ttlSecondsAfterSealed", OBSERVE, ".ttl_seconds_after_sealed"),
    ("ToolManifest.spec.tools[].name", RESOLVE, "entry.name"),
    ("ToolManifest.spec.tools[].version", RESOLVE, "Version::parse(&tool.version)"),
    ("ToolManifest.spec.tools[].provides", RESOLVE, "&entry.provides"),
    ("ToolManifest.spec.tools[].actionType", MANIFEST, "tool.entry.action_type"),
    ("ToolManifest.spec.tools[].targetsAllowed", RESOLVE, "self.entry.targets_allowed"),
    ("ToolManifest.spec.tools[].targetFrom.pointer", RESOLVE, "from.pointer"),
    ("ToolManifest.spec.tools[].targetFrom.prefix", RESOLVE, "from.prefix"),
    ("ToolManifest.spec.tools[].riskClass", "src/core/src/case.rs", "entry.risk_class"),
    ("ToolManifest.spec.tools[].reversibility", CONSTRAINTS, "entry.reversibility"),
    ("ToolManifest.spec.tools[].enabled", RESOLVE, "entry.enabled"),
    // Kind and target type are stated in plan and receipt; the operation also decides whether anybody is asked.
    ("ToolManifest.spec.tools[].effects[].kind", "src/core/src/plan.rs", "entry.effects.clone()"),
    ("ToolManifest.spec.tools[].effects[].operation", CONSTRAINTS, "effect.operation"),
    ("ToolManifest.spec.tools[].effects[].targetType", "src/core/src/plan.rs", "entry.effects.clone()"),
    ("ToolManifest.spec.tools[].inputSchema", RESOLVE, "self.entry.input_schema"),
    ("ToolManifest.spec.tools[].run.command.argv", "src/worker/src/exec/tool.rs", "command.argv"),
    ("ToolManifest.spec.tools[].run.command.image", "src/authority/src/contract.rs", "command.image"),
    ("ToolManifest.spec.tools[].run.command.artifact", "src/worker/src/exec/tool.rs", "command.artifact"),
    ("ToolManifest.spec.tools[].run.command.limits.seconds", WATCH, "limits.seconds"),
    ("ToolManifest.spec.tools[].run.command.limits.cpuSeconds", STAGE, "limits.cpu_seconds"),
    ("ToolManifest.spec.tools[].run.command.limits.memoryBytes", STAGE, "limits.memory_bytes"),
    ("ToolManifest.spec.tools[].run.command.limits.outputBytes", STAGE, "limits.output_bytes"),
    ("ToolManifest.spec.tools[].run.command.limits.processes", STAGE, "limits.processes"),
    ("ToolManifest.spec.tools[].validation.argv", "src/worker/src/exec/validation.rs", "validation.argv"),
    ("ToolManifest.spec.tools[].validation.limits.seconds", "src/worker/src/exec/validation.rs", "validation.limits"),
    (
        "ToolManifest.spec.tools[].validation.limits.cpuSeconds",
        "src/worker/src/exec/validation.rs",
        "validation.limits",
    ),
    (
        "ToolManifest.spec.tools[].validation.limits.memoryBytes",
        "src/worker/src/exec/validation.rs",
        "validation.limits",
    ),
    (
        "ToolManifest.spec.tools[].validation.limits.outputBytes",
        "src/worker/src/exec/validation.rs",
        "validation.limits",
    ),
    ("ToolManifest.spec.tools[].validation.limits.processes", "src/worker/src/exec/validation.rs", "validation.limits"),
    ("GovernedRun.spec.policyRef.name", OBSERVE, "spec.policy_ref.name"),
    ("GovernedRun.spec.manifestRef.name", OBSERVE, "spec.manifest_ref.name"),
    ("GovernedRun.spec.proposal.tool", RESOLVE, "proposal.tool"),
    ("GovernedRun.spec.proposal.capability", RESOLVE, "proposal.capability"),
    ("GovernedRun.spec.proposal.actionType", MANIFEST, "proposal.action_type"),
    ("GovernedRun.spec.proposal.target", MANIFEST, "proposal.target"),
    ("GovernedRun.spec.proposal.risk", "src/core/src/case.rs", "proposal.risk"),
    ("GovernedRun.spec.proposal.reasoningTrace", CONSTRAINTS, "proposal.reasoning_trace"),
    ("GovernedRun.spec.proposal.input", "src/core/src/case.rs", "proposal.input"),
    ("GovernedRun.spec.idempotencyKey", OBSERVE, "spec.idempotency_key"),
    ("GovernedRun.spec.deadlineSeconds", OBSERVE, "spec.deadline_seconds"),
    ("GovernedRun.spec.actor.username", OBSERVE, "stamped.username"),
    ("GovernedRun.spec.actor.uid", OBSERVE, "stamped.uid"),
    ("GovernedRun.spec.actor.credentialId", OBSERVE, "stamped.credential_id"),
    ("GovernedRun.spec.suspend", OBSERVE, "GovernedRunSpec::is_suspended"),
    ("GovernedRun.spec.cancel", OBSERVE, "GovernedRunSpec::is_cancelled"),
    ("GovernancePolicy.status.observedGeneration", POLICY_STATUS, "observed_generation: meta.generation"),
    ("GovernancePolicy.status.deployment", POLICY_STATUS, "status.deployment = Some(Deployment {"),
    ("GovernancePolicy.status.proof", POLICY_STATUS, "status.proof = Some(Proof {"),
    ("GovernancePolicy.status.conditions", POLICY_STATUS, "set_conditions(&mut status.conditions"),
    ("ToolManifest.status.observedGeneration", MANIFEST_STATUS, "observed_generation: meta.generation"),
    ("ToolManifest.status.sha256", MANIFEST_STATUS, "status.sha256 = "),
    ("ToolManifest.status.tools", MANIFEST_STATUS, "status.tools = Some(ToolCounts {"),
    ("ToolManifest.status.refused", MANIFEST_STATUS, "status.refused = refused"),
    ("ToolManifest.status.conditions", MANIFEST_STATUS, "&mut status.conditions"),
    ("GovernedRun.status.observedGeneration", RUN, "observed_generation: conditions.subject.generation"),
    ("GovernedRun.status.phase", RUN, "phase: Some(Phase::Sealed)"),
    ("GovernedRun.status.terminal", RUN, "terminal: Some(terminal)"),
    ("GovernedRun.status.reason", RUN, "reason: receipt.reason"),
    ("GovernedRun.status.message", RUN, "message: Some(message)"),
    ("GovernedRun.status.failureClass", RUN, "failure_class: receipt.failure_class"),
    ("GovernedRun.status.effect", RUN, "effect: Some(receipt.effect)"),
    ("GovernedRun.status.planHash", RUN, "plan_hash: receipt.plan_hash"),
    ("GovernedRun.status.decision", RUN, "decision: receipt.decision"),
    ("GovernedRun.status.engine", RUN, "engine: closing.claim"),
    ("GovernedRun.status.gates", RUN, "gates: Some(receipt.gates)"),
    ("GovernedRun.status.usage", RUN, "usage: receipt.usage"),
    ("GovernedRun.status.artifact", RUN, "artifact: receipt.artifact"),
    ("GovernedRun.status.verification", RUN, "verification: receipt.validation"),
    ("GovernedRun.status.receipt", RUN, "receipt: Some(sealed)"),
    ("GovernedRun.status.alreadyDone", RUN, "already_done,"),
    ("GovernedRun.status.conditions", RUN, "conditions: conditions.list"),
];

/// The fields of a spec that hold no fields of their own, and the fields of a status.
fn fields() -> Vec<String> {
    let mut found = Vec::new();
    for (_, definition) in crd::all() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        leaves(&format!("{kind}.spec"), &schema["spec"], &mut found);
        let status = schema["status"]["properties"].as_object().unwrap();
        // A status is made of structs without defaults: whoever writes one of these writes all within it.
        found.extend(status.keys().map(|name| format!("{kind}.status.{name}")));
    }
    found
}

fn leaves(path: &str, schema: &Value, found: &mut Vec<String>) {
    // A limit is one word in two forms.
    let is_limit = schema.pointer("/properties/unlimited").is_some();
    match (schema.get("properties").and_then(Value::as_object), schema.get("items")) {
        (Some(properties), _) if !is_limit => {
            properties.iter().for_each(|(name, inner)| leaves(&format!("{path}.{name}"), inner, found));
        }
        (None, Some(items)) if items.get("properties").is_some() => leaves(&format!("{path}[]"), items, found),
        (_, _) => found.push(path.to_owned()),
    }
}

/// A file's code: no comments, and nothing from its tests on.
fn code(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_field_is_read_or_written_where_it_is_said_to_be() {
    let named: BTreeMap<&str, (&str, &str)> = FIELDS.iter().map(|(path, file, text)| (*path, (*file, *text))).collect();
    assert_eq!(named.len(), FIELDS.len(), "a field is named twice");
    let mut wrong = Vec::new();
    let fields = fields();
    for field in &fields {
        match named.get(field.as_str()) {
            None => wrong.push(format!("{field} is decoration: name its reader, or take it out")),
            Some((file, text)) if !code(file).contains(text) => wrong.push(format!("{field}: {file} has no {text:?}")),
            Some(_) => {}
        }
    }
    wrong.extend(
        named
            .keys()
            .filter(|path| !fields.iter().any(|field| field == *path))
            .map(|path| format!("{path} is no field")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(fields.len() > 80, "{} fields", fields.len());
}
