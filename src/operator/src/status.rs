//! What is said of a run: a projection of the authority's row, and of nothing else. The same row gives the same status, instants too,
//! so that a status is written only when there is something new to say, and can always be written again.

use crate::reconcile::run::decide::Waiting;
use m87_api::conditions::{
    Finding, POLICY_PINNED, READY, RECEIPT_SEALED, RECONCILING, STALLED, STARTED, SUCCEEDED, Truth, set_condition,
};
use m87_api::status::{AlreadyDone, EngineInstance, Phase, SealedReceipt};
use m87_api::{Condition, GovernedRunStatus};
use m87_authority::row::{Claim, Closing, Row, Run, State};
use m87_core::actor::Attestation;
use m87_core::decision::decision;
use m87_core::dossier::Dossier;
use m87_core::json::JsonError;
use m87_core::plan::plan;
use m87_core::reason::Terminal;
use m87_core::receipt::{Sealing, make};
use m87_core::time::Timestamp;

/// The object that a status is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Its generation.
    pub generation: i64,
    /// When the API server made it.
    pub created: Timestamp,
}

/// What there is to say of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Said<'a> {
    /// Its object cannot be read, or cannot become a run.
    Unusable(&'a str),
    /// It is not opened yet.
    Waiting(Waiting),
    /// It is this run.
    Run {
        /// The row.
        run: &'a Run,
        /// Where its receipt is in the log.
        log_index: Option<u64>,
    },
    /// That run has asked for the same before.
    AlreadyDone {
        /// The first run.
        first: &'a Run,
        /// Where the first run's receipt is in the log.
        log_index: Option<u64>,
    },
}

/// The status of a run.
pub fn status(subject: Subject, said: Said<'_>) -> Result<GovernedRunStatus, JsonError> {
    let conditions = Conditions { subject, list: Vec::new() };
    match said {
        Said::Unusable(why) => Ok(unusable(conditions, why)),
        Said::Waiting(waiting) => Ok(waits(conditions, waiting)),
        Said::Run { run, log_index } => of_row(conditions, run, log_index),
        Said::AlreadyDone { first, log_index } => already_done(conditions, first, log_index),
    }
}

/// Conditions whose instants come from what is recorded, never from a clock.
struct Conditions {
    subject: Subject,
    list: Vec<Condition>,
}

impl Conditions {
    fn say(
        mut self,
        since: Timestamp,
        kind: &'static str,
        status: impl Into<Truth>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        // Nothing was so of an object before there was one: the clocks of two machines differ.
        let since = since.max(self.subject.created);
        set_condition(&mut self.list, self.subject.generation, since, Finding::new(kind, status, reason, message));
        self
    }

    /// Not over, for this reason.
    fn going(self, reason: &str, message: impl Into<String>) -> Self {
        let (message, created) = (message.into(), self.subject.created);
        self.say(created, READY, false, reason, message.clone()).say(created, RECONCILING, true, reason, message).say(
            created,
            SUCCEEDED,
            Truth::Unknown,
            reason,
            "it is not over",
        )
    }
}

fn unusable(conditions: Conditions, why: &str) -> GovernedRunStatus {
    let created = conditions.subject.created;
    let conditions = conditions
        .say(created, READY, false, UNUSABLE, why)
        .say(created, STALLED, true, UNUSABLE, why)
        .say(created, SUCCEEDED, false, UNUSABLE, "it was never opened, and has no receipt");
    GovernedRunStatus {
        observed_generation: conditions.subject.generation,
        phase: Some(Phase::Pending),
        message: Some(why.to_owned()),
        conditions: conditions.list,
        ..GovernedRunStatus::default()
    }
}

/// The reason in conditions of an object that cannot become a run.
pub const UNUSABLE: &str = "Unreadable";

