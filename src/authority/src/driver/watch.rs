//! What is looked after while runs go on: deadlines, attempts that died, engines that lost their data, runs that were left
//! half-way when the authority died.

use super::Driver;
use crate::attempts::MayBegin;
use crate::client::AuthorityError;
use crate::clock::Wall;
use crate::event::Event;
use crate::row::{Ending, Row, State};
use m87_core::reason::Reason;
use std::time::Duration;

/// Between two tries to clear away what attempts have left.
const CLEAR: Duration = Duration::from_secs(30);

/// What to do about a run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It goes its way.
    Leave,
    /// Start its instance.
    Start,
    /// Its instance is gone with its engine's data: release it, to be started again.
    Release,
    /// Look whether its attempt lives.
    Tend,
    /// End it.
    End(Reason),
    /// Make its receipt.
    Seal,
}

/// Whether this process has started the run's instance, or is starting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hand {
    InHand,
    /// Whoever had it in hand is gone.
    Free,
}

/// Decides about a run. `engine` is who answered last; `None` if none has since the authority started, and then no instance is
/// taken for lost.
fn look(row: &Row, wall: Wall, engine: Option<&str>, hand: Hand) -> Look {
    let is_late = wall > row.deadline;
    let is_lost = |id: &str| engine.is_some_and(|engine| engine != id);
    match &row.state {
        State::Sealed(..) => Look::Leave,
        State::Closing(_) => Look::Seal,
        State::Open(_) | State::Claimed(_) | State::Contracted(..) | State::Dispatched(..) if is_late => {
            Look::End(Reason::DeadlineExceeded)
        }
        State::Open(Some(start)) if is_lost(&start.engine_id) => Look::Release,
        State::Open(_) => match hand {
            Hand::Free => Look::Start,
            Hand::InHand => Look::Leave,
        },
        State::Claimed(claim) | State::Contracted(claim, _) if is_lost(&claim.engine_id) => Look::Release,
        State::Claimed(_) => Look::Leave,
        State::Contracted(..) => Look::Tend,
        State::Dispatched(..) if row.evidence.execution.is_none() => Look::Tend,
        // Observed to its end; there is no instance that could take it further.
        State::Dispatched(claim, _) if is_lost(&claim.engine_id) => Look::End(Reason::EngineIncident),
        State::Dispatched(..) => Look::Leave,
    }
}

impl Driver {
    /// Looks after every run until stopped; also after those that an earlier authority has left, and after what was left of runs
    /// that are over.
    pub async fn watch(&self) {
        tokio::join!(self.watch_runs(), self.watch_leftovers());
    }

    async fn watch_leftovers(&self) {
        loop {
            if let Err(error) = self.clear_leftovers().await {
                tracing::warn!(%error, "what attempts have left cannot be cleared away now");
            }
            if !self.pause(CLEAR).await {
                return;
            }
        }
    }

    /// Clears away what attempts of sealed runs have left, as far as that can be done now.
    pub async fn clear_leftovers(&self) -> Result<(), AuthorityError> {
        self.inner.authority.clear_leftovers().await
    }

    async fn watch_runs(&self) {
        loop {
            if let Err(error) = self.look_around().await {
                tracing::warn!(%error, "runs cannot be looked after now");
            }
            if !self.pause(self.inner.authority.options.look).await {
                return;
            }
        }
    }

    /// Looks at every run once.
    pub async fn look_around(&self) -> Result<(), AuthorityError> {
        let authority = &self.inner.authority;
        // An engine that does not answer loses nothing; what is known of it last counts, and deadlines hold without any.
        let engine = match self.engine_id().await {
            Ok(engine) => Some(engine),
            Err(error) => {
                tracing::debug!(%error, "the engine does not answer");
                authority.engine()
            }
        };
        // What is taken in hand while the store answers is not forgotten.
        let before = self.in_hand().clone();
        let unsealed = authority.store.unsealed().await.map_err(crate::authority::unavailable)?;
        self.in_hand().retain(|uid| !before.contains(uid) || unsealed.contains(uid));
        authority.forget_but(&unsealed);
        for uid in unsealed {
            if let Err(error) = self.look_at(&uid, engine.as_deref()).await {
                tracing::debug!(run = %uid, %error, "looked at in vain");
            }
        }
        self.cancel_strays().await;
        authority.write_mark().await
    }

