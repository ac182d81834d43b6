//! Streams presence: the present state, then each change.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::stream::{self, BoxStream, StreamExt as _};
use kith_presence::{Event, GatewayId};
use kith_proto::presence::v1 as wire;
use kith_store::UserId;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::Status;

use super::{
    convert,
    hub::{PresenceHub, PresenceUpdate, WatchRegistration},
    sessions::{Sessions, UserPresence},
    visibility::VisibleUsers,
};
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// How long a watcher waits until the node receives changes.
const LIVE_WITHIN: Duration = Duration::from_secs(2);

/// The stream to the caller.
pub(super) type PresenceStream = BoxStream<'static, Result<wire::WatchPresenceResponse, Status>>;

struct PresenceWatcher {
    sessions: Sessions,
    hub: Arc<PresenceHub>,
    principal: Principal,
    registration: WatchRegistration,
    /// All requested users. Their visibility may change.
    users: Vec<UserId>,
    /// When visibility is checked.
    check: Interval,
    /// The visible users, and each one's last sent state.
    sent: HashMap<UserId, (i64, Option<bool>)>,
    waiting: VecDeque<wire::WatchPresenceResponse>,
    ended: bool,
}

/// Returns the users' presence as a stream: first the present state, then each change. Visibility is checked
/// again every 30 s: a user who is no longer visible is reported as UNKNOWN once, and
/// not again until it is visible.
///
/// # Errors
/// RESOURCE_EXHAUSTED at the watcher limit, UNAVAILABLE.
pub(super) async fn watch_presence(
    sessions: Sessions,
    hub: Arc<PresenceHub>,
    mut users: Vec<UserId>,
    principal: Principal,
) -> Result<PresenceStream, Error> {
    users.sort_unstable();
    users.dedup();
    let VisibleUsers { shown, hidden } = sessions.visibility.of(&users, principal).await?;
    let registration = hub.watch(users.clone(), principal, LIVE_WITHIN).await?;
    let check = checks(sessions.rules.visibility_every);
    let hidden = hidden
        .into_iter()
        .map(|user| convert::watched_presence(&UserPresence::unknown(user), &[], principal));
    let (sent, waiting) = (HashMap::new(), hidden.collect());
    let mut watcher =
        PresenceWatcher { sessions, hub, principal, registration, users, check, sent, waiting, ended: false };
    for now in watcher.read(&shown).await? {
        watcher.push(&now, &now.gateways());
    }
    Ok(stream::unfold(watcher, PresenceWatcher::next).boxed())
}

fn checks(period: Duration) -> Interval {
    let mut checks = interval_at(Instant::now() + period, period);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

impl PresenceWatcher {
    /// A few watchers at a time, because all read again at once.
    async fn read(&self, users: &[UserId]) -> Result<Vec<UserPresence>, Error> {
        let permit = self.hub.read_permit().await;
        let found = self.sessions.try_get_many(users).await;
        drop(permit);
        found
    }

    async fn next(mut self) -> Option<(Result<wire::WatchPresenceResponse, Status>, Self)> {
        while !self.ended {
            if let Some(presence) = self.waiting.pop_front() {
                return Some((Ok(presence), self));
            }
            let done = tokio::select! {
                update = self.registration.updates.recv() => self.handle_update(update).await,
                _ = self.check.tick() => self.check_visibility().await,
            };
            if let Err(error) = done {
                self.ended = true;
                return Some((Err(error.into()), self));
            }
        }
        None
    }

    async fn handle_update(&mut self, update: Option<PresenceUpdate>) -> Result<(), Error> {
        match update {
            Some(PresenceUpdate::Event(event)) => {
                self.handle_event(event);
                Ok(())
            }
            Some(PresenceUpdate::ReadAgain) => self.read_again().await,
            None => {
                Err(Error::new(Reason::Overloaded, "the stream was not read as fast as presence changes"))
            }
        }
    }

    /// Nothing is reported about a user who is not visible.
    fn handle_event(&mut self, Event { user, version, gateways }: Event) {
        if self.sent.get(&user).is_none_or(|(last, _)| *last >= version) {
            return;
        }
        let online = self.sessions.is_online(&gateways);
        self.push(&UserPresence { user, online, version, sessions: Vec::new() }, &gateways);
    }

    /// Sends the differences from the last state that was sent.
    async fn read_again(&mut self) -> Result<(), Error> {
        let users: Vec<UserId> = self.sent.keys().copied().collect();
        for now in self.read(&users).await? {
            let (version, online) = self.sent.get(&now.user).copied().unwrap_or_default();
            let older = now.version < version && now.version > 0;
            if older || (now.version <= version && now.online == online) {
                continue;
            }
            // A lost state has no version: the previous version is kept.
            let now = UserPresence { version: now.version.max(version), ..now };
            self.push(&now, &now.gateways());
        }
        Ok(())
    }

    /// Reports UNKNOWN for users who are no longer visible, and the state for users who are visible again.
    async fn check_visibility(&mut self) -> Result<(), Error> {
        let VisibleUsers { shown, hidden } = self.sessions.visibility.of(&self.users, self.principal).await?;
        for user in hidden {
            if self.sent.remove(&user).is_some() {
                self.waiting.push_back(convert::watched_presence(
                    &UserPresence::unknown(user),
                    &[],
                    self.principal,
                ));
            }
        }
        let new: Vec<UserId> = shown.into_iter().filter(|user| !self.sent.contains_key(user)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for now in self.read(&new).await? {
            self.push(&now, &now.gateways());
        }
        Ok(())
    }

    fn push(&mut self, now: &UserPresence, gateways: &[GatewayId]) {
        self.sent.insert(now.user, (now.version, now.online));
        self.waiting.push_back(convert::watched_presence(now, gateways, self.principal));
    }
}
