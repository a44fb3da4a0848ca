//! TLS on either end of a connection, with certificates that are replaced while it serves: a server's certificate is asked for
//! at each handshake, a client's certificate authority is read from its file at each connection.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_stream::wrappers::ReceiverStream;

/// The protocol of gRPC, as TLS names it.
pub const H2: &[u8] = b"h2";
/// The protocol of plain HTTP, as TLS names it.
pub const HTTP1: &[u8] = b"http/1.1";

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes that may go on at one time; who comes later waits to be accepted.
const HANDSHAKES: usize = 512;
/// Connections that are ready and not yet taken.
const READY: usize = 64;
/// No bundle of certificates is longer, in bytes.
const MAX_CA: u64 = 1024 * 1024;

/// What is wrong with a certificate, a key, or a certificate authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    fn new(what: &str, why: impl std::fmt::Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}

/// A server's certificate and key. Replaced at any time; connections from then on see the new one.
#[derive(Debug)]
pub struct Leaf(RwLock<Arc<CertifiedKey>>);

impl Leaf {
    /// The certificate with its chain, and its key, PEM.
    ///
    /// # Errors
    /// If one of them cannot be read, or the key is not the certificate's.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self(RwLock::new(Arc::new(certified(certificate, key)?)))))
    }

    /// Puts another in its place.
    ///
    /// # Errors
    /// As for [`Leaf::new`]; then the old one stays.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let next = Arc::new(certified(certificate, key)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The settings of a server that shows this certificate and speaks these protocols ([`H2`], [`HTTP1`]).
    ///
    /// # Errors
    /// Never with what this build supports.
    pub fn server(self: &Arc<Self>, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new("TLS", error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Leaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::new("the key is not PEM", error))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| TlsError::new("certificate and key", error))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(TlsError("there is no PEM certificate".to_owned())),
        Err(error) => Err(TlsError::new("the certificate is not PEM", error)),
    }
}

/// The connections of a listener, after their handshake. A slow or failing one holds up no other. Dropping the stream closes
/// the listener.
pub fn incoming(
    listener: TcpListener,
    config: Arc<ServerConfig>,
) -> ReceiverStream<io::Result<server::TlsStream<TcpStream>>> {
    let (ready, connections) = mpsc::channel(READY);
    let (acceptor, slots) = (TlsAcceptor::from(config), Arc::new(Semaphore::new(HANDSHAKES)));
    tokio::spawn(async move {
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let accepted = tokio::select! {
                () = ready.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let (tcp, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, mostly: without a pause this would burn the processor.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (acceptor, ready) = (acceptor.clone(), ready.clone());
            tokio::spawn(async move {
                drop(tcp.set_nodelay(true));
                match timeout(HANDSHAKE, acceptor.accept(tcp)).await {
                    Ok(Ok(connection)) => drop(ready.send(Ok(connection)).await),
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
                }
                drop(slot);
            });
        }
    });
    ReceiverStream::new(connections)
}

/// How to dial a server whose certificate authority is in a file.
#[derive(Debug, Clone)]
pub(crate) struct Dial {
    /// host:port.
    pub(crate) address: String,
    /// The name that the certificate must carry.
    pub(crate) name: ServerName<'static>,
    /// The file of the certificate authority.
    pub(crate) ca: PathBuf,
}

impl Dial {
    /// Connects, believing what the file says now.
    pub(crate) async fn connect(self) -> io::Result<client::TlsStream<TcpStream>> {
        let config = trusting(&self.ca).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let connecting = async {
            let tcp = TcpStream::connect(&self.address).await?;
            tcp.set_nodelay(true)?;
            TlsConnector::from(config).connect(self.name, tcp).await
        };
        timeout(HANDSHAKE, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn trusting(file: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    use std::io::Read;
    let place = file.display().to_string();
    let mut pem = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(MAX_CA).read_to_end(&mut pem))
        .map_err(|error| TlsError::new(&place, error))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&pem).map_err(|error| TlsError::new(&place, error))? {
        roots.add(certificate).map_err(|error| TlsError::new(&place, error))?;
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new("TLS", error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![H2.to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::{Tls, connect, proto, proto::gateway_client::GatewayClient};

    struct Made {
        certificate: Vec<u8>,
        key: Vec<u8>,
    }

    fn made() -> Made {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        Made { certificate: made.cert.pem().into_bytes(), key: made.signing_key.serialize_pem().into_bytes() }
    }

    #[test]
    fn a_leaf_needs_a_certificate_and_its_own_key() {
        let (one, other) = (made(), made());
        for (certificate, key) in [
            (b"no".to_vec(), one.key.clone()),
            (one.certificate.clone(), b"no".to_vec()),
            (one.certificate.clone(), other.key),
        ] {
            assert!(Leaf::new(&certificate, &key).is_err());
        }
        let leaf = Leaf::new(&one.certificate, &one.key).unwrap();
        assert!(leaf.replace(b"no", b"no").is_err());
        let kept = leaf.0.read().unwrap().cert[0].clone();
        assert_eq!(kept, certificates(&one.certificate).unwrap()[0]);
    }

    /// Why a call to `localhost` on that port fails; `None` if the handshake passed.
    async fn handshake(port: u16, ca: &Path) -> Option<String> {
        let dial = Dial {
            address: format!("127.0.0.1:{port}"),
            name: ServerName::try_from("localhost").unwrap(),
            ca: ca.to_owned(),
        };
        dial.connect().await.err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn both_ends_take_a_new_certificate_without_a_restart() {
        let (old, new) = (made(), made());
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, &old.certificate).unwrap();
        let leaf = Leaf::new(&old.certificate, &old.key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = incoming(listener, leaf.server(&[H2]).unwrap());
        assert_eq!(handshake(port, &ca).await, None);
        leaf.replace(&new.certificate, &new.key).unwrap();
        assert!(handshake(port, &ca).await.is_some_and(|why| why.contains("certificate")));
        std::fs::write(&ca, &new.certificate).unwrap();
        assert_eq!(handshake(port, &ca).await, None);
        std::fs::remove_file(&ca).unwrap();
        assert!(handshake(port, &ca).await.is_some_and(|why| why.contains("ca.pem")));
        drop(connections);
    }

    #[tokio::test]
    async fn a_silent_connection_holds_up_no_other() {
        let it = made();
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, &it.certificate).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = incoming(listener, Leaf::new(&it.certificate, &it.key).unwrap().server(&[H2]).unwrap());
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        assert_eq!(handshake(port, &ca).await, None);
        drop((silent, connections));
    }

    #[tokio::test]
    async fn a_call_says_which_file_of_authorities_is_missing() {
        let tls = Tls::CaFile { path: PathBuf::from("/no/such/ca.pem"), name: None };
        let mut gateway = GatewayClient::new(connect("localhost:1", tls).unwrap());
        let error = gateway.topology(proto::TopologyRequest {}).await.unwrap_err();
        let error = crate::Error::from(error).to_string();
        assert!(error.contains("/no/such/ca.pem"), "{error}");
    }
}
