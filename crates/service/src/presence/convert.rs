//! Presence between the wire and the domain. Raw numbers and strings do not pass this module.

use kith_presence::{ActiveMember, DeviceId, GatewayId, Session};
use kith_proto::presence::v1 as wire;
use kith_store::UserId;

use super::sessions::{SessionRequest, UserDevice, UserPresence};
use crate::{
    error::{Error, valid},
    rpc::{batch, call::Principal, ids, versions::wire_duration},
};

pub(super) fn gateway(id: &str) -> Result<GatewayId, Error> {
    valid("gateway_id", id.parse())
}

pub(super) fn device(field: &'static str, id: &str) -> Result<DeviceId, Error> {
    valid(field, id.parse())
}

/// The session to be opened or closed.
pub(super) fn session_request(
    user_id: i64,
    device_id: &str,
    gateway_id: &str,
    gateway_token: String,
) -> Result<SessionRequest, Error> {
    Ok(SessionRequest {
        user: ids::user("user_id", user_id)?,
        device: device("device_id", device_id)?,
        gateway: gateway(gateway_id)?,
        gateway_token,
    })
}

/// A request's users.
pub(super) fn users(ids: &[i64], most: usize) -> Result<Vec<UserId>, Error> {
    batch::check_count("user_ids", ids.len(), most)?;
    ids::users("user_ids", ids)
}

/// A stream's users.
pub(super) fn watched(ids: &[i64], most: usize) -> Result<Vec<UserId>, Error> {
    if ids.is_empty() {
        return Err(Error::invalid("user_ids", &format!("must be 1 to {most} ids, not 0")));
    }
    users(ids, most)
}

/// The sessions that a heartbeat renews.
pub(super) fn sessions(names: &[wire::SessionName], most: usize) -> Result<Vec<UserDevice>, Error> {
    batch::check_count("sessions", names.len(), most)?;
    let session = |name: &wire::SessionName| {
        let user = ids::user("sessions.user_id", name.user_id)?;
        Ok(UserDevice { user, device: device("sessions.device_id", &name.device_id)? })
    };
    names.iter().map(session).collect()
}

pub(super) fn session_name(session: &UserDevice) -> wire::SessionName {
    wire::SessionName { user_id: session.user.get(), device_id: session.device.to_string() }
}

pub(super) fn presence(shown: &UserPresence, principal: Principal) -> wire::Presence {
    let sessions = match principal {
        Principal::Service => shown.sessions.iter().map(session).collect(),
        Principal::User(_) => Vec::new(),
    };
    wire::Presence {
        user_id: shown.user.get(),
        state: state(shown.online).into(),
        session_version: shown.version,
        sessions,
    }
}

pub(super) fn watched_presence(
    shown: &UserPresence,
    gateways: &[GatewayId],
    principal: Principal,
) -> wire::WatchPresenceResponse {
    let presence = wire::Presence { sessions: Vec::new(), ..presence(shown, principal) };
    wire::WatchPresenceResponse { presence: Some(presence), gateway_ids: ids(gateways, principal) }
}

pub(super) fn active_member(member: &ActiveMember, principal: Principal) -> wire::ActiveMember {
    wire::ActiveMember { user_id: member.user.get(), gateway_ids: ids(&member.gateways, principal) }
}

/// Returns the ids for a service, and none for a user.
fn ids(gateways: &[GatewayId], principal: Principal) -> Vec<String> {
    match principal {
        Principal::Service => gateways.iter().map(ToString::to_string).collect(),
        Principal::User(_) => Vec::new(),
    }
}

fn session(session: &Session) -> wire::Session {
    wire::Session {
        device_id: session.device.to_string(),
        gateway_id: session.instance.gateway.to_string(),
        ttl: Some(wire_duration(session.left)),
    }
}

const fn state(online: Option<bool>) -> wire::PresenceState {
    match online {
        Some(true) => wire::PresenceState::Online,
        Some(false) => wire::PresenceState::Offline,
        None => wire::PresenceState::Unknown,
    }
}
