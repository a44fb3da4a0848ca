//! A store in memory that can crash between any two writes, lose answers, and be copied.

use async_trait::async_trait;
use m87_authority::executor::AttemptKind;
use m87_authority::row::Definition;
use m87_authority::store::{
    Change, Counters, Effect, Inserted, Loaded, Opening, Store, StoreError, StoredReceipt, TokenOwner, With,
};
use m87_core::log::LogEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Everything that is stored; a clone is a copy of the disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    epoch: i64,
    redemptions: i64,
    barred: usize,
    order: Vec<String>,
    runs: BTreeMap<String, Loaded>,
    effects: BTreeMap<(String, String), Effect>,
    tokens: BTreeMap<String, TokenOwner>,
    receipts: BTreeMap<String, StoredReceipt>,
    logs: BTreeMap<String, Vec<LogEntry>>,
    definitions: BTreeMap<(String, String), Definition>,
    leftovers: BTreeSet<String>,
}

/// What becomes of the next writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// They are made.
    #[default]
    None,
    /// After so many more, one is not made, and the process is dead.
    Before(u32),
    /// After so many more, one is made, its answer is lost, and the process is dead.
    After(u32),
}

/// One process's view of the disk.
pub struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
    fault: Arc<Mutex<Fault>>,
    dead: Mutex<bool>,
}

impl MemoryStore {
    pub fn new(disk: Arc<Mutex<Disk>>, fault: Arc<Mutex<Fault>>) -> Self {
        Self { disk, fault, dead: Mutex::new(false) }
    }

    pub fn is_dead(&self) -> bool {
        *self.dead.lock().unwrap()
    }

    fn read<T>(&self, look: impl FnOnce(&Disk) -> T) -> Result<T, StoreError> {
        if self.is_dead() {
            return Err(crashed());
        }
        Ok(look(&self.disk.lock().unwrap()))
    }

    /// One transaction of the leader with that epoch: all of it, or nothing.
    fn write<T>(
        &self,
        epoch: Option<i64>,
        change: impl FnOnce(&mut Disk) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.is_dead() {
            return Err(crashed());
        }
        let mut fault = self.fault.lock().unwrap();
        let (made, answered) = match *fault {
            Fault::None => (true, true),
            Fault::Before(0) => (false, false),
            Fault::After(0) => (true, false),
            Fault::Before(more) => {
                *fault = Fault::Before(more - 1);
                (true, true)
            }
            Fault::After(more) => {
                *fault = Fault::After(more - 1);
                (true, true)
            }
        };
        let mut answer = Err(crashed());
        if made {
            let mut disk = self.disk.lock().unwrap();
            if let Some(mine) = epoch
                && mine != disk.epoch
            {
                return Err(StoreError::Deposed { mine, leader: disk.epoch });
            }
            let mut after = disk.clone();
            answer = change(&mut after);
            if answer.is_ok() {
                *disk = after;
            }
        }
        if answered {
            return answer;
        }
        *fault = Fault::None;
        *self.dead.lock().unwrap() = true;
        Err(crashed())
    }
}

fn crashed() -> StoreError {
    StoreError::Io { path: "the process".to_owned(), source: std::io::Error::other("is dead") }
}

impl Disk {
    /// Whether there is a run of that uid.
    pub fn knows(&self, uid: &str) -> bool {
        self.runs.contains_key(uid)
    }

    /// Runs that were dispatched.
    pub fn dispatched(&self) -> impl Iterator<Item = &String> {
        self.runs.iter().filter(|(_, loaded)| loaded.run.row.dispatched()).map(|(uid, _)| uid)
    }

    /// Runs without a receipt.
    pub fn unsealed(&self) -> Vec<String> {
        let unsealed = |uid: &&String| self.runs[*uid].run.row.sealed().is_none();
        self.order.iter().filter(unsealed).cloned().collect()
    }

