//! The authority within the same process: the same calls, without a network between.

use super::{AuthorityClient, AuthorityError};
use crate::callers::Principal;
use crate::proto::{
    BriefReply, ContractReply, ExecuteReply, Job, PutArtifactReply, RecordReply, RecordRequest, RedeemReply,
    RedeemRequest, ReportRequest, ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest,
};
use crate::service::Service;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;

/// A principal that calls a service of its own process.
#[derive(Clone)]
pub struct InProcess {
    service: Service,
    principal: Principal,
}

impl InProcess {
    /// The service, as that principal sees it.
    pub const fn new(service: Service, principal: Principal) -> Self {
        Self { service, principal }
    }
}

#[async_trait]
impl AuthorityClient for InProcess {
    async fn brief(&self, job: Job) -> Result<BriefReply, AuthorityError> {
        self.service.brief(&self.principal, job).await
    }

    async fn record(&self, request: RecordRequest) -> Result<RecordReply, AuthorityError> {
        self.service.record(&self.principal, request).await
    }

    async fn contract(&self, job: Job) -> Result<ContractReply, AuthorityError> {
        self.service.contract(&self.principal, job).await
    }

    async fn execute(&self, request: WaitRequest) -> Result<ExecuteReply, AuthorityError> {
        self.service.execute(&self.principal, request).await
    }

    async fn verify(&self, request: WaitRequest) -> Result<VerifyReply, AuthorityError> {
        self.service.verify(&self.principal, request).await
    }

    async fn redeem(&self, request: RedeemRequest) -> Result<RedeemReply, AuthorityError> {
        self.service.redeem(&self.principal, request).await
    }

    async fn put_artifact(
        &self,
        contract_id: String,
        nonce: String,
        data: BoxStream<'static, Bytes>,
    ) -> Result<PutArtifactReply, AuthorityError> {
        self.service.put_artifact(&self.principal, &contract_id, &nonce, data.map(Ok).boxed()).await
    }

    async fn report(&self, request: ReportRequest) -> Result<(), AuthorityError> {
        self.service.report(&self.principal, request).await
    }

    async fn get_artifact(
        &self,
        job: Job,
    ) -> Result<BoxStream<'static, Result<Bytes, AuthorityError>>, AuthorityError> {
        let data = self.service.get_artifact(&self.principal, &job).await?;
        Ok(data.map(|bytes| bytes.map_err(AuthorityError::from)).boxed())
    }

    async fn validation_order(&self) -> Result<ValidationOrderReply, AuthorityError> {
        self.service.validation_order(&self.principal).await
    }

    async fn report_validation(&self, request: ReportValidationRequest) -> Result<(), AuthorityError> {
        self.service.report_validation(&self.principal, request).await
    }
}
