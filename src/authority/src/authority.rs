//! The authority itself: it holds the store and the key, and makes every change to a run by [`crate::step`].

use crate::artifacts::Artifacts;
use crate::client::{AuthorityError, Denial};
use crate::clock::{Clock, Now, Wall};
use crate::contract::{Facts, may_have_gone_on};
use crate::entropy::Entropy;
use crate::event::Event;
use crate::executor::Executor;
use crate::log_book::LogBook;
use crate::mark::{HighWaterMark, Mark, Standing, standing};
use crate::publish::Outbox;
use crate::row::{Claim, Row, Run};
use crate::step::{Step, step};
use crate::store::{Change, Disk, Headroom, Loaded, Store, StoreError, With};
use crate::world::{Checkpoints, Epoch, References, StatusSink, drifted};
use m87_core::evidence::Refusal;
use m87_core::lane::JobType;
use m87_core::sign::SigningKey;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

/// What the authority needs of the world.
#[derive(Clone)]
pub struct World {
    /// Instants.
    pub clock: Arc<dyn Clock>,
    /// Identifiers and secrets.
    pub entropy: Arc<dyn Entropy>,
    /// The objects that runs refer to.
    pub references: Arc<dyn References>,
    /// Where attempts run.
    pub executor: Arc<dyn Executor>,
    /// What is kept outside the store.
    pub mark: Arc<dyn HighWaterMark>,
    /// Who shows runs.
    pub status: Arc<dyn StatusSink>,
    /// How much room there is.
    pub disk: Arc<dyn Disk>,
    /// Where checkpoints are published.
    pub checkpoints: Arc<dyn Checkpoints>,
}

/// The authority's own settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long an attempt may take from its beginning to its redemption.
    pub start_limit: Duration,
    /// How long beyond its limit a redeemed attempt is waited for.
    pub report_margin: Duration,
    /// How long a job stays with a lane without a sign of life.
    pub lease: Duration,
    /// How often liveness and deadlines are looked at.
    pub look: Duration,
    /// How much room must be left.
    pub headroom: Headroom,
    /// How many entries of a log are read at one time.
    pub log_page: u64,
    /// What attempts pin to reach this authority.
    pub ca_pem: String,
    /// Where attempts find this authority's address.
    pub address_file: PathBuf,
}

impl Options {
    /// The usual times; the rest has no usual value.
    pub fn new(ca_pem: String, address_file: PathBuf) -> Self {
        Self {
            start_limit: Duration::from_secs(120),
            report_margin: Duration::from_secs(60),
            lease: Duration::from_secs(30),
            look: Duration::from_millis(500),
            headroom: Headroom::default(),
            log_page: 10_000,
            ca_pem,
            address_file,
        }
    }
}

/// How often a job may be handed out without a result.
const DELIVERIES: u32 = 3;

/// How often a change is judged anew because somebody else changed the run meanwhile.
const CONFLICTS: usize = 64;

/// The owner of every run.
pub struct Authority {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) artifacts: Artifacts,
    pub(crate) world: World,
    pub(crate) key: SigningKey,
    pub(crate) options: Options,
    pub(crate) logs: LogBook,
    epoch: AtomicI64,
    standing: RwLock<Standing>,
    /// Runs that had no receipt in a store that was found behind its mark.
    copied: HashSet<String>,
    /// The mark as it was written last.
    written: tokio::sync::Mutex<Option<Mark>>,
    /// Whose checkpoint is to be published.
    pub(crate) outbox: Outbox,
    engine: RwLock<Option<String>>,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// Instances whose runs were ended from outside.
    pub(crate) strays: Mutex<Vec<Claim>>,
}

/// What only this process knows of a run that is going on.
#[derive(Default)]
pub(crate) struct Live {
    /// Rung at each change.
    pub(crate) changed: Notify,
    /// Held while attempts are begun and looked after.
    pub(crate) attempts: tokio::sync::Mutex<()>,
    deliveries: Mutex<HashMap<JobType, Delivery>>,
}

struct Delivery {
    count: u32,
    last: Wall,
}

