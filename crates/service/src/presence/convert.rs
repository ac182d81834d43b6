//! Presence between the wire and the domain. Raw numbers and strings stop here.

use kith_presence::{DeviceId, GatewayId, Session};
use kith_proto::presence::v1 as wire;
use kith_store::{GroupId, Invalid, UserId};

use super::sessions::Shown;
use crate::{
    error::Error,
    rpc::{batch, call::Principal, versions::wire_duration},
};

pub(super) fn user(field: &'static str, id: i64) -> Result<UserId, Error> {
    UserId::new(id).map_err(|why| Error::invalid(field, &why))
}

pub(super) fn group(id: i64) -> Result<GroupId, Error> {
    GroupId::new(id).map_err(|why| Error::invalid("group_id", &why))
}

pub(super) fn gateway(id: &str) -> Result<GatewayId, Error> {
    id.parse().map_err(|why| Error::invalid("gateway_id", &why))
}

pub(super) fn device(field: &'static str, id: &str) -> Result<DeviceId, Error> {
    id.parse().map_err(|why| Error::invalid(field, &why))
}

/// Those that one request asks about.
pub(super) fn users(ids: &[i64], most: usize) -> Result<Vec<UserId>, Error> {
    batch::check_count("user_ids", ids.len(), most)?;
    ids.iter().map(|id| user("user_ids", *id)).collect()
}

/// Those that one stream is about.
pub(super) fn watched(ids: &[i64], most: usize) -> Result<Vec<UserId>, Error> {
    if ids.is_empty() {
        return Err(Error::invalid("user_ids", &Invalid::new(format!("must be 1 to {most} ids, not 0"))));
    }
    users(ids, most)
}

/// Those that one heartbeat renews.
pub(super) fn sessions(names: &[wire::SessionName], most: usize) -> Result<Vec<(UserId, DeviceId)>, Error> {
    batch::check_count("sessions", names.len(), most)?;
    let session = |name: &wire::SessionName| {
        Ok((user("sessions.user_id", name.user_id)?, device("sessions.device_id", &name.device_id)?))
    };
    names.iter().map(session).collect()
}

pub(super) fn presence(shown: &Shown, principal: Principal) -> wire::Presence {
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

pub(super) fn told(
    shown: &Shown,
    gateways: &[GatewayId],
    principal: Principal,
) -> wire::WatchPresenceResponse {
    let presence = wire::Presence { sessions: Vec::new(), ..presence(shown, principal) };
    wire::WatchPresenceResponse { presence: Some(presence), gateway_ids: ids(gateways, principal) }
}

/// For services alone.
pub(super) fn ids(gateways: &[GatewayId], principal: Principal) -> Vec<String> {
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
