//! The rest of the world, made up: a clock that is wound, processes that are counted, an engine that can be lost.

use crate::random::Random;
use async_trait::async_trait;
use m87_authority::clock::{Clock, Now, Wall};
use m87_authority::driver::ProcessEngine;
use m87_authority::entropy::{Entropy, NoEntropy};
use m87_authority::mark::{HighWaterMark, Kept, Mark, MarkError};
use m87_authority::row::Definition;
use m87_authority::store::Disk as Space;
use m87_authority::world::{Checkpoints, References, ReferencesUnavailable};
use m87_authority::{AttemptName, AttemptOrder, Executor, ExecutorError, Handle};
use m87_core::dossier::{Dossier, Named, Pinned};
use m87_core::evidence::ValidationReport;
use m87_core::fixtures;
use m87_core::policy::PolicySpec;
use m87_core::sign::Envelope;
use m87_core::time::Timestamp;
use m87_core::tool::ManifestSpec;
use m87_zeebe::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Everything outside the authority; it survives the authority's crashes.
#[derive(Clone)]
pub struct Outside {
    pub state: Arc<Mutex<State>>,
}

pub struct State {
    pub random: Random,
    pub wall: i64,
    pub mark: Option<Mark>,
    pub free: u64,
    pub policy_version: i64,
    /// Whether everything is suspended.
    pub suspended: bool,
    /// Whether tools may run in the namespace.
    pub bound: bool,
    /// Validations whose end the executor has seen itself, by their place among the attempts.
    pub verdicts: BTreeMap<usize, ValidationReport>,
    /// Attempts that were started, and whether each lives.
    pub attempts: Vec<(AttemptOrder, bool)>,
    /// Those of them that were not cleared away, dead or alive.
    pub left: BTreeSet<usize>,
    /// Whether everything that is asked of the executor is done.
    pub calm: bool,
    pub engine_id: u32,
    pub engine_answers: bool,
    pub was_restored: bool,
    pub next_key: i64,
    /// Instances by key: the run's reference.
    pub instances: BTreeMap<i64, String>,
    secrets: u64,
}

impl Outside {
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: Random::new(seed ^ 0x5eed),
            wall: 1_000_000,
            mark: None,
            free: u64::MAX,
            policy_version: 1,
            suspended: false,
            bound: true,
            verdicts: BTreeMap::new(),
            attempts: vec![],
            left: BTreeSet::new(),
            calm: false,
            engine_id: 1,
            engine_answers: true,
            was_restored: false,
            next_key: 100,
            instances: BTreeMap::new(),
            secrets: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }
}

impl Clock for Outside {
    fn now(&self) -> Now {
        let wall = self.with(|state| state.wall);
        Now { at: Timestamp::from_millis(1_769_860_800_000 + wall), wall: Wall(wall) }
    }
}

impl Entropy for Outside {
    fn id(&self, names: &[&str]) -> String {
        format!("{}-{}", names.join("-").replace('.', "-"), self.with(|state| state.random.below(1 << 40)))
    }

    fn secret(&self) -> Result<String, NoEntropy> {
        Ok(self.with(|state| {
            state.secrets += 1;
            format!("secret{}", state.secrets)
        }))
    }
}

#[async_trait]
impl References for Outside {
    async fn policy(&self, _: &Named, name: &str) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        if name == "missing" {
            return Ok(None);
        }
        let mut policy = fixtures::policy();
        policy.constraints.targets_forbidden = vec![format!("v{}/**", self.with(|state| state.policy_version))];
        Ok(Some(fixtures::pinned(name, policy)))
    }

    async fn baseline(&self) -> Result<Option<Pinned<PolicySpec>>, ReferencesUnavailable> {
        Ok(None)
    }

    async fn manifest(&self, _: &Named, name: &str) -> Result<Option<Pinned<ManifestSpec>>, ReferencesUnavailable> {
        let manifest = ManifestSpec { tools: vec![fixtures::tool()] };
        Ok((name != "missing").then(|| fixtures::pinned(name, manifest)))
    }

    async fn suspended(&self, _: &Dossier) -> Result<bool, ReferencesUnavailable> {
        Ok(self.with(|state| state.suspended))
    }

    async fn bound(&self, _: &Named) -> Result<bool, ReferencesUnavailable> {
        Ok(self.with(|state| state.bound))
    }
}

#[async_trait]
impl Executor for Outside {
    async fn start(&self, order: &AttemptOrder) -> Result<Handle, ExecutorError> {
        self.with(|state| {
            let name = format!("{}.{}.{}", order.run_uid, order.kind.name(), order.attempt);
            let twice = |(other, _): &(AttemptOrder, bool)| {
                (&other.run_uid, other.kind, other.attempt) == (&order.run_uid, order.kind, order.attempt)
            };
            if state.attempts.iter().any(twice) {
                // A store restored from a copy does not know what it has started; the process's place is taken.
                assert!(state.was_restored, "{name} was started twice");
                return Err(ExecutorError(format!("{name} is there already")));
            }
            if state.random.one_in(12) {
                return Err(ExecutorError("no room for a process".to_owned()));
            }
            let index = state.attempts.len();
            state.attempts.push((order.clone(), true));
            state.left.insert(index);
            if state.random.one_in(20) {
                return Err(ExecutorError("it was made, and the answer is lost".to_owned()));
            }
            Ok(Handle(index.to_string()))
        })
    }

