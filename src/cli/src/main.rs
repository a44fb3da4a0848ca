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
mod local;
mod logs;
mod plan;
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
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    logs::start(arguments.verbose);
    let exit = dispatch(arguments.command).unwrap_or_else(|error| {
        tell!("error: {error:#}");
        Exit::Otherwise
    });
    exit.into()
}

fn dispatch(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Hash(arguments) => hash::run(&arguments),
        Command::Bpmn(arguments) => bpmn::run(&arguments),
        Command::Gen(arguments) => generate::files(&arguments),
        Command::Engine(arguments) => asynchronously(engine::run(&arguments)),
        Command::Worker(arguments) => asynchronously(worker::run(&arguments)),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man => generate::man(),
        Command::Exec(arguments) => tool::exec(arguments),
        Command::Shim(arguments) => tool::shim(&arguments),
        Command::Run(arguments) => asynchronously(local::run(&arguments)),
        Command::Receipt(arguments) => receipt::run(&arguments),
        Command::Plan(arguments) => asynchronously(plan::run(&arguments)),
        Command::Explain(arguments) => asynchronously(explain::run(&arguments)),
        Command::Store(arguments) => asynchronously(store::run(&arguments.command)),
    }
}

fn asynchronously(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
