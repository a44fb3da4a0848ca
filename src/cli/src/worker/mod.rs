//! `m87 worker`: the jobs of one lane, in a process of its own and under an identity of its own.

mod args;
mod story;
mod watch;

pub(crate) use args::WorkerArguments;

use crate::exit::Exit;
use crate::signals;
use anyhow::Context;
use m87_authority::client::Address;
use m87_authority::{AuthorityClient, GrpcClient, Reach};
use m87_worker::lanes::run_lane;
use m87_zeebe::WorkerOptions;
use std::sync::Arc;
use story::Story;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use watch::Watch;

/// Works until a signal to stop; then finishes what it has, or hands it back.
pub(crate) async fn run(arguments: &WorkerArguments) -> anyhow::Result<Exit> {
    let lane = arguments.lane;
    let (reach, client) = (arguments.reach()?, arguments.client()?);
    let watch = Watch::new(Story::new(lane.name(), arguments.engine.clone(), place(&reach)));
    let authority: Arc<dyn AuthorityClient> = Arc::new(GrpcClient::new(reach));
    let stop = CancellationToken::new();
    signals::stop_on_signal(&stop)?;
    if let Some(address) = arguments.health {
        let listener = TcpListener::bind(address).await.with_context(|| format!("--health {address}"))?;
        tokio::spawn(watch.clone().health(listener, stop.clone()));
    }
    tokio::spawn(watch.clone().authority(lane, authority.clone(), stop.clone()));
    let options = arguments.jobs.options(&format!("m87-{}", lane.name()));
    let options = WorkerOptions { listener: Some(watch.listener()), ..options };
    run_lane(lane, client, authority, options, stop).await;
    Ok(Exit::AsAsked)
}

/// Where the authority is, for people.
fn place(reach: &Reach) -> String {
    match &reach.address {
        Address::Fixed(address) => address.clone(),
        Address::File(file) => reach.address().unwrap_or_else(|_| format!("the address in {}", file.display())),
    }
}
