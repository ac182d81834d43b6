//! Notifies a user's groups about where the user is online.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use kith_cache::Consistency;
use kith_presence::{Presences, UserSessions, UserState};
use kith_store::{GroupId, MemberKey, UserId};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};

use super::active::Active;
use crate::{error::Error, group::member::Members, metric};

/// How many of a user's groups are read at once.
const PAGE: usize = 500;
/// Groups that are notified in one step, and concurrent steps: while Redis works on some, the next are
/// prepared, and the previous groups' cached counts are invalidated.
const PART: usize = 100;
const PARTS_AT_ONCE: usize = 2;
/// Users that may wait for a permit; others are found by their heartbeats and the sweep.
const WAITING_MAX: usize = 10_000;
/// Repetitions for a user that changes in between, before other users get a permit.
const TRIES: usize = 5;

/// Notifies groups. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct FanOut {
    pub(super) stores: Presences,
    pub(super) active: Active,
    pub(super) members: Members,
    permits: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    pending: Arc<PendingStates>,
    at_once: usize,
}

/// The newest states for users whose groups are being notified. There is one task for each user, so that a
/// user who changes often does not take others' permits.
#[derive(Debug, Default)]
struct PendingStates(Mutex<HashMap<UserId, UserState>>);

impl PendingStates {
    /// Adds a state. Returns whether the caller must begin the user's task, which no other caller has begun.
    fn add(&self, user: UserId, state: UserState) -> bool {
        match self.0.lock().entry(user) {
            Entry::Occupied(mut newest) => {
                if newest.get().version < state.version {
                    newest.insert(state);
                }
                false
            }
            Entry::Vacant(place) => {
                place.insert(state);
                true
            }
        }
    }

    /// The newest state above the version that was notified last; `None`: the user's task ends.
    fn newer_than(&self, user: UserId, notified: i64) -> Option<UserState> {
        let mut pending = self.0.lock();
        let newest = pending.get(&user).filter(|state| state.version > notified).cloned();
        if newest.is_none() {
            pending.remove(&user);
        }
        newest
    }

    fn end(&self, user: UserId) {
        self.0.lock().remove(&user);
    }
}

