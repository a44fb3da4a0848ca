//! The socket: TLS with whatever certificate holds now, few connections, none that idles.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at one time; more wait to be accepted.
const CONNECTIONS: usize = 64;

/// A client that has not finished its handshake, or the head of its request, by then is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// No connection is kept longer, so that nobody who reads slowly or not at all keeps others out.
const CONNECTION_LIMIT: Duration = Duration::from_secs(120);

/// No head of a request is larger, in bytes: a token is the largest part of it.
const MAX_HEAD: usize = 64 << 10;

/// What serves this certificate, PEM.
pub fn server_config(certificate_pem: &str, key_pem: &str) -> Result<ServerConfig, rustls::Error> {
    let general = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate_pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(general)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(general)?, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves until `stop`; answers that are under way are finished. `tls` may change at any time: the next connection takes it.
pub async fn serve(
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    router: Router,
    stop: CancellationToken,
) {
    let (room, tasks) = (Arc::new(Semaphore::new(CONNECTIONS)), TaskTracker::new());
    loop {
        let (stream, place) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &room) => match accepted {
                Some(accepted) => accepted,
                None => continue,
            },
        };
        let (acceptor, router, stop) = (TlsAcceptor::from(tls.borrow().clone()), router.clone(), stop.clone());
        tasks.spawn(async move {
            connection(stream, acceptor, router, stop).await;
            drop(place);
        });
    }
    tasks.close();
    tasks.wait().await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = room.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection for receipts was not accepted");
            // Out of file descriptors, most likely: they come back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router, stop: CancellationToken) {
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await else {
        tracing::debug!("a connection for receipts made no TLS handshake");
        return;
    };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_HEAD);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
        () = tokio::time::sleep(CONNECTION_LIMIT) => {
            tracing::debug!("a connection for receipts was kept too long");
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection for receipts ended early");
    }
}
