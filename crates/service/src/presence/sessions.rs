//! Sessions: opening, renewal, closing, and the users' resulting presence.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_presence::{
    Change, ChangeOutcome, Claim, ClaimOutcome, DeviceId, GatewayId, Incarnation, Instance, PresenceError,
    Presences, Session, SessionOp, UserSessions,
};
use kith_store::UserId;

use super::{
    fan_out::FanOut,
    gateways::{GatewayPage, KnownGateways},
    recovery::SessionRecovery,
    visibility::Visibility,
};
use crate::{
    error::Error,
    metric,
    rpc::{call::Principal, page_token::PageTokens},
    user::{AccountCleanup, Cleaned, Users},
};

/// The session configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionRules {
    pub(super) session_ttl: Duration,
    pub(super) gateway_ttl: Duration,
    pub(super) unknown_for: Duration,
    pub(super) fan_out_wait: Duration,
    pub(super) visibility_every: Duration,
}

/// The sessions on gateways that call this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(super) stores: Presences,
    pub(super) gateways: Arc<KnownGateways>,
    pub(super) recovery: Arc<SessionRecovery>,
    pub(super) fan_out: FanOut,
    pub(super) users: Users,
    pub(super) visibility: Visibility,
    /// The tokens of gateways, with their own key.
    pub(super) tokens: PageTokens,
    pub(super) rules: SessionRules,
}

/// A user's device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UserDevice {
    pub(super) user: UserId,
    pub(super) device: DeviceId,
}

/// A session to be opened or closed, and its gateway.
#[derive(Clone, Debug)]
pub(super) struct SessionRequest {
    pub(super) user: UserId,
    pub(super) device: DeviceId,
    pub(super) gateway: GatewayId,
    /// The gateway's token; empty: a new gateway.
    pub(super) gateway_token: String,
}

/// The result when a session is opened or closed.
#[derive(Clone, Debug)]
pub(super) struct SessionChanged {
    /// The version of the user's presence.
    pub(super) version: i64,
    pub(super) gateway_token: String,
}

/// A heartbeat's result.
#[derive(Clone, Debug)]
pub(super) struct Heartbeat {
    pub(super) gateway_token: String,
    /// Sessions that do not exist.
    pub(super) unknown: Vec<UserDevice>,
}

/// A verified gateway, and its token.
#[derive(Debug)]
struct AdmittedGateway {
    instance: Instance,
    token: String,
}

/// A user's presence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserPresence {
    pub(super) user: UserId,
    /// The version; `None`: unknown.
    pub(super) online: Option<bool>,
    pub(super) version: i64,
    pub(super) sessions: Vec<Session>,
}

impl UserPresence {
    pub(super) const fn unknown(user: UserId) -> Self {
        Self { user, online: None, version: 0, sessions: Vec::new() }
    }

    /// The user's gateway ids, each once.
    pub(super) fn gateways(&self) -> Vec<GatewayId> {
        let mut gateways: Vec<_> =
            self.sessions.iter().map(|session| session.instance.gateway.clone()).collect();
        gateways.dedup();
        gateways
    }
}

impl Sessions {
    /// Verifies the gateway, and records that it is alive.
    ///
    /// # Errors
    /// PERMISSION_DENIED, RESOURCE_EXHAUSTED above the gateway limit, UNAVAILABLE.
    async fn admit(&self, gateway: GatewayId, token: &str) -> Result<AdmittedGateway, Error> {
        let denied =
            || Error::not_allowed("the gateway_id is that of another gateway: its gateway_token is needed");
        let query = [&b"gateway"[..], gateway.as_str().as_bytes()];
        let offered = self.tokens.verify(&query, token).map_err(|_| denied())?;
        let offered = offered.map(|number| Incarnation::new(number).ok_or_else(denied)).transpose()?;
        let claim = Claim { gateway: gateway.clone(), offered, lasts: self.rules.gateway_ttl };
        match self.stores.sessions.claim(&claim).await.map_err(Error::presence)? {
            ClaimOutcome::Denied => Err(denied()),
            ClaimOutcome::Held(incarnation) => {
                let token = self.tokens.issue(&query, incarnation.get());
                Ok(AdmittedGateway { instance: Instance { gateway, incarnation }, token })
            }
        }
    }

