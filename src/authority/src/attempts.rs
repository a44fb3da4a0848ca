//! Looking after the processes that run tools and validate artifacts: begun durably, started once, replaced only while
//! nothing was redeemed, given up in time.

use crate::authority::{Authority, Failed, unavailable};
use crate::callers::token_sha256;
use crate::client::{AuthorityError, Credentials, Denial};
use crate::clock::Wall;
use crate::contract::{contract_id, surroundings, time_limits};
use crate::event::{BeginEvent, Event};
use crate::executor::{AttemptKind, AttemptName, AttemptOrder};
use crate::row::{Attempt, Contract, Dispatch, Run, State};
use crate::step::attempts::{TOOL_ATTEMPTS, VALIDATION_ATTEMPTS};
use crate::store::Loaded;
use m87_core::evidence::{Refusal, ValidationReport};
use std::time::Duration;

/// Whether a new attempt may be begun now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayBegin {
    /// Yes: the runner asks for it.
    Allowed,
    /// No: only what was begun is looked after.
    NotNow,
}

/// What to do about the attempt of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tend {
    /// Nothing yet.
    Wait,
    /// Begin the attempt of this number.
    Begin(u32),
    /// Take the contract back.
    TakeBack(Refusal),
}

/// What is known of an attempt's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alive {
    Yes,
    No,
    /// The executor does not know.
    Unknown,
}

/// Decides about a contract that was not redeemed. `current` is its attempt, if one was begun, and what is known of it; an
/// attempt without a handle was never started for certain, and counts as dead.
fn tend(contract: &Contract, current: Option<Alive>, waited: Duration, limit: Duration, start: MayBegin) -> Tend {
    let is_late = waited > limit;
    match (current, start) {
        (None, MayBegin::Allowed) => Tend::Begin(contract.attempt),
        (None, MayBegin::NotNow) => Tend::Wait,
        (Some(Alive::Yes | Alive::Unknown | Alive::No), _) if is_late => Tend::TakeBack(Refusal::NeverStarted),
        (Some(Alive::Yes | Alive::Unknown), _) => Tend::Wait,
        (Some(Alive::No), _) if contract.attempt >= TOOL_ATTEMPTS => Tend::TakeBack(Refusal::ExecutorFailed),
        (Some(Alive::No), MayBegin::Allowed) => Tend::Begin(contract.attempt.saturating_add(1)),
        (Some(Alive::No), MayBegin::NotNow) => Tend::Wait,
    }
}

impl Authority {
    /// Looks after the attempt to run the tool, as far as the run is there. Returns the run as it then is.
    pub(crate) async fn tend_tool(&self, uid: &str, start: MayBegin) -> Result<Loaded, AuthorityError> {
        let live = self.live(uid);
        let _one_at_a_time = match start {
            MayBegin::Allowed => live.attempts.lock().await,
            // Somebody is at it: starting a process may take long, and other runs wait to be looked at.
            MayBegin::NotNow => match live.attempts.try_lock() {
                Ok(guard) => guard,
                Err(_) => return self.load(uid).await,
            },
        };
        let loaded = self.load(uid).await?;
        match &loaded.run.row.state {
            State::Contracted(_, contract) => self.tend_contract(&loaded, contract, start).await?,
            State::Dispatched(_, dispatch) if loaded.run.row.evidence.execution.is_none() => {
                self.tend_dispatch(&loaded, dispatch).await?;
            }
            State::Open(_) | State::Claimed(_) | State::Dispatched(..) | State::Closing(_) | State::Sealed(..) => {
                return Ok(loaded);
            }
        }
        self.load(uid).await
    }

