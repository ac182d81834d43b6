use std::{fmt, str::FromStr};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, Ban, BanRow, FormerMember, GroupId, Invalid, Seq, Stays, StoreError, Stored, Text, Timestamp,
    UserId, Version, Write, heap_bytes, single_line,
};

const REMARK_CHARS_MAX: usize = 64;
/// Most users that one change names.
pub const MEMBERS_AT_ONCE: usize = 100;

/// One user in one group. Written as `7,8`, the group first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberKey {
    /// In which group.
    pub group: GroupId,
    /// Who.
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

/// What a member may do, the least first. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Talks, where the group lets it.
    Member = 1,
    /// Decides who is in, who is muted and what the group is called; of members alone.
    Admin = 2,
    /// The same of admins too; gives roles, and dismisses the group. A group has one, which cannot leave.
    Owner = 3,
}

impl Role {
    /// The role of this number; `None`: there is none.
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

/// A user who is in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who, and where.
    pub key: MemberKey,
    /// That of the [`Roster`] when this was changed last: it rises, not by one.
    pub version: Version,
    /// What it may do.
    pub role: Role,
    /// Its number among all who were ever in the group, from 0, without gaps. It is kept by who leaves and comes again.
    pub ordinal: u32,
    /// By which name the group knows it; empty: by its own.
    pub remark: Text,
    /// Until when it may not talk; `None`: it may.
    pub muted_until: Option<Timestamp>,
    /// Since when it is in the group, without a break.
    pub joined: Timestamp,
    /// The lowest number of a message of the group that it may read; 0: it may read from the first.
    #[serde(default)]
    pub from_seq: Seq,
    /// The number of the first message of its current stay. 0, in rows that were written before there were messages, counts
    /// as 1. Differs from `from_seq` in groups that show earlier messages to new members.
    #[serde(default)]
    pub joined_seq: Seq,
}

impl Member {
    /// Checks a remark: one line of at most 64 characters, see [`single_line`].
    ///
    /// # Errors
    /// When it is longer, or has a character that it may not hold.
    pub fn remark(remark: &str) -> Result<Text, Invalid> {
        single_line(remark, REMARK_CHARS_MAX)
    }

    /// Bytes that the record takes in memory, roughly.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + heap_bytes(&self.remark)
    }
}

/// What is true of all members of a group together. Every change of one of them raises its version by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Of the last change; [`Version::NONE`]: it never had a member.
    pub version: Version,
    /// How many are in it.
    pub count: u32,
    /// How many ever were: the ordinal of who comes next.
    pub ordinals: u32,
    /// The owner; `None`: there is none. Its account has ended, all members have left, or it has no first member yet.
    pub owner: Option<UserId>,
    /// Until when only owner and admins may talk; `None`: all may.
    pub muted_until: Option<Timestamp>,
}

/// What is stored of a present or former member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// As it is, or as it was left.
    pub member: Member,
    /// Whether it is in the group.
    pub live: bool,
    /// What is stored of its stays besides `from_seq` and `joined_seq`.
    #[serde(default)]
    pub stays: Stays,
}

impl MemberRow {
    /// What a former member may read; `None`: it is in the group, or may read nothing.
    #[must_use]
    pub fn former(&self) -> Option<FormerMember> {
        let Self { member, live, stays } = self;
        let is_open = !live && stays.left_seq > 0 && member.from_seq <= stays.left_seq;
        is_open.then_some(FormerMember { from_seq: member.from_seq, left_seq: stays.left_seq })
    }
}

/// A change of who is in a group, or of what they may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    /// Makes a user the first member of a group, and its owner. Changes nothing if the group has that owner.
    Found(UserId),
    /// Adds a user who asks for it, or is admitted. Changes nothing for a member.
    Join(UserId),
    /// Takes these in; by an admin, the owner or a service. Nothing happens to those who are in.
    Add(Vec<UserId>),
    /// Removes these; by a user whose role is above theirs, or a service. Non-members are ignored.
    Remove(Vec<UserId>),
    /// Removes those who are members, and bans all of them until this time, or until they are unbanned; by a user whose
    /// role is above theirs, or a service. Members are removed as by `Remove`.
    Ban(Vec<UserId>, Option<Timestamp>),
    /// Ends the bans of these; by an admin, the owner or a service. Users who are not banned are ignored.
    Unban(Vec<UserId>),
    /// Takes out who wants it.
    Leave(UserId),
    /// Removes a user whose account has ended, whatever its role; by a service. If it was the owner, the group has no
    /// owner then.
    Depart(UserId),
    /// Gives a role below that of the owner; by the owner or a service.
    SetRole(UserId, Role),
    /// Makes a user the owner, and the owner an admin; by the owner or a service. The row of the owner is also
    /// required.
    Transfer(UserId),
    /// Sets until when a user may not send; by a user with a role above, or a service.
    Mute(UserId, Option<Timestamp>),
    /// Sets until when only owner and admins may send; by one of them or a service.
    MuteAll(Option<Timestamp>),
    /// Sets the name of a user within the group; by that user, by an admin or the owner, or a service.
    Remark(UserId, Text),
}