impl FanOut {
    pub(super) fn new(stores: Presences, active: Active, members: Members, at_once: usize) -> Self {
        let permits = Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS)));
        let (queue, pending) = (Arc::new(Semaphore::new(WAITING_MAX)), Arc::default());
        Self { stores, active, members, permits, queue, pending, at_once }
    }

    /// Begins to notify a user's groups, if they were not notified, and waits for it for at most this time.
    pub(super) async fn notify_within(&self, limit: Duration, user: UserId, state: UserState) {
        if let Some(notifying) = self.spawn_notification(user, state) {
            // It continues.
            drop(timeout(limit, notifying).await);
        }
    }

    /// Begins to notify for a change on another node: its fan-out was interrupted, or is still running there.
    pub(super) fn resume(&self, user: UserId, state: UserState) {
        if state.needs_fan_out() {
            metrics::counter!(metric::PRESENCE_FAN_OUTS_RESUMED.name).increment(1);
            drop(self.spawn_notification(user, state));
        }
    }

    /// Notifies the groups for all these users, several at a time.
    ///
    /// # Errors
    /// The errors of [`Self::notify_groups`] for one user; the others' groups were notified nevertheless.
    pub(super) async fn notify_groups_of_all(&self, users: Vec<(UserId, UserState)>) -> Result<(), Error> {
        let pending = users.into_iter().filter(|(_, state)| state.needs_fan_out());
        let notify = |(user, state)| async move { self.notify_groups(user, state).await.map(drop) };
        all_of(pending.map(notify), self.at_once).await
    }

    /// Notifies a user's groups, until all have the newest state. Returns its version.
    ///
    /// # Errors
    /// The store's errors; then some were notified, and the notification is not recorded as complete.
    pub(super) async fn notify_groups(&self, user: UserId, mut state: UserState) -> Result<i64, Error> {
        metrics::counter!(metric::PRESENCE_FAN_OUTS.name).increment(1);
        for _ in 0..TRIES {
            self.notify_all(user, &state).await?;
            let current = self.stores.sessions.record_fan_out(user, state.version).await;
            if current.map_err(Error::presence)? <= state.version {
                break;
            }
            state = self.state_of(user).await?;
        }
        Ok(state.version)
    }

    /// Notifies a group about which users, among those who joined or left it, are online.
    ///
    /// # Errors
    /// The errors of [`Self::notify_groups`].
    pub(super) async fn update_membership(&self, group: GroupId, users: &[UserId]) -> Result<(), Error> {
        let members = self.members.users_among(group, users, &Consistency::Cached).await?;
        let others: Vec<UserId> = users.iter().copied().filter(|user| !members.contains(user)).collect();
        self.add_to(group, members).await?;
        self.remove_from(group, &others).await
    }

    /// Begins to remove these users, who are not members, from a group: the node that should have done it may
    /// have died.
    pub(super) fn remove_former_members(&self, group: GroupId, users: Vec<UserId>) {
        if users.is_empty() {
            return;
        }
        // If it fails, it is detected again.
        drop(self.spawn_limited(async move |this| drop(this.update_membership(group, &users).await)));
    }

    fn spawn_notification(&self, user: UserId, state: UserState) -> Option<JoinHandle<()>> {
        if !state.needs_fan_out() {
            return None;
        }
        if !self.pending.add(user, state) {
            return None;
        }
        let Ok(queued) = Arc::clone(&self.queue).try_acquire_owned() else {
            self.pending.end(user);
            return None;
        };
        let this = self.clone();
        Some(tokio::spawn(async move {
            Box::pin(this.notify_pending(user)).await;
            drop(queued);
        }))
    }

    /// Notifies a user's groups until they have its newest state, with a permit for each repetition.
    async fn notify_pending(&self, user: UserId) {
        let mut notified = 0;
        while let Some(state) = self.pending.newer_than(user, notified) {
            let permit = self.permits.acquire().await;
            match self.notify_groups(user, state).await {
                Ok(version) => notified = version,
                Err(error) => {
                    tracing::debug!(%error, "groups could not be notified who is online; this is retried");
                    return self.pending.end(user);
                }
            }
            drop(permit);
        }
    }

    /// Runs it with a permit, in the background; `None` if too many wait.
    fn spawn_limited<D, F>(&self, work: D) -> Option<JoinHandle<()>>
    where
        D: FnOnce(Self) -> F + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let queued = Arc::clone(&self.queue).try_acquire_owned().ok()?;
        let (this, permits) = (self.clone(), Arc::clone(&self.permits));
        Some(tokio::spawn(async move {
            let permit = permits.acquire().await;
            Box::pin(work(this)).await;
            drop((permit, queued));
        }))
    }

    async fn state_of(&self, user: UserId) -> Result<UserState, Error> {
        let found = self.stores.sessions.sessions(&[user]).await.map_err(Error::presence)?;
        let seen = found.users.into_iter().next().transpose().map_err(Error::presence)?;
        Ok(seen.map(user_state).unwrap_or_default())
    }

    async fn notify_all(&self, user: UserId, state: &UserState) -> Result<(), Error> {
        let mut after = None;
        loop {
            let (groups, more) = self.members.groups_after(user, after, PAGE).await?;
            let parts: Vec<_> =
                groups.chunks(PART).map(|part| self.notify_part(user, state, part).boxed()).collect();
            all_of(parts, PARTS_AT_ONCE).await?;
            match groups.last().filter(|_| more) {
                Some(last) => after = Some(*last),
                None => return Ok(()),
            }
        }
    }

    /// A user who leaves a group during its notification is removed after it: by this, or by the notification
    /// about the leave.
    async fn notify_part(&self, user: UserId, state: &UserState, groups: &[GroupId]) -> Result<(), Error> {
        if groups.is_empty() {
            return Ok(());
        }
        let change = self.active.begin_change(groups).await;
        let applied = self.stores.active.apply(user, state, groups).await;
        change.end(groups, &applied).await?;
        if state.gateways.is_empty() {
            return Ok(());
        }
        let keys: Vec<MemberKey> = groups.iter().map(|group| MemberKey { group: *group, user }).collect();
        let members = self.members.get_existing(&keys, &Consistency::Cached).await?;
        for group in
            groups.iter().filter(|group| members.iter().all(|entry| entry.value.key.group != **group))
        {
            self.remove_from(*group, &[user]).await?;
        }
        Ok(())
    }

    /// Notifies a group about these users' gateways, if they are online. Boxed, because it recurs for users
    /// who change in between.
    fn add_to(&self, group: GroupId, users: Vec<UserId>) -> BoxFuture<'_, Result<(), Error>> {
        let notifying = async move {
            let found = self.stores.sessions.sessions(&users).await.map_err(Error::presence)?;
            let mut notified = Ok(());
            for (user, seen) in users.iter().zip(found.users) {
                let one = match seen {
                    Ok(seen) if seen.version > 0 => {
                        self.notify_part(*user, &user_state(seen), &[group]).await
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(Error::presence(error)),
                };
                notified = notified.and(one);
            }
            notified
        };
        notifying.boxed()
    }

    /// A user who came back during the removal is added after it: by this, or by the notification about the
    /// join.
    async fn remove_from(&self, group: GroupId, users: &[UserId]) -> Result<(), Error> {
        self.leave(group, users).await?;
        let returned = self.members.users_among(group, users, &Consistency::Cached).await?;
        if returned.is_empty() { Ok(()) } else { self.add_to(group, returned).await }
    }

    async fn leave(&self, group: GroupId, users: &[UserId]) -> Result<(), Error> {
        if users.is_empty() {
            return Ok(());
        }
        let change = self.active.begin_change(&[group]).await;
        let left = self.stores.active.leave(group, users).await;
        let failed = left.iter().find(|left| left.is_err());
        let changed = failed.copied().unwrap_or(Ok(left.contains(&Ok(true))));
        change.end(&[group], &[changed]).await
    }
}

