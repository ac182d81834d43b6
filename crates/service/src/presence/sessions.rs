//! Sessions as callers have them: opened, renewed, closed, and asked about.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_presence::{
    Change, Changed, Claim, Claimed, DeviceId, GatewayId, Incarnation, Instance, Op, PresenceError,
    Presences, Session, Standing,
};
use kith_store::UserId;

use super::{fan_out::FanOut, gateways::KnownGateways, recovery::SessionRecovery, visibility::Warmth};
use crate::{
    error::Error,
    metric,
    rpc::page_token::PageTokens,
    user::{AccountCleanup, Cleaned, Users},
};

/// What is configured about sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) session_ttl: Duration,
    pub(super) gateway_ttl: Duration,
    pub(super) unknown_for: Duration,
    pub(super) fan_out_wait: Duration,
}

/// Sessions through this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(super) stores: Presences,
    pub(super) gateways: Arc<KnownGateways>,
    pub(super) recovery: Arc<SessionRecovery>,
    pub(super) fan_out: FanOut,
    pub(super) users: Users,
    pub(super) warmth: Warmth,
    /// By a key of their own.
    pub(super) tokens: PageTokens,
    pub(super) rules: Rules,
}

/// A gateway that has proved itself, and what it proves itself by.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) instance: Instance,
    pub(super) token: String,
}

/// The presence of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) user: UserId,
    /// `None`: not known.
    pub(super) online: Option<bool>,
    pub(super) version: i64,
    pub(super) sessions: Vec<Session>,
}

impl Shown {
    pub(super) const fn unknown(user: UserId) -> Self {
        Self { user, online: None, version: 0, sessions: Vec::new() }
    }

    /// Where it is online: ids of gateways, each once.
    pub(super) fn gateways(&self) -> Vec<GatewayId> {
        let mut gateways: Vec<_> =
            self.sessions.iter().map(|session| session.instance.gateway.clone()).collect();
        gateways.dedup();
        gateways
    }
}

impl Sessions {
    /// Makes sure that the gateway is who it says, and notes that it lives.
    ///
    /// # Errors
    /// PERMISSION_DENIED, RESOURCE_EXHAUSTED for one too many, UNAVAILABLE.
    pub(super) async fn admit(&self, gateway: GatewayId, token: &str) -> Result<Admitted, Error> {
        let denied =
            || Error::not_allowed("the gateway_id is that of another gateway: its gateway_token is needed");
        let query = [&b"gateway"[..], gateway.as_str().as_bytes()];
        let offered = self.tokens.open(&query, token).map_err(|_| denied())?;
        let offered = offered.map(|number| Incarnation::new(number).ok_or_else(denied)).transpose()?;
        let claim = Claim { gateway: gateway.clone(), offered, lasts: self.rules.gateway_ttl };
        match self.stores.sessions.claim(&claim).await.map_err(Error::presence)? {
            Claimed::Denied => Err(denied()),
            Claimed::Held(incarnation) => {
                let token = self.tokens.seal(&query, incarnation.get());
                Ok(Admitted { instance: Instance { gateway, incarnation }, token })
            }
        }
    }

    /// Puts a device online.
    ///
    /// # Errors
    /// NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE.
    pub(super) async fn open(
        &self,
        user: UserId,
        device: DeviceId,
        instance: Instance,
    ) -> Result<Standing, Error> {
        self.users.get(user, &Consistency::Cached).await?;
        let op = Op::Open(device.clone(), self.rules.session_ttl);
        let changed = self.change(Change { user, instance: instance.clone(), op }, "open").await?;
        self.recovery.put(user, &instance, &device, self.rules.session_ttl);
        self.warmth.begin(user);
        self.fan_out.within(self.rules.fan_out_wait, user, changed.standing.clone()).await;
        Ok(changed.standing)
    }

