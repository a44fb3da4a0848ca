//! The engine: the embedded one, or a real Zeebe.

use super::Shared;
use crate::gateway::zeebe_client;
use crate::health::{Health, Part, PartState};
use crate::lanes::{ZEEBE_FOLDER, Zeebe, ZeebeSecret};
use anyhow::Context;
use m87_authority::driver::Driver;
use m87_engine::gateway::Caller;
use m87_engine::{Engine, EngineOptions, Workers};
use m87_zeebe::{Client, Prefix};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Between two questions whether it answers.
const LOOK: Duration = Duration::from_secs(5);

/// Opens the embedded engine, unless a real Zeebe is used.
pub(super) async fn open(shared: &Shared) -> anyhow::Result<Option<Engine>> {
    if shared.config.zeebe_address.is_some() {
        return Ok(None);
    }
    let options = EngineOptions {
        data: Some(shared.config.data.join("engine")),
        workers: Workers::Anywhere,
        ..EngineOptions::default()
    };
    Ok(Some(Engine::open(options).await.context("the embedded engine")?))
}

/// The real Zeebe, if one is used.
pub(super) fn zeebe(shared: &Shared) -> anyhow::Result<Option<Zeebe>> {
    let config = &shared.config;
    let Some(address) = &config.zeebe_address else { return Ok(None) };
    let prefix = config.zeebe_prefix.as_deref().unwrap_or_default().parse::<Prefix>()?;
    let holds = |name: &str| Path::new(ZEEBE_FOLDER).join(name).exists();
    let secret = config.zeebe_secret.as_ref().map(|name| ZeebeSecret {
        name: name.clone(),
        ca: holds("ca.pem"),
        token: holds("token"),
    });
    Ok(Some(Zeebe { address: address.clone(), prefix, secret }))
}

/// A client for that caller.
pub(super) fn client(engine: Option<&Engine>, zeebe: Option<&Zeebe>, caller: Caller) -> anyhow::Result<Client> {
    match (engine, zeebe) {
        (Some(engine), _) => Ok(Client::new(engine.channel(caller))),
        (None, Some(zeebe)) => Ok(zeebe_client(zeebe)?),
        (None, None) => anyhow::bail!("there is neither an embedded engine nor a Zeebe"),
    }
}

/// Says in readiness whether the engine answers, until stopped. Runs wait for it safely.
pub(super) async fn look(client: Client, external: bool, health: Arc<Health>, stop: CancellationToken) {
    loop {
        let standing = match (client.topology().await, external) {
            (Err(error), _) => PartState::Degraded(format!("it does not answer; runs wait for it: {error}")),
            (Ok(_), true) => match client.answers_anybody().await {
                Ok(true) => PartState::Degraded(
                    "this Zeebe answers callers without a token: whoever reaches it can do what m87 can".to_owned(),
                ),
                Ok(false) | Err(_) => PartState::Well,
            },
            (Ok(_), false) => PartState::Well,
        };
        health.set(Part::Engine, standing);
        if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
            return;
        }
    }
}

/// An instance with which the engine cannot go on ends its run, instead of leaving it to its deadline.
pub(super) async fn report_incidents(engine: Engine, driver: Driver, stop: CancellationToken) {
    let mut notices = engine.notices();
    loop {
        for incident in engine.incidents() {
            if let Err(error) = driver.incident(incident.instance, &incident.message).await {
                tracing::warn!(%error, "an incident could not be reported");
            }
        }
        tokio::select! {
            // Whatever it tells of, and also if some of it was missed: the list above is what counts.
            notice = notices.recv() => if matches!(notice, Err(RecvError::Closed)) {
                return;
            },
            () = stop.cancelled() => return,
        }
    }
}
