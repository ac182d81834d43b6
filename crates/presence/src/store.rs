use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{GroupId, UserId};

use crate::{DeviceId, GatewayId, Incarnation, Instance, PresenceError};

/// Everything about presence, kept by one.
#[derive(Clone, Debug)]
pub struct Presences {
    /// Sessions of users, and gateways.
    pub sessions: Arc<dyn PresenceStore>,
    /// Who of a group is online.
    pub active: Arc<dyn ActiveStore>,
    /// What changes.
    pub feed: Arc<dyn PresenceFeed>,
}

/// What bounds it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most sessions of one user.
    pub sessions_max: u32,
    /// Most gateways, those that died and are not forgotten yet among them.
    pub gateways_max: u32,
    /// How long versions of offline users are kept, and after how long unused data expire. Longer than a value that was
    /// read before can take to be written.
    pub kept: Duration,
    /// How soon a user is looked at again that closed a session.
    pub look_again: Duration,
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
    async fn claim(&self, claim: &Claim) -> Result<Claimed, PresenceError>;

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

    /// Makes changes of sessions, and returns the result of each in their order. They are not atomic together: if the
    /// storage fails, some may be made without those before them. Expired sessions of the named users end with it. If a
    /// change makes a user online elsewhere than before, its version rises and an event is published to all
    /// subscribers, in the same step.
    async fn change(&self, changes: &[Change]) -> Vec<Result<Changed, PresenceError>>;

    /// The unexpired sessions of users, in the order of the users.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn sessions(&self, users: &[UserId]) -> Result<Lookup, PresenceError>;

    /// Notes that the groups of a user were notified up to this version, and returns the user's version; 0: unknown
    /// user.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn fanned(&self, user: UserId, version: i64) -> Result<i64, PresenceError>;

    /// Users of a gateway that have to be checked, at most so many: those whose session there should have ended, or who
    /// closed one. `all`: any, of a dead gateway.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn due(&self, instance: &Instance, limit: usize, all: bool) -> Result<Vec<UserId>, PresenceError>;

    /// Notes that users of [`due`](Self::due), called with the same `all`, were checked: when they have to be checked
    /// again, or that they need not. Unless `all` is set, changes nothing for those who came back meanwhile.
    ///
    /// # Errors
    /// If the storage does not answer; they are then due again.
    async fn settle(
        &self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) -> Result<(), PresenceError>;
}

/// The online members of groups, kept from notifications whenever the state of a user changes. Repeated or late
/// notifications change nothing.
#[async_trait]
pub trait ActiveStore: Send + Sync + fmt::Debug + 'static {
    /// Notes in each group where a user is online; nothing where the group knows a later version. Answers for each group
    /// whether that changed what is known.
    async fn apply(
        &self,
        user: UserId,
        standing: &Standing,
        groups: &[GroupId],
    ) -> Vec<Result<bool, PresenceError>>;

    /// Notes that users are none of those who are online in the group, until a version of theirs is applied that is no
    /// older than what is known. Answers for each user whether that changed what is known.
    async fn leave(&self, group: GroupId, users: &[UserId]) -> Vec<Result<bool, PresenceError>>;

    /// How many of each group are online, and through which gateways, in the order of the groups.
    async fn distributions(&self, groups: &[GroupId]) -> Vec<Result<Distribution, PresenceError>>;

    /// The online members of a group, by rising id, after this one: at most so many. Costs the same at any depth.
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
    /// Subscribes. When it returns, each event from then on is received.
    ///
    /// # Errors
    /// If the storage does not answer.
    async fn hear(&self) -> Result<Box<dyn Heard>, PresenceError>;
}

/// One that hears.
#[async_trait]
pub trait Heard: Send + fmt::Debug {
    /// The next change; `None`: some may be lost, and there comes no more.
    async fn next(&mut self) -> Option<Event>;
}

/// One that says to be a gateway.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which.
    pub gateway: GatewayId,
    /// What it was given when it came first.
    pub offered: Option<Incarnation>,
    /// How long it is alive without another claim.
    pub lasts: Duration,
}

/// Whether it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is, in this incarnation.
    Held(Incarnation),
    /// Another one is, or was since.
    Denied,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayState {
    /// Which.
    pub instance: Instance,
    /// How long it is still alive without another claim; zero: it is dead.
    pub left: Duration,
}

/// All gateways.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// Another one than before: all was lost meanwhile.
    pub epoch: u64,
    /// How long ago the epoch began.
    pub age: Duration,
    /// In no order.
    pub all: Vec<GatewayState>,
}

/// What is to become of sessions of a user.
#[derive(Clone, Debug)]
pub struct Change {
    /// Whose.
    pub user: UserId,
    /// The gateway that holds them.
    pub instance: Instance,
    /// What.
    pub op: Op,
}

/// What is to become of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// There is one of this device for so long.
    Open(DeviceId, Duration),
    /// The one of this device goes on for so long, if it is there.
    Renew(DeviceId, Duration),
    /// The one of this device ends, if it is there.
    Close(DeviceId),
    /// All of the gateway end.
    End,
    /// None but those whose time has passed.
    Look,
}

/// What became of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Whether a session was there that was to be renewed, closed or ended; false of [`Op::Open`] and [`Op::Look`].
    pub known: bool,
    /// Where the user is online now.
    pub standing: Standing,
    /// How long its last session at the gateway has yet; `None`: it has none there.
    pub left: Option<Duration>,
    /// Whether it was online elsewhere before, so that an event was published.
    pub told: bool,
}

/// Where a user is online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Rises whenever the gateways change, and never falls though all is lost; 0: nothing is known.
    pub version: i64,
    /// Up to which version the groups of the user were notified.
    pub fanned: i64,
    /// By rising id, each once; empty: offline.
    pub gateways: Vec<GatewayId>,
}

impl Standing {
    /// Whether groups still have to be notified.
    #[must_use]
    pub const fn is_untold(&self) -> bool {
        self.fanned < self.version
    }
}

/// The sessions of some users.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// How long ago the epoch began: while it is young, who is not seen may be online.
    pub age: Duration,
    /// An answer for each user.
    pub users: Vec<Seen>,
}

/// The sessions of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// As in [`Standing`].
    pub version: i64,
    /// As there.
    pub fanned: i64,
    /// In no order.
    pub sessions: Vec<Session>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Of which device.
    pub device: DeviceId,
    /// At which gateway.
    pub instance: Instance,
    /// How long it goes on without being renewed.
    pub left: Duration,
}

/// A user is online elsewhere than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who.
    pub user: UserId,
    /// As in [`Standing`].
    pub version: i64,
    /// As there.
    pub gateways: Vec<GatewayId>,
}

/// How many of a group are online, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Rises with every change.
    pub version: i64,
    /// Users, each once.
    pub total: u32,
    /// Through each gateway, by rising id; a user counts once at each.
    pub gateways: Vec<(GatewayId, u32)>,
}

/// One of a group that is online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveMember {
    /// Who.
    pub user: UserId,
    /// As in [`Standing`].
    pub gateways: Vec<GatewayId>,
}
