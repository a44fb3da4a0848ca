//! A channel to a server in the same process: the same protocol, over memory instead of a socket.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::connect::configure;

/// Bytes on their way in one direction.
const BUFFER: usize = 256 * 1024;

/// The server's side: connections as they are made. Once it is dropped, calls on the channel are unavailable.
pub type Incoming = UnboundedReceiverStream<io::Result<DuplexStream>>;

/// A channel, and the connections that it will make, to be served.
pub fn pair() -> (Channel, Incoming) {
    let (connections, incoming) = mpsc::unbounded_channel();
    let connector = tower::service_fn(move |_: Uri| {
        let connections = connections.clone();
        async move {
            let (near, far) = tokio::io::duplex(BUFFER);
            connections.send(Ok(far)).map_err(|_| {
                io::Error::new(io::ErrorKind::ConnectionRefused, "the server in this process has ended")
            })?;
            Ok::<_, io::Error>(TokioIo::new(near))
        }
    });
    let channel = configure(Endpoint::from_static("http://in-process")).connect_with_connector_lazy(connector);
    (channel, UnboundedReceiverStream::new(incoming))
}
