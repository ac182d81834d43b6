//! The contract of presence.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{GroupId, UserId};
use serde::{Deserialize, Serialize};

use crate::{DeviceId, GatewayId, Incarnation, Instance, PresenceError};

/// The parts of presence.
#[derive(Clone, Debug)]
pub struct Presences {
    /// Sessions of users, and gateways.
    pub sessions: Arc<dyn PresenceStore>,
    /// Online members of groups.
    pub active: Arc<dyn ActiveStore>,
    /// Events of changes.
    pub feed: Arc<dyn PresenceFeed>,
}

/// The limits of presence.
#[derive(Clone, Copy, Debug)]
pub struct PresenceLimits {
    /// Most sessions of one user.
    pub sessions_max: u32,
    /// Most gateways, including dead ones that are not forgotten yet.
    pub gateways_max: u32,
    /// How long versions of offline users are kept, and after which time unused data expires. Longer than a write of an
    /// earlier read may take.
    pub kept: Duration,
    /// The time after which a user who closed a session is checked again.
    pub recheck_after: Duration,
}

/// Sessions of users, and the gateways that hold them. Time is that of the storage: moments are passed and returned as
/// the remaining time. Each change of one user, and of one gateway, is one step.
#[async_trait]
pub trait PresenceStore: Send + Sync + fmt::Debug + 'static {
    /// Verifies the identity of a gateway, and extends its life by this time from now. A caller without an incarnation
    /// gets the id if it is free, that is, never used or of a dead gateway. A caller with an incarnation that was given
    /// once continues if nothing is known of the id.
    ///
    /// # Errors
    /// [`PresenceError::TooManyGateways`], or if the storage does not answer.
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, PresenceError>;

    /// All gateways, including dead ones until they are forgotten.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn gateways(&self) -> Result<Gateways, PresenceError>;

    /// Forgets a dead gateway; does nothing to a live one.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn forget(&self, instance: &Instance) -> Result<(), PresenceError>;

    /// Applies changes of sessions, and returns the result of each in their order. They are not atomic together: if the
    /// storage fails, some may be made without those before them. Expired sessions of the named users end with it. If a
    /// change alters the gateways of a user, its version rises and an event is published to all subscribers, in the
    /// same step.
    async fn change(&self, changes: &[Change]) -> Vec<Result<ChangeOutcome, PresenceError>>;

    /// The unexpired sessions of users, in the order of the users, with an error for each user that cannot be read.
    ///
    /// # Errors
    /// If the storage does not answer for any of them.
    async fn sessions(&self, users: &[UserId]) -> Result<SessionLookup, PresenceError>;

    /// Records that the groups of a user were notified up to this version, and returns the user's version; 0: unknown
    /// user.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn record_fan_out(&self, user: UserId, version: i64) -> Result<i64, PresenceError>;

    /// Users of a gateway that must be checked, at most this many: users whose session there should have ended, or who
    /// closed one. `all`: all users, for a dead gateway.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn users_to_check(
        &self,
        instance: &Instance,
        limit: usize,
        all: bool,
    ) -> Result<Vec<UserId>, PresenceError>;

    /// Records that users of [`users_to_check`](Self::users_to_check), called with the same `all`, were checked, with the
    /// time of the next check, if one is needed. Unless `all` is set, changes nothing for users who returned in between.
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

/// The online members of groups, updated by notifications whenever the state of a user changes. Repeated or late
/// notifications change nothing.
#[async_trait]
pub trait ActiveStore: Send + Sync + fmt::Debug + 'static {
    /// Sets the gateways of a user in each group, unless the group has a later version. Returns for each group whether
    /// it was changed.
    async fn apply(
        &self,
        user: UserId,
        state: &UserState,
        groups: &[GroupId],
    ) -> Vec<Result<bool, PresenceError>>;

    /// Removes users from the online members of the group, until a version of theirs is applied that is not older than
    /// the known one. Returns for each user whether it was changed.
    async fn leave(&self, group: GroupId, users: &[UserId]) -> Vec<Result<bool, PresenceError>>;

    /// The numbers of online members by gateway, in the order of the groups.
    async fn distributions(&self, groups: &[GroupId]) -> Vec<Result<Distribution, PresenceError>>;

    /// The online members of a group, by rising id, after this one: at most this many. Costs the same at any depth.
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