    async fn tend_contract(&self, loaded: &Loaded, contract: &Contract, start: MayBegin) -> Result<(), AuthorityError> {
        let now = self.now();
        let current = match loaded.run.row.attempt(contract.attempt) {
            Some(attempt) => Some(self.is_alive(attempt).await),
            None => None,
        };
        let waited = contract.waiting_since.map_or(Duration::ZERO, |since| now.wall.since(since));
        match tend(contract, current, waited, self.options.start_limit, start) {
            Tend::Wait => Ok(()),
            Tend::TakeBack(cause) => {
                self.apply_unless_changed(loaded, &self.take_back(loaded, cause, now)).await?;
                self.discard_void(loaded).await;
                Ok(())
            }
            Tend::Begin(number) => {
                let Some(id) = contract_id(&loaded.run.dossier, number) else {
                    let event = self.take_back(loaded, Refusal::GatesRefuse, now);
                    return self.apply_unless_changed(loaded, &event).await.map(drop);
                };
                self.begin(loaded, AttemptKind::Tool, number, id).await?;
                self.discard_void(loaded).await;
                Ok(())
            }
        }
    }

    /// A redeemed attempt is waited for as long as its process lives, and its limit with a margin has not passed.
    async fn tend_dispatch(&self, loaded: &Loaded, dispatch: &Dispatch) -> Result<(), AuthorityError> {
        let limit = time_limits(&loaded.run.dossier).map_or(Duration::ZERO, |(tool, _)| tool);
        let is_late = self.now().wall.since(dispatch.wall) > limit.saturating_add(self.options.report_margin);
        let alive = match loaded.run.row.attempt(dispatch.attempt) {
            // It redeemed before the executor had answered: it lives until the time is up.
            Some(Attempt { handle: None, .. }) => Alive::Unknown,
            Some(attempt) => self.is_alive(attempt).await,
            None => Alive::No,
        };
        match (alive, is_late) {
            (Alive::No, _) | (_, true) => {
                // Who has changed it meanwhile may have heard of the process after all: the next look judges anew.
                if self.apply_unless_changed(loaded, &Event::Lost(self.now())).await? {
                    self.discard(&loaded.run).await;
                }
                Ok(())
            }
            (Alive::Yes | Alive::Unknown, false) => Ok(()),
        }
    }

    /// Looks after validation. It has no effect on the world, so it may be tried again.
    pub(crate) async fn tend_validation(&self, uid: &str) -> Result<Loaded, AuthorityError> {
        let live = self.live(uid);
        let _one_at_a_time = live.attempts.lock().await;
        let loaded = self.load(uid).await?;
        let row = &loaded.run.row;
        let State::Dispatched(_, dispatch) = &row.state else { return Ok(loaded) };
        if row.validation != crate::row::Checking::Waiting || row.to_validate().is_none() {
            return Ok(loaded);
        }
        let last = row.validations.last();
        if let Some((number, report)) = self.verdict(last).await {
            self.apply_unless_changed(&loaded, &Event::Validation(number, report)).await?;
            return self.load(uid).await;
        }
        let limit = time_limits(&loaded.run.dossier).map_or(Duration::ZERO, |(_, validation)| validation);
        let longest = limit.saturating_add(self.options.start_limit).saturating_add(self.options.report_margin);
        let is_over = match last {
            None => true,
            Some(attempt) => is_later(self.now().wall, attempt, longest) || self.is_alive(attempt).await == Alive::No,
        };
        if !is_over {
            return Ok(loaded);
        }
        let number = last.map_or(1, |last| last.number.saturating_add(1));
        if number > VALIDATION_ATTEMPTS {
            self.apply_unless_changed(&loaded, &Event::GiveUpValidation).await?;
        } else {
            self.begin(&loaded, AttemptKind::Validation, number, dispatch.contract_id.clone()).await?;
        }
        self.discard_void(&loaded).await;
        self.load(uid).await
    }