fn waits(conditions: Conditions, waiting: Waiting) -> GovernedRunStatus {
    let (reason, message) = match waiting {
        Waiting::Suspended => ("Suspended", "spec.suspend is true; it is opened once that is taken back"),
        Waiting::PolicySuspended => {
            ("PolicySuspended", "its policy or the baseline is suspended; it is opened once that is taken back")
        }
        Waiting::StoreRestored => (
            "StoreRestored",
            "the operator's store is older than its high-water mark: nothing is opened until somebody accepts it (see /readyz)",
        ),
        Waiting::Capacity => {
            ("AtCapacity", "its namespace has as many open runs as it may; it is opened once one of them is over")
        }
        Waiting::References(_) => (
            "WaitingForReferences",
            "its policy or manifest does not exist yet, or cannot be read; after 60 s it is refused",
        ),
    };
    let conditions = conditions.going(reason, message);
    GovernedRunStatus {
        observed_generation: conditions.subject.generation,
        phase: Some(Phase::Pending),
        message: Some(message.to_owned()),
        conditions: conditions.list,
        ..GovernedRunStatus::default()
    }
}

fn of_row(conditions: Conditions, run: &Run, log_index: Option<u64>) -> Result<GovernedRunStatus, JsonError> {
    let Run { dossier, row } = run;
    let conditions = started(pinned(conditions, dossier), row, dossier.opened_at);
    match &row.state {
        State::Sealed(closing, sealed) => {
            let receipt = SealedReceipt {
                hash: sealed.receipt_hash.clone(),
                log_index: log_index.map_or(0, |index| i64::try_from(index).unwrap_or(i64::MAX)),
            };
            let terminal = (sealed.terminal, sealed.reason.map_or("Complete", |reason| reason.name()));
            over(conditions, run, closing, terminal, receipt)
        }
        State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) | State::Closing(_) => {
            Ok(goes_on(conditions, run))
        }
    }
}

fn goes_on(conditions: Conditions, run: &Run) -> GovernedRunStatus {
    let Run { dossier, row } = run;
    let (phase, message) = match &row.state {
        State::Open(_) => (Phase::Open, "what it refers to is pinned; its process is being started"),
        State::Claimed(_) => (Phase::Claimed, "its process goes through the first gates"),
        State::Contracted(..) => (Phase::Contracted, "it has a contract; its tool is being started"),
        State::Dispatched(..) => (Phase::Dispatched, "its contract is redeemed: the tool runs, or has run"),
        State::Closing(_) => (Phase::Closing, "it is settled how it ends; its receipt is being made"),
        State::Sealed(..) => (Phase::Sealed, "its receipt is in the log"),
    };
    let conditions =
        conditions.going("Running", message).say(dossier.opened_at, RECEIPT_SEALED, false, "Running", "it is not over");
    let plan = plan(dossier);
    GovernedRunStatus {
        observed_generation: conditions.subject.generation,
        phase: Some(phase),
        message: Some(message.to_owned()),
        decision: plan.as_ref().map(|plan| decision(dossier, plan)),
        plan_hash: plan.map(|plan| plan.hash().to_owned()),
        engine: row.claim().map(instance),
        conditions: conditions.list,
        ..GovernedRunStatus::default()
    }
}

