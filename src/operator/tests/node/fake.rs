//! An authority that knows what it was told to expect, and believes nobody but the pods that were made.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use m87_authority::proto::authority_server::{Authority, AuthorityServer};
use m87_authority::proto::{
    ArtifactBytes, ArtifactChunk, BriefReply, ContractReply, Empty, ExecuteReply, Job, PutArtifactReply, RecordReply,
    RecordRequest, RedeemReply, RedeemRequest, ReportReply, ReportRequest, ReportValidationRequest,
    ValidationOrderReply, VerifyReply, WaitRequest,
};
use m87_authority::{Executor, Handle};
use m87_core::evidence::ExecutionReport;
use m87_core::json::sha256_hex;
use m87_operator::executor::PodExecutor;
use m87_operator::executor::handle::PodHandle;
use m87_operator::world::token_review::token_review;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming, async_trait};

#[derive(Default)]
struct Run {
    order: String,
    artifact: Vec<u8>,
    handle: Option<Handle>,
    nonce: Option<String>,
    redemptions: usize,
    asked: bool,
    held: bool,
    refused: bool,
    report: Option<ExecutionReport>,
}

#[derive(Clone)]
pub(crate) struct Fake {
    client: kube::Client,
    runs: Arc<Mutex<HashMap<String, Run>>>,
    executor: Arc<OnceLock<PodExecutor>>,
}

