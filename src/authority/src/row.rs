//! The row of a run: the truth. What is not in it did not happen.
//!
//! `Open → Claimed → Contracted → Dispatched → Closing → Sealed`. The snapshot (the dossier) stands beside it and never
//! changes.

use crate::clock::Wall;
use crate::executor::Handle;
use m87_core::dossier::Dossier;
use m87_core::evidence::{Evidence, ValidationReport};
use m87_core::reason::{Reason, Terminal};
use m87_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A run: what is pinned, and what has happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The snapshot, frozen when the run was opened.
    pub dossier: Arc<Dossier>,
    /// Everything since.
    pub row: Row,
}

/// What has happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Where the run is.
    pub state: State,
    /// What is recorded, each once.
    pub evidence: Evidence,
    /// When the run is ended from outside. It counts from opening: an engine that never answers holds nobody for ever.
    pub deadline: Wall,
    /// Every attempt to run the tool, in order; at most the last one holds.
    pub attempts: Vec<Attempt>,
    /// The artifact as the store has it.
    pub artifact: Option<StoredArtifact>,
    /// Every attempt to validate the artifact, in order.
    pub validations: Vec<Attempt>,
    /// What came of them.
    pub validation: Checking,
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Snapshot taken; perhaps an instance is being started.
    Open(Option<Start>),
    /// Bound to one process instance.
    Claimed(Claim),
    /// A contract was issued and not redeemed.
    Contracted(Claim, Contract),
    /// The contract was redeemed: there may be an effect.
    Dispatched(Claim, Dispatch),
    /// It is settled how the run ends; the evidence is closed.
    Closing(Closing),
    /// The receipt is there.
    Sealed(Closing, Sealed),
}

/// The intent to start an instance, written before the engine is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// In which engine.
    pub engine_id: String,
    /// Of which definition.
    pub definition: Definition,
    /// Goes into the run's reference; an instance without it is not ours.
    pub nonce: String,
}

/// A process as an engine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The engine's key.
    pub key: i64,
    /// The engine's version, from 1.
    pub version: i32,
}

/// The one process instance that a run goes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// In which engine.
    pub engine_id: String,
    /// The engine's key of the instance.
    pub instance_key: i64,
    /// Of which definition.
    pub definition: Definition,
}

/// An issued contract; one attempt may redeem it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    /// Its id.
    pub id: String,
    /// The attempt it is for, from 1.
    pub attempt: u32,
    /// When the first attempt under this run's contract began; the time to start counts from here.
    pub waiting_since: Option<Wall>,
}

/// A process that was let loose: to run the tool, or to validate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// The contract under which it runs.
    pub contract_id: String,
    /// SHA-256 of its token, hex; the token itself is kept nowhere.
    pub token_sha256: String,
    /// When it was made durable.
    pub begun: Wall,
    /// How the executor finds it; `None` until the executor has answered.
    pub handle: Option<Handle>,
    /// True once it holds no longer: its token opens nothing.
    pub void: bool,
}

/// A redeemed contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dispatch {
    /// The contract.
    pub contract_id: String,
    /// The attempt that redeemed it.
    pub attempt: u32,
    /// Born in the redeeming process.
    pub nonce: String,
    /// When.
    pub wall: Wall,
}

/// An artifact as the store computed it while writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredArtifact {
    /// SHA-256, lower-case hex.
    pub sha256: String,
    /// Bytes.
    pub size: i64,
}

/// Where validation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Checking {
    /// Not reported.
    Waiting,
    /// Reported.
    Reported(ValidationReport),
    /// Tried as often as it may be; nobody reported.
    GivenUp,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closing {
    /// The instance that the run went through, if there was one.
    pub claim: Option<Claim>,
    /// What ended it.
    pub ending: Ending,
    /// When: the instant of the receipt.
    pub at: Timestamp,
}

/// What ended a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// The process reached this end event.
    Process(String),
    /// Ended from outside the process, for this reason.
    Interrupted(Reason),
    /// There can be no instance: what is pinned says why.
    Alone,
}

/// The receipt that stands for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sealed {
    /// `compute_hash` of the receipt.
    pub receipt_hash: String,
    /// The terminal.
    pub terminal: Terminal,
    /// Why, unless COMPLETE.
    pub reason: Option<Reason>,
}

impl Row {
    /// A run that was just opened.
    pub fn open(deadline: Wall) -> Self {
        Self {
            state: State::Open(None),
            evidence: Evidence::default(),
            deadline,
            attempts: Vec::new(),
            artifact: None,
            validations: Vec::new(),
            validation: Checking::Waiting,
        }
    }

    /// The instance that the run is or was bound to.
    pub const fn claim(&self) -> Option<&Claim> {
        match &self.state {
            State::Open(_) => None,
            State::Claimed(claim) | State::Contracted(claim, _) | State::Dispatched(claim, _) => Some(claim),
            State::Closing(closing) | State::Sealed(closing, _) => closing.claim.as_ref(),
        }
    }

    /// The receipt, once there is one.
    pub const fn sealed(&self) -> Option<&Sealed> {
        match &self.state {
            State::Sealed(_, sealed) => Some(sealed),
            State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) | State::Closing(_) => {
                None
            }
        }
    }

    /// Whether the contract was redeemed: there may have been an effect.
    pub const fn dispatched(&self) -> bool {
        self.evidence.redeemed.is_some()
    }

    /// The artifact that is to be validated: reported on, stored, and with the hash that was declared for it.
    pub fn to_validate(&self) -> Option<&StoredArtifact> {
        let declared = self.declared_sha256()?;
        self.artifact.as_ref().filter(|stored| stored.sha256 == declared)
    }

    /// The hash that `exec` declared for the artifact.
    pub fn declared_sha256(&self) -> Option<&str> {
        let report = self.evidence.execution.as_ref()?.report.as_ref()?;
        report.artifact.as_ref()?.sha256.as_deref()
    }

    /// The attempt of that number to run the tool.
    pub fn attempt(&self, number: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.number == number)
    }
}

impl State {
    /// The state's name, as stored beside the row and shown.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open(_) => "Open",
            Self::Claimed(_) => "Claimed",
            Self::Contracted(..) => "Contracted",
            Self::Dispatched(..) => "Dispatched",
            Self::Closing(_) => "Closing",
            Self::Sealed(..) => "Sealed",
        }
    }
}
