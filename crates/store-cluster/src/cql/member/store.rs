//! The member store. All a group's rows are in one partition, so that one conditional write changes its
//! roster, its members, the users in its last versions and the answers to requests.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{
    Applied, BATCH_MAX, Ban, ChangeContext, FormerMember, GroupId, MEMBERS_AT_ONCE, Member, MemberChange,
    MemberChangeEvent, MemberKey, MemberRow, MemberStore, MembersUpdated, Role, Roster, StoreError, Stored,
    Timestamp, UserId, Write, at_most,
};

use crate::cql::{client::session::AT_A_TIME, stores::Cql};

#[async_trait]
impl MemberStore for Cql {
    async fn members(&self, keys: &[MemberKey]) -> Result<Vec<(MemberKey, Stored<Member>)>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        let found = self.member_rows(keys).await?;
        Ok(found.into_iter().map(|row| (row.member.key, stored(row))).collect())
    }

    async fn former(&self, keys: &[MemberKey]) -> Result<Vec<Option<FormerMember>>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        Ok(FormerMember::of(keys, &self.member_rows(keys).await?))
    }

    async fn stored_members(&self, keys: &[MemberKey]) -> Result<Vec<Option<MemberRow>>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        let found = self.member_rows(keys).await?;
        let found: HashMap<MemberKey, MemberRow> =
            found.into_iter().map(|row| (row.member.key, row)).collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    async fn rosters(&self, groups: &[GroupId]) -> Result<Vec<Roster>, StoreError> {
        at_most(groups.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        self.rosters_of(groups).await
    }

    async fn change_members(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
    ) -> Result<Applied<MembersUpdated>, StoreError> {
        at_most(change.users().len(), MEMBERS_AT_ONCE)?;
        let _permit = self.client.admit()?;
        Box::pin(self.change_for_request(group, change, terms, write)).await
    }

    async fn member_list(
        &self,
        group: GroupId,
        least: Role,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Member>, StoreError> {
        let _permit = self.client.admit()?;
        let rows = self.list_members(group, least, after, limit).await?;
        Ok(rows.into_iter().map(|row| row.member).collect())
    }

    async fn group_rows(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError> {
        let _permit = self.client.admit()?;
        self.list_rows(group, after, limit).await
    }

    async fn memberships(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError> {
        let _permit = self.client.admit()?;
        self.groups_of(user, after, limit).await
    }

    async fn member_changes(
        &self,
        group: GroupId,
        after: MemberChangeEvent,
        limit: usize,
    ) -> Result<Option<Vec<MemberChangeEvent>>, StoreError> {
        let _permit = self.client.admit()?;
        self.changes_after(group, after, limit).await
    }

    async fn ban_list(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Ban>, StoreError> {
        let _permit = self.client.admit()?;
        self.list_bans(group, after, limit, now).await
    }

    async fn ban(&self, key: MemberKey, now: Timestamp) -> Result<Option<Ban>, StoreError> {
        let _permit = self.client.admit()?;
        let found = self.bans_of(key.group, &[key.user]).await?;
        Ok(found.into_iter().find(|ban| ban.holds(now)))
    }

    async fn banned_from(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError> {
        let _permit = self.client.admit()?;
        self.groups_that_banned(user, after, limit).await
    }

    async fn end_members(&self, group: GroupId, limit: usize, now: Timestamp) -> Result<u32, StoreError> {
        let _permit = self.client.admit()?;
        Box::pin(self.end_members_in_steps(group, limit, now)).await
    }
}

impl Cql {
    /// Reads these members' rows, each once, in any order.
    async fn member_rows(&self, keys: &[MemberKey]) -> Result<Vec<MemberRow>, StoreError> {
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let groups: Vec<(GroupId, Vec<UserId>)> =
            sorted.chunk_by(|a, b| a.group == b.group).map(group_and_users).collect();
        let reads =
            groups.into_iter().map(|(group, users)| async move { self.members_of(group, &users).await });
        let found: Vec<Vec<MemberRow>> =
            stream::iter(reads).buffer_unordered(AT_A_TIME).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// The group that these keys name, and their users.
fn group_and_users(keys: &[MemberKey]) -> (GroupId, Vec<UserId>) {
    (keys[0].group, keys.iter().map(|key| key.user).collect())
}

fn stored(row: MemberRow) -> Stored<Member> {
    if row.live { Stored::Live(Arc::new(row.member)) } else { Stored::Deleted(row.member.version) }
}
