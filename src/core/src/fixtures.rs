//! A dossier and the evidence of a run that goes well, for tests; each test departs from them where it must.

use crate::actor::{Actor, Attestation};
use crate::budget::{AutonomyBudget, Dimension, Limit};
use crate::dossier::{Candidates, ClockSource, Dossier, Named, Pinned, ProcessPin, RunIdentity, Trust};
use crate::effects::{EffectSignature, Operation};
use crate::evidence::{
    ContractRecord, DeclaredArtifact, Ended, Evidence, Execution, ExecutionReport, Measured, Promoted, Proposed,
    Redeemed, Validated, ValidationReport, Verified,
};
use crate::json::{Document, compute_hash, sha256_hex};
use crate::policy::{Approvals, AutoApprove, Constraints, ImageTags, PolicySpec, Requirement};
use crate::proposal::Proposal;
use crate::risk::Risk;
use crate::time::Timestamp;
use crate::tool::{Command, CommandLimits, Reversibility, Run, TargetFrom, ToolEntry, Validation};
use serde::Serialize;
use serde_json::json;

/// 2026-01-31T12:00:00Z, and some seconds.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_769_860_800_000).plus_millis(seconds * 1000)
}

/// What `value` is pinned as.
pub fn pinned<T: Serialize>(name: &str, value: T) -> Pinned<T> {
    Pinned {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        sha256: compute_hash(&value).unwrap_or_default(),
        spec: value,
    }
}

/// A tool that writes a report; its input `{"out": NAME}` says which.
pub fn tool() -> ToolEntry {
    let limits =
        CommandLimits { seconds: 10, cpu_seconds: 10, memory_bytes: 1 << 28, output_bytes: 1 << 20, processes: 16 };
    ToolEntry {
        name: "totals".to_owned(),
        version: "1.0.0".to_owned(),
        provides: vec!["sum-payments".to_owned()],
        action_type: "report.write".to_owned(),
        targets_allowed: vec!["reports/*".to_owned()],
        target_from: TargetFrom { pointer: "/out".to_owned(), prefix: "reports/".to_owned() },
        risk_class: Risk::Low,
        reversibility: Reversibility::Reversible,
        enabled: true,
        effects: vec![EffectSignature {
            kind: "file".to_owned(),
            operation: Operation::Create,
            target_type: "report".to_owned(),
        }],
        input_schema: json!({
            "type": "object",
            "required": ["out"],
            "additionalProperties": false,
            "properties": {"out": {"type": "string", "pattern": "^[a-z.]+$"}, "rows": {"type": "integer"}}
        }),
        run: Run::Command(Command {
            argv: vec![
                "/bin/sh".to_owned(),
                "-c".to_owned(),
                "cp \"$M87_INPUT\" \"$M87_OUTPUT/report.json\"".to_owned(),
            ],
            image: None,
            artifact: "report.json".to_owned(),
            limits,
        }),
        validation: Validation { argv: vec!["/bin/true".to_owned()], limits },
    }
}

/// A policy that takes low and medium risk, 20 steps, and approves in advance up to medium.
pub fn policy() -> PolicySpec {
    PolicySpec {
        constraints: Constraints {
            reasoning_trace: Requirement::Required,
            risks_allowed: vec![Risk::Low, Risk::Medium],
            targets_forbidden: vec!["prod/**".to_owned()],
            actors_allowed: vec!["*".to_owned()],
            image_tags: ImageTags::Refused,
        },
        autonomy_budget: AutonomyBudget {
            steps: Some(Limit::Limit(20)),
            tool_calls: Some(Limit::Limit(1)),
            tokens: None,
            seconds: Some(Limit::Limit(60)),
            external_calls: None,
            artifact_bytes: Some(Limit::Limit(1 << 20)),
            reported: vec![Dimension::Steps],
        },
        approvals: Approvals { auto_approve: Some(AutoApprove { risk_at_most: Risk::Medium, non_humans: vec![] }) },
        process: None,
    }
}

/// A person.
pub fn actor() -> Actor {
    Actor {
        username: "alice".to_owned(),
        uid: String::new(),
        credential_id: None,
        attestation: Attestation::OperatingSystem,
    }
}

/// A proposal that every gate passes.
pub fn proposal() -> Proposal {
    Proposal {
        tool: Some("totals".to_owned()),
        capability: None,
        action_type: Some("report.write".to_owned()),
        target: Some("reports/january.json".to_owned()),
        risk: Some("low".to_owned()),
        reasoning_trace: Some("The books of January are to be closed.".to_owned()),
        input: Some(json!({"out": "january.json", "rows": 3})),
    }
}

/// A dossier that every gate passes.
pub fn dossier() -> Dossier {
    Dossier {
        kind: Dossier::KIND.to_owned(),
        spec_version: Dossier::SPEC_VERSION.to_owned(),
        cluster_uid: "cluster".to_owned(),
        namespace: Named { name: "default".to_owned(), uid: "uid-of-default".to_owned() },
        run: RunIdentity {
            name: "january".to_owned(),
            uid: "uid-of-january".to_owned(),
            idempotency_key: "january".to_owned(),
        },
        actor: actor(),
        trust: Trust::Local,
        clock: ClockSource::System,
        opened_at: at(0),
        proposal: proposal(),
        policy: Some(pinned("policy", policy())),
        baseline: None,
        manifest: Some(pinned("tools", Candidates { tools: vec![tool()] })),
        process: Some(ProcessPin { id: "m87-governed-loop".to_owned(), bpmn_sha256: sha256_hex(b"bpmn") }),
    }
}

/// The evidence of [`dossier`]'s run, which is COMPLETE.
pub fn evidence() -> Evidence {
    evidence_of(&dossier())
}

/// Evidence with which a dossier that passes the first two gates is COMPLETE.
pub fn evidence_of(dossier: &Dossier) -> Evidence {
    let artifact = b"{\"total\":3}";
    let sha256 = sha256_hex(artifact);
    let size = i64::try_from(artifact.len()).unwrap_or_default();
    let report = ExecutionReport {
        ended: Ended::Exited(0),
        measured: Measured { tool_calls: 1, seconds: 1, artifact_bytes: size },
        reported: Some(json!({"steps": 3})),
        artifact: Some(DeclaredArtifact { sha256: Some(sha256.clone()), size }),
        output: String::new(),
    };
    Evidence {
        proposed: Some(Proposed {
            proposal_hash: compute_hash(&dossier.proposal).unwrap_or_default(),
            trace_hash: compute_hash(&dossier.proposal.reasoning_trace).unwrap_or_default(),
            at: at(1),
        }),
        validated: Some(Validated { constraints_ok: true, tool_in_manifest: true, drifted: false, at: at(2) }),
        contract: Some(ContractRecord::Issued { id: "contract".to_owned(), at: at(3) }),
        redeemed: Some(Redeemed { attempt: 1, at: at(4) }),
        execution: Some(Execution { report: Some(report), at: at(5) }),
        verified: Some(Verified {
            recomputed: Some(sha256),
            validation: Some(ValidationReport { ended: Ended::Exited(0), output: String::new() }),
            at: at(6),
        }),
        promoted: Some(Promoted { accepted: true, at: at(7) }),
        interrupted: None,
    }
}