impl MemberChange {
    /// Whom it names; who wants it is asked for too.
    #[must_use]
    pub fn users(&self) -> Vec<UserId> {
        match self {
            Self::Add(users) | Self::Remove(users) | Self::Ban(users, _) | Self::Unban(users) => {
                users.clone()
            }
            Self::Found(user)
            | Self::Join(user)
            | Self::Leave(user)
            | Self::Depart(user)
            | Self::SetRole(user, _)
            | Self::Transfer(user)
            | Self::Mute(user, _)
            | Self::Remark(user, _) => vec![*user],
            Self::MuteAll(_) => Vec::new(),
        }
    }

    /// Whether a user may come or go by it, so that the end of the log of the group is read for it.
    #[must_use]
    pub const fn reads_end(&self) -> bool {
        match self {
            Self::Found(_)
            | Self::Join(_)
            | Self::Add(_)
            | Self::Remove(_)
            | Self::Ban(..)
            | Self::Leave(_)
            | Self::Depart(_) => true,
            Self::Unban(_)
            | Self::SetRole(..)
            | Self::Transfer(_)
            | Self::Mute(..)
            | Self::MuteAll(_)
            | Self::Remark(..) => false,
        }
    }

    /// Whether the bans of the users decide it, or are changed by it.
    #[must_use]
    pub const fn reads_bans(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Join(_) | Self::Add(_) | Self::Ban(..) | Self::Unban(_))
    }
}

/// Why a change of members was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberRefusal {
    /// Who is to be changed is not in the group.
    #[error("the user is not a member of the group")]
    NotAMember,
    /// Who wants it may not.
    #[error("the role of the acting user does not allow it")]
    RoleTooLow,
    /// It has as many members as it may.
    #[error("the group has as many members as it may")]
    Full,
    /// The owner can leave only when another user is the owner.
    #[error("the owner of a group cannot leave before another member is made the owner")]
    OwnerStays,
    /// The group has another owner.
    #[error("the group has an owner")]
    Owned,
    /// A user who is to become a member is banned.
    #[error("the user is banned from the group and must be unbanned first")]
    Banned,
    /// The group has as many bans as it may: this many.
    #[error("a group may have at most {0} bans")]
    TooManyBans(u32),
    /// The ban would end before it begins.
    #[error("must be in the future")]
    BanIsOver,
}

/// Who wants a change, and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberTerms {
    /// On whose behalf; `None`: a service, which may do all.
    pub by: Option<UserId>,
    /// How many may be in the group.
    pub members_max: u32,
    /// How many users may be banned from the group at the same time.
    pub bans_max: u32,
    /// Whether new members may read earlier messages.
    pub history: bool,
}

/// What a change of members did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersChanged {
    /// The roster as the change left it.
    pub roster: Roster,
    /// Those whom it changed as it left them, by rising id; none where all was so already.
    pub rows: Vec<MemberRow>,
    /// The bans that it made or ended, by rising user id.
    #[serde(default)]
    pub bans: Vec<BanRow>,
}

/// Maximum versions between what a caller knows of a group and its present state for which the changes are returned.
pub const MEMBER_CHANGES_KEPT: i64 = 1_000;

/// One of the changes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberChanged {
    /// Of the roster.
    pub version: Version,
    /// Who was changed.
    pub user: UserId,
}

