//! Relation stores for a cluster in which none is configured.

use std::time::Duration;

use async_trait::async_trait;
use kith_store::{
    Applied, Ban, Block, BlockChange, BlockList, BlockPatch, BlockStore, ChangeContext, CountsRebuilt, Edge,
    EdgeUpkeep, EdgesVerified, Follow, FollowCounts, FollowList, FollowStore, FormerMember, GroupId,
    ImportedFollow, ListPosition, Member, MemberChange, MemberChangeEvent, MemberKey, MemberRow, MemberStore,
    MembersUpdated, RelationEvent, RelationEventId, RelationLog, RemovedEdges, Role, Roster, StoreError,
    Stored, Timestamp, UserId, Version, Write,
};

/// The setting that configures the relation store.
const SETTING: &str = "store.cql.contact_points";

/// A cluster's relations if no store is configured for them. Every call is refused with
/// [`StoreError::NotConfigured`]. Calls that search for work, or end what cannot exist, find nothing to do.
#[derive(Debug)]
pub(crate) struct NoRelations;

pub(super) fn absent<T>() -> Result<T, StoreError> {
    Err(StoreError::NotConfigured { setting: SETTING })
}

#[async_trait]
impl FollowStore for NoRelations {
    async fn follows(&self, _: &[Edge]) -> Result<Vec<(Edge, Stored<Follow>)>, StoreError> {
        absent()
    }

    async fn follow(&self, _: Edge, _: Duration, _: Write) -> Result<Applied<Follow>, StoreError> {
        absent()
    }

    async fn unfollow(&self, _: Edge, _: Write) -> Result<Applied<Version>, StoreError> {
        absent()
    }

    async fn follow_list(
        &self,
        _: UserId,
        _: FollowList,
        _: Option<ListPosition>,
        _: usize,
    ) -> Result<Vec<Follow>, StoreError> {
        absent()
    }

    async fn follow_counts(&self, _: &[UserId]) -> Result<Vec<FollowCounts>, StoreError> {
        absent()
    }

    async fn import_follows(&self, _: &[ImportedFollow], _: Timestamp) -> Result<(), StoreError> {
        absent()
    }
}

#[async_trait]
impl BlockStore for NoRelations {
    async fn blocks(&self, _: &[Edge]) -> Result<Vec<(Edge, Stored<Block>)>, StoreError> {
        absent()
    }

    async fn set_block(&self, _: Edge, _: BlockPatch, _: Write) -> Result<Applied<BlockChange>, StoreError> {
        absent()
    }

    async fn block_list(
        &self,
        _: UserId,
        _: BlockList,
        _: Option<ListPosition>,
        _: usize,
    ) -> Result<Vec<Block>, StoreError> {
        absent()
    }
}

#[async_trait]
impl MemberStore for NoRelations {
    async fn members(&self, _: &[MemberKey]) -> Result<Vec<(MemberKey, Stored<Member>)>, StoreError> {
        absent()
    }

    async fn former(&self, _: &[MemberKey]) -> Result<Vec<Option<FormerMember>>, StoreError> {
        absent()
    }

    async fn stored_members(&self, _: &[MemberKey]) -> Result<Vec<Option<MemberRow>>, StoreError> {
        absent()
    }

    async fn rosters(&self, _: &[GroupId]) -> Result<Vec<Roster>, StoreError> {
        absent()
    }

    async fn change_members(
        &self,
        _: GroupId,
        _: MemberChange,
        _: ChangeContext,
        _: Write,
    ) -> Result<Applied<MembersUpdated>, StoreError> {
        absent()
    }

    async fn member_list(
        &self,
        _: GroupId,
        _: Role,
        _: Option<UserId>,
        _: usize,
    ) -> Result<Vec<Member>, StoreError> {
        absent()
    }

    async fn group_rows(
        &self,
        _: GroupId,
        _: Option<UserId>,
        _: usize,
    ) -> Result<Vec<MemberRow>, StoreError> {
        absent()
    }

    async fn memberships(&self, _: UserId, _: Option<GroupId>, _: usize) -> Result<Vec<GroupId>, StoreError> {
        absent()
    }

    async fn member_changes(
        &self,
        _: GroupId,
        _: MemberChangeEvent,
        _: usize,
    ) -> Result<Option<Vec<MemberChangeEvent>>, StoreError> {
        absent()
    }

    async fn ban_list(
        &self,
        _: GroupId,
        _: Option<UserId>,
        _: usize,
        _: Timestamp,
    ) -> Result<Vec<Ban>, StoreError> {
        absent()
    }

    async fn ban(&self, _: MemberKey, _: Timestamp) -> Result<Option<Ban>, StoreError> {
        absent()
    }

    /// There are none.
    async fn banned_from(&self, _: UserId, _: Option<GroupId>, _: usize) -> Result<Vec<GroupId>, StoreError> {
        Ok(Vec::new())
    }

    /// There are none.
    async fn end_members(&self, _: GroupId, _: usize, _: Timestamp) -> Result<u32, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl RelationLog for NoRelations {
    async fn relation_log(
        &self,
        _: UserId,
        _: RelationEventId,
        _: usize,
    ) -> Result<Vec<RelationEvent>, StoreError> {
        absent()
    }

    async fn forget_relation_log(&self, _: Timestamp, _: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl EdgeUpkeep for NoRelations {
    async fn verify_edges(&self, _: Option<&[u8]>, _: usize, _: bool) -> Result<EdgesVerified, StoreError> {
        absent()
    }

    async fn rebuild_counts(&self, _: Option<&[u8]>, _: usize) -> Result<CountsRebuilt, StoreError> {
        absent()
    }

    /// There are none.
    async fn remove_edges(&self, _: UserId, _: usize) -> Result<RemovedEdges, StoreError> {
        Ok(RemovedEdges::default())
    }

    fn keeps_removals(&self) -> bool {
        false
    }

    /// Nothing can need removal.
    async fn note_removal(&self, _: UserId, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn removals(&self, _: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError> {
        Ok(Vec::new())
    }

    async fn end_removal(&self, _: UserId, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}