impl Authority {
    /// Takes the lead over the store. A store that is behind its mark is opened all the same, and refuses contracts.
    pub async fn open(
        store: Arc<dyn Store>,
        artifacts: Artifacts,
        world: World,
        key: SigningKey,
        options: Options,
        epoch: &dyn Epoch,
    ) -> Result<Self, OpenError> {
        let kept = world.mark.read(store.id()).await?;
        let logs = LogBook::new(options.log_page);
        logs.catch_up(&*store).await?;
        let counters = store.counters().await?;
        let now = Mark { epoch: counters.epoch, redemptions: counters.redemptions, logs: logs.marks() };
        let standing = standing(&kept, &now, |namespace, size| logs.root_at(namespace, size));
        let copied = match &standing {
            Standing::Current => HashSet::new(),
            Standing::Restored(_) => store.unsealed().await?.into_iter().collect(),
        };
        let last = match &standing {
            Standing::Current => counters.epoch.max(kept.epoch()),
            // Not past the mark: the next start must see it too.
            Standing::Restored(_) => counters.epoch,
        };
        let epoch = epoch.epoch(last);
        store.lead(epoch).await?;
        let authority = Self {
            store,
            artifacts,
            world,
            key,
            options,
            logs,
            epoch: AtomicI64::new(epoch),
            standing: RwLock::new(standing),
            copied,
            written: tokio::sync::Mutex::default(),
            outbox: Outbox::default(),
            engine: RwLock::default(),
            live: Mutex::default(),
            strays: Mutex::default(),
        };
        // From here on nobody who led before writes the mark, and a trace of this store is never there without a mark.
        authority.write_mark().await?;
        Ok(authority)
    }

    /// Why no contract is issued at all, if the store is behind its mark.
    pub fn restored(&self) -> Option<String> {
        match &*self.standing.read().unwrap_or_else(PoisonError::into_inner) {
            Standing::Current => None,
            Standing::Restored(why) => Some(format!(
                "the store was restored from an older copy ({why}; {place}): what it does not know of may have been done, so \
                 nothing is executed. If that is what you want, run `{accepting}`",
                place = self.world.mark.place(self.store.id()),
                accepting = self.world.mark.accepting(self.store.id()),
            )),
        }
    }

    /// Accepts a restored store: its mark becomes what the store is now. Every run that came with the copy is barred from a
    /// contract for ever, since nobody knows what became of it.
    pub async fn accept(&self) -> Result<(), OpenError> {
        // Past whoever led over what is given up, so that none of them is ever taken for current again.
        let known = self.world.mark.read(self.store.id()).await?.epoch();
        if self.epoch() <= known {
            let epoch = known.saturating_add(1);
            self.store.lead(epoch).await?;
            self.epoch.store(epoch, Ordering::SeqCst);
        }
        self.store.bar_present_runs(self.epoch()).await?;
        let mut written = self.written.lock().await;
        let mark = self.mark_now().await?;
        self.world.mark.accept(self.store.id(), &mark).await?;
        *written = Some(mark);
        *self.standing.write().unwrap_or_else(PoisonError::into_inner) = Standing::Current;
        Ok(())
    }

    async fn mark_now(&self) -> Result<Mark, StoreError> {
        self.logs.catch_up(&*self.store).await?;
        let counters = self.store.counters().await?;
        Ok(Mark { epoch: counters.epoch, redemptions: counters.redemptions, logs: self.logs.marks() })
    }

    /// Writes the mark, unless the store is behind it or it is written already.
    pub(crate) async fn write_mark(&self) -> Result<(), AuthorityError> {
        if self.restored().is_some() {
            return Ok(());
        }
        // One at a time, so that an older mark never replaces a newer one.
        let mut written = self.written.lock().await;
        let mark = self.mark_now().await.map_err(unavailable)?;
        if written.as_ref() != Some(&mark) {
            self.world.mark.write(self.store.id(), &mark).await.map_err(unavailable)?;
            *written = Some(mark);
        }
        Ok(())
    }

