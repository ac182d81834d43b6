//! Presence in single-node mode: in memory, under one lock that no call holds for long.

mod gateways;
mod groups;
mod users;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{GroupId, Timestamp, UserId};
use parking_lot::Mutex;
use tokio::{
    sync::broadcast::{self, Receiver, Sender},
    time::Instant,
};

use self::{gateways::Registered, groups::Groups, users::User};
use crate::{
    ActiveMember, ActiveStore, Change, ChangeOutcome, Claim, ClaimOutcome, Distribution, Event, GatewayId,
    Gateways, Instance, PresenceError, PresenceFeed, PresenceLimits, PresenceStore, PresenceSubscription,
    Presences, SessionLookup, UserState,
};

/// Changes that a subscriber may be behind.
const BEHIND_MAX: usize = 8_192;

/// Presence in memory. Lost when it is dropped.
#[derive(Debug)]
pub struct MemoryPresence {
    limits: PresenceLimits,
    state: Mutex<State>,
    events: Sender<Event>,
}

#[derive(Debug)]
struct State {
    epoch: u64,
    begun: Instant,
    /// The last assigned version.
    version: i64,
    registered: HashMap<GatewayId, Registered>,
    deadlines: BTreeMap<Instance, Instant>,
    /// When a gateway's users must be checked.
    due: HashMap<Instance, HashMap<UserId, Instant>>,
    users: HashMap<UserId, User>,
    /// Users who went offline, with times, about the earliest first. Each at most once, however often it
    /// toggles.
    gone: VecDeque<(Instant, UserId)>,
    groups: Groups,
}

impl MemoryPresence {
    /// Makes a memory in which no user is online yet.
    #[must_use]
    pub fn new(limits: PresenceLimits) -> Self {
        let state = State {
            epoch: rand::random(),
            begun: Instant::now(),
            version: 0,
            registered: HashMap::new(),
            deadlines: BTreeMap::new(),
            due: HashMap::new(),
            users: HashMap::new(),
            gone: VecDeque::new(),
            groups: Groups::default(),
        };
        Self { limits, state: Mutex::new(state), events: broadcast::channel(BEHIND_MAX).0 }
    }

    /// Returns the stores and the feed.
    #[must_use]
    pub fn presences(self) -> Presences {
        let this = Arc::new(self);
        Presences { sessions: Arc::<Self>::clone(&this), active: Arc::<Self>::clone(&this), feed: this }
    }
}

impl State {
    /// Greater than all assigned versions, also those from earlier runs.
    fn next_version(&mut self) -> i64 {
        self.version = self.version.saturating_add(1).max(Timestamp::now().0.saturating_mul(1000));
        self.version
    }

    fn age(&self) -> Duration {
        self.begun.elapsed()
    }
}

#[async_trait]
impl PresenceStore for MemoryPresence {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, PresenceError> {
        self.state.lock().claim(claim, &self.limits)
    }

    async fn gateways(&self) -> Result<Gateways, PresenceError> {
        Ok(self.state.lock().gateways())
    }

    async fn forget(&self, instance: &Instance) -> Result<(), PresenceError> {
        self.state.lock().forget(instance);
        Ok(())
    }

    async fn change(&self, changes: &[Change]) -> Vec<Result<ChangeOutcome, PresenceError>> {
        let mut state = self.state.lock();
        let mut changed = Vec::with_capacity(changes.len());
        for change in changes {
            let done = state.change(change, &self.limits);
            if let Ok(done) = &done
                && done.published
            {
                let UserState { version, gateways, .. } = done.state.clone();
                // Published within the lock, so that events keep their order; there may be no subscriber.
                self.events.send(Event { user: change.user, version, gateways }).ok();
            }
            changed.push(done);
        }
        changed
    }

    async fn sessions(&self, users: &[UserId]) -> Result<SessionLookup, PresenceError> {
        let state = self.state.lock();
        Ok(SessionLookup {
            age: state.age(),
            users: users.iter().map(|user| Ok(state.user_sessions(*user))).collect(),
        })
    }