/// A subscription to the events of presence.
#[async_trait]
pub trait PresenceSubscription: Send + fmt::Debug {
    /// The next event; `None`: some may be lost, and the subscription has ended.
    async fn next(&mut self) -> Option<Event>;
}

/// The claim of a gateway.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The numbers.
    pub gateway: GatewayId,
    /// The incarnation from its first claim.
    pub offered: Option<Incarnation>,
    /// How long it stays alive without another claim.
    pub lasts: Duration,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Accepted, with this incarnation.
    Held(Incarnation),
    /// Refused: another gateway has, or had since, this id.
    Denied,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayState {
    /// The numbers.
    pub instance: Instance,
    /// How long it stays alive without another claim; zero: it is dead.
    pub left: Duration,
}

/// All gateways.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// The epoch; a new one means that everything was lost in between.
    pub epoch: u64,
    /// How long ago the epoch began.
    pub age: Duration,
    /// The gateways, in no order.
    pub all: Vec<GatewayState>,
}

/// A change of sessions of a user.
#[derive(Clone, Debug)]
pub struct Change {
    /// The user.
    pub user: UserId,
    /// The gateway that holds them.
    pub instance: Instance,
    /// The change.
    pub op: SessionOp,
}

/// The kinds of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOp {
    /// Opens the session of this device, for this time.
    Open(DeviceId, Duration),
    /// Renews the session of this device for this time, if it exists.
    Renew(DeviceId, Duration),
    /// Ends the session of this device, if it exists.
    Close(DeviceId),
    /// Ends all sessions of the gateway.
    End,
    /// Ends only expired sessions.
    Expire,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOutcome {
    /// Whether the session to be renewed, closed or ended existed; false for [`SessionOp::Open`] and
    /// [`SessionOp::Expire`].
    pub known: bool,
    /// The present gateways of the user.
    pub state: UserState,
    /// Remaining time of its last session at the gateway; `None`: it has none there.
    pub left: Option<Duration>,
    /// Whether its gateways changed, so that an event was published.
    pub published: bool,
}

/// The gateways of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserState {
    /// Rises whenever the gateways change, and never falls, also after a loss; 0: unknown.
    pub version: i64,
    /// The version up to which the groups of the user were notified.
    pub fanned_version: i64,
    /// By rising id, each once; empty: offline.
    pub gateways: Vec<GatewayId>,
}

impl UserState {
    /// Whether groups still have to be notified.
    #[must_use]
    pub const fn needs_fan_out(&self) -> bool {
        self.fanned_version < self.version
    }
}

/// The sessions of some users.
#[derive(Clone, Debug)]
pub struct SessionLookup {
    /// How long ago the epoch began: while it is young, users who are not seen may be online.
    pub age: Duration,
    /// The result for each user.
    pub users: Vec<Result<UserSessions, PresenceError>>,
}

/// The sessions of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserSessions {
    /// As in [`UserState`].
    pub version: i64,
    /// As there.
    pub fanned_version: i64,
    /// In no order.
    pub sessions: Vec<Session>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The device.
    pub device: DeviceId,
    /// The gateway.
    pub instance: Instance,
    /// Remaining time without a renewal.
    pub left: Duration,
}

/// The gateways of a user changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The user.
    pub user: UserId,
    /// As in [`UserState`].
    pub version: i64,
    /// As there.
    pub gateways: Vec<GatewayId>,
}

/// The numbers of online members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Rises with every change.
    pub version: i64,
    /// Number of online users, each counted once.
    pub total: u32,
    /// Numbers by gateway, by rising id; a user counts once at each.
    pub gateways: Vec<(GatewayId, u32)>,
}

/// An online member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveMember {
    /// The user.
    pub user: UserId,
    /// As in [`UserState`].
    pub gateways: Vec<GatewayId>,
}
