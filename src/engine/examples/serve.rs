//! An open gateway on loopback: `cargo run -p m87-engine --example serve -- 127.0.0.1:26500 [FOLDER]`.
//!
//! Without a folder nothing is kept. It ends on Ctrl-C.

use std::error::Error;
use std::sync::Arc;

use m87_engine::gateway::{Open, Protection};
use m87_engine::{Engine, EngineOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("usage: serve HOST:PORT [FOLDER]")?;
    let data = arguments.next().map(Into::into);
    let engine = Engine::open(EngineOptions { data, ..EngineOptions::default() }).await?;
    let listener = TcpListener::bind(&address).await?;
    println!("engine {} on {}", engine.id(), listener.local_addr()?);
    let stop = CancellationToken::new();
    let interrupt = stop.clone();
    tokio::spawn(async move {
        // If there is no way to be told, it ends only by being killed.
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupt.cancel();
        }
    });
    engine.serve(listener, Protection::PlainOnLoopback, Arc::new(Open), stop).await?;
    engine.stop().await;
    Ok(())
}
