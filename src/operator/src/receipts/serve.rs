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

/// What a client may take up.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Connections at one time; more wait to be accepted.
    connections: usize,
    /// A client that has not finished its handshake, or the head of its request, by then is dropped.
    patience: Duration,
    /// No connection is kept longer, so that nobody who reads slowly or not at all keeps others out.
    connection: Duration,
}

const USUAL: Limits =
    Limits { connections: 64, patience: Duration::from_secs(10), connection: Duration::from_secs(120) };

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
    serve_within(USUAL, listener, tls, router, stop).await;
}

async fn serve_within(
    limits: Limits,
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    router: Router,
    stop: CancellationToken,
) {
    let (room, tasks) = (Arc::new(Semaphore::new(limits.connections)), TaskTracker::new());
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
            // Also while it stops: an answer that nobody reads is never finished.
            let within =
                tokio::time::timeout(limits.connection, connection(stream, limits.patience, acceptor, router, stop));
            if within.await.is_err() {
                tracing::debug!("a connection for receipts was kept too long");
            }
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

async fn connection(
    stream: TcpStream,
    patience: Duration,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
) {
    let Ok(Ok(stream)) = tokio::time::timeout(patience, acceptor.accept(stream)).await else {
        tracing::debug!("a connection for receipts made no TLS handshake");
        return;
    };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(MAX_HEAD);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection for receipts ended early");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use m87_authority::tls::ServerIdentity;
    use std::net::SocketAddr;
    use std::time::Instant;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    const LIMIT: Duration = Duration::from_millis(700);

    /// A server with one place, whose answer at `/endless` never ends.
    struct Server {
        address: SocketAddr,
        connector: TlsConnector,
        stop: CancellationToken,
        serving: JoinHandle<()>,
        _tls: watch::Sender<Arc<ServerConfig>>,
    }

    async fn server() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let identity = ServerIdentity::open(&folder.path().join("tls.json")).unwrap();
        let config = server_config(&identity.certificate_pem, &identity.key_pem).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(identity.ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let (keep, tls) = watch::channel(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = || futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1 << 16]));
        let router = Router::new()
            .route("/short", get(async || "short"))
            .route("/endless", get(async move || Body::from_stream(endless())));
        let limits = Limits { connections: 1, patience: Duration::from_secs(60), connection: LIMIT };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_within(limits, listener, tls, router, stop.clone()));
        Server { address, connector: TlsConnector::from(Arc::new(client)), stop, serving, _tls: keep }
    }

    impl Server {
        async fn ask(&self, path: &str) -> TlsStream<TcpStream> {
            let stream = TcpStream::connect(self.address).await.unwrap();
            let name = rustls::pki_types::ServerName::try_from(m87_authority::client::SERVER_NAME).unwrap();
            let mut stream = self.connector.connect(name, stream).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: m87\r\n\r\n").as_bytes()).await.unwrap();
            stream
        }
    }

    #[tokio::test]
    async fn whoever_reads_slowly_keeps_others_out_no_longer_than_the_limit() {
        let server = server().await;
        let begun = Instant::now();
        let mut slow = server.ask("/endless").await;
        let mut some = [0; 64];
        slow.read_exact(&mut some).await.unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200"));
        // There is one place: this one is served when the slow one has lost it.
        let mut other = tokio::time::timeout(Duration::from_secs(20), server.ask("/short")).await.unwrap();
        let mut some = [0; 12];
        other.read_exact(&mut some).await.unwrap();
        assert_eq!(&some, b"HTTP/1.1 200");
        assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
        // What had been sent can still be read, and then it is over.
        let mut rest = Vec::new();
        let over = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut rest)).await;
        over.expect("the connection is still there").expect_err("an answer that was cut off looks whole");
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_does_not_hold_up_the_end() {
        let server = server().await;
        let mut slow = server.ask("/endless").await;
        slow.read_exact(&mut [0; 64]).await.unwrap();
        server.stop.cancel();
        tokio::time::timeout(Duration::from_secs(20), server.serving).await.unwrap().unwrap();
    }
}
