//! The presence contract.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{GroupId, UserId};
use serde::{Deserialize, Serialize};

use crate::{DeviceId, GatewayId, Incarnation, Instance, PresenceError};

/// The stores and the feed that make up presence.
#[derive(Clone, Debug)]
pub struct Presences {
    /// User sessions and gateways.
    pub sessions: Arc<dyn PresenceStore>,
    /// Online group members.
    pub active: Arc<dyn ActiveStore>,
    /// The feed with presence events.
    pub feed: Arc<dyn PresenceFeed>,
}

/// The limits that presence enforces.
#[derive(Clone, Copy, Debug)]
pub struct PresenceLimits {
    /// The most sessions a user may have.
    pub sessions_max: u32,
    /// The most gateways, including dead gateways that are not forgotten yet.
    pub gateways_max: u32,
    /// How long offline users' versions are kept, and after which time unused data expires. Longer than a
    /// write that follows an earlier read may take.
    pub kept: Duration,
    /// The time after which a user who closed a session is checked again.
    pub recheck_after: Duration,
}

/// User sessions, and the gateways that hold them. Time is the storage's time: moments are passed and
/// returned as the remaining time. Each change to one user, and to one gateway, is one step.
#[async_trait]
pub trait PresenceStore: Send + Sync + fmt::Debug + 'static {
    /// Verifies a gateway's identity, and extends its life by this time from now. A caller without an
    /// incarnation gets the id if it is free, that is, never used or owned by a dead gateway. A caller with
    /// an incarnation from an earlier claim continues if nothing is known about the id.
    ///
    /// # Errors
    /// [`PresenceError::TooManyGateways`], or if the storage does not answer.
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, PresenceError>;

    /// All gateways, including dead ones until they are forgotten.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn gateways(&self) -> Result<Gateways, PresenceError>;

    /// Forgets a dead gateway; does nothing to a live gateway.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn forget(&self, instance: &Instance) -> Result<(), PresenceError>;

    /// Applies session changes, and returns each result in their order. They are not atomic together: if the
    /// storage fails, some may be made without those before them. The named users' expired sessions end with
    /// it. If a change alters a user's gateways, the user's version rises and an event is published to all
    /// subscribers, in the same step.
    async fn change(&self, changes: &[Change]) -> Vec<Result<ChangeOutcome, PresenceError>>;

    /// Returns the users' unexpired sessions, in the order of the users, with an error for each user that
    /// cannot be read.
    ///
    /// # Errors
    /// Fails if the storage answers for none of them.
    async fn sessions(&self, users: &[UserId]) -> Result<SessionLookup, PresenceError>;

    /// Records that the user's groups were notified up to this version, and returns the user's version; 0:
    /// unknown user.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn record_fan_out(&self, user: UserId, version: i64) -> Result<i64, PresenceError>;

    /// Returns a gateway's users that must be checked, at most this many: users whose session there should
    /// have ended, or who closed a session. `all`: all users, for a dead gateway.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn users_to_check(
        &self,
        instance: &Instance,
        limit: usize,
        all: bool,
    ) -> Result<Vec<UserId>, PresenceError>;

    /// Records that users from [`users_to_check`](Self::users_to_check), called with the same `all`, were
    /// checked, with the time for the next check, if a check is needed. Unless `all` is set, changes nothing
    /// for users who returned in between.
    ///
    /// # Errors
    /// If the storage does not answer; they must then be checked again.
    async fn mark_checked(
        &self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) -> Result<(), PresenceError>;
}

/// Keeps the online members of groups, updated by notifications whenever a user's state changes. Repeated or
/// late notifications change nothing.
#[async_trait]
pub trait ActiveStore: Send + Sync + fmt::Debug + 'static {
    /// Sets a user's gateways in each group, unless the group has a later version. Returns for each group
    /// whether it was changed.
    async fn apply(
        &self,
        user: UserId,
        state: &UserState,
        groups: &[GroupId],
    ) -> Vec<Result<bool, PresenceError>>;

    /// Removes users from the group's online members, until a version of theirs is applied that is not older
    /// than the known version. Returns for each user whether it was changed.
    async fn leave(&self, group: GroupId, users: &[UserId]) -> Vec<Result<bool, PresenceError>>;

    /// Counts online members by gateway. Returns the counts in the order of the groups.
    async fn distributions(&self, groups: &[GroupId]) -> Vec<Result<Distribution, PresenceError>>;

    /// Returns a group's online members, by rising id, after this id: at most this many. Costs the same at
    /// any depth.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn active(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<ActiveMember>, PresenceError>;
}