    async fn record_fan_out(&self, user: UserId, version: i64) -> Result<i64, PresenceError> {
        Ok(self.state.lock().record_fan_out(user, version))
    }

    async fn users_to_check(
        &self,
        instance: &Instance,
        limit: usize,
        all: bool,
    ) -> Result<Vec<UserId>, PresenceError> {
        Ok(self.state.lock().users_to_check(instance, limit, all))
    }

    async fn mark_checked(
        &self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) -> Result<(), PresenceError> {
        self.state.lock().mark_checked(instance, users, all);
        Ok(())
    }
}

#[async_trait]
impl ActiveStore for MemoryPresence {
    async fn apply(
        &self,
        user: UserId,
        user_state: &UserState,
        groups: &[GroupId],
    ) -> Vec<Result<bool, PresenceError>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let version = state.next_version();
        let kept = self.limits.kept;
        groups.iter().map(|group| Ok(state.groups.apply(*group, user, user_state, version, kept))).collect()
    }

    async fn leave(&self, group: GroupId, users: &[UserId]) -> Vec<Result<bool, PresenceError>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let version = state.next_version();
        users.iter().map(|user| Ok(state.groups.leave(group, *user, version))).collect()
    }

    async fn distributions(&self, groups: &[GroupId]) -> Vec<Result<Distribution, PresenceError>> {
        let state = self.state.lock();
        groups.iter().map(|group| Ok(state.groups.distribution(*group))).collect()
    }

    async fn active(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<ActiveMember>, PresenceError> {
        Ok(self.state.lock().groups.active(group, after, limit))
    }
}

#[async_trait]
impl PresenceFeed for MemoryPresence {
    async fn subscribe(&self) -> Result<Box<dyn PresenceSubscription>, PresenceError> {
        Ok(Box::new(MemorySubscription(self.events.subscribe())))
    }
}

#[derive(Debug)]
struct MemorySubscription(Receiver<Event>);

#[async_trait]
impl PresenceSubscription for MemorySubscription {
    async fn next(&mut self) -> Option<Event> {
        // A lagging subscriber has lost some.
        self.0.recv().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Incarnation, SessionOp};

    const LIMITS: PresenceLimits = PresenceLimits {
        sessions_max: 4,
        gateways_max: 4,
        kept: Duration::from_secs(3600),
        recheck_after: Duration::from_secs(10),
    };

    #[tokio::test(start_paused = true)]
    async fn toggling_user_is_queued_once() {
        let presence = MemoryPresence::new(LIMITS);
        let instance = Instance { gateway: "a".parse().unwrap(), incarnation: Incarnation::new(1).unwrap() };
        let (user, group) = (UserId::new(1).unwrap(), GroupId::new(9).unwrap());
        let toggle = async || {
            for op in [
                SessionOp::Open("phone".parse().unwrap(), Duration::from_secs(60)),
                SessionOp::Close("phone".parse().unwrap()),
            ] {
                let change = Change { user, instance: instance.clone(), op };
                let state = presence.change(&[change]).await.pop().unwrap().unwrap().state;
                presence.apply(user, &state, &[group]).await;
                presence.record_fan_out(user, state.version).await.unwrap();
            }
        };
        let queued = || {
            let state = presence.state.lock();
            (state.gone.len(), state.groups.queued(), state.users.len())
        };
        for _ in 0..100 {
            toggle().await;
        }
        assert_eq!(queued(), (1, 1, 1));
        tokio::time::advance(LIMITS.kept).await;
        toggle().await;
        assert_eq!(queued(), (1, 1, 1), "it is kept from its last end on");
        tokio::time::advance(LIMITS.kept * 2).await;
        let other =
            Change { user: UserId::new(2).unwrap(), instance: instance.clone(), op: SessionOp::Expire };
        presence.change(&[other]).await;
        assert_eq!(queued().0, 0, "it is forgotten");
    }
}
