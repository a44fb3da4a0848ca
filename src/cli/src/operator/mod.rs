//! `m87 operator`: the operator of a cluster.

mod args;

pub(crate) use args::OperatorArguments;

use crate::exit::Exit;
use crate::signals;
use m87_operator::config::Settings;
use m87_operator::run::{Ended, LaneJobs, LaneRunner};
use m87_worker::lanes::run_lane;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs until a signal to stop, or until it leads no more: then whoever starts it again finds out who does.
pub(crate) async fn run(arguments: OperatorArguments) -> anyhow::Result<Exit> {
    // One provider for everything in this process, before anything asks for one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let below = arguments.config().map(|file| Settings::read(file)).transpose()?.unwrap_or_default();
    let config = arguments.settings().over(below).resolve();
    let stop = CancellationToken::new();
    signals::stop_on_signal(&stop)?;
    let lanes: LaneRunner = Arc::new(|jobs: LaneJobs| {
        let LaneJobs { lane, client, authority, options, stop } = jobs;
        Box::pin(run_lane(lane, client, authority, options, stop))
    });
    Ok(match m87_operator::run::run(config, lanes, stop).await? {
        Ended::Stopped => Exit::AsAsked,
        Ended::LostLead | Ended::Broken => Exit::Otherwise,
    })
}
