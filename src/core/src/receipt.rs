//! The receipt: the deterministic, hashed and signed record of one terminal.
//!
//! It is made of a dossier, the recorded evidence and a few facts that only the authority knows. The same three, and the same
//! key, give the same bytes; where it stands in the log is no part of it. A receipt is the predicate of an in-toto statement
//! about the artifact, or about the reason of the failure, and is sealed as DSSE.

mod bundle;
#[cfg(test)]
mod tests;

pub use bundle::{Bundle, Inclusion, Named as Checked, Verification, verify};

use crate::actor::Actor;
use crate::budget::Usage;
use crate::case::Prepared;
use crate::decide::{Effect, GateResults, decide};
use crate::decision::{Decision, decision};
use crate::dossier::{ClockSource, Dossier, Named, Pinned, RunIdentity, Trust};
use crate::effects::EffectSignature;
use crate::evidence::{ContractRecord, Ended, Evidence, Refusal};
use crate::gates;
use crate::json::{Document, JsonError, compute_hash, sha256_hex, to_canonical};
use crate::plan::{PlannedTool, plan};
use crate::reason::{FailureClass, Reason, Terminal};
use crate::sign::{Envelope, SigningKey};
use crate::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a receipt's envelope says it holds.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// What the statement says its predicate is.
pub const PREDICATE_TYPE: &str = "https://m87.dev/receipt/v1";
/// The statement's own type.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// What only the authority knows when it seals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sealing {
    /// The process instance that was claimed; `None` where there was none.
    pub process: Option<Instance>,
    /// When it was sealed.
    pub timestamp: Timestamp,
    /// The name of the key that signs.
    pub key_id: String,
}

/// A process instance, as the engine names it. Keys are 64-bit numbers in decimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Instance {
    /// The engine.
    pub engine_id: String,
    /// The deployed definition.
    pub definition_key: String,
    /// Its version.
    pub version: u32,
    /// The instance.
    pub instance_key: String,
    /// The end event that was reached; `None` if the run was ended from outside.
    pub end_event: Option<String>,
}

/// The receipt itself: the statement's predicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receipt {
    /// `Receipt`.
    pub kind: String,
    /// Raised when the meaning or the fields change.
    pub spec_version: String,
    /// The cluster.
    pub cluster_uid: String,
    /// The tenant.
    pub namespace: Named,
    /// The run, and the identity of its effect.
    pub run: RunIdentity,
    /// Who asked.
    pub actor: Actor,
    /// How far the surroundings could be trusted.
    pub trust: Trust,
    /// Where instants came from.
    pub clock: ClockSource,
    /// How it ended.
    pub terminal: Terminal,
    /// Why; `null` exactly when COMPLETE.
    pub reason: Option<Reason>,
    /// The reason's class.
    pub failure_class: Option<FailureClass>,
    /// The reason for people.
    pub message: String,
    /// Whether the tool may have touched anything.
    pub effect: Effect,
    /// `compute_hash` of everything that was known before.
    pub dossier_hash: String,
    /// `compute_hash` of everything that was recorded since.
    pub evidence_hash: String,
    /// `compute_hash` of the proposal.
    pub proposal_hash: String,
    /// The platform's policy; `null` if there was none.
    pub baseline: Option<Reference>,
    /// The policy; `null` if it was missing.
    pub policy: Option<Reference>,
    /// The manifest; `null` if it was missing.
    pub manifest: Option<Reference>,
    /// The tool that was meant; `null` without a plan.
    pub tool: Option<PlannedTool>,
    /// The plan's hash; `null` where it could not be said what would happen.
    pub plan_hash: Option<String>,
    /// Governance's answer on the plan.
    pub decision: Option<Decision>,
    /// The contract; `null` if none was asked for.
    pub contract: Option<Contract>,
    /// The process instance; `null` where the operator sealed alone.
    pub process: Option<Process>,
    /// What each gate said; `null` where it was not reached.
    pub gates: GateResults,
    /// What was used, and who says so.
    pub usage: Usage,
    /// The artifact; `null` if the tool left none.
    pub artifact: Option<Artifact>,
    /// The hash of reason and message; `null` exactly when COMPLETE.
    pub reason_hash: Option<String>,
    /// How the validation ended; `null` if nobody reported on it.
    pub validation: Option<Ended>,
    /// What the tool does to the world, by its manifest.
    pub effects_expected: Vec<EffectSignature>,
    /// When it was sealed.
    pub timestamp: Timestamp,
    /// The name of the key that signs.
    pub key_id: String,
}

