//! Reads single members, and counts.

use kith_cache::{Consistency, Entry};
use kith_store::{GroupId, Member, MemberKey, Role, Roster, UserId};

use super::{Members, lists::MemberPageKey, service::KIND};
use crate::{error::Error, rpc::call::Principal};

/// The page size for counting all groups of a user.
const COUNTED: usize = 1000;

impl Members {
    /// Returns one group member. Users may read their own membership, and memberships in groups whose members
    /// they may see.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn get_member(
        &self,
        key: MemberKey,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Entry<Member>, Error> {
        if principal == Principal::User(key.user) {
            self.group(key.group).await?;
        } else {
            self.may_see(key.group, principal).await?;
        }
        self.read_member(key, consistency).await
    }

    /// Reads one member of a group. Does not check rights.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn read_member(
        &self,
        key: MemberKey,
        consistency: &Consistency,
    ) -> Result<Entry<Member>, Error> {
        let found = self.get_many(&[key], consistency).await.into_iter().next();
        found.transpose()?.flatten().ok_or_else(|| Error::not_found(KIND))
    }

    /// Reads the user's member record, if it is a member, and the group's roster, to check the right to send
    /// messages. Sees every acknowledged change. Does not check whether the group exists.
    pub(crate) async fn with_roster(&self, key: MemberKey) -> Result<(Option<Entry<Member>>, Roster), Error> {
        let keys = [key];
        let (members, roster) = tokio::join!(
            self.get_many(&keys, &Consistency::Cached),
            self.roster(key.group, &Consistency::Cached)
        );
        let member = members.into_iter().next().transpose()?.flatten();
        Ok((member, roster?))
    }

    /// Returns the group members that these keys name: an answer for each, in their order. Services may read
    /// every group's members, users only where they may see the members.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn batch_is_member(
        &self,
        group: GroupId,
        keys: &[MemberKey],
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Vec<Result<Option<Entry<Member>>, Error>>, Error> {
        self.may_see(group, principal).await?;
        Ok(self.get_many(keys, consistency).await)
    }

    /// Returns a group's roster, which has the number of its members.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn count_members(
        &self,
        group: GroupId,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Roster, Error> {
        self.may_see(group, principal).await?;
        self.roster(group, consistency).await
    }

    /// Counts the groups in a user's list.
    pub(super) async fn count_memberships(
        &self,
        user: UserId,
        consistency: &Consistency,
    ) -> Result<i64, Error> {
        let (mut count, mut after) = (0_i64, 0);
        loop {
            let asked = MemberPageKey { least: Role::Member, after, size: COUNTED };
            let part = self.lists.groups_of(user, asked, consistency).await?;
            count += i64::try_from(part.items.len()).unwrap_or(i64::MAX);
            match part.items.last().filter(|_| part.more) {
                Some(last) => after = last.get(),
                None => return Ok(count),
            }
        }
    }
}
