//! Membership events: how other domains are notified of joins, leaves, demotions and dismissals.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use kith_store::{GroupId, Member, MemberChange, MemberKey, MemberRow, Role, UserId};

use crate::error::Error;

/// A change of memberships that is stored.
#[derive(Clone, Debug)]
pub enum MembershipEvent {
    /// Users joined a group. `members`: those whose rows the change wrote; a user who was a member already has none.
    Joined {
        /// Of which group.
        group: GroupId,
        /// All that the change named.
        users: Vec<UserId>,
        /// Their memberships.
        members: Vec<Member>,
    },
    /// Users left a group, were removed or banned, or their group or account ended.
    Left {
        /// Of which group.
        group: GroupId,
        /// All that the change named.
        users: Vec<UserId>,
        /// Those of them who were its owner or admins.
        deciders: Vec<MemberKey>,
    },
    /// Admins who are ordinary members from now on.
    Demoted(Vec<MemberKey>),
    /// A group was dismissed. Its members leave after it, in steps.
    Dismissed(GroupId),
}

/// Is notified of each change of memberships, within the write that made it: after the change is stored, and before it is
/// acknowledged. A repeated request notifies again. If the node crashes in between, no listener is notified.
#[async_trait]
pub trait MembershipListener: Debug + Send + Sync {
    /// Handles the event. The caller of the write waits for it.
    ///
    /// # Errors
    /// The error of the store. The write is kept; ending a dismissed group is retried.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error>;
}

/// The listeners, in the order in which they are notified. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MembershipListeners(Arc<[Arc<dyn MembershipListener>]>);

impl MembershipListeners {
    /// These.
    #[must_use]
    pub fn new(listeners: Vec<Arc<dyn MembershipListener>>) -> Self {
        Self(listeners.into())
    }

    /// Notifies all of them.
    ///
    /// # Errors
    /// The first error; the other listeners were notified, too.
    pub(super) async fn notify(&self, event: &MembershipEvent) -> Result<(), Error> {
        let mut notified = Ok(());
        for listener in self.0.iter() {
            notified = notified.and(listener.changed(event).await);
        }
        notified
    }
}

/// Which event a change becomes once it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Joined,
    Left,
    Demoted,
    None,
}

impl EventKind {
    pub(super) const fn of(change: &MemberChange) -> Self {
        match change {
            MemberChange::Found(_) | MemberChange::Join(_) | MemberChange::Add(_) => Self::Joined,
            MemberChange::Remove(_)
            | MemberChange::Ban(..)
            | MemberChange::Leave(_)
            | MemberChange::Depart(_) => Self::Left,
            MemberChange::SetRole(_, Role::Member) => Self::Demoted,
            MemberChange::SetRole(..)
            | MemberChange::Transfer(_)
            | MemberChange::Mute(..)
            | MemberChange::MuteAll(_)
            | MemberChange::Remark(..)
            | MemberChange::Unban(_) => Self::None,
        }
    }

    /// Whether it changes who is in the group.
    pub(super) const fn moves(self) -> bool {
        matches!(self, Self::Joined | Self::Left)
    }

    /// The event of a change that named these users and wrote these rows; `None`: there is no event. A row of a user who left
    /// keeps its role.
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
            Self::Joined | Self::Left if users.is_empty() => None,
            Self::Joined => {
                let members = rows.iter().filter(|row| row.live).map(|row| row.member.clone()).collect();
                Some(MembershipEvent::Joined { group, users, members })
            }
            Self::Left => {
                let deciders = keys(|row| !row.live && row.member.role >= Role::Admin);
                Some(MembershipEvent::Left { group, users, deciders })
            }
            Self::Demoted => Some(MembershipEvent::Demoted(keys(|row| row.live))),
            Self::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_no_user_is_no_event() {
        let group = GroupId::new(1).unwrap();
        for change in [MemberChange::Remove(Vec::new()), MemberChange::Add(Vec::new())] {
            assert!(EventKind::of(&change).event(group, change.users(), &[]).is_none(), "{change:?}");
        }
        let change = MemberChange::Leave(UserId::new(2).unwrap());
        let event = EventKind::of(&change).event(group, change.users(), &[]);
        assert!(matches!(event, Some(MembershipEvent::Left { .. })), "{event:?}");
    }
}