impl Document for Receipt {
    const KIND: &'static str = "Receipt";
    const SPEC_VERSION: &'static str = "1";

    fn says(&self) -> (&str, &str) {
        (&self.kind, &self.spec_version)
    }
}

/// An object that was pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The hash of what it said.
    pub sha256: String,
}

impl<T> From<&Pinned<T>> for Reference {
    fn from(pinned: &Pinned<T>) -> Self {
        Self { name: pinned.name.clone(), uid: pinned.uid.clone(), sha256: pinned.sha256.clone() }
    }
}

/// The contract's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Contract {
    /// Its id; `null` if it was refused.
    pub id: Option<String>,
    /// Why it was refused.
    pub refused: Option<Refusal>,
    /// When the authority answered.
    pub answered_at: Timestamp,
    /// When it was redeemed; from then on there may have been an effect.
    pub redeemed_at: Option<Timestamp>,
}

/// The process and its instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Process {
    /// The BPMN process id.
    pub id: String,
    /// SHA-256 of the deployed bytes.
    pub bpmn_sha256: String,
    /// Its instance.
    pub instance: Instance,
}

/// The artifact's hashes, by who computed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// By `exec`, while it copied what the tool left.
    #[schemars(length(max = 64))]
    pub declared: Option<String>,
    /// By Governance, from the store.
    #[schemars(length(max = 64))]
    pub recomputed: Option<String>,
    /// Bytes.
    pub size: i64,
}

/// The hash of a failure: `compute_hash` of `{"message", "reason"}`. It makes even a failure's receipt backed by something.
pub fn reason_hash(reason: Reason, message: &str) -> Result<String, JsonError> {
    compute_hash(&serde_json::json!({"reason": reason.name(), "message": message}))
}

/// Judges the evidence and makes the receipt.
pub fn make(dossier: &Dossier, evidence: &Evidence, sealing: &Sealing) -> Result<Receipt, JsonError> {
    let verdict = decide(dossier, evidence);
    let plan = plan(dossier);
    let prepared = Prepared::new(dossier);
    let budget = prepared.case().rules.map(|rules| rules.effective.autonomy_budget.clone()).unwrap_or_default();
    let report = evidence.execution.as_ref().and_then(|execution| execution.report.as_ref());
    let process = match (&dossier.process, &sealing.process) {
        (Some(pin), Some(instance)) => {
            Some(Process { id: pin.id.clone(), bpmn_sha256: pin.bpmn_sha256.clone(), instance: instance.clone() })
        }
        (None, _) | (_, None) => None,
    };
    Ok(Receipt {
        kind: Receipt::KIND.to_owned(),
        spec_version: Receipt::SPEC_VERSION.to_owned(),
        cluster_uid: dossier.cluster_uid.clone(),
        namespace: dossier.namespace.clone(),
        run: dossier.run.clone(),
        actor: dossier.actor.clone(),
        trust: dossier.trust,
        clock: dossier.clock,
        terminal: verdict.terminal,
        reason: verdict.reason,
        failure_class: verdict.failure_class,
        effect: verdict.effect,
        dossier_hash: compute_hash(dossier)?,
        evidence_hash: compute_hash(evidence)?,
        proposal_hash: compute_hash(&dossier.proposal)?,
        baseline: dossier.baseline.as_ref().map(Reference::from),
        policy: dossier.policy.as_ref().map(Reference::from),
        manifest: dossier.manifest.as_ref().map(Reference::from),
        tool: plan.as_ref().map(|plan| plan.tool.clone()),
        plan_hash: plan.as_ref().map(|plan| plan.hash().to_owned()),
        decision: plan.as_ref().map(|plan| decision(dossier, plan)),
        contract: evidence.contract.as_ref().map(|contract| contract_of(contract, evidence)),
        process,
        gates: verdict.gates,
        usage: gates::usage(&budget, evidence),
        artifact: report.and_then(|report| report.artifact.as_ref()).map(|artifact| Artifact {
            declared: artifact.sha256.clone(),
            recomputed: evidence.verified.as_ref().and_then(|verified| verified.recomputed.clone()),
            size: artifact.size,
        }),
        reason_hash: verdict.reason.map(|reason| reason_hash(reason, &verdict.message)).transpose()?,
        message: verdict.message,
        validation: evidence
            .verified
            .as_ref()
            .and_then(|verified| verified.validation.as_ref())
            .map(|report| report.ended.clone()),
        effects_expected: plan.map(|plan| plan.effects).unwrap_or_default(),
        timestamp: sealing.timestamp,
        key_id: sealing.key_id.clone(),
    })
}