    /// Begins an attempt durably, then has it started, then writes down how to find it. Should the executor fail, the attempt
    /// stays without a handle, and the next look replaces it.
    async fn begin(
        &self,
        loaded: &Loaded,
        kind: AttemptKind,
        number: u32,
        contract_id: String,
    ) -> Result<(), AuthorityError> {
        let dossier = &loaded.run.dossier;
        let token = self.world.entropy.secret().map_err(unavailable)?;
        let event = Event::Begin(BeginEvent {
            kind,
            number,
            contract_id: contract_id.clone(),
            token_sha256: token_sha256(&token),
            now: self.now(),
        });
        match self.apply_to(loaded, &event).await {
            Ok(_) => {}
            // Somebody else was quicker: the next look sees what they did.
            Err(Failed::Conflict) => return Ok(()),
            Err(Failed::Other(error)) => return Err(error),
        }
        let (image, limits) = surroundings(dossier, kind)
            .ok_or_else(|| AuthorityError::refused(Denial::OutOfOrder, "the run has no plan"))?;
        let order = AttemptOrder {
            namespace: dossier.namespace.clone(),
            run_name: dossier.run.name.clone(),
            run_uid: dossier.run.uid.clone(),
            contract_id,
            attempt: number,
            kind,
            credentials: Credentials {
                address_file: self.options.address_file.clone(),
                ca_pem: self.options.ca_pem.clone(),
                token,
            },
            image,
            limits,
        };
        match self.world.executor.start(&order).await {
            Ok(handle) => {
                let started = self.apply(&dossier.run.uid, |_| Event::Started(kind, number, handle.clone())).await;
                match &started {
                    Ok(_) => {}
                    // It is over by now, and nobody else clears it away.
                    Err(AuthorityError::Refused { .. }) if self.world.executor.discard(&handle).await.is_ok() => {}
                    Err(_) => self.note_leftover(&dossier.run.uid).await,
                }
                started.map(drop)
            }
            Err(error) => {
                tracing::warn!(run = %dossier.run.uid, kind = kind.name(), attempt = number, %error, "an attempt could not be started");
                // What was made all the same may show only after its run is over.
                self.note_leftover(&dossier.run.uid).await;
                Ok(())
            }
        }
    }

    /// Makes a change to exactly this row, and answers whether it did; if somebody was quicker, the next look judges anew.
    async fn apply_unless_changed(&self, loaded: &Loaded, event: &Event) -> Result<bool, AuthorityError> {
        match self.apply_to(loaded, event).await {
            Ok(_) => Ok(true),
            Err(Failed::Conflict) => Ok(false),
            Err(Failed::Other(error)) => Err(error),
        }
    }

    /// The verdict of a validation whose end the executor sees itself.
    async fn verdict(&self, last: Option<&Attempt>) -> Option<(u32, ValidationReport)> {
        let attempt = last?;
        match self.world.executor.verdict(attempt.handle.as_ref()?).await {
            Ok(report) => report.map(|report| (attempt.number, report)),
            Err(error) => {
                tracing::warn!(%error, "how a validation ended is not known");
                None
            }
        }
    }

    async fn is_alive(&self, attempt: &Attempt) -> Alive {
        let Some(handle) = &attempt.handle else { return Alive::No };
        match self.world.executor.alive(handle).await {
            Ok(true) => Alive::Yes,
            Ok(false) => Alive::No,
            Err(error) => {
                tracing::warn!(handle = handle.0, %error, "whether an attempt lives is not known");
                Alive::Unknown
            }
        }
    }

    /// Clears away what void attempts have left. What is left still is cleared away with the rest, when the run is over.
    async fn discard_void(&self, before: &Loaded) {
        if let Ok(after) = self.load(&before.run.dossier.run.uid).await {
            self.discard_those(&after.run, |attempt| attempt.void).await;
        }
    }

    /// Clears away what any attempt has left; for runs whose tool is over. What cannot be cleared away now is noted, and tried
    /// again after the receipt is there.
    pub(crate) async fn discard(&self, run: &Run) {
        if !self.discard_those(run, |_| true).await {
            self.note_leftover(&run.dossier.run.uid).await;
        }
    }

