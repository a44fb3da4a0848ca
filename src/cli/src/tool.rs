//! `m87 exec` and `m87 shim`: the two processes around a tool, started by m87 itself; and how the shim comes into a tool's
//! container, whose image knows nothing of m87.

use crate::args::{ExecArguments, ShimArguments, ShimStage};
use crate::exit::Exit;
use anyhow::{Context, bail};
use m87_authority::Reach;
use m87_authority::client::{Address, CaSource, TokenSource};
use m87_worker::exec::{ExecArgs, FetchArgs, Fetched, Place, Task, main_exec, main_fetch};
use m87_worker::shim::{CheckArgs, ShimArgs, main_check, main_shim};
use std::fs::{File, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// The authority-facing one.
pub(crate) fn exec(arguments: ExecArguments) -> anyhow::Result<Exit> {
    let reach = reach(&arguments);
    if let (Some(folder), Some(report)) = (&arguments.fetch, &arguments.report) {
        let args = FetchArgs { folder: folder.clone(), report: report.clone() };
        let reach = reach.context("--authority, --token-file and --ca are needed")?;
        return Ok(match main_fetch(&args, reach)? {
            Fetched::Ready => Exit::AsAsked,
            Fetched::Nothing => Exit::Otherwise,
        });
    }
    let task = match arguments.contract {
        Some(contract_id) => Task::Tool { contract_id },
        None => Task::Validation,
    };
    let place = match (arguments.listen, arguments.peer, arguments.credentials, arguments.work) {
        (Some(socket), Some(peer), _, _) => {
            Place::Pod { socket, peer, patience: Duration::from_secs(arguments.start_limit) }
        }
        (_, _, Some(credentials), Some(folder)) => Place::Machine { credentials, folder },
        _ => bail!("either --credentials and --work, or --listen and --peer are needed"),
    };
    let report_grace = Duration::from_secs(arguments.report_grace);
    main_exec(&ExecArgs { place, task, report_grace }, || reach)?;
    Ok(Exit::AsAsked)
}

/// The way to the authority from a pod.
fn reach(arguments: &ExecArguments) -> Option<Reach> {
    Some(Reach {
        address: Address::Fixed(arguments.authority.clone()?),
        ca: CaSource::Pem(arguments.ca.clone()?),
        token: TokenSource::File(arguments.token_file.clone()?),
    })
}

/// The tool-facing one. Its exit code is the verdict of a check.
pub(crate) fn shim(arguments: ShimArguments) -> anyhow::Result<Exit> {
    let ShimArguments { stage, work, connect, check, report } = arguments;
    let args = match (stage, work, connect, check, report) {
        (ShimStage::Tool, ..) => ShimArgs::Stage,
        (ShimStage::Watch, Some(work), _, Some(fetched), Some(report)) => {
            return Ok(Exit::Verdict(main_check(&CheckArgs { fetched, work, report })?));
        }
        (ShimStage::Watch, Some(work), Some(socket), _, _) => ShimArgs::Connect { socket, work },
        (ShimStage::Watch, Some(work), None, _, _) => ShimArgs::Inherited { work },
        (ShimStage::Watch, None, ..) => bail!("--work is needed"),
    };
    main_shim(&args)?;
    Ok(Exit::AsAsked)
}

/// Copies this program to a place from which any user can run it and nobody can change it.
pub(crate) fn install(path: &Path) -> anyhow::Result<Exit> {
    let place = || path.display().to_string();
    let draft = path.with_extension("new");
    let mut own = File::open("/proc/self/exe").context("this program's own file")?;
    let mut copy = File::options().write(true).create_new(true).mode(0o600).open(&draft).with_context(place)?;
    std::io::copy(&mut own, &mut copy).with_context(place)?;
    copy.set_permissions(Permissions::from_mode(0o555)).with_context(place)?;
    drop(copy);
    std::fs::rename(&draft, path).with_context(place)?;
    Ok(Exit::AsAsked)
}
