//! Notifies other domains about joins, leaves, demotions, new owners and dismissals.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;
use kith_store::{GroupId, Member, MemberChange, MemberKey, MemberRow, Role, UserId, Version};

use crate::error::Error;

/// A stored membership change.
#[derive(Clone, Debug)]
pub enum MembershipEvent {
    /// Users joined a group. `members` has the rows that the change wrote: none for a user who was a member
    /// already. A group's founder joins as its owner.
    Joined {
        /// The group that they joined.
        group: GroupId,
        /// All users whom the change named.
        users: Vec<UserId>,
        /// Their memberships.
        members: Vec<Member>,
    },
    /// Users left a group, were removed or banned, or their group or account ended.
    Left {
        /// The group that they left.
        group: GroupId,
        /// All users whom the change named.
        users: Vec<UserId>,
        /// Its former owner and admins.
        deciders: Vec<MemberKey>,
        /// The memberships that the change ended.
        ended: EndedMemberships,
    },
    /// A member became a group's owner.
    OwnerChanged {
        /// The group whose owner changed.
        group: GroupId,
        /// The group's new owner.
        owner: UserId,
        /// The former owner, who is an admin now; none if there was none.
        former: Vec<UserId>,
        /// The roster version after the change.
        version: Version,
    },
    /// Admins became ordinary members.
    Demoted(Vec<MemberKey>),
    /// Members became admins, or were muted or unmuted.
    Changed(Vec<MemberKey>),
    /// All group members were muted or unmuted.
    AllMuted(GroupId),
    /// A group was dismissed. Its memberships are ended afterwards, in steps.
    Dismissed(GroupId),
}

/// Memberships that one change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedMemberships {
    /// Why the memberships ended.
    pub reason: LeaveReason,
    /// The roster version after the change. [`Version::NONE`] if no membership ended, and for a dismissed
    /// group.
    pub version: Version,
    /// The users, by rising id, without those who were not members. Empty for a dismissed group.
    pub users: Vec<UserId>,
}

/// The reason for which members leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// They left, or their account ended.
    Left,
    /// They were removed or banned, or the group is dismissed.
    Removed,
}

/// Is notified about each membership change, within the write that made it: after the change is stored, and
/// before it is acknowledged. A repeated request notifies again. If the node crashes in between, no listener
/// is notified.
#[async_trait]
pub trait MembershipListener: Debug + Send + Sync {
    /// Handles the event. The writer waits for it.
    ///
    /// # Errors
    /// The store's error. The write is kept; ending a dismissed group is retried.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error>;
}

/// The listeners. They do not depend on each other. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MembershipListeners(Arc<[Arc<dyn MembershipListener>]>);

impl MembershipListeners {
    /// Creates the list.
    #[must_use]
    pub fn new(listeners: Vec<Arc<dyn MembershipListener>>) -> Self {
        Self(listeners.into())
    }

    /// Notifies them all at once, and waits for each.
    ///
    /// # Errors
    /// The first listener's error. All were notified nevertheless.
    pub(super) async fn notify(&self, event: &MembershipEvent) -> Result<(), Error> {
        let notified = self.0.iter().map(|listener| listener.changed(event));
        join_all(notified).await.into_iter().collect()
    }
}

/// A change's event after it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Joined,
    Left(LeaveReason),
    Demoted,
    Changed,
    AllMuted,
    OwnerChanged,
    None,
}

impl EventKind {
    pub(super) const fn of(change: &MemberChange) -> Self {
        match change {
            MemberChange::AddFounder(_) | MemberChange::Join(_) | MemberChange::Add(_) => Self::Joined,
            MemberChange::Remove(_) | MemberChange::Ban(..) => Self::Left(LeaveReason::Removed),
            MemberChange::Leave(_) | MemberChange::AccountDeleted(_) => Self::Left(LeaveReason::Left),
            MemberChange::SetRole(_, Role::Member) => Self::Demoted,
            MemberChange::Transfer(_) => Self::OwnerChanged,
            MemberChange::SetRole(..) | MemberChange::Mute(..) => Self::Changed,
            MemberChange::MuteAll(_) => Self::AllMuted,
            MemberChange::Remark(..) | MemberChange::Unban(_) => Self::None,
            // Nothing has happened: it was so elsewhere.
            MemberChange::Import(_) | MemberChange::ImportBans(_) => Self::None,
        }
    }

    /// Whether it adds or removes members.
    pub(super) const fn changes_members(self) -> bool {
        matches!(self, Self::Joined | Self::Left(_))
    }

    /// Returns the event for a change that named these users and wrote these rows; `None`: there is no event.
    /// A user who left has a row that still names the ended membership's role.
    pub(super) fn event(
        self,
        group: GroupId,
        users: Vec<UserId>,
        rows: &[MemberRow],
    ) -> Option<MembershipEvent> {
        let keys = |wanted: fn(&MemberRow) -> bool| {
            rows.iter().filter(|row| wanted(row)).map(|row| row.member.key).collect::<Vec<_>>()
        };
        match self {
            Self::Joined | Self::Left(_) if users.is_empty() => None,
            Self::Joined => {
                let members = rows.iter().filter(|row| row.live).map(|row| row.member.clone()).collect();
                Some(MembershipEvent::Joined { group, users, members })
            }
            Self::Left(reason) => {
                let deciders = keys(|row| !row.live && row.member.role >= Role::Admin);
                Some(MembershipEvent::Left {
                    group,
                    users,
                    deciders,
                    ended: EndedMemberships::of(reason, rows),
                })
            }
            Self::OwnerChanged => {
                let owner = rows.iter().find(|row| row.live && row.member.role == Role::Owner)?;
                let (owner, version) = (owner.member.key.user, owner.member.version);
                let former = keys(|row| row.live && row.member.role != Role::Owner);
                let former = former.into_iter().map(|key| key.user).collect();
                Some(MembershipEvent::OwnerChanged { group, owner, former, version })
            }
            Self::Demoted => Some(MembershipEvent::Demoted(keys(|row| row.live))),
            Self::Changed => Some(MembershipEvent::Changed(keys(|row| row.live))),
            Self::AllMuted => Some(MembershipEvent::AllMuted(group)),
            Self::None => None,
        }
    }
}

impl EndedMemberships {
    fn of(reason: LeaveReason, rows: &[MemberRow]) -> Self {
        let ended = || rows.iter().filter(|row| !row.live).map(|row| &row.member);
        let version = ended().map(|member| member.version).max().unwrap_or(Version::NONE);
        Self { reason, version, users: ended().map(|member| member.key.user).collect() }
    }
}