/// Publishes events.
#[async_trait]
pub trait PresenceFeed: Send + Sync + fmt::Debug + 'static {
    /// Subscribes. Each event after the call returned is received.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn subscribe(&self) -> Result<Box<dyn PresenceSubscription>, PresenceError>;
}

/// A subscription to presence events.
#[async_trait]
pub trait PresenceSubscription: Send + fmt::Debug {
    /// The next event; `None`: some may be lost, and the subscription has ended.
    async fn next(&mut self) -> Option<Event>;
}

/// Claims an id for a gateway.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The gateway's id.
    pub gateway: GatewayId,
    /// The incarnation from its first claim.
    pub offered: Option<Incarnation>,
    /// How long it stays alive without another claim.
    pub lasts: Duration,
}

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Accepted, with this incarnation.
    Held(Incarnation),
    /// Refused: another gateway has, or had since, this id.
    Denied,
}

/// A gateway and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayState {
    /// The gateway's id and incarnation.
    pub instance: Instance,
    /// How long it stays alive without another claim; zero: it is dead.
    pub left: Duration,
}

/// All known gateways.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// The epoch; a new one means that everything was lost in between.
    pub epoch: u64,
    /// How long ago the epoch began.
    pub age: Duration,
    /// The gateways, in no order.
    pub all: Vec<GatewayState>,
}

/// A change to a user's sessions.
#[derive(Clone, Debug)]
pub struct Change {
    /// The user whose sessions change.
    pub user: UserId,
    /// The gateway that holds them.
    pub instance: Instance,
    /// The change that is made.
    pub op: SessionOp,
}

/// The kinds of changes to a user's sessions at a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOp {
    /// Opens this device's session, for this time.
    Open(DeviceId, Duration),
    /// Renews this device's session for this time, if it exists.
    Renew(DeviceId, Duration),
    /// Ends this device's session, if it exists.
    Close(DeviceId),
    /// Ends all the gateway's sessions.
    End,
    /// Ends only expired sessions.
    Expire,
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// Whether the session to be renewed, closed or ended existed; false for [`SessionOp::Open`] and
    /// [`SessionOp::Expire`].
    pub known: bool,
    /// The user's present gateways.
    pub state: UserState,
    /// The remaining time of the user's last session at the gateway; `None`: no session there.
    pub left: Option<Duration>,
    /// Whether its gateways changed, so that an event was published.
    pub published: bool,
}

/// A user's gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserState {
    /// Rises whenever the gateways change, and never falls, also after a loss; 0: unknown.
    pub version: i64,
    /// The version up to which the user's groups were notified.
    pub fanned_version: i64,
    /// Sorted by id, each once; empty: offline.
    pub gateways: Vec<GatewayId>,
}

impl UserState {
    /// Whether groups still have to be notified.
    #[must_use]
    pub const fn needs_fan_out(&self) -> bool {
        self.fanned_version < self.version
    }
}

/// Several users' sessions.
#[derive(Clone, Debug)]
pub struct SessionLookup {
    /// How long ago the epoch began: while it is young, users who are not seen may be online.
    pub age: Duration,
    /// The result for each user.
    pub users: Vec<Result<UserSessions, PresenceError>>,
}

/// A user's sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSessions {
    /// Equals [`UserState::version`].
    pub version: i64,
    /// Equals [`UserState::fanned_version`].
    pub fanned_version: i64,
    /// The sessions, in no order.
    pub sessions: Vec<Session>,
}

/// A session at a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The session's device.
    pub device: DeviceId,
    /// The session's gateway.
    pub instance: Instance,
    /// Remaining time without a renewal.
    pub left: Duration,
}

/// Says that a user's gateways changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The user whose gateways changed.
    pub user: UserId,
    /// Equals [`UserState::version`].
    pub version: i64,
    /// Equals [`UserState::gateways`].
    pub gateways: Vec<GatewayId>,
}

/// How many members of a group are online.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Rises with every change.
    pub version: i64,
    /// How many users are online, each counted once.
    pub total: u32,
    /// Numbers by gateway, by rising id; a user counts once at each.
    pub gateways: Vec<(GatewayId, u32)>,
}

/// An online group member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveMember {
    /// The member's id.
    pub user: UserId,
    /// Equals [`UserState::gateways`].
    pub gateways: Vec<GatewayId>,
}
