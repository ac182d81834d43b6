//! Group members and their store.

mod ban;
mod import;
mod membership;
mod stays;

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, GroupId, Invalid, Seq, StoreError, Stored, Text, Timestamp, UserId, Version, Write, heap_bytes,
    single_line,
};
pub use ban::{Ban, BanRow, Bans};
pub use membership::MembershipTransition;
pub use stays::{EARLIER_STAYS_MAX, FormerMember, StayHistory};

const REMARK_CHARS_MAX: usize = 64;
/// The most users in one change.
pub const MEMBERS_AT_ONCE: usize = 100;

/// A user in a group. Written as `7,8`, the group first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberKey {
    /// The group's id.
    pub group: GroupId,
    /// Identifies the user.
    pub user: UserId,
}

impl fmt::Display for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.group, self.user)
    }
}

impl FromStr for MemberKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let both = text.split_once(',');
        let (group, user) =
            both.ok_or_else(|| Invalid::new("must be a group id and a user id with a comma between"))?;
        Ok(Self { group: group.parse()?, user: user.parse()? })
    }
}

/// A member's role, by rising rights. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May send if the group allows it.
    Member = 1,
    /// Adds, removes and mutes members, and sets the group's name. Has no rights over admins and the owner.
    Admin = 2,
    /// Has an admin's rights over admins, too; assigns roles, and dismisses the group. A group has one owner,
    /// who cannot leave.
    Owner = 3,
}

impl Role {
    /// Returns the role with this number, if any.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Member),
            2 => Some(Self::Admin),
            3 => Some(Self::Owner),
            _ => None,
        }
    }
}

/// A user's membership in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The user and the group.
    pub key: MemberKey,
    /// The [`Roster`]'s version at this record's last change. Rises, but is not consecutive.
    pub version: Version,
    /// The member's rights.
    pub role: Role,
    /// Its number among all present and former members, from 0, without gaps. A member who leaves and joins
    /// again keeps it.
    pub ordinal: u32,
    /// The user's name within the group; empty: the user's own name.
    pub remark: Text,
    /// When its mute ends; `None`: not muted.
    pub muted_until: Option<Timestamp>,
    /// When it joined the group last.
    pub joined: Timestamp,
    /// The lowest number of a group message that it may read; 0: it may read from the first.
    #[serde(default)]
    pub from_seq: Seq,
    /// The number of the first message in its current stay. 0, in rows that were written before there were
    /// messages, counts as 1. Differs from `from_seq` in groups that show earlier messages to new members.
    #[serde(default)]
    pub joined_seq: Seq,
}

impl Member {
    /// Checks a remark: one line with at most 64 characters, see [`single_line`].
    ///
    /// # Errors
    /// If it is longer, or contains a character that is not allowed.
    pub fn remark(remark: &str) -> Result<Text, Invalid> {
        single_line(remark, REMARK_CHARS_MAX)
    }

    /// The record's approximate size in memory, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + heap_bytes(&self.remark)
    }
}

/// The state that a group's members share. Every change to a member raises the version by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// The last change's version; [`Version::NONE`]: the group never had a member.
    pub version: Version,
    /// How many members there are.
    pub count: u32,
    /// How many present and former members there are: the next new member's ordinal.
    pub ordinals: u32,
    /// The owner; `None`: there is none. Its account has ended, all members have left, or it has no first
    /// member yet.
    pub owner: Option<UserId>,
    /// When the group's mute ends, during which only the owner and admins may send; `None`: not muted.
    pub muted_until: Option<Timestamp>,
}

/// A present or former member's stored row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// The present state, or the state when the member left.
    pub member: Member,
    /// Whether the user is in the group now.
    pub live: bool,
    /// The stored data about its stays besides `from_seq` and `joined_seq`.
    #[serde(default)]
    pub stays: StayHistory,
}

impl MemberRow {
    /// The range that a former member may read; `None`: the user is in the group, or may read nothing.
    #[must_use]
    pub fn former(&self) -> Option<FormerMember> {
        let Self { member, live, stays } = self;
        let is_open = !live && stays.left_seq > 0 && member.from_seq <= stays.left_seq;
        is_open.then_some(FormerMember { from_seq: member.from_seq, left_seq: stays.left_seq })
    }
}

