//! `m87 worker`: the jobs of one lane, in a process of its own and under an identity of its own.

use crate::args::WorkerArguments;
use crate::exit::Exit;
use crate::say::tell;
use crate::signals;
use m87_authority::{Credentials, GrpcClient};
use m87_worker::lanes::run_lane;
use m87_zeebe::{Client, Tls, connect};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Works until a signal to stop; then finishes what it has, or hands it back.
pub(crate) async fn run(arguments: &WorkerArguments) -> anyhow::Result<Exit> {
    let credentials = Credentials::read(&arguments.credentials)?;
    let client = Client::new(connect(&arguments.engine, Tls::Plain)?);
    let stop = CancellationToken::new();
    signals::stop_on_signal(&stop)?;
    tell!("lane {} works for {}", arguments.lane.name(), arguments.engine);
    let options = arguments.jobs.options(&format!("m87-{}", arguments.lane.name()));
    run_lane(arguments.lane, client, Arc::new(GrpcClient::new(credentials)), options, stop).await;
    Ok(Exit::AsAsked)
}