    /// Which engine answers now.
    pub(crate) fn set_engine(&self, id: &str) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
    }

    /// The engine that answers now; `None` before any has.
    pub fn engine(&self) -> Option<String> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This leader's epoch.
    pub fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) fn now(&self) -> Now {
        self.world.clock.now()
    }

    pub(crate) fn live(&self, uid: &str) -> Arc<Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).entry(uid.to_owned()).or_default().clone()
    }

    /// Lets go of what is known of runs that nobody waits for any more.
    pub(crate) fn forget_but(&self, unsealed: &[String]) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|uid, one| Arc::strong_count(one) > 1 || unsealed.contains(uid));
    }

    /// Nothing more will happen to that run.
    pub(crate) fn forget(&self, uid: &str) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    pub(crate) fn changed(&self, uid: &str, run: &Run) {
        self.world.status.changed(run);
        let live = match run.row.sealed() {
            Some(_) => self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(uid),
            None => Some(self.live(uid)),
        };
        if let Some(live) = live {
            live.changed.notify_waiters();
        }
    }

    /// The run of that uid.
    pub async fn load(&self, uid: &str) -> Result<Loaded, AuthorityError> {
        self.store
            .load(uid)
            .await
            .map_err(unavailable)?
            .ok_or_else(|| AuthorityError::refused(Denial::UnknownRun, format!("there is no run {uid}")))
    }

    /// Makes one change, judging anew as long as somebody else changes the run meanwhile. Returns the run as it then is.
    pub(crate) async fn apply(
        &self,
        uid: &str,
        event: impl Fn(&Loaded) -> Event + Send,
    ) -> Result<Loaded, AuthorityError> {
        for _ in 0..CONFLICTS {
            let loaded = self.load(uid).await?;
            match self.apply_to(&loaded, &event(&loaded)).await {
                Err(Failed::Conflict) => {}
                Err(Failed::Other(error)) => return Err(error),
                Ok(loaded) => return Ok(loaded),
            }
        }
        Err(AuthorityError::Unavailable(format!("run {uid} is being changed by others")))
    }

    /// Makes one change to the run exactly as it was loaded.
    pub(crate) async fn apply_to(&self, loaded: &Loaded, event: &Event) -> Result<Loaded, Failed> {
        let row = match step(&loaded.run, event) {
            Step::Unchanged => return Ok(loaded.clone()),
            Step::Refuse(denial, message) => return Err(Failed::Other(AuthorityError::refused(denial, message))),
            Step::To(row) => *row,
        };
        let uid = &loaded.run.dossier.run.uid;
        let with = if matches!(event, Event::Redeem(_)) { With::Redemption } else { With::Nothing };
        self.commit(loaded, row, with).await.inspect(|after| self.changed(uid, &after.run))
    }

    pub(crate) async fn commit(&self, loaded: &Loaded, row: Row, with: With<'_>) -> Result<Loaded, Failed> {
        let change = Change { epoch: self.epoch(), from: loaded, row: &row, with };
        match self.store.commit(&change).await {
            Ok(()) => {
                let run = Run { dossier: loaded.run.dossier.clone(), row };
                Ok(Loaded { run, version: loaded.version.saturating_add(1), barred: loaded.barred })
            }
            Err(StoreError::Conflict(_)) => Err(Failed::Conflict),
            Err(error) => Err(Failed::Other(unavailable(error))),
        }
    }

    /// Looks up what a contract stands on.
    pub(crate) async fn facts(&self, loaded: &Loaded) -> Result<Facts, AuthorityError> {
        let dossier = &loaded.run.dossier;
        let (namespace, key) = (&dossier.namespace.uid, &dossier.run.idempotency_key);
        let owner = self.store.effect(namespace, key).await.map_err(unavailable)?;
        let references = &*self.world.references;
        let (drifted, suspended) =
            tokio::try_join!(drifted(references, dossier), references.suspended(dossier)).map_err(unavailable)?;
        Ok(Facts {
            drifted,
            has_headroom: self.has_headroom(),
            owns_effect: owner.is_some_and(|owner| owner.run_uid == dossier.run.uid),
            suspended,
            restored: loaded.barred || self.restored().is_some(),
        })
    }

    /// Whether the run came with a restored copy, and may have been dispatched in the history that was lost.
    pub(crate) fn may_be_lost(&self, loaded: &Loaded) -> bool {
        let came_with_copy = loaded.barred || self.copied.contains(&loaded.run.dossier.run.uid);
        came_with_copy && may_have_gone_on(&loaded.run)
    }

    /// A contract is taken back. Of one that came with a restored copy that says nothing about what had been done under it, so
    /// the copy is the cause that counts.
    pub(crate) fn take_back(&self, loaded: &Loaded, cause: Refusal, now: Now) -> Event {
        Event::TakeBack(if self.may_be_lost(loaded) { Refusal::StoreRestored } else { cause }, now)
    }

    /// Whether there is room to seal what runs, and more. A disk that cannot be asked has none.
    pub fn has_headroom(&self) -> bool {
        match self.world.disk.free_bytes() {
            Ok(free) => free >= self.options.headroom.bytes,
            Err(error) => {
                tracing::warn!(%error, "how much room the disk has cannot be found out: no contract is issued");
                false
            }
        }
    }

    /// Counts how often a job was handed out without a result; true once that is too often. A lane that asks again within
    /// its lease has the same job still, so only what comes after the lease counts. What was counted is forgotten when the
    /// authority starts, which errs on the side of waiting.
    pub(crate) fn is_abandoned(&self, uid: &str, job: JobType) -> bool {
        let wall = self.now().wall;
        let live = self.live(uid);
        let mut deliveries = live.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        let delivery = deliveries.entry(job).or_insert(Delivery { count: 1, last: wall });
        if wall.since(delivery.last) >= self.options.lease {
            delivery.count = delivery.count.saturating_add(1);
        }
        delivery.last = wall;
        delivery.count > DELIVERIES
    }
}

/// A change that was not made.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The run was changed meanwhile: judge again.
    Conflict,
    /// Something else.
    Other(AuthorityError),
}

impl From<Failed> for AuthorityError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Conflict => Self::Unavailable("the run was changed meanwhile".to_owned()),
            Failed::Other(error) => error,
        }
    }
}

pub(crate) fn unavailable(error: impl std::fmt::Display) -> AuthorityError {
    AuthorityError::Unavailable(error.to_string())
}

/// The authority cannot take the lead.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The mark.
    #[error(transparent)]
    Mark(#[from] crate::mark::MarkError),
    /// The mark cannot be brought up to date.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}
