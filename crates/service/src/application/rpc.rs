//! The application service on the wire: each method decodes, calls the policy once, and encodes.

use kith_proto::application::v1::{self as wire, application_service_server::ApplicationService};
use kith_store::{ApplicationId, ApplicationMark, RelationEventId};
use tonic::{Request, Response};

use super::{Applications, convert};
use crate::{
    error::Error,
    rpc::{
        answer_size::fit_into_answer,
        batch::Limits,
        call::{AnswerMetadata, Call, RpcResult},
        ids,
        page_token::PageTokens,
        request::WriteContext,
    },
};

/// The application service on the wire.
#[derive(Clone, Debug)]
pub struct ApplicationRpc {
    applications: Applications,
    pages: PageTokens,
    limits: Limits,
}

impl ApplicationRpc {
    /// The service over a deployment's applications.
    #[must_use]
    pub const fn new(applications: Applications, pages: PageTokens, limits: Limits) -> Self {
        Self { applications, pages, limits }
    }

    async fn mark(
        &self,
        user_id: i64,
        ids: &[i64],
        mark: ApplicationMark,
        call: Call,
    ) -> Result<Vec<wire::ListedApplication>, Error> {
        let user = ids::user("user_id", user_id)?;
        let ids = convert::ids(ids)?;
        let marked = self.applications.mark_applications(user, ids, mark, call).await?;
        Ok(marked.iter().map(convert::listed_to_wire).collect())
    }
}

#[tonic::async_trait]
impl ApplicationService for ApplicationRpc {
    async fn apply(&self, request: Request<wire::ApplyRequest>) -> RpcResult<wire::ApplyResponse> {
        let (request, context) = WriteContext::open(request)?;
        let draft = convert::draft(request, context.principal)?;
        let application = convert::application_to_wire(&self.applications.apply(draft, context).await?);
        Ok(Response::new(wire::ApplyResponse { application: Some(application) }))
    }

    async fn decide(&self, request: Request<wire::DecideRequest>) -> RpcResult<wire::DecideResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.receiver, request.application_id)?;
        let decision = convert::decision(request.decision)?;
        let decided = self.applications.decide(key, decision, context).await?;
        Ok(Response::new(wire::DecideResponse {
            application: Some(convert::application_to_wire(&decided.application)),
            consistency_token: decided.token.map(|token| token.to_string()).unwrap_or_default(),
        }))
    }

    async fn withdraw(&self, request: Request<wire::WithdrawRequest>) -> RpcResult<wire::WithdrawResponse> {
        let (request, context) = WriteContext::open(request)?;
        let key = convert::key(request.receiver, request.application_id)?;
        let application = convert::application_to_wire(&self.applications.withdraw(key, context).await?);
        Ok(Response::new(wire::WithdrawResponse { application: Some(application) }))
    }

    async fn get_application(
        &self,
        request: Request<wire::GetApplicationRequest>,
    ) -> RpcResult<wire::GetApplicationResponse> {
        let (call, request) = Call::open(request);
        let key = convert::key(request.receiver, request.application_id)?;
        let found = self.applications.get_application(key, call.principal).await?;
        let application = convert::application_to_wire(&found);
        let metadata = AnswerMetadata::from_store(application.version);
        Ok(metadata.answer(wire::GetApplicationResponse { application: Some(application) }))
    }

    async fn list_applications(
        &self,
        request: Request<wire::ListApplicationsRequest>,
    ) -> RpcResult<wire::ListApplicationsResponse> {
        let (call, request) = Call::open(request);
        let list = convert::list(request.list)?;
        let after = convert::after(request.after_id, ApplicationId::new)?;
        let mut quota = self.limits.page(call, request.page_size)?;
        let (kind, owner) = list.numbers();
        let from = request.after_id.to_be_bytes();
        let query = [&b"ListApplications"[..], &kind.to_be_bytes(), &owner.to_be_bytes(), &from];
        let next = self
            .pages
            .of(call)
            .verify(&query, &request.page_token)?
            .and_then(|id| ApplicationId::new(id).ok());
        let page =
            self.applications.list_applications(list, next.or(after), quota.size, call.principal).await?;
        let applications = fit_into_answer(call.answer_bytes, page.found.iter().map(convert::listed_to_wire));
        quota.answered(applications.len());
        let cut = page.found[..applications.len()].last().filter(|_| applications.len() < page.found.len());
        let last = cut.map(|listed| listed.application.id).or(page.last);
        let next_page_token =
            last.map(|last| self.pages.of(call).issue(&query, last.get())).unwrap_or_default();
        Ok(Response::new(wire::ListApplicationsResponse { applications, next_page_token }))
    }

    async fn list_relation_log(
        &self,
        request: Request<wire::ListRelationLogRequest>,
    ) -> RpcResult<wire::ListRelationLogResponse> {
        let (call, request) = Call::open(request);
        let user = ids::user("user_id", request.user_id)?;
        let after = convert::after(request.after_id, RelationEventId::new)?;
        let mut quota = self.limits.page(call, request.page_size)?;
        let from = request.after_id.to_be_bytes();
        let query = [&b"ListRelationLog"[..], &user.get().to_be_bytes(), &from];
        let next = self
            .pages
            .of(call)
            .verify(&query, &request.page_token)?
            .and_then(|id| RelationEventId::new(id).ok());
        let page =
            self.applications.list_relation_log(user, next.or(after), quota.size, call.principal).await?;
        quota.answered(page.found.len());
        Ok(Response::new(wire::ListRelationLogResponse {
            events: page.found.iter().map(convert::event_to_wire).collect(),
            next_page_token: page
                .last
                .map(|last| self.pages.of(call).issue(&query, last.get()))
                .unwrap_or_default(),
        }))
    }

    async fn mark_received(
        &self,
        request: Request<wire::MarkReceivedRequest>,
    ) -> RpcResult<wire::MarkReceivedResponse> {
        let (call, request) = Call::open(request);
        let (user_id, ids) = (request.user_id, request.application_ids);
        let applications = self.mark(user_id, &ids, ApplicationMark::Received, call).await?;
        Ok(Response::new(wire::MarkReceivedResponse { applications }))
    }

    async fn mark_read(&self, request: Request<wire::MarkReadRequest>) -> RpcResult<wire::MarkReadResponse> {
        let (call, request) = Call::open(request);
        let (user_id, ids) = (request.user_id, request.application_ids);
        let applications = self.mark(user_id, &ids, ApplicationMark::Read, call).await?;
        Ok(Response::new(wire::MarkReadResponse { applications }))
    }

    async fn count_pending(
        &self,
        request: Request<wire::CountPendingRequest>,
    ) -> RpcResult<wire::CountPendingResponse> {
        let (call, request) = Call::open(request);
        let receiver = convert::receiver(request.receiver)?;
        let pending = self.applications.count_pending(receiver, call.principal).await?;
        Ok(Response::new(wire::CountPendingResponse {
            requests: pending.requests.into(),
            invites: pending.invites.into(),
        }))
    }
}