    async fn alive(&self, handle: &Handle) -> Result<bool, ExecutorError> {
        self.with(|state| {
            if state.random.one_in(20) {
                return Err(ExecutorError("nobody knows".to_owned()));
            }
            Ok(state.attempts[handle.0.parse::<usize>().unwrap()].1)
        })
    }

    async fn as_made(&self, _: &Handle) -> Result<Result<(), String>, ExecutorError> {
        self.with(|state| match state.random.below(40) {
            0 => Ok(Err("somebody has changed it".to_owned())),
            1 => Err(ExecutorError("nobody knows".to_owned())),
            _ => Ok(Ok(())),
        })
    }

    async fn verdict(&self, handle: &Handle) -> Result<Option<ValidationReport>, ExecutorError> {
        self.with(|state| match state.random.one_in(20) {
            true => Err(ExecutorError("nobody knows".to_owned())),
            false => Ok(state.verdicts.get(&handle.0.parse::<usize>().unwrap()).cloned()),
        })
    }

    async fn discard(&self, handle: &Handle) -> Result<(), ExecutorError> {
        self.with(|state| state.discard(handle.0.parse().unwrap()))
    }

    async fn discard_unheard(&self, attempt: &AttemptName) -> Result<(), ExecutorError> {
        self.with(|state| {
            let found = state.attempts.iter().position(|(order, _)| order.name() == *attempt);
            found.map_or(Ok(()), |index| state.discard(index))
        })
    }
}

#[async_trait]
impl HighWaterMark for Outside {
    async fn read(&self, _: &str) -> Result<Kept, MarkError> {
        Ok(self.with(|state| state.mark.clone().map_or(Kept::Nothing, Kept::Own)))
    }

    async fn write(&self, _: &str, mark: &Mark) -> Result<(), MarkError> {
        self.with(|state| {
            if state.random.one_in(25) {
                return Err(MarkError { place: "outside".to_owned(), message: "no".to_owned() });
            }
            state.mark = Some(mark.clone());
            Ok(())
        })
    }

    async fn accept(&self, store_id: &str, mark: &Mark) -> Result<(), MarkError> {
        self.write(store_id, mark).await
    }

    fn place(&self, _: &str) -> String {
        "outside".to_owned()
    }

    fn accepting(&self, _: &str) -> String {
        "accept".to_owned()
    }
}

#[async_trait]
impl Checkpoints for Outside {
    async fn published(&self) -> std::io::Result<BTreeMap<String, Envelope>> {
        Ok(BTreeMap::new())
    }

    async fn publish(&self, _: &BTreeMap<String, Envelope>) -> BTreeMap<String, std::io::Error> {
        BTreeMap::new()
    }
}

impl Space for Outside {
    fn free_bytes(&self) -> std::io::Result<u64> {
        Ok(self.with(|state| state.free))
    }
}

impl State {
    fn discard(&mut self, index: usize) -> Result<(), ExecutorError> {
        if !self.calm && self.random.one_in(4) {
            return Err(ExecutorError("it cannot be reached".to_owned()));
        }
        self.attempts[index].1 = false;
        self.left.remove(&index);
        Ok(())
    }

    fn answers(&mut self) -> Result<(), Error> {
        if self.engine_answers && !self.random.one_in(10) {
            return Ok(());
        }
        Err(Error::Unavailable { status: tonic::Code::Unavailable, message: "the engine is silent".to_owned() })
    }
}

#[async_trait]
impl ProcessEngine for Outside {
    async fn id(&self) -> Result<String, Error> {
        self.with(|state| {
            state.answers()?;
            Ok(format!("engine-{}", state.engine_id))
        })
    }

    async fn deploy(&self, _: &str, _: &[u8]) -> Result<Definition, Error> {
        self.with(|state| {
            state.answers()?;
            Ok(Definition { key: i64::from(state.engine_id), version: 1 })
        })
    }

    async fn start(&self, definition: Definition, run: &str) -> Result<i64, Error> {
        self.with(|state| {
            state.answers()?;
            if definition.key != i64::from(state.engine_id) {
                return Err(Error::NotFound("no such definition".to_owned()));
            }
            state.next_key += 1;
            let key = state.next_key;
            state.instances.insert(key, run.to_owned());
            // The answer may be lost.
            state.answers()?;
            Ok(key)
        })
    }

    async fn cancel(&self, instance_key: i64) -> Result<(), Error> {
        self.with(|state| {
            state.answers()?;
            state.instances.remove(&instance_key);
            Ok(())
        })
    }
}
