//! The presence service on the wire: decode, one call, encode. Lists stand in `pages.rs`, the stream in `watch.rs`.

use std::sync::Arc;

use kith_proto::presence::v1::{self as wire, presence_service_server::PresenceService};
use tonic::{Request, Response, Status};

use super::{
    active::Active,
    convert,
    hub::Hub,
    sessions::{Sessions, Shown},
    visibility::Visibility,
    watch::Told,
};
use crate::{
    error::Error,
    group::members::Members,
    rpc::{
        batch::{Limits, only_services},
        call::{Call, own},
        page_token::PageTokens,
        versions::wire_duration,
    },
};

/// The presence service on the wire.
#[derive(Clone, Debug)]
pub struct PresenceRpc {
    /// Sessions, which end with the accounts of their users.
    pub sessions: Sessions,
    pub(super) active: Active,
    pub(super) members: Members,
    pub(super) visibility: Visibility,
    pub(super) hub: Arc<Hub>,
    pub(super) pages: PageTokens,
    pub(super) limits: Limits,
}

impl PresenceRpc {
    async fn open(
        &self,
        request: wire::OpenSessionRequest,
        call: Call,
    ) -> Result<wire::OpenSessionResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let device = convert::device("device_id", &request.device_id)?;
        let gateway = convert::gateway(&request.gateway_id)?;
        own(user, call.principal)?;
        let admitted = self.sessions.admit(gateway, &request.gateway_token).await?;
        let standing = self.sessions.open(user, device, admitted.instance).await?;
        let rules = self.sessions.rules;
        Ok(wire::OpenSessionResponse {
            session_version: standing.version,
            gateway_token: admitted.token,
            session_ttl: Some(wire_duration(rules.session_ttl)),
            gateway_ttl: Some(wire_duration(rules.gateway_ttl)),
        })
    }

    async fn beat(
        &self,
        request: wire::HeartbeatRequest,
        call: Call,
    ) -> Result<wire::HeartbeatResponse, Error> {
        let gateway = convert::gateway(&request.gateway_id)?;
        let sessions = convert::sessions(&request.sessions, self.limits.batch_ids)?;
        only_services(call.principal)?;
        let admitted = self.sessions.admit(gateway, &request.gateway_token).await?;
        let unknown = self.sessions.renew(&admitted.instance, sessions).await?;
        let name = |(user, device): (kith_store::UserId, kith_presence::DeviceId)| wire::SessionName {
            user_id: user.get(),
            device_id: device.to_string(),
        };
        let rules = self.sessions.rules;
        Ok(wire::HeartbeatResponse {
            gateway_token: admitted.token,
            unknown_sessions: unknown.into_iter().map(name).collect(),
            session_ttl: Some(wire_duration(rules.session_ttl)),
            gateway_ttl: Some(wire_duration(rules.gateway_ttl)),
        })
    }

    async fn close(
        &self,
        request: wire::CloseSessionRequest,
        call: Call,
    ) -> Result<wire::CloseSessionResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let device = convert::device("device_id", &request.device_id)?;
        let gateway = convert::gateway(&request.gateway_id)?;
        own(user, call.principal)?;
        let admitted = self.sessions.admit(gateway, &request.gateway_token).await?;
        let standing = self.sessions.close(user, device, admitted.instance).await?;
        Ok(wire::CloseSessionResponse { session_version: standing.version })
    }

    /// Of each user, what whoever acts is shown.
    async fn shown(&self, ids: &[i64], call: Call) -> Result<Vec<wire::Presence>, Error> {
        let users = convert::users(ids, self.limits.batch_ids)?;
        let (shown, _) = self.visibility.of(&users, call.principal).await?;
        let mut found = self.sessions.get_many(&shown).await.into_iter().peekable();
        let of_each = users.into_iter().map(|user| {
            // They are in the order of the users.
            let shown = found.next_if(|shown| shown.user == user);
            convert::presence(&shown.unwrap_or_else(|| Shown::unknown(user)), call.principal)
        });
        Ok(of_each.collect())
    }
}

#[tonic::async_trait]
impl PresenceService for PresenceRpc {
    async fn open_session(
        &self,
        request: Request<wire::OpenSessionRequest>,
    ) -> Result<Response<wire::OpenSessionResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(Box::pin(self.open(request.into_inner(), call)).await?))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> Result<Response<wire::HeartbeatResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.beat(request.into_inner(), call).await?))
    }

    async fn close_session(
        &self,
        request: Request<wire::CloseSessionRequest>,
    ) -> Result<Response<wire::CloseSessionResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.close(request.into_inner(), call).await?))
    }

    async fn get_presence(
        &self,
        request: Request<wire::GetPresenceRequest>,
    ) -> Result<Response<wire::GetPresenceResponse>, Status> {
        let call = Call::of(&request);
        let id = request.into_inner().user_id;
        convert::user("user_id", id)?;
        let presence = self.shown(&[id], call).await?.pop();
        Ok(Response::new(wire::GetPresenceResponse { presence }))
    }

    async fn batch_get_presence(
        &self,
        request: Request<wire::BatchGetPresenceRequest>,
    ) -> Result<Response<wire::BatchGetPresenceResponse>, Status> {
        let call = Call::of(&request);
        let presences = self.shown(&request.into_inner().user_ids, call).await?;
        Ok(Response::new(wire::BatchGetPresenceResponse { presences }))
    }

    type WatchPresenceStream = Told;

    async fn watch_presence(
        &self,
        request: Request<wire::WatchPresenceRequest>,
    ) -> Result<Response<Told>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.watched(&request.into_inner().user_ids, call).await?))
    }

    async fn list_gateways(
        &self,
        request: Request<wire::ListGatewaysRequest>,
    ) -> Result<Response<wire::ListGatewaysResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.gateways_page(&request.into_inner(), call).await?))
    }

    async fn list_active_gateways(
        &self,
        request: Request<wire::ListActiveGatewaysRequest>,
    ) -> Result<Response<wire::ListActiveGatewaysResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.active_gateways(request.into_inner(), call).await?))
    }

    async fn list_active_members(
        &self,
        request: Request<wire::ListActiveMembersRequest>,
    ) -> Result<Response<wire::ListActiveMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.active_members(request.into_inner(), call).await?))
    }

    async fn count_active_members(
        &self,
        request: Request<wire::CountActiveMembersRequest>,
    ) -> Result<Response<wire::CountActiveMembersResponse>, Status> {
        let call = Call::of(&request);
        Ok(Response::new(self.active_count(request.into_inner(), call).await?))
    }
}
