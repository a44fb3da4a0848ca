//! Whether the operator lives, and whether it is of use: `/livez`, `/readyz`, and `/metrics` beside them.
//!
//! Each part says how it stands, in words for people. Alive is a process that a restart would not help; ready is one that leads,
//! has seen everything, and can do its work. A part that is worse off than it should be, while runs go on safely, is degraded: that
//! is said and changes nothing.

use crate::metrics::Metrics;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What readiness is made of, in the order in which it comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The API server answers.
    Api,
    /// The custom resources are installed.
    Crds,
    /// This process leads.
    Lease,
    /// The store is open, and the authority over it.
    Store,
    /// The engine answers.
    Engine,
    /// Every object has been seen, and the watches are alive.
    Watches,
    /// The admission policies are installed, unchanged and old enough.
    Admission,
    /// The lanes have pods.
    Lanes,
    /// The servers listen.
    Servers,
    /// What is kept outside the store is up to date: checkpoints, the high-water mark.
    Evidence,
}

impl Part {
    const ALL: [Self; 10] = [
        Self::Api,
        Self::Crds,
        Self::Lease,
        Self::Store,
        Self::Engine,
        Self::Watches,
        Self::Admission,
        Self::Lanes,
        Self::Servers,
        Self::Evidence,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Api => "api-server",
            Self::Crds => "custom-resources",
            Self::Lease => "lease",
            Self::Store => "store",
            Self::Engine => "engine",
            Self::Watches => "watches",
            Self::Admission => "admission",
            Self::Lanes => "lanes",
            Self::Servers => "servers",
            Self::Evidence => "evidence",
        }
    }
}

/// How a part stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartState {
    /// As it should.
    Well,
    /// Worse than it should, but runs go on safely.
    Degraded(String),
    /// Not yet, or not any more: nobody should count on it.
    Waiting(String),
}

/// What is known of every part.
#[derive(Default)]
pub struct Health {
    parts: RwLock<BTreeMap<Part, PartState>>,
    dead: RwLock<Option<String>>,
}

impl Health {
    /// A part stands like this from now on. What is news is logged.
    pub fn set(&self, part: Part, standing: PartState) {
        let before = self.parts.write().unwrap_or_else(PoisonError::into_inner).insert(part, standing.clone());
        if before.as_ref() == Some(&standing) {
            return;
        }
        match standing {
            PartState::Well => tracing::info!(part = part.name(), "well"),
            PartState::Degraded(why) => tracing::warn!(part = part.name(), why, "degraded"),
            PartState::Waiting(why) => tracing::info!(part = part.name(), why, "waiting"),
        }
    }

    /// Only a restart can help.
    pub fn die(&self, why: impl Into<String>) {
        let why = why.into();
        tracing::error!(why, "only a restart can help");
        *self.dead.write().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why only a restart can help; `None` while it lives.
    pub fn dead(&self) -> Option<String> {
        self.dead.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether every part is of use.
    pub fn is_ready(&self) -> bool {
        self.report().0
    }

    /// Whether every part is of use, and each with its standing.
    pub fn report(&self) -> (bool, String) {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        let (mut ready, mut text) = (true, String::new());
        for part in Part::ALL {
            let line = match parts.get(&part) {
                Some(PartState::Well) => format!("[+] {}", part.name()),
                Some(PartState::Degraded(why)) => format!("[~] {}: {why}", part.name()),
                Some(PartState::Waiting(why)) => {
                    ready = false;
                    format!("[-] {}: {why}", part.name())
                }
                None => {
                    ready = false;
                    format!("[-] {}: not begun", part.name())
                }
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        (ready, text)
    }
}

/// What the HTTP server shows.
#[derive(Clone)]
struct Shown {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

/// Serves until stopped.
pub async fn serve(
    listener: TcpListener,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(figures))
        .with_state(Shown { health, metrics });
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn livez(State(shown): State<Shown>) -> impl IntoResponse {
    match shown.health.dead() {
        None => (StatusCode::OK, "alive\n".to_owned()),
        Some(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")),
    }
}

async fn readyz(State(shown): State<Shown>) -> impl IntoResponse {
    let (ready, text) = shown.health.report();
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

async fn figures(State(shown): State<Shown>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], shown.metrics.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_every_part_is_and_degraded_is_ready() {
        let health = Health::default();
        for part in Part::ALL {
            assert!(!health.is_ready(), "{}", part.name());
            health.set(part, PartState::Well);
        }
        assert!(health.is_ready());
        health.set(Part::Engine, PartState::Degraded("slow".to_owned()));
        assert!(health.is_ready());
        health.set(Part::Watches, PartState::Waiting("silent for 3 min".to_owned()));
        let (ready, text) = health.report();
        assert!(
            !ready && text.contains("[-] watches: silent for 3 min") && text.contains("[~] engine: slow"),
            "{text}"
        );
    }

    #[test]
    fn not_ready_is_not_dead() {
        let health = Health::default();
        assert_eq!(health.dead(), None);
        health.die("the journal is closed");
        assert_eq!(health.dead().as_deref(), Some("the journal is closed"));
    }
}
