//! `m87 run`: the same authority, engine, lanes and tools as on a cluster, in one folder and one invocation.

pub(crate) mod actor;
mod export;
pub(crate) mod folder;
pub(crate) mod ground;
mod held;
mod key;
pub(crate) mod names;
pub(crate) mod preview;
mod progress;
mod references;
pub(crate) mod report;
pub(crate) mod session;

use crate::args::{Output, RunArguments};
use crate::bpmn;
use crate::exit::Exit;
use crate::say::{counted, put, tell};
use crate::signals;
use export::{Export, Exported};
use folder::Folder;
use m87_api::local::{Key, Objects};
use m87_api::{GovernancePolicy, GovernedRun};
use m87_authority::driver::{DriverError, Opened, RunRequest};
use m87_core::actor::Actor;
use progress::Progress;
use report::Told;
use session::Session;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Seconds of patience with a run that names none.
const DEADLINE_SECONDS: i64 = 3600;

/// How many runs are open at one time: looking after more costs them all more than it helps.
const AT_ONCE: usize = 32;

/// Whoever has more errors than this reads the first ones first.
const SHOWN_ERRORS: usize = 50;

/// Reads the objects of files; prints every error if there are any. `None`: nothing may run.
pub(crate) fn read(files: &[std::path::PathBuf]) -> Option<Objects> {
    match m87_api::local::read(files) {
        Ok(objects) if objects.runs.is_empty() => {
            tell!("there is no GovernedRun in what -f names; a run says what is proposed");
            None
        }
        Ok(objects) => {
            objects.policies.iter().for_each(|(key, policy)| tell_of_process(key, policy));
            Some(objects)
        }
        Err(errors) => {
            let shown = errors.iter().take(SHOWN_ERRORS);
            shown.for_each(|error| tell!("{}", report::printable(&error.to_string())));
            let left = errors.len().saturating_sub(SHOWN_ERRORS);
            let more = if left == 0 { String::new() } else { format!(" ({left} not shown)") };
            tell!("{}{more}; nothing was run", counted(errors.len(), "error"));
            None
        }
    }
}

/// The runs under a policy whose process is not proved are refused with a receipt; the path that refuses it is told here.
fn tell_of_process(key: &Key, policy: &GovernancePolicy) {
    if let Some(why) = policy.spec.rules.process.as_ref().and_then(|process| bpmn::refusal(&process.bpmn)) {
        tell!("policy {:?}: its process is not proved, and its runs are refused:", key.name);
        why.lines().for_each(|line| tell!("  {}", report::printable(line)));
    }
}

/// Runs every run of the files to its receipt, and tells of it.
pub(crate) async fn run(arguments: &RunArguments) -> anyhow::Result<Exit> {
    let Some(objects) = read(&arguments.files.files) else { return Ok(Exit::Invalid) };
    let held = held::held(&objects);
    if !held.is_empty() {
        held.iter().for_each(|why| tell!("{}", report::printable(why)));
        tell!("{}; nothing was run", counted(held.len(), "error"));
        return Ok(Exit::Invalid);
    }
    let objects = Arc::new(objects);
    let folder = Folder::at(&arguments.out)?;
    let stop = CancellationToken::new();
    signals::stop_on_signal(&stop)?;
    let progress = Arc::new(Progress::new(objects.runs.len()));
    let session = Session::open(&folder, arguments, objects.clone(), progress.clone(), stop.clone()).await?;
    let outcome = drive(&session, arguments, &objects, &folder, &progress).await;
    progress.clear();
    session.close().await;
    let (told, left) = outcome?;
    match arguments.output {
        Output::Table => put!(report::story(&told)),
        Output::Json => put!(report::json(&told)?),
    }
    if !left.is_empty() {
        tell!("stopped; not over yet: {}", left.join(", "));
        tell!("the same command again resumes them; no action is repeated");
    }
    let as_asked = left.is_empty() && told.iter().all(Told::as_expected);
    Ok(if as_asked { Exit::AsAsked } else { Exit::Otherwise })
}

