//! The authority over gRPC: TLS to one pinned certificate authority, a bearer token, and an address that is read anew
//! whenever a connection was lost.

use super::{AuthorityClient, AuthorityError, Denial, Reach};
use crate::proto::authority_client::AuthorityClient as Stub;
use crate::proto::{
    ArtifactChunk, BriefReply, ContractReply, Empty, ExecuteReply, Job, PutArtifactReply, RecordReply, RecordRequest,
    RedeemReply, RedeemRequest, ReportRequest, ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Mutex;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

/// The name in every server's certificate, whatever its address.
pub const SERVER_NAME: &str = "authority.m87.internal";

/// The metadata key beside a refusing status that names the [`Denial`].
pub(crate) const DENIAL: &str = "m87-denial";

/// The longest a call may take that is not a stream: the long poll's ten seconds, and some.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// A client that connects when it is first asked, and again after each failure.
pub struct GrpcClient {
    reach: Reach,
    channel: Mutex<Option<Channel>>,
}

impl GrpcClient {
    /// A client that goes this way; nothing is connected yet.
    pub fn new(reach: impl Into<Reach>) -> Self {
        Self { reach: reach.into(), channel: Mutex::new(None) }
    }

    async fn stub(&self) -> Result<Stub<Channel>, AuthorityError> {
        let mut held = self.channel.lock().await;
        let channel = match held.as_ref() {
            Some(channel) => channel.clone(),
            None => {
                let channel = self.connect().await?;
                *held = Some(channel.clone());
                channel
            }
        };
        Ok(Stub::new(channel))
    }

    async fn connect(&self) -> Result<Channel, AuthorityError> {
        let unavailable = |what: &dyn std::fmt::Display| AuthorityError::Unavailable(what.to_string());
        let address = self.reach.address().map_err(|error| unavailable(&error))?;
        let ca_pem = self.reach.ca_pem().map_err(|error| unavailable(&error))?;
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca_pem));
        let tls = match self.reach.server_name() {
            Some(name) => tls.domain_name(name),
            None => tls,
        };
        Endpoint::from_shared(format!("https://{address}"))
            .and_then(|endpoint| endpoint.tls_config(tls))
            .map_err(|error| unavailable(&error))?
            .connect_timeout(Duration::from_secs(5))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .connect()
            .await
            .map_err(|error| AuthorityError::Unavailable(format!("{address}: {}", chain(&error))))
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, AuthorityError> {
        let mut request = Request::new(message);
        let token = self.reach.token().map_err(|error| AuthorityError::Unavailable(error.to_string()))?;
        let mut bearer: MetadataValue<_> = format!("Bearer {token}").parse().map_err(|_| {
            AuthorityError::refused(Denial::Unauthenticated, "the token has characters that no header may have")
        })?;
        bearer.set_sensitive(true);
        request.metadata_mut().insert("authorization", bearer);
        Ok(request)
    }

    async fn failed(&self, status: Status) -> AuthorityError {
        let error = from_status(&status);
        if matches!(error, AuthorityError::Unavailable(_)) {
            *self.channel.lock().await = None;
        }
        error
    }
}

macro_rules! unary {
    ($client:ident, $method:ident, $message:expr) => {{
        let mut stub = $client.stub().await?;
        let mut request = $client.request($message)?;
        request.set_timeout(CALL_LIMIT);
        match stub.$method(request).await {
            Ok(reply) => Ok(reply.into_inner()),
            Err(status) => Err($client.failed(status).await),
        }
    }};
}

#[async_trait]
impl AuthorityClient for GrpcClient {
    async fn brief(&self, job: Job) -> Result<BriefReply, AuthorityError> {
        unary!(self, brief, job)
    }

    async fn record(&self, request: RecordRequest) -> Result<RecordReply, AuthorityError> {
        unary!(self, record, request)
    }

    async fn contract(&self, job: Job) -> Result<ContractReply, AuthorityError> {
        unary!(self, contract, job)
    }

    async fn execute(&self, request: WaitRequest) -> Result<ExecuteReply, AuthorityError> {
        unary!(self, execute, request)
    }

    async fn verify(&self, request: WaitRequest) -> Result<VerifyReply, AuthorityError> {
        unary!(self, verify, request)
    }

    async fn redeem(&self, request: RedeemRequest) -> Result<RedeemReply, AuthorityError> {
        unary!(self, redeem, request)
    }

