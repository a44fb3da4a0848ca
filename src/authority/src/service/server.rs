//! The calls over gRPC: TLS, a bearer token with each, and the principal from the token alone.

use super::Service;
use crate::callers::{Callers, Principal};
use crate::client::grpc::to_status;
use crate::client::{AuthorityError, Denial};
use crate::proto::authority_server::{Authority as Calls, AuthorityServer};
use crate::proto::{
    ArtifactBytes, ArtifactChunk, BriefReply, ContractReply, Empty, ExecuteReply, Job, PutArtifactReply, RecordReply,
    RecordRequest, RedeemReply, RedeemRequest, ReportReply, ReportRequest, ReportValidationRequest,
    ValidationOrderReply, VerifyReply, WaitRequest,
};
use crate::tls::ServerIdentity;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use m87_zeebe::secure::{H2, Leaf, TlsError, incoming};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// How long calls may take to finish after `stop`. Those that are held would hold up whoever leads next; who asks, asks again.
const CLOSING: Duration = Duration::from_secs(2);

struct Gate {
    service: Service,
    callers: Arc<dyn Callers>,
}

/// The server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server broke.
    #[error("the authority cannot serve: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// Certificate and key cannot be used.
    #[error("the authority cannot serve: {0}")]
    Tls(#[from] TlsError),
}

/// Serves until `stop`.
pub async fn serve(
    service: Service,
    callers: Arc<dyn Callers>,
    identity: &ServerIdentity,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let leaf = Leaf::new(identity.certificate_pem.as_bytes(), identity.key_pem.as_bytes())?;
    serve_by(service, callers, &leaf, listener, stop).await
}

/// Serves until `stop`, and what is begun then for a moment longer, with a certificate that may be replaced meanwhile.
pub async fn serve_by(
    service: Service,
    callers: Arc<dyn Callers>,
    leaf: &Arc<Leaf>,
    listener: TcpListener,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let connections = incoming(listener, leaf.server(&[H2])?);
    let serving = Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .add_service(AuthorityServer::new(Gate { service, callers }))
        .serve_with_incoming_shutdown(connections, stop.clone().cancelled_owned());
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(CLOSING).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = overdue => Ok(()),
    }
}

impl Gate {
    async fn principal<T>(&self, request: &Request<T>) -> Result<Principal, Status> {
        let nobody =
            || to_status(&AuthorityError::refused(Denial::Unauthenticated, "a bearer token that is known is needed"));
        let token = request
            .metadata()
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(nobody)?;
        if let Some(principal) = self.callers.principal(token).await.map_err(|error| to_status(&error))? {
            return Ok(principal);
        }
        let attempt = self.service.attempt(token).await.map_err(|error| to_status(&error))?;
        attempt.ok_or_else(nobody)
    }
}

fn answer<T>(result: Result<T, AuthorityError>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(|error| to_status(&error))
}

#[async_trait]
impl Calls for Gate {
    async fn brief(&self, request: Request<Job>) -> Result<Response<BriefReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.brief(&who, request.into_inner()).await)
    }

    async fn record(&self, request: Request<RecordRequest>) -> Result<Response<RecordReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.record(&who, request.into_inner()).await)
    }

    async fn contract(&self, request: Request<Job>) -> Result<Response<ContractReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.contract(&who, request.into_inner()).await)
    }

    async fn execute(&self, request: Request<WaitRequest>) -> Result<Response<ExecuteReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.execute(&who, request.into_inner()).await)
    }

    async fn verify(&self, request: Request<WaitRequest>) -> Result<Response<VerifyReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.verify(&who, request.into_inner()).await)
    }

    async fn redeem(&self, request: Request<RedeemRequest>) -> Result<Response<RedeemReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.redeem(&who, request.into_inner()).await)
    }

    async fn put_artifact(
        &self,
        request: Request<Streaming<ArtifactChunk>>,
    ) -> Result<Response<PutArtifactReply>, Status> {
        let who = self.principal(&request).await?;
        let mut chunks = request.into_inner();
        let head = chunks.message().await?.unwrap_or_default();
        let first = futures::stream::once(async move { Ok(Bytes::from(head.data)) });
        let rest = chunks
            .map(|chunk| chunk.map(|chunk| Bytes::from(chunk.data)).map_err(|status| status.message().to_owned()));
        let data = first.chain(rest).boxed();
        answer(self.service.put_artifact(&who, &head.contract_id, &head.nonce, data).await)
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.report(&who, request.into_inner()).await.map(|()| ReportReply {}))
    }

    type GetArtifactStream = BoxStream<'static, Result<ArtifactBytes, Status>>;

    async fn get_artifact(&self, request: Request<Job>) -> Result<Response<Self::GetArtifactStream>, Status> {
        let who = self.principal(&request).await?;
        let data = self.service.get_artifact(&who, request.get_ref()).await.map_err(|error| to_status(&error))?;
        let chunks = data.map(|bytes| match bytes {
            Ok(bytes) => Ok(ArtifactBytes { data: bytes.to_vec() }),
            Err(error) => Err(to_status(&AuthorityError::from(error))),
        });
        Ok(Response::new(chunks.boxed()))
    }

    async fn validation_order(&self, request: Request<Empty>) -> Result<Response<ValidationOrderReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.validation_order(&who).await)
    }

    async fn report_validation(
        &self,
        request: Request<ReportValidationRequest>,
    ) -> Result<Response<ReportReply>, Status> {
        let who = self.principal(&request).await?;
        answer(self.service.report_validation(&who, request.into_inner()).await.map(|()| ReportReply {}))
    }
}
