//! Sessions that were opened or renewed through this node, to be restored after a loss of presence.

use std::{
    collections::{HashMap, HashSet},
    mem,
    time::Duration,
};

use kith_presence::{Change, DeviceId, Event, Instance, SessionOp};
use kith_store::UserId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// A device at a gateway.
#[derive(Clone, Debug)]
struct Session {
    at: Instance,
    device: DeviceId,
    /// When the session ends.
    until: Instant,
    /// When it ended, by the events that all nodes received. Not reliable if presence was lost before.
    ended: Option<Instant>,
}

/// Bounded: further sessions are not remembered, and are restored by their gateways only.
#[derive(Debug)]
pub(super) struct SessionRecovery {
    most: usize,
    users: Mutex<RecoverableSessions>,
}

#[derive(Debug, Default)]
struct RecoverableSessions {
    count: usize,
    by_user: HashMap<UserId, Vec<Session>>,
    /// Users with ended sessions, and perhaps others.
    with_ended: HashSet<UserId>,
}

impl SessionRecovery {
    pub(super) fn new(most: usize) -> Self {
        Self { most, users: Mutex::default() }
    }

    pub(super) fn put(&self, user: UserId, instance: &Instance, device: &DeviceId, lasts: Duration) {
        let until = Instant::now() + lasts;
        let mut users = self.users.lock();
        let room = users.count < self.most;
        let sessions = users.by_user.entry(user).or_default();
        let known = sessions.iter_mut().find(|session| session.is(instance, device));
        match known {
            Some(known) => (known.until, known.ended) = (until, None),
            None if room => {
                sessions.push(Session { at: instance.clone(), device: device.clone(), until, ended: None });
                users.count += 1;
            }
            None => users.remove_if_empty(user),
        }
    }

    pub(super) fn remove(&self, user: UserId, instance: &Instance, device: &DeviceId) {
        self.users.lock().retain(user, |session| !session.is(instance, device));
    }

    /// Notes which sessions have ended by the events that all nodes received. A session is restored
    /// nevertheless if it turns out that everything was lost before: then the event came from another node
    /// that restored only its own sessions.
    pub(super) fn note_ended(&self, event: &Event) {
        let now = Instant::now();
        let mut users = self.users.lock();
        let users = &mut *users;
        let Some(sessions) = users.by_user.get_mut(&event.user) else { return };
        for session in &mut *sessions {
            let continues = event.gateways.contains(&session.at.gateway);
            session.ended = if continues { None } else { session.ended.or(Some(now)) };
        }
        if sessions.iter().any(|session| session.ended.is_some()) {
            users.with_ended.insert(event.user);
        }
    }

    /// Forgets sessions that ended by events before this time, until which nothing was lost.
    pub(super) fn forget_ended(&self, until: Instant) {
        let mut users = self.users.lock();
        for user in mem::take(&mut users.with_ended) {
            users.retain(user, |session| session.ended.is_none_or(|ended| ended > until));
            let sessions = users.by_user.get(&user);
            if sessions.is_some_and(|sessions| sessions.iter().any(|session| session.ended.is_some())) {
                users.with_ended.insert(user);
            }
        }
    }

    /// Forgets expired sessions.
    pub(super) fn forget_expired(&self) {
        let now = Instant::now();
        let mut users = self.users.lock();
        users.by_user.retain(|_, sessions| {
            sessions.retain(|session| session.until > now);
            !sessions.is_empty()
        });
        users.count = users.by_user.values().map(Vec::len).sum();
    }

    /// The commands that restore all sessions, for no longer than this time: a session that was closed on
    /// another node soon ends.
    pub(super) fn changes_to_restore(&self, at_most: Duration) -> Vec<Change> {
        let now = Instant::now();
        let mut users = self.users.lock();
        users.with_ended.clear();
        let mut changes = Vec::with_capacity(users.count);
        for (user, sessions) in &mut users.by_user {
            for session in sessions {
                session.ended = None;
                let left = session.until.checked_duration_since(now).filter(|left| !left.is_zero());
                let Some(left) = left else { continue };
                let op = SessionOp::Open(session.device.clone(), left.min(at_most));
                changes.push(Change { user: *user, instance: session.at.clone(), op });
            }
        }
        changes
    }