    async fn put_artifact(
        &self,
        contract_id: String,
        nonce: String,
        data: BoxStream<'static, Bytes>,
    ) -> Result<PutArtifactReply, AuthorityError> {
        let mut stub = self.stub().await?;
        let head = ArtifactChunk { contract_id, nonce, data: Vec::new() };
        let request = self.request(Upload { head: Some(head), tail: data })?;
        match stub.put_artifact(request).await {
            Ok(reply) => Ok(reply.into_inner()),
            Err(status) => Err(self.failed(status).await),
        }
    }

    async fn report(&self, request: ReportRequest) -> Result<(), AuthorityError> {
        unary!(self, report, request).map(drop)
    }

    async fn get_artifact(
        &self,
        job: Job,
    ) -> Result<BoxStream<'static, Result<Bytes, AuthorityError>>, AuthorityError> {
        let mut stub = self.stub().await?;
        match stub.get_artifact(self.request(job)?).await {
            Ok(reply) => Ok(reply
                .into_inner()
                .map(|chunk| chunk.map(|chunk| Bytes::from(chunk.data)).map_err(|status| from_status(&status)))
                .boxed()),
            Err(status) => Err(self.failed(status).await),
        }
    }

    async fn validation_order(&self) -> Result<ValidationOrderReply, AuthorityError> {
        unary!(self, validation_order, Empty {})
    }

    async fn report_validation(&self, request: ReportValidationRequest) -> Result<(), AuthorityError> {
        unary!(self, report_validation, request).map(drop)
    }
}

/// The messages of an upload. The first one says whose it is, even of an empty artifact.
struct Upload {
    head: Option<ArtifactChunk>,
    tail: BoxStream<'static, Bytes>,
}

impl Stream for Upload {
    type Item = ArtifactChunk;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ArtifactChunk>> {
        match self.head.take() {
            Some(head) => Poll::Ready(Some(head)),
            None => self
                .tail
                .poll_next_unpin(context)
                .map(|next| next.map(|bytes| ArtifactChunk { data: bytes.to_vec(), ..ArtifactChunk::default() })),
        }
    }
}

/// A refusal is only what the authority itself marked as one; whatever else went wrong is worth asking again.
fn from_status(status: &Status) -> AuthorityError {
    let denial = status.metadata().get(DENIAL).and_then(|value| value.to_str().ok()).and_then(Denial::parse);
    match denial {
        Some(reason) => AuthorityError::refused(reason, status.message()),
        None => AuthorityError::Unavailable(format!("{:?}: {}", status.code(), status.message())),
    }
}

/// The status that carries an error to a [`GrpcClient`].
pub(crate) fn to_status(error: &AuthorityError) -> Status {
    match error {
        AuthorityError::Unavailable(message) => Status::unavailable(message.clone()),
        AuthorityError::Refused { reason, message } => {
            let code = match reason {
                Denial::Unauthenticated => Code::Unauthenticated,
                Denial::NotYours | Denial::OtherInstance => Code::PermissionDenied,
                Denial::UnknownRun | Denial::NoArtifact => Code::NotFound,
                Denial::Malformed => Code::InvalidArgument,
                Denial::HeadroomExhausted | Denial::TooLarge => Code::ResourceExhausted,
                Denial::Sealed
                | Denial::OutOfOrder
                | Denial::AlreadyDispatched
                | Denial::ContractVoid
                | Denial::Drifted
                | Denial::StoreRestored
                | Denial::JobAbandoned => Code::FailedPrecondition,
            };
            let mut status = Status::new(code, message.clone());
            status.metadata_mut().insert(DENIAL, MetadataValue::from_static(reason.name()));
            status
        }
    }
}

/// An error and what caused it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::client::{Address, CaSource, TokenSource};

    #[test]
    fn every_denial_survives_the_wire() {
        for reason in Denial::ALL {
            let error = AuthorityError::refused(*reason, "because");
            assert_eq!(from_status(&to_status(&error)), error);
        }
    }

    #[test]
    fn a_status_without_a_denial_is_worth_asking_again() {
        for status in [Status::unavailable("x"), Status::permission_denied("a proxy's"), Status::internal("x")] {
            assert!(matches!(from_status(&status), AuthorityError::Unavailable(_)));
        }
    }

    #[tokio::test]
    async fn nobody_listening_is_unavailable() {
        let folder = tempfile::tempdir().unwrap();
        let address_file = folder.path().join("address");
        let client = GrpcClient::new(Reach {
            address: Address::File(address_file.clone()),
            ca: CaSource::Pem(String::new()),
            token: TokenSource::Inline("t".to_owned()),
        });
        assert!(matches!(client.validation_order().await, Err(AuthorityError::Unavailable(_))));
        std::fs::write(address_file, "127.0.0.1:1\n").unwrap();
        assert!(matches!(client.validation_order().await, Err(AuthorityError::Unavailable(_))));
    }
}
