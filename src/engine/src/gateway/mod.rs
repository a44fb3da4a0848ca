//! The engine's door: Zeebe's gateway protocol over TCP or within the process.
//!
//! A listener identifies its callers ([`Callers`]); a channel within the process has one caller, given when it is made. What
//! a caller may do is decided in one place (`access`), before the engine hears of it.

mod access;
mod callers;
mod jobs;
mod service;
#[cfg(test)]
mod tests;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use m87_zeebe::Leaf;
use m87_zeebe::proto::gateway_server::GatewayServer;
use m87_zeebe::secure::{H2, incoming};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Server, server::Router};

pub use callers::{Caller, Callers, Open, Tokens, Unidentified};

use crate::engine::Engine;
use callers::Always;
use service::Service;

/// The Zeebe version whose protocol this is; what follows the plus says who speaks it.
const VERSION: &str = concat!("8.6.0+m87.", env!("CARGO_PKG_VERSION"));
/// What clients of Zeebe expect as the largest message, in bytes.
const MESSAGE_LIMIT: usize = 4 * 1024 * 1024;
/// How long calls may still take once the gateway is told to stop.
const CLOSING: Duration = Duration::from_secs(2);

/// How a listener is protected.
#[derive(Debug, Clone)]
pub enum Protection {
    /// Plain text; refused on anything but loopback.
    PlainOnLoopback,
    /// Plain text wherever it listens: somebody said so explicitly.
    PlainAnywhere,
    /// TLS.
    Tls {
        /// The certificate and its chain, PEM.
        certificate: Vec<u8>,
        /// Its private key, PEM.
        key: Vec<u8>,
    },
    /// TLS with a certificate that is replaced while it serves.
    TlsBy(Arc<Leaf>),
}

/// Why a gateway does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Plain text would leave this machine.
    #[error("{0} is not loopback: give a certificate and key (TLS), or allow plain text explicitly (--insecure)")]
    NotLoopback(SocketAddr),
    /// The listener cannot say where it listens.
    #[error("the listener is not usable: {0}")]
    Listener(#[from] io::Error),
    /// The server broke.
    #[error("the gateway cannot serve: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The certificate or key is not usable.
    #[error("the gateway cannot serve TLS: {0}")]
    Tls(#[from] m87_zeebe::TlsError),
}

impl Engine {
    /// Serves the gateway until `stop` is cancelled or the engine stops. Held polls then end empty, streams end as
    /// unavailable, and other calls have two seconds to finish.
    ///
    /// # Errors
    /// If the listener may not be used as asked, or the certificate and key are not usable.
    pub async fn serve(
        &self,
        listener: TcpListener,
        protection: Protection,
        callers: Arc<dyn Callers>,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let address = listener.local_addr()?;
        let tls = match protection {
            Protection::PlainOnLoopback if !address.ip().is_loopback() => return Err(ServeError::NotLoopback(address)),
            Protection::PlainOnLoopback | Protection::PlainAnywhere => None,
            Protection::Tls { certificate, key } => Some(Leaf::new(&certificate, &key)?.server(&[H2])?),
            Protection::TlsBy(leaf) => Some(leaf.server(&[H2])?),
        };
        let closing = CancellationToken::new();
        let service = Service { engine: self.clone(), callers, address: Some(address), closing: closing.clone() };
        let closed = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.inner.stop.cancelled() => {}
            }
            closing.cancel();
        };
        let router = routes(server(), service).await;
        let serving = async {
            match tls {
                Some(tls) => router.serve_with_incoming_shutdown(incoming(listener, tls), closed).await,
                None => router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), closed).await,
            }
        };
        let overdue = async {
            closing.cancelled().await;
            tokio::time::sleep(CLOSING).await;
        };
        tokio::select! {
            served = serving => Ok(served?),
            () = overdue => Ok(()),
        }
    }

    /// A channel to this engine within the process, for this caller. Calls are unavailable once the engine has stopped.
    pub fn channel(&self, caller: Caller) -> Channel {
        let (channel, incoming) = m87_zeebe::local::pair();
        let closing = self.inner.stop.clone();
        let callers = Arc::new(Always(caller));
        let service = Service { engine: self.clone(), callers, address: None, closing: closing.clone() };
        self.inner.runtime.spawn(async move {
            let router = routes(server(), service).await;
            if let Err(error) = router.serve_with_incoming_shutdown(incoming, closing.cancelled_owned()).await {
                tracing::error!(%error, "the gateway within the process ended");
            }
        });
        channel
    }
}

fn server() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .max_concurrent_streams(Some(4096))
        // Clients that vanished without a word are found, so that their streams take no more jobs.
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
}

async fn routes(mut server: Server, service: Service) -> Router {
    let gateway = GatewayServer::new(service)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT);
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<GatewayServer<Service>>().await;
    server.add_service(health_service).add_service(gateway)
}