/// A change to a group's members, or to their rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// Makes a user the group's first member, and its owner. Changes nothing if the group has that owner.
    #[serde(rename = "Found")]
    AddFounder(UserId),
    /// Adds a user on its own request or by an accepted application. Changes nothing for a member.
    Join(UserId),
    /// Adds these users; by an admin, the owner or a service. Members are unchanged.
    Add(Vec<UserId>),
    /// Removes these; by a user whose role is above theirs, or a service. Non-members are ignored.
    Remove(Vec<UserId>),
    /// Removes those who are members, and bans all users until this time, or until they are unbanned; by a
    /// user whose role is above theirs, or a service. Removes members like `Remove`.
    Ban(Vec<UserId>, Option<Timestamp>),
    /// Ends these users' bans; by an admin, the owner or a service. Users who are not banned are ignored.
    Unban(Vec<UserId>),
    /// Removes a user on its own request.
    Leave(UserId),
    /// Removes a user whose account has ended, whatever its role; by a service. If it was the owner, the
    /// group has no owner then.
    AccountDeleted(UserId),
    /// Assigns a role below the owner's; by the owner or a service.
    SetRole(UserId, Role),
    /// Makes a user the owner, and the owner an admin; by the owner or a service. Also requires the owner's
    /// row.
    Transfer(UserId),
    /// Sets until when a user may not send; by a user with a role above, or a service.
    Mute(UserId, Option<Timestamp>),
    /// Sets until when only owner and admins may send; by any of them or a service.
    MuteAll(Option<Timestamp>),
    /// Sets a user's name within the group; by that user, by an admin or the owner, or a service.
    Remark(UserId, Text),
    /// Adds present and former members as they were elsewhere; by a service. Users who have a row are
    /// unchanged, apart from the founder's first one.
    Import(Vec<MemberRow>),
    /// Adds bans as they were elsewhere; by a service. Users who are banned or are members are left out.
    ImportBans(Vec<Ban>),
}

impl MemberChange {
    /// The users whom it names; the acting user is read in addition.
    #[must_use]
    pub fn users(&self) -> Vec<UserId> {
        match self {
            Self::Add(users) | Self::Remove(users) | Self::Ban(users, _) | Self::Unban(users) => {
                users.clone()
            }
            Self::AddFounder(user)
            | Self::Join(user)
            | Self::Leave(user)
            | Self::AccountDeleted(user)
            | Self::SetRole(user, _)
            | Self::Transfer(user)
            | Self::Mute(user, _)
            | Self::Remark(user, _) => vec![*user],
            Self::Import(rows) => rows.iter().map(|row| row.member.key.user).collect(),
            Self::ImportBans(bans) => bans.iter().map(|ban| ban.key.user).collect(),
            Self::MuteAll(_) => Vec::new(),
        }
    }

    /// Whether it may add or remove a user, so that it needs the end of the group's log.
    #[must_use]
    pub const fn reads_end(&self) -> bool {
        match self {
            Self::AddFounder(_)
            | Self::Join(_)
            | Self::Add(_)
            | Self::Remove(_)
            | Self::Ban(..)
            | Self::Leave(_)
            | Self::AccountDeleted(_) => true,
            Self::Unban(_)
            | Self::SetRole(..)
            | Self::Transfer(_)
            | Self::Mute(..)
            | Self::MuteAll(_)
            | Self::Import(_)
            | Self::ImportBans(_)
            | Self::Remark(..) => false,
        }
    }

    /// Whether it depends on its users' bans, or changes them.
    #[must_use]
    pub const fn reads_bans(&self) -> bool {
        matches!(
            self,
            Self::AddFounder(_)
                | Self::Join(_)
                | Self::Add(_)
                | Self::Ban(..)
                | Self::Unban(_)
                | Self::ImportBans(_)
        )
    }

    /// Whether it also depends on how many bans the group has.
    #[must_use]
    pub const fn counts_bans(&self) -> bool {
        matches!(self, Self::Ban(..) | Self::ImportBans(_))
    }
}

/// Why a change to members was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberRefusal {
    /// The user to be changed is not in the group.
    #[error("the user is not a member of the group")]
    NotAMember,
    /// The acting user lacks the rights.
    #[error("the role of the acting user does not allow it")]
    RoleTooLow,
    /// The group has reached its member limit.
    #[error("the group has as many members as it may")]
    Full,
    /// The owner can leave only when another user is the owner.
    #[error("the owner of a group cannot leave before another member is made the owner")]
    OwnerStays,
    /// The group has another owner.
    #[error("the group has an owner")]
    HasOwner,
    /// A user who is to become a member is banned.
    #[error("the user is banned from the group and must be unbanned first")]
    Banned,
    /// The group has reached its ban limit: this many.
    #[error("a group may have at most {0} bans")]
    TooManyBans(u32),
    /// The ban would end before it begins.
    #[error("must be in the future")]
    BanIsOver,
}

/// The acting user, and the group's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeContext {
    /// The acting user; `None`: a service, which has all rights.
    pub by: Option<UserId>,
    /// The most members that the group may have.
    pub members_max: u32,
    /// The most users banned from the group at the same time.
    pub bans_max: u32,
    /// Whether new members may read earlier messages.
    pub history: bool,
}

/// How a change left the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersUpdated {
    /// The roster as the change left it.
    pub roster: Roster,
    /// The changed members after the change, by rising id; empty if the change had no effect.
    pub rows: Vec<MemberRow>,
    /// The bans that it made or ended, by rising user id.
    #[serde(default)]
    pub bans: Vec<BanRow>,
}

/// The most versions between what a caller knows about a group and its present state for which the changes
/// are returned.
pub const MEMBER_CHANGES_KEPT: i64 = 1_000;