    /// False if something may be left.
    async fn discard_those(&self, run: &Run, which: fn(&Attempt) -> bool) -> bool {
        let Run { dossier, row } = run;
        let tools = row.attempts.iter().map(|attempt| (AttemptKind::Tool, attempt));
        let all = tools.chain(row.validations.iter().map(|attempt| (AttemptKind::Validation, attempt)));
        let mut is_clear = true;
        for (kind, attempt) in all.filter(|(_, attempt)| which(attempt)) {
            let discarded = match &attempt.handle {
                Some(handle) => self.world.executor.discard(handle).await,
                None => {
                    let (namespace, run_uid) = (dossier.namespace.clone(), dossier.run.uid.clone());
                    let name = AttemptName { namespace, run_uid, kind, attempt: attempt.number };
                    self.world.executor.discard_unheard(&name).await
                }
            };
            if let Err(error) = discarded {
                // With a namespace go the rights in it too: whoever looks there is only refused.
                if self.world.references.is_gone(&dossier.namespace).await.unwrap_or(false) {
                    return true;
                }
                let (run, attempt) = (&dossier.run.uid, attempt.number);
                tracing::warn!(run, kind = kind.name(), attempt, %error, "an attempt could not be cleared away");
                is_clear = false;
            }
        }
        is_clear
    }

    /// A run is not kept open by what cannot be cleared away, nor by a note that cannot be made.
    async fn note_leftover(&self, uid: &str) {
        if let Err(error) = self.store.note_leftover(self.epoch(), uid).await {
            tracing::warn!(run = uid, %error, "it could not be noted that an attempt is to be cleared away");
        }
    }

    /// Clears away what attempts of sealed runs have left, as far as that can be done now.
    pub(crate) async fn clear_leftovers(&self) -> Result<(), AuthorityError> {
        for uid in self.store.leftovers().await.map_err(unavailable)? {
            // One that cannot be read keeps no other waiting.
            let loaded = match self.load(&uid).await {
                Ok(loaded) => loaded,
                Err(error) => {
                    tracing::warn!(run = uid, %error, "it is not known whether its attempts have left something");
                    continue;
                }
            };
            if loaded.run.row.sealed().is_some() && self.discard_those(&loaded.run, |_| true).await {
                self.store.forget_leftover(self.epoch(), &uid).await.map_err(unavailable)?;
            }
        }
        Ok(())
    }
}

fn is_later(now: Wall, attempt: &Attempt, longest: Duration) -> bool {
    now.since(attempt.begun) > longest
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(120);

    fn decide(attempt: u32, current: Option<Alive>, waited: u64, start: MayBegin) -> Tend {
        let contract = Contract { id: String::new(), attempt, waiting_since: None };
        tend(&contract, current, Duration::from_secs(waited), LIMIT, start)
    }

    #[test]
    fn an_attempt_is_replaced_only_when_dead_and_in_time() {
        let cases = [
            (1, None, 0, Tend::Begin(1)),
            (1, Some(Alive::Yes), 10, Tend::Wait),
            (1, Some(Alive::Unknown), 10, Tend::Wait),
            (1, Some(Alive::No), 10, Tend::Begin(2)),
            (1, Some(Alive::No), 121, Tend::TakeBack(Refusal::NeverStarted)),
            (1, Some(Alive::Yes), 121, Tend::TakeBack(Refusal::NeverStarted)),
            (TOOL_ATTEMPTS, Some(Alive::No), 10, Tend::TakeBack(Refusal::ExecutorFailed)),
        ];
        for (attempt, current, waited, expected) in cases {
            assert_eq!(decide(attempt, current, waited, MayBegin::Allowed), expected, "{attempt} {current:?} {waited}");
        }
    }

    #[test]
    fn nothing_is_begun_unless_the_runner_asks() {
        assert_eq!(decide(1, None, 0, MayBegin::NotNow), Tend::Wait);
        assert_eq!(decide(1, Some(Alive::No), 1, MayBegin::NotNow), Tend::Wait);
        assert_eq!(decide(1, Some(Alive::No), 121, MayBegin::NotNow), Tend::TakeBack(Refusal::NeverStarted));
    }
}