fn over(
    conditions: Conditions,
    run: &Run,
    closing: &Closing,
    (terminal, reason): (Terminal, &str),
    sealed: SealedReceipt,
) -> Result<GovernedRunStatus, JsonError> {
    // Made again of the same records: what it says is what was signed. Only signer and process do not matter here.
    let sealing = Sealing { process: None, timestamp: closing.at, key_id: String::new() };
    let receipt = make(&run.dossier, &run.row.evidence, &sealing)?;
    let message = receipt.message.clone();
    let at = closing.at;
    let conditions = conditions.say(at, RECEIPT_SEALED, true, "Sealed", format!("receipt {}", sealed.hash));
    let conditions = match terminal {
        Terminal::Complete => {
            conditions.say(at, READY, true, reason, message.clone()).say(at, SUCCEEDED, true, reason, terminal.name())
        }
        Terminal::Halt | Terminal::RejectManifest | Terminal::Failed | Terminal::RejectVerify => {
            let told = format!("{}: {message}", terminal.name());
            let created = conditions.subject.created;
            conditions.say(created, READY, false, reason, told.clone()).say(at, STALLED, true, reason, told).say(
                at,
                SUCCEEDED,
                false,
                reason,
                terminal.name(),
            )
        }
    };
    Ok(GovernedRunStatus {
        observed_generation: conditions.subject.generation,
        phase: Some(Phase::Sealed),
        terminal: Some(terminal),
        reason: receipt.reason,
        message: Some(message),
        failure_class: receipt.failure_class,
        effect: Some(receipt.effect),
        plan_hash: receipt.plan_hash,
        decision: receipt.decision,
        engine: closing.claim.as_ref().map(instance),
        gates: Some(receipt.gates),
        usage: receipt.usage,
        artifact: receipt.artifact,
        verification: receipt.validation,
        receipt: Some(sealed),
        already_done: None,
        conditions: conditions.list,
    })
}

/// The first run's terminal and receipt; the rest is the first run's own affair.
fn already_done(conditions: Conditions, first: &Run, log_index: Option<u64>) -> Result<GovernedRunStatus, JsonError> {
    let subject = conditions.subject;
    let name = &first.dossier.run.name;
    let already_done = Some(AlreadyDone { name: name.clone(), uid: first.dossier.run.uid.clone() });
    if first.row.sealed().is_none() {
        let message = format!("run {name:?} asks for the same and is not over; nothing is executed for this one");
        let conditions = conditions.going("AlreadyDone", message.clone());
        return Ok(GovernedRunStatus {
            observed_generation: subject.generation,
            phase: Some(Phase::Pending),
            message: Some(message),
            already_done,
            conditions: conditions.list,
            ..GovernedRunStatus::default()
        });
    }
    let mirrored = of_row(conditions, first, log_index)?;
    let message = mirrored.message.unwrap_or_default();
    Ok(GovernedRunStatus {
        phase: mirrored.phase,
        terminal: mirrored.terminal,
        reason: mirrored.reason,
        failure_class: mirrored.failure_class,
        receipt: mirrored.receipt,
        message: Some(format!("already done by run {name:?}: {message}")),
        observed_generation: subject.generation,
        already_done,
        conditions: mirrored.conditions,
        ..GovernedRunStatus::default()
    })
}

fn pinned(conditions: Conditions, dossier: &Dossier) -> Conditions {
    let at = dossier.opened_at;
    match (&dossier.policy, dossier.actor.attestation) {
        (None, _) => conditions.say(at, POLICY_PINNED, false, "PolicyMissing", "there was no such policy"),
        (Some(_), Attestation::Unattested) => conditions.say(
            at,
            POLICY_PINNED,
            true,
            "ActorUnattested",
            "pinned; the actor counts as non-human, since the admission policies were not installed, unchanged and older \
             than the run by 30 s",
        ),
        (Some(_), Attestation::Admission | Attestation::OperatingSystem) => {
            conditions.say(at, POLICY_PINNED, true, "Pinned", "policy, baseline and the tool's entry are pinned by hash")
        }
    }
}

fn started(conditions: Conditions, row: &Row, opened_at: Timestamp) -> Conditions {
    let proposed_at = row.evidence.proposed.as_ref().map_or(opened_at, |proposed| proposed.at);
    match row.claim() {
        Some(claim) => {
            conditions.say(proposed_at, STARTED, true, "Claimed", format!("process instance {}", claim.instance_key))
        }
        None => conditions.say(opened_at, STARTED, false, "NotClaimed", "it is bound to no process instance"),
    }
}

fn instance(claim: &Claim) -> EngineInstance {
    EngineInstance {
        id: claim.engine_id.clone(),
        instance_key: claim.instance_key.to_string(),
        definition_key: claim.definition.key.to_string(),
        version: claim.definition.version,
    }
}

#[cfg(test)]
mod tests;
