//! `m87 exec` and `m87 shim`: the two processes around a tool, started by m87 itself.

use crate::args::{ExecArguments, ShimArguments, ShimStage};
use crate::exit::Exit;
use m87_worker::exec::{ExecArgs, Task, main_exec};
use m87_worker::shim::{Stage, main_shim};
use std::time::Duration;

/// The authority-facing one.
pub(crate) fn exec(arguments: ExecArguments) -> anyhow::Result<Exit> {
    let task = match arguments.contract {
        Some(contract_id) => Task::Tool { contract_id },
        None => Task::Validation,
    };
    main_exec(&ExecArgs {
        credentials: arguments.credentials,
        folder: arguments.work,
        task,
        report_grace: Duration::from_secs(arguments.report_grace),
    })?;
    Ok(Exit::AsAsked)
}

/// The tool-facing one.
pub(crate) fn shim(arguments: &ShimArguments) -> anyhow::Result<Exit> {
    main_shim(match arguments.stage {
        ShimStage::Watch => Stage::Watch,
        ShimStage::Tool => Stage::Tool,
    })?;
    Ok(Exit::AsAsked)
}
