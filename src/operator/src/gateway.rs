//! The embedded engine's door on a cluster: TLS with a certificate that is replaced while it serves, and lanes known by their
//! ServiceAccounts. And the way to a real Zeebe, where there is one instead.

use crate::lanes::{Zeebe, service_account};
use crate::world::token_review::{Identity, token_review};
use async_trait::async_trait;
use kube::Client;
use m87_core::lane::Lane;
use m87_engine::Engine;
use m87_engine::gateway::{Caller, Callers, Protection, ServeError, Unidentified};
use m87_zeebe::{ConnectError, Leaf, Tls, Token, connect};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How long a lane's token is believed without asking again.
const BELIEVED: Duration = Duration::from_secs(10);
/// Tokens that are remembered at one time.
const REMEMBERED: usize = 256;
/// Token reviews that may be under way at one time; who comes later waits, so that strangers cannot flood the API server.
const REVIEWS: usize = 8;

/// Serves the embedded engine to lanes until `stop`.
///
/// # Errors
/// If the listener cannot be used.
pub async fn serve(
    engine: &Engine,
    listener: TcpListener,
    leaf: Arc<Leaf>,
    callers: LaneCallers,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    engine.serve(listener, Protection::TlsBy(leaf), Arc::new(callers), stop).await
}

/// Knows a lane by its ServiceAccount, by TokenReview. Nobody else is known: the operator itself is in the same process.
pub struct LaneCallers {
    client: Client,
    namespace: String,
    known: Mutex<Believed>,
    reviews: Semaphore,
}

impl LaneCallers {
    /// The lanes of this namespace.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self {
            client,
            namespace: namespace.into(),
            known: Mutex::new(Believed::default()),
            reviews: Semaphore::new(REVIEWS),
        }
    }

    fn known(&self, token: &[u8; 32]) -> Option<Lane> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(token, Instant::now())
    }
}

#[async_trait]
impl Callers for LaneCallers {
    async fn identify(&self, token: Option<&str>) -> Result<Caller, Unidentified> {
        let token = token.ok_or(Unidentified::Unknown)?;
        let hash = Sha256::digest(token.as_bytes()).into();
        if let Some(lane) = self.known(&hash) {
            return Ok(Caller::Lane(lane));
        }
        let unavailable = |error: &dyn std::fmt::Display| Unidentified::Unavailable(error.to_string());
        let _turn = self.reviews.acquire().await.map_err(|error| unavailable(&error))?;
        // Somebody with the same token may have asked while this one waited.
        if let Some(lane) = self.known(&hash) {
            return Ok(Caller::Lane(lane));
        }
        let asked = Instant::now();
        let identity = token_review(&self.client, token).await.map_err(|error| unavailable(&error))?;
        let lane = identity.and_then(|it| lane_of(&it, &self.namespace)).ok_or(Unidentified::Unknown)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).put(hash, lane, asked);
        Ok(Caller::Lane(lane))
    }
}

/// The lane that has this identity.
pub fn lane_of(identity: &Identity, namespace: &str) -> Option<Lane> {
    let (of, account) = identity.service_account()?;
    Lane::ALL.into_iter().find(|lane| of == namespace && account == service_account(*lane))
}

/// Lanes by the hash of their token, and when that was asked.
#[derive(Default)]
pub(crate) struct Believed(HashMap<[u8; 32], (Lane, Instant)>);

impl Believed {
    pub(crate) fn get(&self, token: &[u8; 32], now: Instant) -> Option<Lane> {
        let (lane, asked) = self.0.get(token)?;
        (now.saturating_duration_since(*asked) < BELIEVED).then_some(*lane)
    }

    pub(crate) fn put(&mut self, token: [u8; 32], lane: Lane, asked: Instant) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, (_, at)| asked.saturating_duration_since(*at) < BELIEVED);
        }
        if self.0.len() < REMEMBERED {
            self.0.insert(token, (lane, asked));
        }
    }
}

/// A client of a real Zeebe, for the operator. [`m87_zeebe::Client::answers_anybody`] says whether that Zeebe is open.
///
/// # Errors
/// If the address is none.
pub fn zeebe_client(zeebe: &Zeebe) -> Result<m87_zeebe::Client, ConnectError> {
    let tls = match zeebe.ca_file() {
        Some(file) => Tls::CaFile { path: file.into(), name: None },
        None => Tls::Plain,
    };
    let client = m87_zeebe::Client::new(connect(&zeebe.address, tls)?).with_prefix(zeebe.prefix.clone());
    Ok(match zeebe.token_file() {
        Some(file) => client.with_token(Arc::new(Token::File(file.into()))),
        None => client,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn identity(username: &str) -> Identity {
        Identity { username: username.to_owned(), uid: String::new(), groups: Vec::new(), pod: None }
    }

    #[test]
    fn only_the_lanes_own_service_accounts_are_lanes() {
        for lane in Lane::ALL {
            let it = identity(&format!("system:serviceaccount:m87-system:m87-lane-{}", lane.name()));
            assert_eq!(lane_of(&it, "m87-system"), Some(lane));
            assert_eq!(lane_of(&it, "other"), None);
        }
        for other in [
            "system:serviceaccount:m87-system:m87",
            "system:serviceaccount:m87-system:m87-lane-",
            "system:serviceaccount:m87-system:m87-lane-runner2",
            "system:serviceaccount:tenant:m87-lane-runner",
            "m87-lane-runner",
            "system:admin",
        ] {
            assert_eq!(lane_of(&identity(other), "m87-system"), None, "{other}");
        }
    }

    #[test]
    fn a_lane_is_believed_for_ten_seconds_and_no_longer() {
        let (mut known, start) = (Believed::default(), Instant::now());
        known.put([1; 32], Lane::Runner, start);
        assert_eq!(known.get(&[1; 32], start + Duration::from_millis(9_999)), Some(Lane::Runner));
        assert_eq!(known.get(&[1; 32], start + BELIEVED), None);
        assert_eq!(known.get(&[2; 32], start), None);
    }

    #[test]
    fn no_more_tokens_are_remembered_than_there_is_room_for() {
        let (mut known, start) = (Believed::default(), Instant::now());
        for at in 0..=REMEMBERED {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&at.to_be_bytes());
            known.put(token, Lane::Runner, start);
        }
        assert_eq!(known.0.len(), REMEMBERED);
        known.put([255; 32], Lane::Memory, start + BELIEVED);
        assert_eq!(known.0.len(), 1);
    }
}