fn contract_of(contract: &ContractRecord, evidence: &Evidence) -> Contract {
    let redeemed_at = evidence.redeemed.as_ref().map(|redeemed| redeemed.at);
    match contract {
        ContractRecord::Issued { id, at } => {
            Contract { id: Some(id.clone()), refused: None, answered_at: *at, redeemed_at }
        }
        ContractRecord::Refused { cause, at } => {
            Contract { id: None, refused: Some(*cause), answered_at: *at, redeemed_at }
        }
    }
}

impl Receipt {
    /// The receipt's hash: `compute_hash` of the predicate.
    pub fn hash(&self) -> Result<String, JsonError> {
        compute_hash(self)
    }

    /// The facts that only the authority knew, as they stand in the receipt.
    pub fn sealing(&self) -> Sealing {
        Sealing {
            process: self.process.as_ref().map(|process| process.instance.clone()),
            timestamp: self.timestamp,
            key_id: self.key_id.clone(),
        }
    }

    /// Signs it.
    pub fn seal(&self, key: &SigningKey) -> Result<Sealed, JsonError> {
        let text = to_canonical(self)?;
        let subject = to_canonical(&Statement::subject_of(self))?;
        // The canonical text of `Statement::about(self)`, which holds the receipt's own text as it stands.
        let statement = format!(
            r#"{{"_type":"{STATEMENT_TYPE}","predicate":{text},"predicateType":"{PREDICATE_TYPE}","subject":[{subject}]}}"#
        );
        Ok(Sealed {
            hash: sha256_hex(text.as_bytes()),
            envelope: Envelope::seal(PAYLOAD_TYPE, statement.as_bytes(), key),
        })
    }
}

/// A signed receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The receipt's hash: what the log records.
    pub hash: String,
    /// The signed statement.
    pub envelope: Envelope,
}

/// An in-toto statement, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    /// [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub statement_type: String,
    /// What it is about: exactly one thing.
    pub subject: Vec<Subject>,
    /// [`PREDICATE_TYPE`].
    pub predicate_type: String,
    /// The receipt.
    pub predicate: Receipt,
}

/// What a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// `artifact`, or `failure-reason`.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
}

/// A digest by algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    /// SHA-256 in lower-case hex.
    pub sha256: String,
}

impl Statement {
    /// The statement about the artifact of a COMPLETE run, or about the reason of any other.
    pub fn about(receipt: Receipt) -> Self {
        Self {
            statement_type: STATEMENT_TYPE.to_owned(),
            subject: vec![Self::subject_of(&receipt)],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: receipt,
        }
    }

    fn subject_of(receipt: &Receipt) -> Subject {
        let artifact = receipt.artifact.as_ref().and_then(|artifact| artifact.declared.clone());
        let (name, sha256) = match (&receipt.reason_hash, artifact) {
            (Some(reason_hash), _) => ("failure-reason", reason_hash.clone()),
            (None, Some(declared)) => ("artifact", declared),
            // COMPLETE has an artifact, or `decide` would not have said so.
            (None, None) => ("artifact", sha256_hex(b"")),
        };
        Subject { name: name.to_owned(), digest: Digest { sha256 } }
    }
}
