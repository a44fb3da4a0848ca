//! What an invocation stands on: the authority over an out folder's store, with key, clock and mark. It moves nothing by itself.

use crate::local::folder::Folder;
use crate::local::key;
use crate::local::names::Names;
use crate::local::references::Files;
use crate::receipts;
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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An authority that leads its store.
pub(crate) struct Ground {
    pub(crate) authority: Arc<Authority>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Uids of what is in the files.
    pub(crate) names: Names,
    pub(crate) clock: ClockSource,
    pub(crate) tls: ServerIdentity,
}

impl Ground {
    /// Opens the store of a folder that is held. `clock` freezes what is recorded; `lease` is how long a job stays with a lane,
    /// if that is not the usual time.
    pub(crate) async fn open(
        folder: &Folder,
        key_file: Option<&Path>,
        clock: Option<Timestamp>,
        lease: Option<Duration>,
        objects: Arc<Objects>,
        status: Arc<dyn StatusSink>,
    ) -> anyhow::Result<Self> {
        let key_file = key_file.map_or_else(|| folder.key(), Path::to_owned);
        let key = key::open(&key_file)?;
        receipts::write(&folder.public_key(), key.verifying_key().to_pem()?.as_bytes())?;
        let entropy: Arc<dyn Entropy> = match clock {
            Some(clock) => Arc::new(DerivedEntropy { clock, key_id: key.key_id() }),
            None => Arc::new(SystemEntropy),
        };
        let tls = ServerIdentity::open(&folder.tls())?;
        let usual = Options::new(tls.ca_pem.clone(), folder.address());
        let options = Options { lease: lease.unwrap_or(usual.lease), ..usual };
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
            executor: Arc::new(LocalExecutor::new(folder.attempts(), REPORT_GRACE)?),
            mark: Arc::new(mark(folder, &key_file, store.id(), derived)),
            status,
            disk: Arc::new(FileSystem(folder.path().to_owned())),
            checkpoints: Arc::new(CheckpointFiles(folder.checkpoints())),
        };
        let artifacts = Artifacts::in_folder(&folder.artifacts())?;
        let authority = Authority::open(Arc::new(store), artifacts, world, key, options, &EachStart).await?;
        let clock = if clock.is_some() { ClockSource::Injected } else { ClockSource::System };
        Ok(Self { authority: Arc::new(authority), entropy, names, clock, tls })
    }
}

/// The high-water mark is beside the signing key. Only a store whose id is derived from clock and key, and so is the same in
/// every folder, has its mark among its own folder's keys.
fn mark(folder: &Folder, key_file: &Path, store_id: &str, derived: bool) -> FileMark {
    let own = FileMark(folder.keys());
    let beside = key_file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if derived || Path::new(&own.place(store_id)).exists() { own } else { FileMark(beside.to_owned()) }
}
