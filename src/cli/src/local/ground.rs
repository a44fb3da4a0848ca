//! What an invocation stands on: the authority over an out folder's store, with key, clock and mark. It moves nothing by itself.

use crate::local::folder::Folder;
use crate::local::key;
use crate::local::names::Names;
use crate::local::references::Files;
use crate::receipts;
use anyhow::{Context, bail};
use m87_api::local::Objects;
use m87_authority::artifacts::Artifacts;
use m87_authority::clock::{Clock, FrozenClock, SystemClock};
use m87_authority::entropy::{DerivedEntropy, Entropy, SystemEntropy};
use m87_authority::mark::{FileMark, HighWaterMark};
use m87_authority::store::{FileSystem, SqliteStore, Store};
use m87_authority::tls::ServerIdentity;
use m87_authority::world::{CheckpointFiles, EachStart, StatusSink};
use m87_authority::{Authority, Options, World};
use m87_core::dossier::ClockSource;
use m87_core::time::Timestamp;
use m87_worker::exec::REPORT_GRACE;
use m87_worker::executor::LocalExecutor;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long who is waited for; see the flags of `m87 run`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// How long a job stays with a lane.
    pub(crate) lease: Duration,
    /// How long an attempt may take to start.
    pub(crate) start_limit: Duration,
    /// How long beyond its limit a started attempt is waited for.
    pub(crate) report_margin: Duration,
    /// How long beyond its limit an attempt tries to report.
    pub(crate) report_grace: Duration,
}

impl Times {
    /// What is usual.
    pub(crate) fn usual() -> Self {
        let Options { lease, start_limit, report_margin, .. } = Options::new(String::new(), PathBuf::new());
        Self { lease, start_limit, report_margin, report_grace: REPORT_GRACE }
    }
}

/// An authority that leads its store.
pub(crate) struct Ground {
    pub(crate) authority: Arc<Authority>,
    /// Where tools run.
    pub(crate) executor: LocalExecutor,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Uids of what is in the files.
    pub(crate) names: Names,
    pub(crate) clock: ClockSource,
    pub(crate) tls: ServerIdentity,
}

impl Ground {
    /// Opens the store of a folder that is held. `clock` freezes what is recorded.
    pub(crate) async fn open(
        folder: &Folder,
        key_file: Option<&Path>,
        clock: Option<Timestamp>,
        times: Times,
        objects: Arc<Objects>,
        status: Arc<dyn StatusSink>,
    ) -> anyhow::Result<Self> {
        let key_file = key_file.map_or_else(|| folder.key(), Path::to_owned);
        refuse_a_lost_store(folder)?;
        refuse_a_lost_key(folder, &key_file)?;
        let key = key::open(&key_file)?;
        keep_to_one_signer(folder, &key.verifying_key().to_pem()?)?;
        let entropy: Arc<dyn Entropy> = match clock {
            Some(clock) => Arc::new(DerivedEntropy { clock, key_id: key.key_id() }),
            None => Arc::new(SystemEntropy),
        };
        let tls = ServerIdentity::open(&folder.tls())?;
        let Times { lease, start_limit, report_margin, report_grace } = times;
        let usual = Options::new(tls.ca_pem.clone(), folder.address());
        let options = Options { lease, start_limit, report_margin, ..usual };
        let executor = LocalExecutor::new(folder.attempts(), report_grace)?;
        let fresh_id = entropy.id(&["cluster"]);
        let store = SqliteStore::open(&folder.store(), &fresh_id, &options.headroom).await?;
        let derived = clock.is_some() && store.id() == fresh_id;
        let names = Names::of(store.id());
        let world = World {
            clock: match clock {
                Some(instant) => Arc::new(FrozenClock(instant)) as Arc<dyn Clock>,
                None => Arc::new(SystemClock),
            },
            entropy: entropy.clone(),
            references: Arc::new(Files::new(objects, names.clone())),
            executor: Arc::new(executor.clone()),
            mark: Arc::new(mark(folder, &key_file, store.id(), derived)),
            status,
            disk: Arc::new(FileSystem(folder.path().to_owned())),
            checkpoints: Arc::new(CheckpointFiles(folder.checkpoints())),
        };
        let artifacts = Artifacts::in_folder(&folder.artifacts())?;
        let authority = Authority::open(Arc::new(store), artifacts, world, key, options, &EachStart).await?;
        let clock = if clock.is_some() { ClockSource::Injected } else { ClockSource::System };
        Ok(Self { authority: Arc::new(authority), executor, entropy, names, clock, tls })
    }
}

/// A key that had signed here is never silently replaced: nobody would trust what the new one signs.
fn refuse_a_lost_key(folder: &Folder, key_file: &Path) -> anyhow::Result<()> {
    let public = folder.public_key();
    anyhow::ensure!(
        key_file.exists() || !public.exists(),
        "{}: the signing key is gone, and {} says that it signed here; put it back, or use another folder with --out",
        key_file.display(),
        public.display()
    );
    Ok(())
}

/// Writes down who signs in this folder, once; another signer is refused.
fn keep_to_one_signer(folder: &Folder, pem: &str) -> anyhow::Result<()> {
    let public = folder.public_key();
    match std::fs::read(&public) {
        Ok(known) if known == pem.as_bytes() => Ok(()),
        Ok(_) => anyhow::bail!(
            "{}: another key signs in this folder; name it with --key, or use another folder with --out",
            public.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => receipts::write(&public, pem.as_bytes()),
        Err(error) => Err(error).with_context(|| public.display().to_string()),
    }
}

/// A new store begins with a new id, and so has no mark to be behind. Where there are traces of another it would do again
/// what that one had done.
fn refuse_a_lost_store(folder: &Folder) -> anyhow::Result<()> {
    if fs::metadata(folder.database()).is_ok_and(|facts| facts.len() > 0) {
        return Ok(());
    }
    let within = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_mark = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "mark");
    let trace = within(&folder.checkpoints()).next().or_else(|| within(&folder.keys()).find(is_mark));
    if let Some(trace) = trace {
        bail!(
            "{}: the store is gone, and {} says that there was one; without it, what was done could be done again. \
             Put it back, or name another folder with --out",
            folder.database().display(),
            trace.display()
        );
    }
    Ok(())
}

/// The high-water mark is beside the signing key. Only a store whose id is derived from clock and key, and so is the same in
/// every folder, has its mark among its own folder's keys.
fn mark(folder: &Folder, key_file: &Path, store_id: &str, derived: bool) -> FileMark {
    let own = FileMark(folder.keys());
    let beside = key_file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if derived || Path::new(&own.place(store_id)).exists() { own } else { FileMark(beside.to_owned()) }
}
