//! The one way in which runs end: it is settled how, the evidence is closed, and one receipt is made of it, signed and
//! logged. Whoever comes second gets the stored one.

use crate::authority::{Authority, Failed, unavailable};
use crate::client::{AuthorityError, Denial};
use crate::event::Event;
use crate::row::{Claim, Closing, Ending, Run, Sealed, State};
use crate::step::{Step, step};
use crate::store::{Loaded, StoredReceipt, With};
use m87_core::json::{JsonError, to_canonical};
use m87_core::log::LogEntry;
use m87_core::reason::Reason;
use m87_core::receipt::{Instance, Sealing, make};
use std::sync::PoisonError;

/// How often sealing is judged anew because somebody else changed the run meanwhile.
const CONFLICTS: usize = 64;

impl Authority {
    /// Ends a run, if it has not ended yet. Returns what stands in its receipt, whoever ended it.
    pub async fn end(&self, uid: &str, ending: Ending) -> Result<Sealed, AuthorityError> {
        let now = self.now();
        let close = |loaded: &Loaded| match self.may_be_lost(loaded) {
            // Not even HALT may be said of it: that would say that nothing happened.
            true => Event::Close(Ending::Interrupted(Reason::OutcomeUnknown), now),
            false => Event::Close(ending.clone(), now),
        };
        self.apply(uid, close).await?;
        self.seal(uid).await
    }

    /// Makes the receipt of a run of which it is settled how it ends.
    pub(crate) async fn seal(&self, uid: &str) -> Result<Sealed, AuthorityError> {
        let mut cleared = false;
        for _ in 0..CONFLICTS {
            let loaded = self.load(uid).await?;
            let closing = match &loaded.run.row.state {
                State::Sealed(_, sealed) => {
                    // Whoever sealed it may not have lived, or not have been answered, to say so.
                    self.outbox.grown(&loaded.run.dossier.namespace.uid);
                    return Ok(sealed.clone());
                }
                State::Closing(closing) => closing.clone(),
                State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) => {
                    return Err(AuthorityError::refused(Denial::OutOfOrder, "it is not settled how the run ends"));
                }
            };
            // Nothing of the run goes on once its receipt is there. A process that cannot be ended (its node is lost) does not
            // keep the run open for ever: the executor says so in bounded time, and its token opens nothing any more.
            if !std::mem::replace(&mut cleared, true) {
                self.discard(&loaded.run).await;
            }
            match self.try_seal(&loaded, &closing).await {
                Ok(sealed) => return Ok(sealed),
                Err(Failed::Conflict) => {}
                Err(Failed::Other(error)) => return Err(error),
            }
        }
        Err(AuthorityError::Unavailable(format!("run {uid} is being changed by others")))
    }

    async fn try_seal(&self, loaded: &Loaded, closing: &Closing) -> Result<Sealed, Failed> {
        let unmade = |error: JsonError| Failed::Other(unavailable(format_args!("the receipt {error}")));
        let Run { dossier, row } = &loaded.run;
        let uid = &dossier.run.uid;
        let sealing =
            Sealing { process: instance(closing), timestamp: closing.at, key_id: self.key.verifying_key().key_id() };
        let receipt = make(dossier, &row.evidence, &sealing).map_err(unmade)?;
        let (terminal, reason) = (receipt.terminal, receipt.reason);
        let made = receipt.seal(&self.key).map_err(unmade)?;
        let sealed = Sealed { receipt_hash: made.hash.clone(), terminal, reason };
        let stored = StoredReceipt { hash: made.hash.clone(), envelope: to_canonical(&made.envelope).map_err(unmade)? };
        let after = match step(&loaded.run, &Event::Seal(sealed.clone())) {
            Step::To(row) => *row,
            Step::Unchanged => return Err(Failed::Conflict),
            Step::Refuse(denial, message) => return Err(Failed::Other(AuthorityError::refused(denial, message))),
        };
        let entry = LogEntry::sealed(uid, &made.hash);
        let after = self.commit(loaded, after, With::Receipt(&stored, &entry)).await?;
        self.after_seal(&after);
        Ok(sealed)
    }

    /// What follows a receipt. None of it is waited for, and none can fail the sealing: what is missed is done at the next start.
    fn after_seal(&self, after: &Loaded) {
        let Run { dossier, row } = &after.run;
        self.changed(&dossier.run.uid, &after.run);
        if let State::Sealed(closing, _) = &row.state
            && !matches!(closing.ending, Ending::Process(_))
            && let Some(claim) = &closing.claim
        {
            self.strays.lock().unwrap_or_else(PoisonError::into_inner).push(claim.clone());
        }
        self.outbox.grown(&dossier.namespace.uid);
    }

    /// Instances whose runs were ended from outside, to be ended too. Each is given out once.
    pub(crate) fn take_strays(&self) -> Vec<Claim> {
        std::mem::take(&mut self.strays.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The instance that the run went through, as the receipt names it.
fn instance(closing: &Closing) -> Option<Instance> {
    let claim = closing.claim.as_ref()?;
    Some(Instance {
        engine_id: claim.engine_id.clone(),
        definition_key: claim.definition.key.to_string(),
        version: u32::try_from(claim.definition.version).unwrap_or_default(),
        instance_key: claim.instance_key.to_string(),
        end_event: match &closing.ending {
            Ending::Process(end_event) => Some(end_event.clone()),
            Ending::Interrupted(_) | Ending::Alone => None,
        },
    })
}