/// Storage of [`Member`] records, of the roster of each group, and of the groups of each user. One change changes
/// everything of a group in one step; the groups of a user are written before the change is acknowledged, and soon if
/// the node dies in between.
///
/// Changes of one group are serial. Of several that wait for one group on one node many are made in one step. The group
/// record is not read: the caller must check that the group exists.
#[async_trait]
pub trait MemberStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) members; each once, in any order. Users who never were members may
    /// be left out; for a former member the version is returned. Sees every change that was acknowledged before it
    /// began.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn members(&self, keys: &[MemberKey]) -> Result<Vec<(MemberKey, Stored<Member>)>, StoreError>;

    /// Reads what up to [`BATCH_MAX`](crate::BATCH_MAX) former members may read, in the order of `keys`. `None` for a user who
    /// is a member, never was one, or may read nothing. Sees every change that was acknowledged before it began.
    ///
    /// Costs one read of the store for each group; nothing of it is cached.
    ///
    /// # Errors
    /// When the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn former(&self, keys: &[MemberKey]) -> Result<Vec<Option<FormerMember>>, StoreError>;

    /// Reads what is stored of up to [`BATCH_MAX`](crate::BATCH_MAX) users who are in a group or were, in the order of `keys`.
    /// `None` for a user who never was. Sees every change that was acknowledged before it began. Costs as
    /// [`MemberStore::former`].
    ///
    /// # Errors
    /// When the store cannot answer; [`StoreError::Overloaded`] for more keys.
    async fn stored_members(&self, keys: &[MemberKey]) -> Result<Vec<Option<MemberRow>>, StoreError>;

    /// Reads the rosters of up to [`BATCH_MAX`](crate::BATCH_MAX) groups, in their order; the default for a group that
    /// never had a member.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more groups.
    async fn rosters(&self, groups: &[GroupId]) -> Result<Vec<Roster>, StoreError>;

    /// Makes a change of members in one atomic step, as [`Room::change`](crate::Room::change) decides it by what is stored then.
    /// `write.expected` is compared with the version of the roster.
    ///
    /// The end of the log of the group is read in the step, after the roster that the write depends on, so that ends never
    /// fall in the order of the changes. After an acknowledged join every later message has a number from its `joined_seq` on,
    /// and after an acknowledged leave one above its `left_seq`. A change by which no user comes or goes does without the end.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], not applied, where a user would come or go and the end of the log cannot be read.
    /// [`StoreError::Member`] where it is refused, [`StoreError::Conflict`], [`StoreError::RequestMismatch`],
    /// [`StoreError::Overloaded`] for more than [`MEMBERS_AT_ONCE`] users: nothing is changed then. Else see
    /// [`StoreError::outcome`].
    async fn change_members(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: MemberTerms,
        write: Write,
    ) -> Result<Applied<MembersChanged>, StoreError>;

    /// Reads who is in a group, by rising id above `after`, at most `limit`: fewer only at the end. With `least` only those
    /// of that role and above. Costs the same at any depth.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn member_list(
        &self,
        group: GroupId,
        least: Role,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Member>, StoreError>;

    /// Reads what is stored of all who are in a group or were, by rising user id above `after`, at most `limit`: fewer only at
    /// the end. Sees every change that was acknowledged before it began. Costs the same at any depth.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn group_rows(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError>;

    /// Reads which groups a user is in, by rising id above `after`, at most `limit`: fewer only at the end.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn memberships(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError>;

    /// Reads the users who were changed after this version, by rising version and user, at most `limit`: fewer only at
    /// the end. Of several changes of one user the last is returned, and earlier ones may be. `None`: there were more
    /// than [`MEMBER_CHANGES_KEPT`] versions since, or the group never had that version.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn member_changes(
        &self,
        group: GroupId,
        after: MemberChanged,
        limit: usize,
    ) -> Result<Option<Vec<MemberChanged>>, StoreError>;

    /// Reads the bans of a group that are in force at `now`, by rising user id above `after`, at most `limit`: fewer only at
    /// the end. Sees every change that was acknowledged before it began.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn ban_list(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Ban>, StoreError>;

    /// Reads the ban of a user that is in force at `now`. Sees every change that was acknowledged before it began.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn ban(&self, key: MemberKey, now: Timestamp) -> Result<Option<Ban>, StoreError>;

    /// Reads which groups may have banned a user, by rising id above `after`, at most `limit`: fewer only at the end. Contains
    /// all groups that have, and may contain others.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn banned_from(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError>;

    /// Ends up to `limit` of the members of a group that is dismissed, owner included, whatever their roles, and then up to
    /// `limit` of its bans and of the mutes of former members. Returns how many members are left, and at least 1 while there
    /// may be bans or mutes. Versions and ordinals are kept. Their stays end at the end of the log of the group, as by a leave.
    ///
    /// # Errors
    /// When the store, or the end of the log, cannot be read; some may have been ended then.
    async fn end_members(&self, group: GroupId, limit: usize, now: Timestamp) -> Result<u32, StoreError>;
}
