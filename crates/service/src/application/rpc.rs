//! The application service on the wire: each call goes to its decoding in `writes.rs`, `reads.rs`, `pages.rs` or `log.rs`.

use kith_proto::application::v1::{self as wire, application_service_server::ApplicationService};
use kith_store::ApplicationMark;
use tonic::{Request, Response, Status};

use super::Applications;
use crate::rpc::{batch::Limits, call::Call, page_token::PageTokens};

/// The application service on the wire.
#[derive(Clone, Debug)]
pub struct ApplicationRpc {
    pub(super) applications: Applications,
    pub(super) pages: PageTokens,
    pub(super) limits: Limits,
}

impl ApplicationRpc {
    /// Over the applications of a deployment.
    #[must_use]
    pub const fn new(applications: Applications, pages: PageTokens, limits: Limits) -> Self {
        Self { applications, pages, limits }
    }
}

#[tonic::async_trait]
impl ApplicationService for ApplicationRpc {
    async fn apply(
        &self,
        request: Request<wire::ApplyRequest>,
    ) -> Result<Response<wire::ApplyResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.make(request.into_inner(), call).await?))
    }

    async fn decide(
        &self,
        request: Request<wire::DecideRequest>,
    ) -> Result<Response<wire::DecideResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.settle(request.into_inner(), call).await?))
    }

    async fn withdraw(
        &self,
        request: Request<wire::WithdrawRequest>,
    ) -> Result<Response<wire::WithdrawResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.take_back(request.into_inner(), call).await?))
    }

    async fn get_application(
        &self,
        request: Request<wire::GetApplicationRequest>,
    ) -> Result<Response<wire::GetApplicationResponse>, Status> {
        let call = Call::of(&request);
        self.one(request.into_inner(), call).await.map_err(Status::from)
    }

    async fn list_applications(
        &self,
        request: Request<wire::ListApplicationsRequest>,
    ) -> Result<Response<wire::ListApplicationsResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.page(request.into_inner(), call).await?))
    }

    async fn list_relation_log(
        &self,
        request: Request<wire::ListRelationLogRequest>,
    ) -> Result<Response<wire::ListRelationLogResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.log_page(request.into_inner(), call).await?))
    }

    async fn mark_received(
        &self,
        request: Request<wire::MarkReceivedRequest>,
    ) -> Result<Response<wire::MarkReceivedResponse>, Status> {
        let call = Call::of(&request);
        let request = request.into_inner();
        let named = (request.user_id, &*request.application_ids);
        let applications = self.mark(named, ApplicationMark::Received, call).await?;
        Ok(Response::new(wire::MarkReceivedResponse { applications }))
    }

    async fn mark_read(
        &self,
        request: Request<wire::MarkReadRequest>,
    ) -> Result<Response<wire::MarkReadResponse>, Status> {
        let call = Call::of(&request);
        let request = request.into_inner();
        let named = (request.user_id, &*request.application_ids);
        let applications = self.mark(named, ApplicationMark::Read, call).await?;
        Ok(Response::new(wire::MarkReadResponse { applications }))
    }

    async fn count_pending(
        &self,
        request: Request<wire::CountPendingRequest>,
    ) -> Result<Response<wire::CountPendingResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.pending(request.into_inner(), call).await?))
    }
}
