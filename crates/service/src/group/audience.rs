//! Whom a private group is shown to.

use std::{collections::HashSet, fmt::Debug, sync::Arc};

use async_trait::async_trait;
use futures::future::try_join_all;
use kith_store::{Group, GroupId, UserId, Visibility};

use super::members::Members;
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// Groups whose roles are read at a time.
const AT_ONCE: usize = 64;

/// Says which groups a user may come into, for the domain of groups, which knows no applications.
#[async_trait]
pub trait PendingGroups: Debug + Send + Sync {
    /// The groups into which a user is invited, and those that it asks to let it in: what is pending now.
    ///
    /// # Errors
    /// Those of a failing store.
    async fn pending_groups(&self, user: UserId) -> Result<HashSet<GroupId>, Error>;
}

/// Whom private groups are shown to: services, their members, and users who are invited or apply.
///
/// Their content is protected, not that they exist: Join and Apply have to answer that a code is wrong.
#[derive(Clone, Debug)]
pub(super) struct Audience {
    pub(super) members: Members,
    pub(super) pending: Arc<dyn PendingGroups>,
}

impl Audience {
    /// The ids of those of these groups that are hidden from the principal. Of public groups, and for services, nothing is read;
    /// applications are read only for a user who is not a member of one of them.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn hidden_from(
        &self,
        groups: &[&Group],
        principal: Principal,
    ) -> Result<HashSet<GroupId>, Error> {
        let Principal::User(user) = principal else { return Ok(HashSet::new()) };
        let mut hidden = HashSet::new();
        for groups in groups.chunks(AT_ONCE) {
            let mut strange = Vec::with_capacity(groups.len());
            for group in groups {
                if group.visibility == Visibility::Private {
                    strange.push(self.unless_in(group, user));
                }
            }
            hidden.extend(try_join_all(strange).await?.into_iter().flatten());
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

    /// The group, if the user is not in it.
    async fn unless_in(&self, group: &Group, user: UserId) -> Result<Option<GroupId>, Error> {
        let is_in = match self.members.role(group, user).await {
            // Where no members are kept, who made the group is all that is known.
            Err(error) if error.reason() == Reason::NotConfigured => group.creator == Some(user),
            role => role?.is_some(),
        };
        Ok((!is_in).then_some(group.id))
    }
}