    /// Opens a device's session. Returns the version of the user's presence. A request for a user who does
    /// not exist claims no gateway.
    ///
    /// # Errors
    /// PERMISSION_DENIED, also for a suspended user, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE.
    pub(super) async fn open_session(&self, request: SessionRequest) -> Result<SessionChanged, Error> {
        let SessionRequest { user, device, gateway, gateway_token } = request;
        self.users.accesses().check_begins(user).await?;
        self.users.get(user, &Consistency::Cached).await?;
        let AdmittedGateway { instance, token } = self.admit(gateway, &gateway_token).await?;
        let op = SessionOp::Open(device.clone(), self.rules.session_ttl);
        let changed = self.change(Change { user, instance: instance.clone(), op }, "open").await?;
        self.recovery.put(user, &instance, &device, self.rules.session_ttl);
        let version = changed.state.version;
        self.fan_out.notify_within(self.rules.fan_out_wait, user, changed.state).await;
        Ok(SessionChanged { version, gateway_token: token })
    }

    /// Renews a gateway's sessions. Returns those that do not exist.
    ///
    /// # Errors
    /// PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE; some may have been renewed.
    pub(super) async fn heartbeat(
        &self,
        gateway: GatewayId,
        gateway_token: &str,
        sessions: Vec<UserDevice>,
    ) -> Result<Heartbeat, Error> {
        let AdmittedGateway { instance, token } = self.admit(gateway, gateway_token).await?;
        let unknown = self.renew(&instance, sessions).await?;
        Ok(Heartbeat { gateway_token: token, unknown })
    }

    /// Ends a device's session. Returns the version of the user's presence.
    ///
    /// # Errors
    /// PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE.
    pub(super) async fn close_session(&self, request: SessionRequest) -> Result<SessionChanged, Error> {
        let SessionRequest { user, device, gateway, gateway_token } = request;
        let AdmittedGateway { instance, token } = self.admit(gateway, &gateway_token).await?;
        self.recovery.remove(user, &instance, &device);
        let changed = self.change(Change { user, instance, op: SessionOp::Close(device) }, "close").await?;
        let version = changed.state.version;
        self.fan_out.notify_within(self.rules.fan_out_wait, user, changed.state).await;
        Ok(SessionChanged { version, gateway_token: token })
    }

    /// Returns the users' presence, in their order; UNKNOWN for users whom the principal may not see.
    pub(super) async fn batch_get_presence(
        &self,
        users: &[UserId],
        principal: Principal,
    ) -> Result<Vec<UserPresence>, Error> {
        let visible = self.visibility.of(users, principal).await?;
        let mut found = self.get_many(&visible.shown).await.into_iter().peekable();
        let of_each = users.iter().map(|user| {
            // The found users are in the order of `users`.
            found.next_if(|shown| shown.user == *user).unwrap_or_else(|| UserPresence::unknown(*user))
        });
        Ok(of_each.collect())
    }

    /// Ends a deleted or suspended user's sessions, at all gateways.
    ///
    /// # Errors
    /// UNAVAILABLE; some may have been ended.
    async fn end_all(&self, user: UserId) -> Result<(), Error> {
        let seen = self.stores.sessions.sessions(&[user]).await.map_err(Error::presence)?;
        let mut instances = BTreeSet::new();
        for seen in seen.users {
            for session in seen.map_err(Error::presence)?.sessions {
                self.recovery.remove(user, &session.instance, &session.device);
                instances.insert(session.instance);
            }
        }
        for instance in instances {
            let changed = self.change(Change { user, instance, op: SessionOp::End }, "close").await?;
            self.fan_out.notify_within(self.rules.fan_out_wait, user, changed.state).await;
        }
        Ok(())
    }

    /// Renews a gateway's sessions. Returns those that do not exist. Sessions that cannot be renewed now are
    /// left for the next heartbeat, so that they do not hide the others' state.
    ///
    /// # Errors
    /// UNAVAILABLE if none could be renewed.
    async fn renew(&self, instance: &Instance, sessions: Vec<UserDevice>) -> Result<Vec<UserDevice>, Error> {
        let lasts = self.rules.session_ttl;
        let renew = |session: &UserDevice| Change {
            user: session.user,
            instance: instance.clone(),
            op: SessionOp::Renew(session.device.clone(), lasts),
        };
        let changes: Vec<Change> = sessions.iter().map(renew).collect();
        let changed = self.stores.sessions.change(&changes).await;
        let (mut unknown, mut failed, mut failures) = (Vec::new(), Ok(()), 0);
        for (session, changed) in sessions.into_iter().zip(changed) {
            let ChangeOutcome { known, state, .. } = match changed {
                Ok(changed) => changed,
                Err(error) => {
                    (failed, failures) = (Err(Error::presence(error)), failures + 1);
                    continue;
                }
            };
            self.fan_out.resume(session.user, state);
            if known {
                self.recovery.put(session.user, instance, &session.device, lasts);
            } else {
                self.recovery.remove(session.user, instance, &session.device);
                unknown.push(session);
            }
        }
        if let Err(error) = failed {
            if failures == changes.len() {
                return Err(error);
            }
            tracing::warn!(%error, failures, "some sessions of a gateway are not renewed; its next heartbeat does it");
        }
        let renewed = u64::try_from(changes.len() - unknown.len() - failures).unwrap_or(u64::MAX);
        metrics::counter!(metric::PRESENCE_CHANGES.name, "change" => "renew").increment(renewed);
        Ok(unknown)
    }

