//! Online group members, and their gateways.

use std::{collections::HashSet, sync::Arc};

use kith_cache::Consistency;
use kith_presence::{ActiveMember, Distribution, GatewayId};
use kith_store::{GroupId, UserId};

use super::{active::Active, sessions::Sessions};
use crate::{error::Error, group::member::Members, rpc::call::Principal};

/// Most online members whom a count for a member looks at, one at a time.
const COUNTED_BY_VIEWER: usize = 100;

/// Online group members. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ActiveMembers {
    pub(super) active: Active,
    pub(super) members: Members,
    pub(super) sessions: Sessions,
}

/// How many group members are online through a gateway.
#[derive(Clone, Debug)]
pub(super) struct GatewayCount {
    pub(super) gateway: GatewayId,
    pub(super) count: u32,
}

/// The gateways through which group members are online.
#[derive(Clone, Debug)]
pub(super) struct ActiveGateways {
    pub(super) gateways: Vec<GatewayCount>,
    /// Whether presence was lost recently, so that some may be missing.
    pub(super) incomplete: bool,
}

/// How many group members are online.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveCount {
    pub(super) count: i64,
    /// See [`ActiveGateways::incomplete`].
    pub(super) incomplete: bool,
}

/// A page of online group members.
#[derive(Clone, Debug)]
pub(super) struct ActivePage {
    /// Each with its live gateways.
    pub(super) members: Vec<ActiveMember>,
    /// The user after whom the next page begins; `None`: the last page.
    pub(super) next: Option<UserId>,
    /// See [`ActiveGateways::incomplete`].
    pub(super) incomplete: bool,
}

impl ActiveMembers {
    /// Returns the gateways through which group members are online, by rising id.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE, or errors of the store.
    pub(super) async fn list_active_gateways(
        &self,
        group: GroupId,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<ActiveGateways, Error> {
        let found = self.distribution(group, principal, consistency).await?;
        let gateways = self.living(&found);
        Ok(ActiveGateways { gateways, incomplete: !self.sessions.is_settled() })
    }

    /// Returns how many group members are online. Until a dead gateway is swept, the count is at most the sum
    /// over the live gateways. For a member, up to [`COUNTED_BY_VIEWER`] are counted as they are listed: the
    /// difference would show a block.
    ///
    /// # Errors
    /// The errors of [`Self::list_active_gateways`].
    pub(super) async fn count_active_members(
        &self,
        group: GroupId,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<ActiveCount, Error> {
        let found = self.distribution(group, principal, consistency).await?;
        let at_living: i64 = self.living(&found).iter().map(|at| i64::from(at.count)).sum();
        let mut count = i64::from(found.total).min(at_living);
        let few = usize::try_from(found.total).is_ok_and(|total| total <= COUNTED_BY_VIEWER);
        if few
            && count > 0
            && matches!(principal, Principal::User(_))
            && self.members.check_member(group, principal).await.is_ok()
        {
            let online = self.active.store.active(group, None, COUNTED_BY_VIEWER).await;
            let shown = self.shown_to(group, online.map_err(Error::presence)?, principal).await?;
            count = i64::try_from(shown.len()).unwrap_or(i64::MAX);
        }
        Ok(ActiveCount { count, incomplete: !self.sessions.is_settled() })
    }

    /// Returns a page of group members who are online, by rising user id. It may be short without being the
    /// last. For members and services; a member does not see those who blocked it.
    ///
    /// # Errors
    /// The errors of [`Self::list_active_gateways`].
    pub(super) async fn list_active_members(
        &self,
        group: GroupId,
        after: Option<UserId>,
        size: usize,
        principal: Principal,
    ) -> Result<ActivePage, Error> {
        self.members.check_member(group, principal).await?;
        // One more member is read, to find out whether others follow.
        let found = self.active.store.active(group, after, size.saturating_add(1)).await;
        let mut found = found.map_err(Error::presence)?;
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().filter(|_| more).map(|member| member.user);
        let members = self.shown_to(group, found, principal).await?;
        Ok(ActivePage { members, next, incomplete: !self.sessions.is_settled() })
    }

    /// Which of these users are members, online, and have not blocked the principal.
    async fn shown_to(
        &self,
        group: GroupId,
        found: Vec<ActiveMember>,
        principal: Principal,
    ) -> Result<Vec<ActiveMember>, Error> {
        let found = self.members_among(group, found).await?;
        let users: Vec<UserId> = found.iter().map(|member| member.user).collect();
        let blockers = self.sessions.visibility.blockers(&users, principal).await?;
        let seen = found.into_iter().filter(|member| !blockers.contains(&member.user));
        let members = seen.filter_map(|member| {
            let gateways = self.sessions.gateways.without_dead(&member.gateways);
            (!gateways.is_empty()).then_some(ActiveMember { gateways, ..member })
        });
        Ok(members.collect())
    }

    /// The group members among these users. The others left it, and are removed in the background.
    async fn members_among(
        &self,
        group: GroupId,
        found: Vec<ActiveMember>,
    ) -> Result<Vec<ActiveMember>, Error> {
        let users: Vec<UserId> = found.iter().map(|one| one.user).collect();
        let members = self.members.users_among(group, &users, &Consistency::Cached).await?;
        let members: HashSet<UserId> = members.into_iter().collect();
        let former = users.into_iter().filter(|user| !members.contains(user));
        self.sessions.fan_out.remove_former_members(group, former.collect());
        Ok(found.into_iter().filter(|member| members.contains(&member.user)).collect())
    }

    async fn distribution(
        &self,
        group: GroupId,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Arc<Distribution>, Error> {
        self.members.may_see(group, principal).await?;
        self.active.of(group, consistency).await
    }

    /// Returns the distribution without the dead gateways.
    fn living(&self, found: &Distribution) -> Vec<GatewayCount> {
        let ids: Vec<GatewayId> = found.gateways.iter().map(|(id, _)| id.clone()).collect();
        let living = self.sessions.gateways.without_dead(&ids);
        let counts = found.gateways.iter().filter(|(id, _)| living.contains(id));
        counts.map(|(id, count)| GatewayCount { gateway: id.clone(), count: *count }).collect()
    }
}
