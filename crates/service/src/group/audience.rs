//! Decides who may see private groups.

use std::{collections::HashSet, fmt::Debug, sync::Arc};

use async_trait::async_trait;
use futures::future::try_join_all;
use kith_store::{Group, GroupId, UserId, Visibility};

use super::member::Members;
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// Groups whose roles are read at a time.
const AT_ONCE: usize = 64;

/// Returns the groups that a user may be about to join, for the group domain, which does not know
/// applications.
#[async_trait]
pub trait PendingGroups: Debug + Send + Sync {
    /// The groups for which a user has pending invites or applications.
    async fn pending_groups(&self, user: UserId) -> Result<HashSet<GroupId>, Error>;
}

/// Decides who sees private groups: services, members, and users with an invite or an application.
///
/// Their content is protected, but not their existence: Join and Apply must be able to report a wrong code.
#[derive(Clone, Debug)]
pub(super) struct Audience {
    pub(super) members: Members,
    pub(super) pending: Arc<dyn PendingGroups>,
}

impl Audience {
    /// Returns the ids of groups that are hidden from the principal. For public groups, and for services,
    /// nothing is read; applications are read only for a user who is not a member of all.
    pub(super) async fn hidden_from(
        &self,
        groups: &[&Group],
        principal: Principal,
    ) -> Result<HashSet<GroupId>, Error> {
        let Principal::User(user) = principal else { return Ok(HashSet::new()) };
        let mut hidden = HashSet::new();
        for groups in groups.chunks(AT_ONCE) {
            let mut unknown = Vec::with_capacity(groups.len());
            for group in groups {
                if group.visibility == Visibility::Private {
                    unknown.push(self.unless_member(group, user));
                }
            }
            hidden.extend(try_join_all(unknown).await?.into_iter().flatten());
        }
        if hidden.is_empty() {
            return Ok(hidden);
        }
        let pending = match self.pending.pending_groups(user).await {
            Err(error) if error.reason() == Reason::NotConfigured => HashSet::new(),
            pending => pending?,
        };
        Ok(hidden.difference(&pending).copied().collect())
    }

    /// The group, if the user is not a member.
    async fn unless_member(&self, group: &Group, user: UserId) -> Result<Option<GroupId>, Error> {
        let is_in = match self.members.role(group, user).await {
            // Without a store of members, only the group's creator is known.
            Err(error) if error.reason() == Reason::NotConfigured => group.creator == Some(user),
            role => role?.is_some(),
        };
        Ok((!is_in).then_some(group.id))
    }
}
