//! Lists by pages.

use std::sync::Arc;

use kith_cache::{Consistency, Page};
use kith_store::{Ban, GroupId, Member, MemberChangeEvent, MemberKey, Timestamp, UserId};

use super::{Members, lists::MemberPageKey, service::store_error};
use crate::{error::Error, rpc::call::Principal};

/// A page of a list.
#[derive(Clone, Debug)]
pub(super) struct MemberListPage<T> {
    /// The entries. May be fewer than requested, or none, although others follow.
    pub(super) items: Vec<T>,
    /// The id after which the next page begins; `None`: the last page.
    pub(super) next: Option<i64>,
}

/// A page of member changes.
#[derive(Debug)]
pub(super) struct MemberChanges {
    /// Changed users who are members.
    pub(super) members: Vec<Arc<Member>>,
    /// Changed users who are not members.
    pub(super) left: Vec<UserId>,
    /// The change after which the next page begins; `None`: the last page.
    pub(super) next: Option<MemberChangeEvent>,
}

impl Members {
    /// Returns a page of a group's members.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn list_members(
        &self,
        group: GroupId,
        asked: MemberPageKey,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<MemberListPage<Arc<Member>>, Error> {
        self.may_see(group, principal).await?;
        let part = self.lists.members_of(group, asked, consistency).await?;
        let keys: Vec<MemberKey> = part.items.iter().map(|user| MemberKey { group, user: *user }).collect();
        let existing = self.get_existing(&keys, consistency).await?;
        let members = existing.into_iter().map(|entry| entry.value);
        let items = members.filter(|member| member.role >= asked.least).collect();
        Ok(MemberListPage { items, next: next(&part, UserId::get) })
    }

    /// Returns a page of the groups that a user is in.
    pub(super) async fn list_memberships(
        &self,
        user: UserId,
        asked: MemberPageKey,
        consistency: &Consistency,
    ) -> Result<MemberListPage<GroupId>, Error> {
        let part = self.lists.groups_of(user, asked, consistency).await?;
        let items = self.groups_among(user, &part.items, consistency).await?;
        Ok(MemberListPage { items, next: next(&part, GroupId::get) })
    }

    /// Returns a page of the groups that both users are in. Walks one user's groups, and checks whether the
    /// other is a member.
    pub(super) async fn list_common_groups(
        &self,
        user: UserId,
        other: UserId,
        asked: MemberPageKey,
        consistency: &Consistency,
    ) -> Result<MemberListPage<GroupId>, Error> {
        let part = self.lists.groups_of(user, asked, consistency).await?;
        let (mine, theirs) = tokio::try_join!(
            self.groups_among(user, &part.items, consistency),
            self.groups_among(other, &part.items, consistency)
        )?;
        // Both by rising id, as the page is.
        let items = mine.into_iter().filter(|group| theirs.binary_search(group).is_ok()).collect();
        Ok(MemberListPage { items, next: next(&part, GroupId::get) })
    }

    /// Returns a page of a group's bans, from the store, by rising user id. Requires owner, admin or service.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn list_bans(
        &self,
        group: GroupId,
        principal: Principal,
        after: Option<UserId>,
        size: usize,
    ) -> Result<MemberListPage<Ban>, Error> {
        self.may_decide(group, principal).await?;
        // One more, to find out whether others follow.
        let limit = size.saturating_add(1);
        let mut items =
            self.store.ban_list(group, after, limit, Timestamp::now()).await.map_err(store_error)?;
        let more = items.len() > size;
        items.truncate(size);
        let next = items.last().filter(|_| more).map(|ban| ban.key.user.get());
        Ok(MemberListPage { items, next })
    }

    /// Returns a page of the users who changed after this change, in their present state; `None`: the store
    /// does not return the changes, see
    /// [`MemberStore::member_changes`](kith_store::MemberStore::member_changes). Does not check rights.
    pub(super) async fn sync_members(
        &self,
        group: GroupId,
        after: MemberChangeEvent,
        size: usize,
    ) -> Result<Option<MemberChanges>, Error> {
        // One more, to find out whether others follow.
        let found = self.store.member_changes(group, after, size.saturating_add(1)).await;
        let Some(mut found) = found.map_err(store_error)? else { return Ok(None) };
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().filter(|_| more).copied();
        let (mut members, mut left) = (Vec::new(), Vec::new());
        let keys = keys_of(group, &found);
        for (key, found) in keys.iter().zip(self.get_many(&keys, &Consistency::Strong).await) {
            match found? {
                Some(entry) => members.push(entry.value),
                None => left.push(key.user),
            }
        }
        Ok(Some(MemberChanges { members, left, next }))
    }

    /// Returns those of these groups that exist and have the user as a member. Decided by the records.
    async fn groups_among(
        &self,
        user: UserId,
        groups: &[GroupId],
        consistency: &Consistency,
    ) -> Result<Vec<GroupId>, Error> {
        let keys: Vec<MemberKey> = groups.iter().map(|group| MemberKey { group: *group, user }).collect();
        let existing = self.get_existing(&keys, consistency).await?;
        let groups: Vec<GroupId> = existing.iter().map(|entry| entry.value.key.group).collect();
        Ok(self.existing_groups(&groups, consistency).await)
    }
}

/// The members that changed, each once.
fn keys_of(group: GroupId, changed: &[MemberChangeEvent]) -> Vec<MemberKey> {
    let mut keys: Vec<MemberKey> = changed.iter().map(|one| MemberKey { group, user: one.user }).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The id after which the next page begins.
fn next<T: Copy>(part: &Page<T>, id: fn(T) -> i64) -> Option<i64> {
    part.items.last().filter(|_| part.more).map(|last| id(*last))
}
