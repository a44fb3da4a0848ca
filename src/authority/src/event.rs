//! What can happen to a run. Events carry facts that the shell has looked up; [`crate::step`] judges them.

use crate::clock::Now;
use crate::executor::{AttemptKind, Handle};
use crate::row::{Ending, Sealed, Start, StoredArtifact};
use m87_core::evidence::{ExecutionReport, Promoted, Proposed, Refusal, Validated, ValidationReport};
use std::time::Duration;

/// Something that happens to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The engine will be asked to start an instance.
    Start(Start),
    /// An instance has begun and says whose it is.
    Claim(ClaimEvent),
    /// The engine that answers now has this id.
    Engine(String),
    /// The Proposer recorded.
    Proposed(Proposed),
    /// Governance recorded the first two gates.
    Validated(Validated),
    /// The contract is asked for, and judged.
    Contract(ContractEvent),
    /// An attempt is about to be started.
    Begin(BeginEvent),
    /// The executor started it.
    Started(AttemptKind, u32, Handle),
    /// The contract is taken back before it was redeemed.
    TakeBack(Refusal, Now),
    /// `exec` redeems.
    Redeem(RedeemEvent),
    /// `exec` stored the artifact.
    Stored(String, StoredArtifact),
    /// `exec` reports, with its nonce.
    Report(String, Box<ExecutionReport>, Now),
    /// `exec` will never report.
    Lost(Now),
    /// The validating process of that attempt reports.
    Validation(u32, ValidationReport),
    /// No more attempts to validate.
    GiveUpValidation,
    /// Governance recorded the hash it recomputed.
    Verified(Option<String>, Now),
    /// Memory's record, judged.
    Promoted(Promoted),
    /// The run ends.
    Close(Ending, Now),
    /// Its receipt is there.
    Seal(Sealed),
}

/// What `claim-run` knows of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimEvent {
    /// The engine.
    pub engine_id: String,
    /// The instance.
    pub instance_key: i64,
    /// Its definition.
    pub definition_key: i64,
    /// The element that begins.
    pub element_id: String,
    /// From the run's reference.
    pub nonce: String,
}

/// The authority's judgement at Contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractEvent {
    /// The contract's id, if it is issued; derived from the run, the plan and the attempt.
    pub id: String,
    /// The cause, if it is refused.
    pub refusal: Option<Refusal>,
    /// When.
    pub now: Now,
}

/// An attempt, before anything was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginEvent {
    /// What for.
    pub kind: AttemptKind,
    /// From 1; one more than the last.
    pub number: u32,
    /// The contract under which it runs: for the tool, each attempt has its own.
    pub contract_id: String,
    /// SHA-256 of its token, hex.
    pub token_sha256: String,
    /// When.
    pub now: Now,
}

/// A redemption as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedeemEvent {
    /// The attempt whose token asked.
    pub attempt: u32,
    /// The contract it names.
    pub contract_id: String,
    /// Born in the process.
    pub nonce: String,
    /// How long an attempt may take to start.
    pub start_limit: Duration,
    /// When.
    pub now: Now,
}