/// Runs all futures, this many at a time. Returns the first error after all have ended.
async fn all_of<F: Future<Output = Result<(), Error>>>(
    notifications: impl IntoIterator<Item = F>,
    at_once: usize,
) -> Result<(), Error> {
    let first = async |all: Result<(), Error>, one| all.and(one);
    stream::iter(notifications).buffer_unordered(at_once).fold(Ok(()), first).await
}

/// A user's gateways, by its sessions.
fn user_state(seen: UserSessions) -> UserState {
    let mut gateways: Vec<_> = seen.sessions.into_iter().map(|session| session.instance.gateway).collect();
    gateways.sort_unstable();
    gateways.dedup();
    UserState { version: seen.version, fanned_version: seen.fanned_version, gateways }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::user;

    #[test]
    fn user_who_toggles_has_one_notification() {
        let (pending, state) =
            (PendingStates::default(), |version| UserState { version, ..UserState::default() });
        let newer = |notified| pending.newer_than(user(1), notified).map(|state| state.version);
        assert!(pending.add(user(1), state(10)));
        assert_eq!(newer(0), Some(10));
        for version in [12, 11] {
            assert!(!pending.add(user(1), state(version)), "one is running");
        }
        assert!(pending.add(user(2), state(1)), "that of another user is not");
        assert_eq!((newer(10), newer(12)), (Some(12), None), "it repeats for the newest state");
        assert!(pending.add(user(1), state(13)), "it has ended");
    }
}
