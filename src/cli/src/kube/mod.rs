//! `kubectl m87`, the same as `m87 kube`: what a person asks of runs on a cluster, with that person's own rights. Objects are
//! read from the API server, receipts from m87 through the API server's service proxy.

pub(crate) mod args;
mod cluster;
mod logs;
mod pages;
mod receipt;
mod status;
mod tenant;

use crate::exit::Exit;
use args::{KubeCommand, ReceiptOnClusterCommand, TenantArguments};
use std::ffi::OsString;
use std::path::Path;

/// Whether this program was called as a plugin of kubectl, which finds it by this name.
pub(crate) fn is_plugin(program: Option<&OsString>) -> bool {
    program.and_then(|program| Path::new(program).file_stem()).is_some_and(|name| name == "kubectl-m87")
}

/// Does one of the plugin's commands.
pub(crate) async fn run(command: &KubeCommand) -> anyhow::Result<Exit> {
    match command {
        KubeCommand::Status(arguments) => status::run(arguments).await,
        KubeCommand::Explain(arguments) => receipt::explain(arguments).await,
        KubeCommand::Receipt(arguments) => match &arguments.command {
            ReceiptOnClusterCommand::Export(arguments) => receipt::export(arguments).await,
            ReceiptOnClusterCommand::Verify(arguments) => receipt::verify(arguments).await,
        },
        KubeCommand::Logs(arguments) => logs::run(arguments).await,
        KubeCommand::Tenant(arguments) => tenant(arguments),
    }
}

/// Prints what a namespace's administrator applies.
pub(crate) fn tenant(arguments: &TenantArguments) -> anyhow::Result<Exit> {
    tenant::run(arguments)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_plugins_command_line_holds_together() {
        args::Plugin::command().debug_assert();
    }

    #[test]
    fn the_plugin_is_known_by_the_name_of_its_program() {
        for name in ["kubectl-m87", "/usr/local/bin/kubectl-m87", "./kubectl-m87"] {
            assert!(is_plugin(Some(&name.into())), "{name}");
        }
        for name in ["m87", "/opt/kubectl-m87/m87", "kubectl"] {
            assert!(!is_plugin(Some(&name.into())), "{name}");
        }
        assert!(!is_plugin(None));
    }
}
