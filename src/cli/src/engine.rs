//! `m87 engine`: the embedded engine as a server of its own, for any client of Zeebe.

use crate::args::EngineArguments;
use crate::exit::Exit;
use crate::say::tell;
use crate::signals;
use anyhow::Context;
use m87_engine::gateway::{Open, Protection};
use m87_engine::{Engine, EngineOptions};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves until a signal to stop.
pub(crate) async fn run(arguments: &EngineArguments) -> anyhow::Result<Exit> {
    let protection = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Protection::Tls { certificate: read(certificate)?, key: read(key)? },
        _ if arguments.insecure => Protection::PlainAnywhere,
        _ => Protection::PlainOnLoopback,
    };
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| arguments.listen.to_string())?;
    let options = EngineOptions { data: Some(arguments.data.clone()), ..EngineOptions::default() };
    let engine = Engine::open(options).await?;
    let stop = CancellationToken::new();
    signals::stop_on_signal(&stop)?;
    tell!("engine {} listens on {}", engine.id(), listener.local_addr()?);
    let served = engine.serve(listener, protection, Arc::new(Open), stop).await;
    engine.stop().await;
    served?;
    Ok(Exit::AsAsked)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| file.display().to_string())
}