    pub(super) fn count(&self) -> usize {
        self.users.lock().count
    }
}

impl RecoverableSessions {
    fn retain(&mut self, user: UserId, keep: impl Fn(&Session) -> bool) {
        let Some(sessions) = self.by_user.get_mut(&user) else { return };
        let before = sessions.len();
        sessions.retain(keep);
        self.count -= before - sessions.len();
        self.remove_if_empty(user);
    }

    fn remove_if_empty(&mut self, user: UserId) {
        if self.by_user.get(&user).is_some_and(Vec::is_empty) {
            self.by_user.remove(&user);
        }
    }
}

impl Session {
    fn is(&self, at: &Instance, device: &DeviceId) -> bool {
        self.at == *at && self.device == *device
    }
}

#[cfg(test)]
mod tests {
    use kith_presence::Incarnation;

    use super::*;
    use crate::sample::user;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(id: &str) -> Instance {
        Instance { gateway: id.parse().unwrap(), incarnation: Incarnation::new(1).unwrap() }
    }

    fn put(recovery: &SessionRecovery, id: i64, gateway: &str, device: &str) {
        recovery.put(user(id), &at(gateway), &device.parse().unwrap(), MINUTE);
    }

    fn event(id: i64, gateways: &[&str]) -> Event {
        let gateways = gateways.iter().map(|id| id.parse().unwrap()).collect();
        Event { user: user(id), version: 9, gateways }
    }

    #[tokio::test(start_paused = true)]
    async fn only_open_sessions_are_restored() {
        let recovery = SessionRecovery::new(3);
        for (id, gateway, device) in
            [(1, "a", "x"), (1, "a", "y"), (1, "b", "x"), (2, "a", "x"), (1, "a", "x")]
        {
            put(&recovery, id, gateway, device);
        }
        assert_eq!(recovery.count(), 3, "no more than may be");
        recovery.remove(user(1), &at("a"), &"y".parse().unwrap());
        recovery.note_ended(&event(1, &["a"]));
        recovery.forget_ended(Instant::now());
        assert_eq!(recovery.count(), 1, "the one at b is ended");
        let changes = recovery.changes_to_restore(Duration::from_secs(5));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].instance, at("a"));
        assert_eq!(changes[0].op, SessionOp::Open("x".parse().unwrap(), Duration::from_secs(5)));
        tokio::time::advance(MINUTE).await;
        assert!(recovery.changes_to_restore(MINUTE).is_empty());
        recovery.forget_expired();
        assert_eq!(recovery.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn recovery_keeps_sessions_another_node_restored() {
        let recovery = SessionRecovery::new(9);
        put(&recovery, 1, "a", "x");
        put(&recovery, 1, "b", "y");
        let checked = Instant::now();
        tokio::time::advance(Duration::from_millis(500)).await;
        recovery.note_ended(&event(1, &["a"]));
        recovery.forget_ended(checked);
        assert_eq!(recovery.count(), 2, "it is not known yet whether all was lost before");
        assert_eq!(recovery.changes_to_restore(MINUTE).len(), 2, "it was");
        recovery.forget_ended(Instant::now());
        assert_eq!(recovery.count(), 2);
        recovery.note_ended(&event(1, &["a"]));
        recovery.note_ended(&event(1, &["a", "b"]));
        recovery.forget_ended(Instant::now());
        assert_eq!(recovery.count(), 2, "the later event says that it is there");
        recovery.note_ended(&event(1, &[]));
        recovery.forget_ended(Instant::now());
        assert_eq!(recovery.count(), 0);
    }
}
