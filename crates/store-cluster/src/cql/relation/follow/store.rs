//! The follow store, and reads of single rows.

use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{
    Applied, BATCH_MAX, Edge, Follow, FollowCounts, FollowList, FollowStore, IMPORT_FOLLOWS_MAX,
    ImportedFollow, ListPosition, StoreError, Stored, Timestamp, UserId, Version, Write, at_most,
};

use super::row::{FollowRow, edge_of, key};
use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{AT_A_TIME, Statement, values},
    },
    stores::Cql,
};

const ROW: Statement = Statement::read(
    "SELECT placed, in_following, in_fans, brought, \
     brought_following, brought_fans, live, version, since, changed FROM %k.follows \
     WHERE edge = ?",
);
const ROWS: Statement = Statement::read(
    "SELECT edge, placed, in_following, in_fans, brought, \
     brought_following, brought_fans, live, version, since, changed FROM %k.follows \
     WHERE edge IN ?",
);
const COUNTS: Statement = Statement::read("SELECT list, living FROM %k.follow_buckets WHERE owner = ?");
/// Rows in one request.
pub(in crate::cql) const ROWS_AT_ONCE: usize = 16;

#[async_trait]
impl FollowStore for Cql {
    async fn follows(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Follow>)>, StoreError> {
        at_most(edges.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        let rows = self.follow_rows(edges).await?;
        rows.iter().map(|row| Ok((row.edge, row.stored()?))).collect()
    }

    async fn follow(&self, edge: Edge, kept: Duration, write: Write) -> Result<Applied<Follow>, StoreError> {
        let _permit = self.client.admit()?;
        Box::pin(self.begin_follow(edge, kept, write)).await
    }

    async fn unfollow(&self, edge: Edge, write: Write) -> Result<Applied<Version>, StoreError> {
        let _permit = self.client.admit()?;
        Box::pin(self.end_follow(edge, write)).await
    }

    async fn follow_list(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<Follow>, StoreError> {
        let _permit = self.client.admit()?;
        self.list_page(user, list, after, limit).await
    }

    async fn follow_positions(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>, StoreError> {
        let _permit = self.client.admit()?;
        self.list_page(user, list, after, limit).await
    }

    async fn follow_counts(&self, users: &[UserId]) -> Result<Vec<FollowCounts>, StoreError> {
        at_most(users.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        stream::iter(users.to_vec()).map(|user| self.counts_of(user)).buffered(AT_A_TIME).try_collect().await
    }

    async fn import_follows(&self, follows: &[ImportedFollow], now: Timestamp) -> Result<(), StoreError> {
        at_most(follows.len(), IMPORT_FOLLOWS_MAX)?;
        let _permit = self.client.admit()?;
        self.import(follows, now).await
    }
}

impl Cql {
    /// Reads an edge's row, as a quorum has it.
    pub(in crate::cql) async fn follow_row(&self, edge: Edge) -> Result<Option<FollowRow>, StoreError> {
        let rows = self.client.records(&ROW, values![key(edge)]).await?;
        rows.first().map_or(Ok(None), |row| FollowRow::of(edge, row))
    }

    /// Reads these edges' rows, each once; leaves out edges without a row.
    pub(in crate::cql) async fn follow_rows(&self, edges: &[Edge]) -> Result<Vec<FollowRow>, StoreError> {
        let mut sorted = edges.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let groups: Vec<Vec<Edge>> = sorted.chunks(ROWS_AT_ONCE).map(<[Edge]>::to_vec).collect();
        let reads = stream::iter(groups).map(|group| self.rows_of(group)).buffer_unordered(AT_A_TIME);
        let found: Vec<Vec<FollowRow>> = reads.try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn rows_of(&self, edges: Vec<Edge>) -> Result<Vec<FollowRow>, StoreError> {
        let keys: Vec<[u8; 16]> = edges.into_iter().map(key).collect();
        let rows = self.client.records(&ROWS, values![keys]).await?;
        let read = |row: &NamedRow| FollowRow::of(edge_of(row)?, row);
        rows.iter().filter_map(|row| read(row).transpose()).collect()
    }

    async fn counts_of(&self, user: UserId) -> Result<FollowCounts, StoreError> {
        let mut counts = FollowCounts::default();
        for row in self.client.records(&COUNTS, values![user.get()]).await? {
            let living = row.number("living")?.unwrap_or_default();
            let living = u64::try_from(living).map_err(|_| malformed("living"))?;
            let of_list = if row.small("list")? == 0 { &mut counts.following } else { &mut counts.fans };
            *of_list += living;
        }
        Ok(counts)
    }
}