    fn append(&mut self, namespace: &str, entry: &LogEntry) {
        self.logs.entry(namespace.to_owned()).or_default().push(entry.clone());
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn id(&self) -> &str {
        "simulated"
    }

    async fn lead(&self, epoch: i64) -> Result<(), StoreError> {
        self.write(None, |disk| {
            if disk.epoch > epoch {
                return Err(StoreError::Deposed { mine: epoch, leader: disk.epoch });
            }
            disk.epoch = epoch;
            Ok(())
        })
    }

    async fn open_run(&self, opening: &Opening<'_>) -> Result<Inserted, StoreError> {
        self.write(Some(opening.epoch), |disk| {
            let dossier = &opening.run.dossier;
            let (uid, namespace) = (dossier.run.uid.clone(), dossier.namespace.uid.clone());
            if disk.runs.contains_key(&uid) {
                return Ok(Inserted::Existing);
            }
            let key = (namespace.clone(), dossier.run.idempotency_key.clone());
            let opened = match disk.effects.get(&key) {
                Some(first)
                    if first.proposal_hash == opening.proposal_hash && first.actor_hash == opening.actor_hash =>
                {
                    return Ok(Inserted::SameEffect(first.run_uid.clone()));
                }
                Some(first) => Inserted::KeyReused(first.run_uid.clone()),
                None => Inserted::New,
            };
            disk.order.push(uid.clone());
            disk.runs.insert(uid.clone(), Loaded { run: opening.run.clone(), version: 1, barred: false });
            disk.append(&namespace, opening.entry);
            if opened == Inserted::New {
                let effect = Effect {
                    proposal_hash: opening.proposal_hash.to_owned(),
                    actor_hash: opening.actor_hash.to_owned(),
                    run_uid: uid,
                };
                disk.effects.insert(key, effect);
            }
            Ok(opened)
        })
    }

    async fn load(&self, uid: &str) -> Result<Option<Loaded>, StoreError> {
        self.read(|disk| {
            let barred = disk.order.iter().position(|other| other == uid).is_some_and(|index| index < disk.barred);
            disk.runs.get(uid).map(|loaded| Loaded { barred, ..loaded.clone() })
        })
    }

    async fn by_instance(&self, engine_id: &str, instance_key: i64) -> Result<Option<String>, StoreError> {
        self.read(|disk| {
            let is_bound = |loaded: &&Loaded| {
                let claim = loaded.run.row.claim();
                claim.is_some_and(|claim| claim.engine_id == engine_id && claim.instance_key == instance_key)
            };
            disk.runs.values().find(is_bound).map(|loaded| loaded.run.dossier.run.uid.clone())
        })
    }

    async fn by_token(&self, sha256: &str) -> Result<Option<TokenOwner>, StoreError> {
        self.read(|disk| disk.tokens.get(sha256).cloned())
    }

    async fn commit(&self, change: &Change<'_>) -> Result<(), StoreError> {
        self.write(Some(change.epoch), |disk| {
            let Some(loaded) = disk.runs.get_mut(change.uid()).filter(|loaded| loaded.version == change.from.version)
            else {
                return Err(StoreError::Conflict(change.uid().to_owned()));
            };
            loaded.version += 1;
            loaded.run.row = change.row.clone();
            let namespace = loaded.run.dossier.namespace.uid.clone();
            let attempts = [
                (AttemptKind::Tool, change.row.attempts.last()),
                (AttemptKind::Validation, change.row.validations.last()),
            ];
            for (kind, attempt) in attempts {
                if let Some(attempt) = attempt {
                    let owner = TokenOwner { run_uid: change.uid().to_owned(), kind, number: attempt.number };
                    disk.tokens.insert(attempt.token_sha256.clone(), owner);
                }
            }
            match change.with {
                With::Nothing => {}
                With::Redemption => disk.redemptions += 1,
                With::Receipt(receipt, entry) => {
                    let before = disk.receipts.insert(change.uid().to_owned(), receipt.clone());
                    assert_eq!(before, None, "a second receipt");
                    disk.append(&namespace, entry);
                }
            }
            Ok(())
        })
    }

    async fn note_leftover(&self, epoch: i64, uid: &str) -> Result<(), StoreError> {
        self.write(Some(epoch), |disk| {
            disk.leftovers.insert(uid.to_owned());
            Ok(())
        })
    }

    async fn leftovers(&self) -> Result<Vec<String>, StoreError> {
        self.read(|disk| disk.leftovers.iter().cloned().collect())
    }

    async fn forget_leftover(&self, epoch: i64, uid: &str) -> Result<(), StoreError> {
        self.write(Some(epoch), |disk| {
            disk.leftovers.remove(uid);
            Ok(())
        })
    }

    async fn unsealed(&self) -> Result<Vec<String>, StoreError> {
        self.read(Disk::unsealed)
    }

    async fn runs(&self, namespace_uid: Option<&str>) -> Result<Vec<Loaded>, StoreError> {
        self.read(|disk| {
            let runs = disk.order.iter().map(|uid| disk.runs[uid].clone());
            runs.filter(|loaded| namespace_uid.is_none_or(|uid| loaded.run.dossier.namespace.uid == uid)).collect()
        })
    }

    async fn effect(&self, namespace_uid: &str, key: &str) -> Result<Option<Effect>, StoreError> {
        self.read(|disk| disk.effects.get(&(namespace_uid.to_owned(), key.to_owned())).cloned())
    }

    async fn receipt(&self, uid: &str) -> Result<Option<StoredReceipt>, StoreError> {
        self.read(|disk| disk.receipts.get(uid).cloned())
    }

    async fn log_index(&self, uid: &str) -> Result<Option<u64>, StoreError> {
        self.read(|disk| {
            let namespace = &disk.runs.get(uid)?.run.dossier.namespace.uid;
            let sealed =
                |entry: &LogEntry| entry.run == uid && matches!(entry.event, m87_core::log::Event::Sealed { .. });
            disk.logs.get(namespace)?.iter().position(sealed).map(|index| index as u64)
        })
    }

    async fn log(&self, namespace_uid: &str, range: Range<u64>) -> Result<Vec<LogEntry>, StoreError> {
        self.read(|disk| {
            let entries = disk.logs.get(namespace_uid).map(Vec::as_slice).unwrap_or_default();
            entries.iter().take(range.end as usize).skip(range.start as usize).cloned().collect()
        })
    }

    async fn namespaces(&self) -> Result<Vec<String>, StoreError> {
        self.read(|disk| disk.logs.keys().cloned().collect())
    }

    async fn definition(&self, engine_id: &str, bpmn_sha256: &str) -> Result<Option<Definition>, StoreError> {
        self.read(|disk| disk.definitions.get(&(engine_id.to_owned(), bpmn_sha256.to_owned())).copied())
    }

    async fn remember_definition(
        &self,
        epoch: i64,
        engine_id: &str,
        bpmn_sha256: &str,
        definition: Definition,
    ) -> Result<(), StoreError> {
        self.write(Some(epoch), |disk| {
            disk.definitions.insert((engine_id.to_owned(), bpmn_sha256.to_owned()), definition);
            Ok(())
        })
    }

    async fn counters(&self) -> Result<Counters, StoreError> {
        self.read(|disk| Counters { epoch: disk.epoch, redemptions: disk.redemptions })
    }

    async fn bar_present_runs(&self, epoch: i64) -> Result<(), StoreError> {
        self.write(Some(epoch), |disk| {
            disk.barred = disk.order.len();
            Ok(())
        })
    }
}
