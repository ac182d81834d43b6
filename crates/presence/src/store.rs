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
    /// How long versions of who went are kept, and after how long what nobody touches ends. Longer than anything that
    /// was read before can take to be written.
    pub kept: Duration,
    /// How soon a user is looked at again that closed a session.
    pub look_again: Duration,
}

/// Sessions of users, and the gateways that hold them. Time is that of whoever keeps them: moments go in and come out as
/// what is left until then. Each change of one user, and of one gateway, is one step.
#[async_trait]
pub trait PresenceStore: Send + Sync + fmt::Debug + 'static {
    /// Makes sure that a gateway is who it says, and that it lives for so long from now on. Free ids, those that
    /// nobody was seen with and those of the dead, go to whoever comes without an incarnation; an incarnation that
    /// was given once is taken up again where nothing is known of the id.
    ///
    /// # Errors
    /// [`PresenceError::TooManyGateways`], or when nobody answers.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, PresenceError>;

    /// All gateways, those that are dead until they are forgotten.
    ///
    /// # Errors
    /// When nobody answers.
    async fn gateways(&self) -> Result<Gateways, PresenceError>;

    /// Forgets a dead gateway; does nothing to one that lives.
    ///
    /// # Errors
    /// When nobody answers.
    async fn forget(&self, instance: &Instance) -> Result<(), PresenceError>;

    /// Makes changes of sessions, and answers each in their order; they are no unit, and of a failing store some may be
    /// made without those before them. Sessions of the users named whose
    /// time has passed end with it. Where by it a user comes to be online elsewhere than before, its version rises and
    /// all who hear are told, in the same step.
    async fn change(&self, changes: &[Change]) -> Vec<Result<Changed, PresenceError>>;

    /// The sessions of users whose time has not passed, in the order of the users.
    ///
    /// # Errors
    /// When nobody answers.
    async fn sessions(&self, users: &[UserId]) -> Result<Lookup, PresenceError>;

    /// Notes that the groups of a user were told up to this version, and returns the version that it has; 0: nothing is
    /// known of it.
    ///
    /// # Errors
    /// When nobody answers.
    async fn fanned(&self, user: UserId, version: i64) -> Result<i64, PresenceError>;

    /// Users of a gateway that have to be looked at, at most so many: those whose session there should have ended, or
    /// that closed one. `all`: any, of a dead one.
    ///
    /// # Errors
    /// When nobody answers.
    async fn due(&self, instance: &Instance, limit: usize, all: bool) -> Result<Vec<UserId>, PresenceError>;

    /// Notes that users of [`due`](Self::due), asked with the same `all`, were looked at: when they have to be again, or
    /// that they need not. Changes nothing of those who came again meanwhile, but for `all`.
    ///
    /// # Errors
    /// When nobody answers; they are due again then.
    async fn settle(
        &self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) -> Result<(), PresenceError>;
}

/// Who of a group is online, as the groups of a user are told whenever that changes. What is told twice, or too late,
/// changes nothing.
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

    /// Who of a group is online, by rising id, after this one: at most so many. Costs the same at any depth.
    ///
    /// # Errors
    /// When nobody answers.
    async fn active(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<ActiveMember>, PresenceError>;
}

/// Tells what changes.
#[async_trait]
pub trait PresenceFeed: Send + Sync + fmt::Debug + 'static {
    /// Begins to hear. When it returns, each change from then on is heard.
    ///
    /// # Errors
    /// When nobody answers.
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
    /// How long it lives without another claim.
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
    /// How long it lives yet without another claim; zero: it is dead.
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
    /// Whether it was online elsewhere before: all who hear were told.
    pub told: bool,
}

/// Where a user is online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Rises whenever the gateways change, and never falls though all is lost; 0: nothing is known.
    pub version: i64,
    /// Up to which version the groups of the user were told.
    pub fanned: i64,
    /// By rising id, each once; empty: offline.
    pub gateways: Vec<GatewayId>,
}

impl Standing {
    /// Whether groups have yet to be told.
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