    /// Ends the session of a device.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn close(
        &self,
        user: UserId,
        device: DeviceId,
        instance: Instance,
    ) -> Result<Standing, Error> {
        self.recovery.remove(user, &instance, &device);
        let changed = self.change(Change { user, instance, op: Op::Close(device) }, "close").await?;
        self.fan_out.within(self.rules.fan_out_wait, user, changed.standing.clone()).await;
        Ok(changed.standing)
    }

    /// Ends all sessions of a user whose account was deleted, at whichever gateways.
    ///
    /// # Errors
    /// UNAVAILABLE; some may have been ended.
    async fn end_all(&self, user: UserId) -> Result<(), Error> {
        let seen = self.stores.sessions.sessions(&[user]).await.map_err(Error::presence)?;
        let mut instances = BTreeSet::new();
        for session in seen.users.into_iter().flat_map(|seen| seen.sessions) {
            self.recovery.remove(user, &session.instance, &session.device);
            instances.insert(session.instance);
        }
        for instance in instances {
            let changed = self.change(Change { user, instance, op: Op::End }, "close").await?;
            self.fan_out.within(self.rules.fan_out_wait, user, changed.standing).await;
        }
        Ok(())
    }

    /// Renews sessions of a gateway. Returns those that are not there.
    ///
    /// # Errors
    /// UNAVAILABLE; some may have been renewed.
    pub(super) async fn renew(
        &self,
        instance: &Instance,
        sessions: Vec<(UserId, DeviceId)>,
    ) -> Result<Vec<(UserId, DeviceId)>, Error> {
        let lasts = self.rules.session_ttl;
        let renew = |(user, device): &(UserId, DeviceId)| Change {
            user: *user,
            instance: instance.clone(),
            op: Op::Renew(device.clone(), lasts),
        };
        let changes: Vec<Change> = sessions.iter().map(renew).collect();
        let changed = self.stores.sessions.change(&changes).await;
        let mut unknown = Vec::new();
        for ((user, device), changed) in sessions.into_iter().zip(changed) {
            let Changed { known, standing, .. } = changed.map_err(Error::presence)?;
            self.fan_out.resume(user, standing);
            if known {
                self.recovery.put(user, instance, &device, lasts);
            } else {
                self.recovery.remove(user, instance, &device);
                unknown.push((user, device));
            }
        }
        let renewed = u64::try_from(changes.len() - unknown.len()).unwrap_or(u64::MAX);
        metrics::counter!(metric::PRESENCE_CHANGES.name, "change" => "renew").increment(renewed);
        Ok(unknown)
    }

    /// Looks which gateways live.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn look(&self) -> Result<(), Error> {
        self.gateways.take(self.stores.sessions.gateways().await.map_err(Error::presence)?);
        Ok(())
    }

    /// The presence of users, in their order. What cannot be asked is unknown.
    pub(super) async fn get_many(&self, users: &[UserId]) -> Vec<Shown> {
        let unknown = |_| users.iter().map(|user| Shown::unknown(*user)).collect();
        self.try_get_many(users).await.unwrap_or_else(unknown)
    }

    /// The same.
    ///
    /// # Errors
    /// UNAVAILABLE.
    pub(super) async fn try_get_many(&self, users: &[UserId]) -> Result<Vec<Shown>, Error> {
        let lookup = self.stores.sessions.sessions(users).await.map_err(Error::presence)?;
        let settled = lookup.age >= self.rules.unknown_for;
        let shown = users.iter().zip(lookup.users).map(|(user, seen)| {
            let living =
                seen.sessions.into_iter().filter(|session| !self.gateways.is_dead(&session.instance));
            let mut sessions: Vec<Session> = living.collect();
            let place = |session: &Session| (session.instance.gateway.clone(), session.device.clone());
            sessions.sort_unstable_by_key(place);
            let online = if sessions.is_empty() && !settled { None } else { Some(!sessions.is_empty()) };
            Shown { user: *user, online, version: seen.version, sessions }
        });
        Ok(shown.collect())
    }

    /// What of it to say, by where a user was told to be online.
    pub(super) fn is_online(&self, gateways: &[GatewayId]) -> Option<bool> {
        if !self.gateways.without_dead(gateways).is_empty() {
            return Some(true);
        }
        self.is_settled().then_some(false)
    }

    /// Whether who is not seen is not there.
    pub(super) fn is_settled(&self) -> bool {
        self.gateways.is_settled(self.rules.unknown_for)
    }

    async fn change(&self, change: Change, name: &'static str) -> Result<Changed, Error> {
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
                tracing::warn!(%error, "sessions of a deleted user did not end, and its id is held; it is tried again");
                Ok(Cleaned::Later)
            }
        }
    }
}
