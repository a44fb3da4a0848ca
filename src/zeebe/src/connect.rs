//! A channel to a gateway: plain, or by TLS against a named CA.

use std::{path::PathBuf, time::Duration};

use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};

use crate::secure::Dial;

/// How the connection is protected.
#[derive(Debug, Clone)]
pub enum Tls {
    /// Not at all: loopback, or a mesh that does it.
    Plain,
    /// The server's certificate must chain to this CA.
    Ca {
        /// The CA's certificates, PEM.
        pem: Vec<u8>,
        /// The name the certificate must carry, if it is not the host of the address.
        name: Option<String>,
    },
    /// The server's certificate must chain to the CA in a file, which is read at each connection: it may be replaced.
    CaFile {
        /// The file of the CA's certificates, PEM.
        path: PathBuf,
        /// The name the certificate must carry, if it is not the host of the address.
        name: Option<String>,
    },
}

/// Why there is no channel: what was configured cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{address:?} is not a usable gateway address: {cause}; write host:port, for example 127.0.0.1:26500")]
pub struct ConnectError {
    /// As given.
    pub address: String,
    /// What is wrong with it or with the certificates.
    pub cause: String,
}

/// Makes a channel to `address` (host:port). It connects at the first call and again whenever the connection is lost:
/// a gateway that is not there yet is a call that is unavailable, not a failure here.
///
/// # Errors
/// If the address or the CA does not parse.
pub fn connect(address: &str, tls: Tls) -> Result<Channel, ConnectError> {
    let refuse = |cause: String| ConnectError { address: address.to_owned(), cause };
    let scheme = match &tls {
        Tls::Ca { .. } => "https",
        // With a CA file, TLS is below what the endpoint knows of.
        Tls::Plain | Tls::CaFile { .. } => "http",
    };
    if address.contains("://") {
        return Err(refuse("it has a scheme".into()));
    }
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|error| refuse(chain(&error)))?;
    if endpoint.uri().port().is_none() {
        return Err(refuse("it has no port".into()));
    }
    let endpoint = configure(endpoint);
    let endpoint = match tls {
        Tls::Plain => endpoint,
        Tls::Ca { pem, name } => {
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            if !certificates.is_ok_and(|found| !found.is_empty()) {
                return Err(refuse("the CA file holds no PEM certificate".into()));
            }
            let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            let config = match name {
                Some(name) => config.domain_name(name),
                None => config,
            };
            endpoint.tls_config(config).map_err(|error| refuse(chain(&error)))?
        }
        Tls::CaFile { path, name } => {
            let name = name.or_else(|| endpoint.uri().host().map(str::to_owned)).unwrap_or_default();
            let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(name).map_err(|error| refuse(chain(&error)))?;
            let origin: Uri = format!("https://{address}").parse().map_err(|error| refuse(chain(&error)))?;
            let dial = Dial { address: address.to_owned(), name, ca: path };
            let connector = tower::service_fn(move |_: Uri| {
                let dial = dial.clone();
                async move { dial.connect().await.map(TokioIo::new) }
            });
            return Ok(endpoint.origin(origin).connect_with_connector_lazy(connector));
        }
    };
    Ok(endpoint.connect_lazy())
}

/// The settings of every channel to a gateway, also of one within the process.
///
/// The stream window is small on purpose: jobs that were pushed and lie unread in a buffer are running out of time.
pub fn configure(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(false)
        .initial_stream_window_size(64 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .tcp_nodelay(true)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
