//! The presence service on the wire: each call is decoded here, made by one method, and encoded.

use std::sync::Arc;

use kith_proto::presence::v1::{self as wire, presence_service_server::PresenceService};
use kith_store::UserId;
use tonic::{Request, Response};

use super::{
    active_members::ActiveMembers,
    convert,
    hub::PresenceHub,
    sessions::Sessions,
    watch::{PresenceStream, watch_presence},
};
use crate::rpc::{
    answer_size::fit_into_answer,
    batch::Limits,
    call::{Call, RpcResult},
    ids,
    page_token::PageTokens,
    versions::wire_duration,
};

/// The presence service on the wire.
#[derive(Clone, Debug)]
pub struct PresenceRpc {
    /// The sessions, which end with their users' accounts.
    pub sessions: Sessions,
    pub(super) active_members: ActiveMembers,
    pub(super) hub: Arc<PresenceHub>,
    pub(super) pages: PageTokens,
    pub(super) limits: Limits,
}

#[tonic::async_trait]
impl PresenceService for PresenceRpc {
    async fn open_session(
        &self,
        request: Request<wire::OpenSessionRequest>,
    ) -> RpcResult<wire::OpenSessionResponse> {
        let wire::OpenSessionRequest { user_id, device_id, gateway_id, gateway_token } = request.into_inner();
        let session = convert::session_request(user_id, &device_id, &gateway_id, gateway_token)?;
        let opened = Box::pin(self.sessions.open_session(session)).await?;
        let rules = self.sessions.rules;
        Ok(Response::new(wire::OpenSessionResponse {
            session_version: opened.version,
            gateway_token: opened.gateway_token,
            session_ttl: Some(wire_duration(rules.session_ttl)),
            gateway_ttl: Some(wire_duration(rules.gateway_ttl)),
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> RpcResult<wire::HeartbeatResponse> {
        let request = request.into_inner();
        let gateway = convert::gateway(&request.gateway_id)?;
        let sessions = convert::sessions(&request.sessions, self.limits.batch_ids)?;
        let token = &request.gateway_token;
        let heartbeat = self.sessions.heartbeat(gateway, token, sessions).await?;
        let rules = self.sessions.rules;
        Ok(Response::new(wire::HeartbeatResponse {
            gateway_token: heartbeat.gateway_token,
            unknown_sessions: heartbeat.unknown.iter().map(convert::session_name).collect(),
            session_ttl: Some(wire_duration(rules.session_ttl)),
            gateway_ttl: Some(wire_duration(rules.gateway_ttl)),
        }))
    }

    async fn close_session(
        &self,
        request: Request<wire::CloseSessionRequest>,
    ) -> RpcResult<wire::CloseSessionResponse> {
        let wire::CloseSessionRequest { user_id, device_id, gateway_id, gateway_token } =
            request.into_inner();
        let session = convert::session_request(user_id, &device_id, &gateway_id, gateway_token)?;
        let closed = self.sessions.close_session(session).await?;
        Ok(Response::new(wire::CloseSessionResponse { session_version: closed.version }))
    }

    async fn get_presence(
        &self,
        request: Request<wire::GetPresenceRequest>,
    ) -> RpcResult<wire::GetPresenceResponse> {
        let call = Call::of(&request);
        let user = ids::user("user_id", request.into_inner().user_id)?;
        let shown = self.sessions.batch_get_presence(&[user], call.principal).await?.pop();
        let presence = shown.map(|shown| convert::presence(&shown, call.principal));
        Ok(Response::new(wire::GetPresenceResponse { presence }))
    }

    async fn batch_get_presence(
        &self,
        request: Request<wire::BatchGetPresenceRequest>,
    ) -> RpcResult<wire::BatchGetPresenceResponse> {
        let call = Call::of(&request);
        let users = convert::users(&request.into_inner().user_ids, self.limits.batch_ids_of(call))?;
        self.limits.records.count(call, users.len())?;
        let shown = self.sessions.batch_get_presence(&users, call.principal).await?;
        let presences = shown.iter().map(|shown| convert::presence(shown, call.principal)).collect();
        Ok(Response::new(wire::BatchGetPresenceResponse { presences }))
    }

    type WatchPresenceStream = PresenceStream;

    async fn watch_presence(
        &self,
        request: Request<wire::WatchPresenceRequest>,
    ) -> RpcResult<PresenceStream> {
        let call = Call::of(&request);
        let users = convert::watched(&request.into_inner().user_ids, self.limits.batch_ids_of(call))?;
        self.limits.records.count(call, users.len())?;
        let (sessions, hub) = (self.sessions.clone(), Arc::clone(&self.hub));
        Ok(Response::new(watch_presence(sessions, hub, users, call.principal).await?))
    }

    async fn list_gateways(
        &self,
        request: Request<wire::ListGatewaysRequest>,
    ) -> RpcResult<wire::ListGatewaysResponse> {
        let request = request.into_inner();
        let size = self.limits.pages.of(request.page_size)?;
        let query = [&b"ListGateways"[..]];
        let position = self.pages.verify_numbers(&query, &request.page_token)?;
        let page = self.sessions.list_gateways(position, size).await?;
        let gateways = page
            .gateways
            .iter()
            .map(|(id, ttl)| wire::Gateway { gateway_id: id.to_string(), ttl: Some(wire_duration(*ttl)) });
        Ok(Response::new(wire::ListGatewaysResponse {
            gateways: gateways.collect(),
            next_page_token: page.next.map(|next| self.pages.issue_numbers(&query, next)).unwrap_or_default(),
        }))
    }

    async fn list_active_gateways(
        &self,
        request: Request<wire::ListActiveGatewaysRequest>,
    ) -> RpcResult<wire::ListActiveGatewaysResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let found = self.active_members.list_active_gateways(group, call.principal, &consistency).await?;
        let gateways = found
            .gateways
            .iter()
            .map(|at| wire::ActiveGateway { gateway_id: at.gateway.to_string(), count: i64::from(at.count) });
        Ok(Response::new(wire::ListActiveGatewaysResponse {
            gateways: gateways.collect(),
            incomplete: found.incomplete,
        }))
    }

    async fn list_active_members(
        &self,
        request: Request<wire::ListActiveMembersRequest>,
    ) -> RpcResult<wire::ListActiveMembersResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let query = [&b"ListActiveMembers"[..], &group.get().to_be_bytes()[..]];
        let mut quota = self.limits.page(call, request.page_size)?;
        let after = self.pages.of(call).verify(&query, &request.page_token)?;
        let after = after.map(|id| ids::user("page_token", id)).transpose()?;
        let page = self.active_members.list_active_members(group, after, quota.size, call.principal).await?;
        let members = page.members.iter().map(|member| convert::active_member(member, call.principal));
        let members = fit_into_answer(call.answer_bytes, members);
        quota.answered(members.len());
        let cut = members.last().filter(|_| members.len() < page.members.len()).map(|member| member.user_id);
        let next = cut.or(page.next.map(UserId::get));
        Ok(Response::new(wire::ListActiveMembersResponse {
            next_page_token: next.map(|id| self.pages.of(call).issue(&query, id)).unwrap_or_default(),
            members,
            incomplete: page.incomplete,
        }))
    }

    async fn count_active_members(
        &self,
        request: Request<wire::CountActiveMembersRequest>,
    ) -> RpcResult<wire::CountActiveMembersResponse> {
        let (call, request) = Call::open(request);
        let group = ids::group(request.group_id)?;
        let consistency = self.limits.consistency(call, request.consistency.as_ref())?;
        let found = self.active_members.count_active_members(group, call.principal, &consistency).await?;
        let (count, incomplete) = (found.count, found.incomplete);
        Ok(Response::new(wire::CountActiveMembersResponse { count, incomplete }))
    }
}
