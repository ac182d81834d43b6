//! User sessions, in memory.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use kith_store::UserId;
use tokio::time::Instant;

use super::State;
use crate::{
    Change, ChangeOutcome, DeviceId, GatewayId, Instance, PresenceError, PresenceLimits, Session, SessionOp,
    UserSessions, UserState,
};

/// Each change forgets this many users who went offline long ago.
const FORGOTTEN_AT_ONCE: usize = 10;

/// A user's sessions and last event.
#[derive(Debug, Default)]
pub(super) struct User {
    version: i64,
    fanned_version: i64,
    published_gateways: Vec<GatewayId>,
    /// The time since which it is offline: it may have returned and gone again since it was recorded.
    offline_since: Option<Instant>,
    /// Whether it is in [`State::gone`].
    is_queued: bool,
    sessions: HashMap<(DeviceId, Instance), Instant>,
}

impl State {
    pub(super) fn change(
        &mut self,
        change: &Change,
        limits: &PresenceLimits,
    ) -> Result<ChangeOutcome, PresenceError> {
        let (now, Change { user: id, instance, op }) = (Instant::now(), change);
        match op {
            SessionOp::Open(_, lasts) | SessionOp::Renew(_, lasts) => {
                self.schedule_check(instance, *id, now + *lasts, true);
            }
            SessionOp::Close(_) => self.schedule_check(instance, *id, now + limits.recheck_after, false),
            SessionOp::End | SessionOp::Expire => {}
        }
        self.forget_gone(limits.kept);
        let mut user = self.users.remove(id).unwrap_or_default();
        user.sessions.retain(|_, deadline| *deadline > now);
        let done = user.apply_op(op, instance, limits, now);
        let gateways = user.gateways();
        let published = done.is_ok() && gateways != user.published_gateways;
        if published {
            user.version = self.next_version();
            user.published_gateways = gateways;
        }
        let of_instance = user.sessions.iter().filter(|((_, at), _)| at == instance);
        let left = of_instance.map(|(_, deadline)| deadline.saturating_duration_since(now)).max();
        let state = UserState {
            version: user.version,
            fanned_version: user.fanned_version,
            gateways: user.published_gateways.clone(),
        };
        self.keep(*id, user);
        Ok(ChangeOutcome { known: done?, state, left, published })
    }

    pub(super) fn user_sessions(&self, id: UserId) -> UserSessions {
        let Some(user) = self.users.get(&id) else { return UserSessions::default() };
        let now = Instant::now();
        let session = |((device, instance), deadline): (&(DeviceId, Instance), &Instant)| Session {
            device: device.clone(),
            instance: instance.clone(),
            left: deadline.saturating_duration_since(now),
        };
        let live = user.sessions.iter().filter(|(_, deadline)| **deadline > now);
        UserSessions {
            version: user.version,
            fanned_version: user.fanned_version,
            sessions: live.map(session).collect(),
        }
    }

    pub(super) fn record_fan_out(&mut self, id: UserId, version: i64) -> i64 {
        let Some(mut user) = self.users.remove(&id) else { return 0 };
        if version <= user.version {
            user.fanned_version = user.fanned_version.max(version);
        }
        let version = user.version;
        self.keep(id, user);
        version
    }

    /// Keeps an offline user's version for a while.
    fn keep(&mut self, id: UserId, mut user: User) {
        if user.version == 0 {
            return;
        }
        user.offline_since = user.is_idle().then(Instant::now);
        if let Some(offline_since) = user.offline_since
            && !std::mem::replace(&mut user.is_queued, true)
        {
            self.gone.push_back((offline_since, id));
        }
        self.users.insert(id, user);
    }

    /// Forgets some users who have been offline for long. Versions rise for all users together, so theirs
    /// never fall.
    fn forget_gone(&mut self, kept: Duration) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some((_, id)) = self.gone.pop_front_if(|(at, _)| at.elapsed() >= kept) else { return };
            let Some(user) = self.users.get_mut(&id) else { continue };
            user.is_queued = false;
            match user.offline_since {
                Some(offline_since) if offline_since.elapsed() >= kept => drop(self.users.remove(&id)),
                // It went again meanwhile.
                Some(offline_since) => {
                    user.is_queued = true;
                    self.gone.push_back((offline_since, id));
                }
                None => {}
            }
        }
    }
}

impl User {
    /// Whether it is offline, its last event says so, and its groups were notified.
    fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.published_gateways.is_empty() && self.fanned_version >= self.version
    }

    /// Whether a session existed that was renewed, closed or ended.
    fn apply_op(
        &mut self,
        op: &SessionOp,
        instance: &Instance,
        limits: &PresenceLimits,
        now: Instant,
    ) -> Result<bool, PresenceError> {
        let key = |device: &DeviceId| (device.clone(), instance.clone());
        match op {
            SessionOp::Open(device, lasts) => {
                let most = usize::try_from(limits.sessions_max).unwrap_or(usize::MAX);
                if !self.sessions.contains_key(&key(device)) && self.sessions.len() >= most {
                    return Err(PresenceError::TooManySessions);
                }
                self.sessions.insert(key(device), now + *lasts);
                Ok(false)
            }
            SessionOp::Renew(device, lasts) => {
                let session = self.sessions.get_mut(&key(device));
                Ok(session.map(|deadline| *deadline = now + *lasts).is_some())
            }
            SessionOp::Close(device) => Ok(self.sessions.remove(&key(device)).is_some()),
            SessionOp::End => {
                let before = self.sessions.len();
                self.sessions.retain(|(_, at), _| at != instance);
                Ok(self.sessions.len() < before)
            }
            SessionOp::Expire => Ok(false),
        }
    }

    fn gateways(&self) -> Vec<GatewayId> {
        let gateways: BTreeSet<_> = self.sessions.keys().map(|(_, at)| at.gateway.clone()).collect();
        gateways.into_iter().collect()
    }
}
