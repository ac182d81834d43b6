//! Changes of memberships, for whoever above has to do something about them.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use kith_store::{GroupId, Member, MemberChange, MemberKey, MemberRow, Role, UserId};

use crate::error::Error;

/// A change of memberships that stands.
#[derive(Clone, Debug)]
pub enum MembershipEvent {
    /// Users came into a group. `members`: those whose rows the change wrote; a user who was in already has none.
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

/// Is told of each change of memberships, within the write that made it: after it stands, and before it is acknowledged. It
/// may be told of a change twice, and where a node crashes of none.
#[async_trait]
pub trait MembershipListener: Debug + Send + Sync {
    /// Does what has to be done. The caller of the write waits for it.
    ///
    /// # Errors
    /// What a failing store makes. The write stands all the same; the end of a dismissed group is tried again.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error>;
}

/// Those who are told, in their order. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MembershipListeners(Arc<[Arc<dyn MembershipListener>]>);

impl MembershipListeners {
    /// These.
    #[must_use]
    pub fn new(listeners: Vec<Arc<dyn MembershipListener>>) -> Self {
        Self(listeners.into())
    }

    /// Tells all of them.
    ///
    /// # Errors
    /// The first one; the others were told too.
    pub(super) async fn tell(&self, event: &MembershipEvent) -> Result<(), Error> {
        let mut told = Ok(());
        for listener in self.0.iter() {
            told = told.and(listener.changed(event).await);
        }
        told
    }
}

/// What a change will have been, once it stands.
#[derive(Debug)]
pub(super) enum Expected {
    Joined(Vec<UserId>),
    Left(Vec<UserId>),
    Demoted,
    Nothing,
}

impl Expected {
    pub(super) fn of(change: &MemberChange) -> Self {
        match change {
            MemberChange::Found(_) | MemberChange::Join(_) | MemberChange::Add(_) => {
                Self::Joined(change.users())
            }
            MemberChange::Remove(_)
            | MemberChange::Ban(..)
            | MemberChange::Leave(_)
            | MemberChange::Depart(_) => Self::Left(change.users()),
            MemberChange::SetRole(_, Role::Member) => Self::Demoted,
            MemberChange::SetRole(..)
            | MemberChange::Transfer(_)
            | MemberChange::Mute(..)
            | MemberChange::MuteAll(_)
            | MemberChange::Remark(..)
            | MemberChange::Unban(_) => Self::Nothing,
        }
    }

    /// Whether it changes who is in the group.
    pub(super) const fn moves(&self) -> bool {
        matches!(self, Self::Joined(_) | Self::Left(_))
    }

    /// The event, once the change wrote these rows. A row of who left has the role that it had.
    pub(super) fn with(self, group: GroupId, rows: &[MemberRow]) -> Option<MembershipEvent> {
        let keys = |wanted: fn(&MemberRow) -> bool| {
            rows.iter().filter(|row| wanted(row)).map(|row| row.member.key).collect::<Vec<_>>()
        };
        match self {
            Self::Joined(users) => {
                let members = rows.iter().filter(|row| row.live).map(|row| row.member.clone()).collect();
                Some(MembershipEvent::Joined { group, users, members })
            }
            Self::Left(users) => {
                let deciders = keys(|row| !row.live && row.member.role >= Role::Admin);
                Some(MembershipEvent::Left { group, users, deciders })
            }
            Self::Demoted => Some(MembershipEvent::Demoted(keys(|row| row.live))),
            Self::Nothing => None,
        }
    }
}