    async fn look_at(&self, uid: &str, engine: Option<&str>) -> Result<(), AuthorityError> {
        let authority = &self.inner.authority;
        let hand = if self.in_hand().contains(uid) { Hand::InHand } else { Hand::Free };
        let loaded = authority.load(uid).await?;
        match look(&loaded.run.row, authority.now().wall, engine, hand) {
            Look::Leave => {}
            Look::Start => self.spawn_start(uid.to_owned()),
            Look::Release => {
                let Some(engine) = engine else { return Ok(()) };
                authority.apply(uid, |_| Event::Engine(engine.to_owned())).await?;
                authority.discard(&loaded.run).await;
                self.in_hand().remove(uid);
                self.spawn_start(uid.to_owned());
            }
            Look::Tend => {
                authority.tend_tool(uid, MayBegin::NotNow).await?;
            }
            Look::End(reason) => {
                authority.end(uid, Ending::Interrupted(reason)).await?;
            }
            Look::Seal => {
                authority.seal(uid).await?;
            }
        }
        Ok(())
    }

    /// Ends instances whose runs were ended from outside. What is not reached now finds its run sealed.
    async fn cancel_strays(&self) {
        for claim in self.inner.authority.take_strays() {
            let is_here = self.inner.authority.engine().as_deref() == Some(&claim.engine_id);
            if is_here && let Err(error) = self.inner.engine.cancel(claim.instance_key).await {
                tracing::info!(instance = claim.instance_key, %error, "an instance could not be ended");
            }
        }
    }

    /// The engine cannot go on with an instance: its run ends here.
    pub async fn incident(&self, instance_key: i64, message: &str) -> Result<(), AuthorityError> {
        let authority = &self.inner.authority;
        let engine = self.engine_id().await?;
        let uid = authority.store.by_instance(&engine, instance_key).await.map_err(crate::authority::unavailable)?;
        if let Some(uid) = uid {
            tracing::warn!(run = %uid, instance_key, message, "the engine cannot go on");
            authority.end(&uid, Ending::Interrupted(Reason::EngineIncident)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Claim, Contract, Definition, Dispatch, Start};

    fn row(state: State) -> Row {
        Row { state, ..Row::open(Wall(100)) }
    }

    fn claim() -> Claim {
        Claim { engine_id: "e".to_owned(), instance_key: 1, definition: Definition { key: 1, version: 1 } }
    }

    fn contracted() -> State {
        State::Contracted(claim(), Contract { id: String::new(), attempt: 1, waiting_since: None })
    }

    fn dispatched() -> State {
        let (contract_id, nonce) = (String::new(), String::new());
        State::Dispatched(claim(), Dispatch { contract_id, attempt: 1, nonce, wall: Wall(0) })
    }

    #[test]
    fn eventually_terminal_every_state_ends_at_its_deadline() {
        for state in [State::Open(None), State::Claimed(claim()), contracted(), dispatched()] {
            for engine in [Some("e"), Some("f"), None] {
                assert_eq!(
                    look(&row(state.clone()), Wall(101), engine, Hand::InHand),
                    Look::End(Reason::DeadlineExceeded)
                );
            }
        }
    }

    #[test]
    fn an_engine_that_has_not_answered_yet_has_lost_nothing() {
        let start = Start { engine_id: "e".to_owned(), definition: claim().definition, nonce: String::new() };
        assert_eq!(look(&row(State::Open(Some(start))), Wall(1), None, Hand::InHand), Look::Leave);
        assert_eq!(look(&row(State::Claimed(claim())), Wall(1), None, Hand::Free), Look::Leave);
        assert_eq!(look(&row(contracted()), Wall(1), None, Hand::Free), Look::Tend);
        let mut over = row(dispatched());
        over.evidence.execution = m87_core::fixtures::evidence().execution;
        assert_eq!(look(&over, Wall(1), None, Hand::Free), Look::Leave);
    }

    #[test]
    fn an_engine_that_lost_its_data_releases_what_was_not_dispatched() {
        assert_eq!(look(&row(State::Claimed(claim())), Wall(1), Some("f"), Hand::InHand), Look::Release);
        assert_eq!(look(&row(contracted()), Wall(1), Some("f"), Hand::InHand), Look::Release);
        assert_eq!(look(&row(dispatched()), Wall(1), Some("f"), Hand::InHand), Look::Tend);
        let mut over = row(dispatched());
        over.evidence.execution = m87_core::fixtures::evidence().execution;
        assert_eq!(look(&over, Wall(1), Some("f"), Hand::InHand), Look::End(Reason::EngineIncident));
        assert_eq!(look(&over, Wall(1), Some("e"), Hand::InHand), Look::Leave);
    }

    #[test]
    fn what_is_open_and_in_nobodys_hand_is_started() {
        assert_eq!(look(&row(State::Open(None)), Wall(1), Some("e"), Hand::Free), Look::Start);
        assert_eq!(look(&row(State::Open(None)), Wall(1), Some("e"), Hand::InHand), Look::Leave);
    }
}