    /// Returns a page of live gateways. See [`KnownGateways::page`] for positions.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn list_gateways(
        &self,
        position: Option<[i64; 3]>,
        size: usize,
    ) -> Result<GatewayPage, Error> {
        self.refresh_gateways().await?;
        Ok(self.gateways.page(position, size))
    }

    /// Reads the live gateways.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn refresh_gateways(&self) -> Result<(), Error> {
        self.gateways.update(self.stores.sessions.gateways().await.map_err(Error::presence)?);
        Ok(())
    }

    /// The users' presence, in their order. UNKNOWN for users whose presence cannot be read.
    pub(super) async fn get_many(&self, users: &[UserId]) -> Vec<UserPresence> {
        let Ok(lookup) = self.stores.sessions.sessions(users).await else {
            return users.iter().map(|user| UserPresence::unknown(*user)).collect();
        };
        let shown = users.iter().zip(lookup.users).map(|(user, seen)| match seen {
            Ok(seen) => self.presence_of(*user, seen, lookup.age),
            Err(_) => UserPresence::unknown(*user),
        });
        shown.collect()
    }

    /// Like [`Self::get_many`], for callers who read again after an error.
    ///
    /// # Errors
    /// UNAVAILABLE, also if only one user cannot be read.
    pub(super) async fn try_get_many(&self, users: &[UserId]) -> Result<Vec<UserPresence>, Error> {
        let lookup = self.stores.sessions.sessions(users).await.map_err(Error::presence)?;
        let shown = users.iter().zip(lookup.users).map(|(user, seen)| match seen {
            Ok(seen) => Ok(self.presence_of(*user, seen, lookup.age)),
            Err(error @ PresenceError::Unavailable) => Err(Error::presence(error)),
            // It would never be read.
            Err(_) => Ok(UserPresence::unknown(*user)),
        });
        shown.collect()
    }

    /// `age`: the epoch's age.
    fn presence_of(&self, user: UserId, seen: UserSessions, age: Duration) -> UserPresence {
        let living = seen.sessions.into_iter().filter(|session| !self.gateways.is_dead(&session.instance));
        let mut sessions: Vec<Session> = living.collect();
        let order = |session: &Session| (session.instance.gateway.clone(), session.device.clone());
        sessions.sort_unstable_by_key(order);
        let settled = age >= self.rules.unknown_for;
        let online = if sessions.is_empty() && !settled { None } else { Some(!sessions.is_empty()) };
        UserPresence { user, online, version: seen.version, sessions }
    }

    /// A user's visible state, from its last event's gateways.
    pub(super) fn is_online(&self, gateways: &[GatewayId]) -> Option<bool> {
        if !self.gateways.without_dead(gateways).is_empty() {
            return Some(true);
        }
        self.is_settled().then_some(false)
    }

    /// Whether users who are not seen are offline.
    pub(super) fn is_settled(&self) -> bool {
        self.gateways.is_settled(self.rules.unknown_for)
    }

    async fn change(&self, change: Change, name: &'static str) -> Result<ChangeOutcome, Error> {
        let changed = self.stores.sessions.change(&[change]).await.pop();
        let changed = changed.unwrap_or(Err(PresenceError::Unexpected)).map_err(Error::presence)?;
        metrics::counter!(metric::PRESENCE_CHANGES.name, "change" => name).increment(1);
        Ok(changed)
    }
}

#[async_trait]
impl AccountCleanup for Sessions {
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        match self.end_all(user).await {
            Ok(()) => Ok(Cleaned::All),
            Err(error) => {
                tracing::warn!(%error, "sessions of a user who was deleted or suspended did not end; it is tried again");
                Ok(Cleaned::Later)
            }
        }
    }
}