/// Opens every run in the order of names, and waits for their receipts: all together, or one after another where the clock is
/// injected, so that the log grows in the same order each time.
async fn drive(
    session: &Session,
    arguments: &RunArguments,
    objects: &Objects,
    folder: &Folder,
    progress: &Arc<Progress>,
) -> anyhow::Result<(Vec<Told>, Vec<String>)> {
    let actor = actor::actor(arguments.user.as_deref());
    let export = Arc::new(Export::new(session.driver.authority().clone(), folder.clone()));
    let one_by_one = arguments.clock.is_some();
    let (mut told, mut left) = (Vec::new(), Vec::new());
    let mut waiting = JoinSet::new();
    for (key, run) in &objects.runs {
        while waiting.len() >= AT_ONCE {
            let Some(one) = waiting.join_next().await else { break };
            sort(one?, &mut told, &mut left)?;
        }
        let opened = match session.driver.open(&request(session, key, run, &actor)?).await {
            Ok(opened) => opened,
            Err(DriverError::Stopped) => {
                left.push(key.name.clone());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let one = finish(session, export.clone(), progress.clone(), key.clone(), run.expected_terminal(), opened);
        if one_by_one {
            sort(one.await, &mut told, &mut left)?;
        } else {
            waiting.spawn(one);
        }
    }
    while let Some(one) = waiting.join_next().await {
        sort(one?, &mut told, &mut left)?;
    }
    // What an earlier invocation left half-way has been resumed too.
    let named: BTreeSet<&str> = told.iter().map(|one| one.uid.as_str()).collect();
    for uid in session.driver.authority().store().unsealed().await? {
        if left.is_empty() && !named.contains(uid.as_str()) {
            let _ = session.driver.finished(&uid).await;
        }
    }
    export.catch_up().await?;
    told.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    left.sort();
    Ok((told, left))
}

/// A run that is over, or the name of one that is not.
type Finished = anyhow::Result<Result<Told, String>>;

fn finish(
    session: &Session,
    export: Arc<Export>,
    progress: Arc<Progress>,
    key: Key,
    expected: Option<m87_core::reason::Terminal>,
    opened: Opened,
) -> impl Future<Output = Finished> + Send + 'static {
    let driver = session.driver.clone();
    async move {
        let (uid, already_done) = match opened {
            Opened::Run(uid) => (uid, false),
            Opened::AlreadyDone(uid) => (uid, true),
        };
        match driver.finished(&uid).await {
            Ok(_) => {}
            Err(DriverError::Stopped) => return Ok(Err(key.name)),
            Err(error) => return Err(error.into()),
        }
        let Exported { file: bundle, verdict, said, receipt_hash } = export.bundle(&uid).await?;
        let Key { namespace, name } = key;
        let told = Told { namespace, name, uid, already_done, expected, verdict, said, receipt_hash, bundle };
        progress.finished(&told.line());
        Ok(Ok(told))
    }
}

fn sort(one: Finished, told: &mut Vec<Told>, left: &mut Vec<String>) -> anyhow::Result<()> {
    match one? {
        Ok(over) => told.push(over),
        Err(name) => left.push(name),
    }
    Ok(())
}

fn request(session: &Session, key: &Key, run: &GovernedRun, actor: &Actor) -> anyhow::Result<RunRequest> {
    let identity = session.names.run(key, run, actor)?;
    Ok(RunRequest {
        namespace: session.names.namespace(&key.namespace),
        name: identity.name,
        uid: Some(identity.uid),
        idempotency_key: Some(identity.idempotency_key),
        actor: actor.clone(),
        proposal: run.spec.proposal.clone(),
        policy: run.spec.policy_ref.name.clone(),
        manifest: run.spec.manifest_ref.name.clone(),
        deadline_seconds: run.spec.deadline_seconds.unwrap_or(DEADLINE_SECONDS),
    })
}
