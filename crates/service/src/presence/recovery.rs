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
    /// When it ends.
    until: Instant,
    /// When it ended, by the events that all nodes received. Not reliable if presence was lost before.
    gone: Option<Instant>,
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
    of: HashMap<UserId, Vec<Session>>,
    /// Users with ended sessions, and perhaps others.
    with_gone: HashSet<UserId>,
}

impl SessionRecovery {
    pub(super) fn new(most: usize) -> Self {
        Self { most, users: Mutex::default() }
    }

    pub(super) fn put(&self, user: UserId, instance: &Instance, device: &DeviceId, lasts: Duration) {
        let until = Instant::now() + lasts;
        let mut users = self.users.lock();
        let room = users.count < self.most;
        let sessions = users.of.entry(user).or_default();
        let known = sessions.iter_mut().find(|session| session.is(instance, device));
        match known {
            Some(known) => (known.until, known.gone) = (until, None),
            None if room => {
                sessions.push(Session { at: instance.clone(), device: device.clone(), until, gone: None });
                users.count += 1;
            }
            None => users.tidy(user),
        }
    }

    pub(super) fn remove(&self, user: UserId, instance: &Instance, device: &DeviceId) {
        self.users.lock().retain(user, |session| !session.is(instance, device));
    }

    /// Notes which sessions have ended by the events that all nodes received. A session is restored nevertheless if it
    /// turns out that everything was lost before: then the event was of another node that restored only its own
    /// sessions.
    pub(super) fn note_ended(&self, event: &Event) {
        let now = Instant::now();
        let mut users = self.users.lock();
        let users = &mut *users;
        let Some(sessions) = users.of.get_mut(&event.user) else { return };
        for session in &mut *sessions {
            let goes_on = event.gateways.contains(&session.at.gateway);
            session.gone = if goes_on { None } else { session.gone.or(Some(now)) };
        }
        if sessions.iter().any(|session| session.gone.is_some()) {
            users.with_gone.insert(event.user);
        }
    }

    /// Nothing was lost until this time: forgets sessions that ended before it by events.
    pub(super) fn settle(&self, until: Instant) {
        let mut users = self.users.lock();
        for user in mem::take(&mut users.with_gone) {
            users.retain(user, |session| session.gone.is_none_or(|gone| gone > until));
            let sessions = users.of.get(&user);
            if sessions.is_some_and(|sessions| sessions.iter().any(|session| session.gone.is_some())) {
                users.with_gone.insert(user);
            }
        }
    }

    /// Forgets expired sessions.
    pub(super) fn forget(&self) {
        let now = Instant::now();
        let mut users = self.users.lock();
        users.of.retain(|_, sessions| {
            sessions.retain(|session| session.until > now);
            !sessions.is_empty()
        });
        users.count = users.of.values().map(Vec::len).sum();
    }

    /// The commands that restore all of them, for no longer than this time: one that was closed on another node soon
    /// ends.
    pub(super) fn again(&self, at_most: Duration) -> Vec<Change> {
        let now = Instant::now();
        let mut users = self.users.lock();
        users.with_gone.clear();
        let mut changes = Vec::with_capacity(users.count);
        for (user, sessions) in &mut users.of {
            for session in sessions {
                session.gone = None;
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
        let Some(sessions) = self.of.get_mut(&user) else { return };
        let before = sessions.len();
        sessions.retain(keep);
        self.count -= before - sessions.len();
        self.tidy(user);
    }

    fn tidy(&mut self, user: UserId) {
        if self.of.get(&user).is_some_and(Vec::is_empty) {
            self.of.remove(&user);
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

    fn put(held: &SessionRecovery, id: i64, gateway: &str, device: &str) {
        held.put(user(id), &at(gateway), &device.parse().unwrap(), MINUTE);
    }

    fn event(id: i64, gateways: &[&str]) -> Event {
        let gateways = gateways.iter().map(|id| id.parse().unwrap()).collect();
        Event { user: user(id), version: 9, gateways }
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_on_is_brought_back_and_nothing_else() {
        let held = SessionRecovery::new(3);
        for (id, gateway, device) in
            [(1, "a", "x"), (1, "a", "y"), (1, "b", "x"), (2, "a", "x"), (1, "a", "x")]
        {
            put(&held, id, gateway, device);
        }
        assert_eq!(held.count(), 3, "no more than may be");
        held.remove(user(1), &at("a"), &"y".parse().unwrap());
        held.note_ended(&event(1, &["a"]));
        held.settle(Instant::now());
        assert_eq!(held.count(), 1, "the one at b is gone");
        let again = held.again(Duration::from_secs(5));
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].instance, at("a"));
        assert_eq!(again[0].op, SessionOp::Open("x".parse().unwrap(), Duration::from_secs(5)));
        tokio::time::advance(MINUTE).await;
        assert!(held.again(MINUTE).is_empty());
        held.forget();
        assert_eq!(held.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn recovery_keeps_sessions_another_node_restored() {
        let held = SessionRecovery::new(9);
        put(&held, 1, "a", "x");
        put(&held, 1, "b", "y");
        let looked = Instant::now();
        tokio::time::advance(Duration::from_millis(500)).await;
        held.note_ended(&event(1, &["a"]));
        held.settle(looked);
        assert_eq!(held.count(), 2, "it is not known yet whether all was lost before");
        assert_eq!(held.again(MINUTE).len(), 2, "it was");
        held.settle(Instant::now());
        assert_eq!(held.count(), 2);
        held.note_ended(&event(1, &["a"]));
        held.note_ended(&event(1, &["a", "b"]));
        held.settle(Instant::now());
        assert_eq!(held.count(), 2, "the later event says that it is there");
        held.note_ended(&event(1, &[]));
        held.settle(Instant::now());
        assert_eq!(held.count(), 0);
    }
}
