//! The one binary. Each command is a module that turns arguments into calls of the crates and answers into an exit code;
//! what m87 does is in the crates.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bpmn;
mod engine;
mod exit;
mod explain;
mod files;
mod generate;
mod hash;
mod kube;
mod local;
mod logs;
mod operator;
mod plan;
mod ready;
mod receipt;
mod receipts;
mod say;
mod signals;
mod store;
mod tool;
mod worker;

use crate::say::tell;
use args::{Arguments, Command};
use clap::Parser;
use exit::Exit;
use kube::args::{KubeArguments, Plugin};
use std::process::ExitCode;

/// musl's own allocator asks the kernel for nearly everything, one call at a time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = arguments();
    let is_service = matches!(arguments.command, Command::Operator(_));
    let usual = if is_service { logs::Usual::Service } else { logs::Usual::Nothing };
    logs::start(arguments.verbose, usual, arguments.log_format);
    let exit = dispatch(arguments.command).unwrap_or_else(|error| {
        tell!("error: {error:#}");
        Exit::Otherwise
    });
    say::ended(exit).into()
}

/// What was asked for. As a plugin of kubectl this program has the plugin's commands and no others.
fn arguments() -> Arguments {
    if !kube::is_plugin(std::env::args_os().next().as_ref()) {
        return Arguments::parse();
    }
    let Plugin { verbose, command } = Plugin::parse();
    Arguments { verbose, log_format: None, command: Command::Kube(KubeArguments { command }) }
}

fn dispatch(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Hash(arguments) => hash::run(&arguments),
        Command::Bpmn(arguments) => bpmn::run(&arguments),
        Command::Gen(arguments) => generate::files(&arguments),
        Command::Operator(arguments) => asynchronously(operator::run(*arguments)),
        Command::Engine(arguments) => asynchronously(engine::run(&arguments)),
        Command::Worker(arguments) => asynchronously(worker::run(&arguments)),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man(arguments) => generate::man(&arguments),
        Command::Exec(arguments) => tool::exec(arguments),
        Command::Shim(arguments) => tool::shim(arguments),
        Command::Ready(arguments) => ready::run(&arguments),
        Command::InstallSelf { path } => tool::install(&path),
        Command::Run(arguments) => asynchronously(local::run(&arguments)),
        Command::Receipt(arguments) => receipt::run(&arguments),
        Command::Plan(arguments) => asynchronously(plan::run(&arguments)),
        Command::Explain(arguments) => asynchronously(explain::run(&arguments)),
        Command::Kube(arguments) => asynchronously(kube::run(&arguments.command)),
        Command::Tenant(arguments) => kube::tenant(&arguments),
        Command::Store(arguments) => asynchronously(store::run(&arguments.command)),
    }
}

fn asynchronously(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