impl Fake {
    /// Serves on a free port of that address; returns the address and what signs the certificate.
    pub(crate) async fn serve(client: kube::Client, host: &str) -> (Self, String, String) {
        let fake = Self { client, runs: Arc::default(), executor: Arc::default() };
        let listener = tokio::net::TcpListener::bind((host.parse::<IpAddr>().unwrap(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &rcgen::Issuer::new(ca, ca_key)).unwrap();
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(leaf.pem(), key.serialize_pem()));
        let server = Server::builder().tls_config(tls).unwrap().add_service(AuthorityServer::new(fake.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (fake, address, ca_pem)
    }

    pub(crate) fn watch(&self, executor: PodExecutor) {
        let _ = self.executor.set(executor);
    }

    fn with<T>(&self, run: &str, what: impl FnOnce(&mut Run) -> T) -> T {
        what(self.runs.lock().unwrap().entry(run.to_owned()).or_default())
    }

    pub(crate) fn expect(&self, run: &str, order: String, artifact: Vec<u8>) {
        self.with(run, |run| (run.order, run.artifact) = (order, artifact));
    }

    pub(crate) fn made(&self, run: &str, handle: &Handle) {
        self.with(run, |run| run.handle = Some(handle.clone()));
    }

    pub(crate) fn report(&self, run: &str) -> Option<ExecutionReport> {
        self.with(run, |run| run.report.clone())
    }

    pub(crate) fn artifact(&self, run: &str) -> Option<Vec<u8>> {
        self.with(run, |run| (!run.artifact.is_empty()).then(|| run.artifact.clone()))
    }

    pub(crate) fn redemptions(&self, run: &str) -> usize {
        self.with(run, |run| run.redemptions)
    }

    pub(crate) fn hold(&self, run: &str) {
        self.with(run, |run| run.held = true);
    }

    pub(crate) fn release(&self, run: &str) {
        self.with(run, |run| run.held = false);
    }

    pub(crate) fn asked(&self, run: &str) -> bool {
        self.with(run, |run| run.asked)
    }

    pub(crate) fn refused(&self, run: &str) -> bool {
        self.with(run, |run| run.refused)
    }

    /// The run of the very pod that calls.
    async fn caller<T>(&self, request: &Request<T>) -> Result<(String, Handle), Status> {
        let token = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let identity =
            token_review(&self.client, token).await.map_err(|error| Status::unavailable(error.to_string()))?;
        let pod = identity.and_then(|identity| identity.pod).ok_or_else(|| refusal("Unauthenticated"))?;
        let runs = self.runs.lock().unwrap();
        let found = runs.iter().find(|(_, run)| {
            let handle = run.handle.as_ref().and_then(|handle| PodHandle::parse(handle).ok());
            handle.is_some_and(|handle| handle.uid == pod.uid && handle.name == pod.name)
        });
        let (name, run) = found.ok_or_else(|| Status::unavailable("not known yet"))?;
        Ok((name.clone(), run.handle.clone().unwrap()))
    }
}

fn refusal(denial: &'static str) -> Status {
    let mut status = Status::failed_precondition("refused");
    status.metadata_mut().insert("m87-denial", tonic::metadata::MetadataValue::from_static(denial));
    status
}

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(refusal("NotYours"))
}

#[async_trait]
impl Authority for Fake {
    async fn brief(&self, _: Request<Job>) -> Result<Response<BriefReply>, Status> {
        not_here()
    }
    async fn record(&self, _: Request<RecordRequest>) -> Result<Response<RecordReply>, Status> {
        not_here()
    }
    async fn contract(&self, _: Request<Job>) -> Result<Response<ContractReply>, Status> {
        not_here()
    }
    async fn execute(&self, _: Request<WaitRequest>) -> Result<Response<ExecuteReply>, Status> {
        not_here()
    }
    async fn verify(&self, _: Request<WaitRequest>) -> Result<Response<VerifyReply>, Status> {
        not_here()
    }

    async fn redeem(&self, request: Request<RedeemRequest>) -> Result<Response<RedeemReply>, Status> {
        let (run, handle) = self.caller(&request).await?;
        let nonce = request.into_inner().nonce;
        let held = self.with(&run, |run| {
            run.asked = true;
            run.held
        });
        if held {
            return Err(Status::unavailable("not now"));
        }
        let made = self.executor.get().unwrap().as_made(&handle).await;
        match made {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                self.with(&run, |run| run.refused = true);
                return Err(refusal("ContractVoid"));
            }
            Err(error) => return Err(Status::unavailable(error.to_string())),
        }
        self.with(&run, |run| {
            if run.nonce.as_ref().is_some_and(|known| *known != nonce) {
                run.redemptions += 1;
                return Err(refusal("AlreadyDispatched"));
            }
            if run.nonce.replace(nonce).is_none() {
                run.redemptions += 1;
            }
            Ok(Response::new(RedeemReply { order: run.order.clone() }))
        })
    }

    async fn put_artifact(
        &self,
        request: Request<Streaming<ArtifactChunk>>,
    ) -> Result<Response<PutArtifactReply>, Status> {
        let (run, _) = self.caller(&request).await?;
        let mut chunks = request.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            bytes.extend(chunk.data);
        }
        let reply = PutArtifactReply { sha256: sha256_hex(&bytes), size: i64::try_from(bytes.len()).unwrap() };
        self.with(&run, |run| run.artifact = bytes);
        Ok(Response::new(reply))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportReply>, Status> {
        let (run, _) = self.caller(&request).await?;
        let report = serde_json::from_str(&request.get_ref().json).unwrap();
        self.with(&run, |run| run.report = Some(report));
        Ok(Response::new(ReportReply {}))
    }

    type GetArtifactStream = BoxStream<'static, Result<ArtifactBytes, Status>>;

    async fn get_artifact(&self, request: Request<Job>) -> Result<Response<Self::GetArtifactStream>, Status> {
        let (run, _) = self.caller(&request).await?;
        let bytes = Bytes::from(self.with(&run, |run| run.artifact.clone()));
        let chunk = Ok(ArtifactBytes { data: bytes.to_vec() });
        Ok(Response::new(futures::stream::once(std::future::ready(chunk)).boxed()))
    }

    async fn validation_order(&self, request: Request<Empty>) -> Result<Response<ValidationOrderReply>, Status> {
        let (run, _) = self.caller(&request).await?;
        Ok(Response::new(ValidationOrderReply { order: self.with(&run, |run| run.order.clone()) }))
    }

    async fn report_validation(&self, _: Request<ReportValidationRequest>) -> Result<Response<ReportReply>, Status> {
        not_here()
    }
}