/// A change in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberChangeEvent {
    /// The roster's version.
    pub version: Version,
    /// The changed user.
    pub user: UserId,
}

/// Storage for [`Member`] records, each group's roster, and each user's groups. A change is one atomic step
/// for the group. The list of a user's groups is written before the change is acknowledged, or soon after if
/// the node dies in between.
///
/// Changes to one group are serial. Changes that wait for one group on one node are combined into one step.
/// The group record is not read: the caller must check that the group exists.
#[async_trait]
pub trait MemberStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) members; each once, in any order. Users who never were
    /// members may be left out; for a former member the version is returned. Sees every change that was
    /// acknowledged before it began.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn members(&self, keys: &[MemberKey]) -> Result<Vec<(MemberKey, Stored<Member>)>, StoreError>;

    /// Reads the visible ranges for up to [`BATCH_MAX`](crate::BATCH_MAX) former members, in the order of
    /// `keys`. `None` for a user who is a member, never was a member, or may read nothing. Sees every change
    /// that was acknowledged before it began.
    ///
    /// Costs one store read for each group; nothing is cached.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn former(&self, keys: &[MemberKey]) -> Result<Vec<Option<FormerMember>>, StoreError>;

    /// Reads the rows for up to [`BATCH_MAX`](crate::BATCH_MAX) present or former members, in the order of
    /// `keys`. `None` for a user who never was a member. Sees every change that was acknowledged before it
    /// began. Costs as much as [`MemberStore::former`].
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn stored_members(&self, keys: &[MemberKey]) -> Result<Vec<Option<MemberRow>>, StoreError>;

    /// Reads the rosters for up to [`BATCH_MAX`](crate::BATCH_MAX) groups, in their order; the default for a
    /// group that never had a member.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more groups.
    async fn rosters(&self, groups: &[GroupId]) -> Result<Vec<Roster>, StoreError>;

    /// Makes a change to members in one atomic step, as
    /// [`MembershipTransition::change`](crate::MembershipTransition::change) decides it from what is stored
    /// then. `write.expected` is compared with the roster's version.
    ///
    /// The end of the group's log is read in the step, after the roster that the write depends on, so that
    /// ends never fall in the order of the changes. After an acknowledged join every later message has a
    /// number from its `joined_seq` on, and after an acknowledged leave a number above its `left_seq`. A
    /// change that adds and removes no user does not need the end.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], not applied, if the change adds or removes a user and the end of the log
    /// cannot be read. [`StoreError::Member`] if it is refused, [`StoreError::Conflict`],
    /// [`StoreError::RequestMismatch`], [`StoreError::Overloaded`] for more than [`MEMBERS_AT_ONCE`] users:
    /// nothing is changed then. For other errors see [`StoreError::outcome`].
    async fn change_members(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
    ) -> Result<Applied<MembersUpdated>, StoreError>;

    /// Reads a group's members, by rising id above `after`, at most `limit`: fewer only at the end. With
    /// `least`, only members with that role or above. Costs the same at any depth.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn member_list(
        &self,
        group: GroupId,
        least: Role,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Member>, StoreError>;

    /// Reads the rows for all present and former members in a group, by rising user id above `after`, at most
    /// `limit`: fewer only at the end. Sees every change that was acknowledged before it began. Costs the
    /// same at any depth.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn group_rows(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError>;

    /// Reads a user's groups, by rising id above `after`, at most `limit`: fewer only at the end.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn memberships(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError>;

    /// Reads the users who were changed after this version, by rising version and user, at most `limit`:
    /// fewer only at the end. If a user changed several times, the last change is returned; earlier changes
    /// may be, too. `None`: there were more than [`MEMBER_CHANGES_KEPT`] versions since, or the group never
    /// had that version.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn member_changes(
        &self,
        group: GroupId,
        after: MemberChangeEvent,
        limit: usize,
    ) -> Result<Option<Vec<MemberChangeEvent>>, StoreError>;

    /// Reads a group's bans that are in force at `now`, by rising user id above `after`, at most `limit`:
    /// fewer only at the end. Sees every change that was acknowledged before it began.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn ban_list(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Ban>, StoreError>;

    /// Reads a user's ban that is in force at `now`. Sees every change that was acknowledged before it began.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn ban(&self, key: MemberKey, now: Timestamp) -> Result<Option<Ban>, StoreError>;

    /// Reads the groups that may have banned a user, by rising id above `after`, at most `limit`: fewer only
    /// at the end. Contains every group that bans the user, and may contain others.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn banned_from(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError>;

    /// Ends up to `limit` memberships in a dismissed group, the owner's included, whatever their roles, and
    /// then up to `limit` bans and mutes of former members. Returns how many members are left, and at least 1
    /// while there may be bans or mutes. Versions and ordinals are kept. The stays end at the end of the
    /// group's log, as by a leave.
    ///
    /// # Errors
    /// Fails if the store, or the end of the log, cannot be read. Some memberships may have ended.
    async fn end_members(&self, group: GroupId, limit: usize, now: Timestamp) -> Result<u32, StoreError>;
}
