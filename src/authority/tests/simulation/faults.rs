//! What goes wrong by itself.

use crate::Simulation;
use crate::store::Fault;

impl Simulation {
    /// What happens by itself, to nobody's benefit.
    pub fn turn_the_world(&mut self) {
        let random = &mut self.random;
        let step = match random.below(100) {
            0 if !self.calm => 500_000,
            1..=3 if !self.calm => 90_000,
            _ => random.below(2_000) as i64,
        };
        let step = if self.calm { 20_000 } else { step };
        self.outside.with(|state| state.wall += step);
        if self.calm {
            *self.fault.lock().unwrap() = Fault::None;
            self.outside.with(|state| {
                (state.engine_answers, state.free) = (true, u64::MAX);
                (state.suspended, state.bound) = (false, true);
            });
            return;
        }
        if random.one_in(25) {
            let after = random.below(6) as u32;
            let fault = if random.one_in(2) { Fault::Before(after) } else { Fault::After(after) };
            *self.fault.lock().unwrap() = fault;
        }
        if random.one_in(60) {
            self.outside.with(|state| state.engine_answers = !state.engine_answers);
        }
        if random.one_in(200) {
            self.outside.with(|state| state.free = if state.free == 0 { u64::MAX } else { 0 });
        }
        if random.one_in(80) {
            self.outside.with(|state| state.suspended = !state.suspended);
        }
        if random.one_in(120) {
            self.outside.with(|state| state.bound = !state.bound);
        }
        if random.one_in(150) {
            self.outside.with(|state| state.policy_version += 1);
        }
        if random.one_in(250) {
            // The engine's volume is lost, and every instance with it.
            self.places.clear();
            self.outside.with(|state| {
                state.engine_id += 1;
                state.instances.clear();
            });
        }
        if random.one_in(40) {
            // Somebody starts an instance of his own.
            let known = self.outside.with(|state| state.instances.values().next().cloned());
            let run = match known {
                Some(run) if random.one_in(2) => run,
                Some(_) | None => "no-run.no-nonce".to_owned(),
            };
            self.outside.with(|state| {
                state.next_key += 1;
                state.instances.insert(state.next_key, run);
            });
        }
        if random.one_in(100) && self.copy.is_none() {
            self.copy = Some(self.disk.lock().unwrap().clone());
        }
        if random.one_in(120)
            && let Some(leader) = self.leader.take_if(|leader| !leader.store.is_dead())
        {
            // Another takes over, while this one does not know it yet.
            self.deposed = Some(leader);
        }
    }
}
