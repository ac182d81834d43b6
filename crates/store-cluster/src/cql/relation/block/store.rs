//! Settings that users make for others. Everything that a user has set is in one partition, so that a record,
//! its list entries and the answer to a request change by one conditional write.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{
    Applied, BATCH_MAX, Block, BlockChange, BlockList, BlockPatch, BlockStore, Edge, ListPosition,
    Permissions, StoreError, Stored, UserId, Write, at_most,
};

use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{AT_A_TIME, Statement, values},
    },
    stores::Cql,
};

const RECORDS: Statement = Statement::read(
    "SELECT other, live, version, writer, blocked, permissions, do_not_disturb, remark, updated FROM %k.blocks \
     WHERE owner = ? AND kind = 0 AND placed = 0 AND other IN ?",
);
const FIRST: Statement = Statement::read(
    "SELECT other, version, blocked, permissions, do_not_disturb, remark, updated FROM %k.blocks \
     WHERE owner = ? AND kind = ? AND live = 1 LIMIT ? ALLOW FILTERING",
);
const AFTER: Statement = Statement::read(
    "SELECT other, version, blocked, permissions, do_not_disturb, remark, updated FROM %k.blocks \
     WHERE owner = ? AND kind = ? AND (placed, other) < (?, ?) AND live = 1 LIMIT ? ALLOW FILTERING",
);

/// The number for entries in a list.
pub(in crate::cql) const fn kind(list: BlockList) -> i32 {
    match list {
        BlockList::Blocked => 1,
        BlockList::DoNotDisturb => 2,
        // The records themselves.
        BlockList::All => 0,
    }
}

/// A stored record.
#[derive(Clone, Debug)]
pub(in crate::cql) struct BlockRow {
    /// For an ended record, only the version is meaningful.
    pub(in crate::cql) block: Block,
    /// Chosen by the write.
    pub(in crate::cql) writer: i64,
    pub(in crate::cql) live: bool,
}

impl BlockRow {
    fn stored(self) -> Stored<Block> {
        if self.live { Stored::Live(Arc::new(self.block)) } else { Stored::Deleted(self.block.version) }
    }

    /// The record on which the next change is based.
    pub(in crate::cql) fn before(self) -> Block {
        let Block { edge, version, .. } = self.block;
        if self.live { self.block } else { Block { version, ..Block::unset(edge) } }
    }
}

#[async_trait]
impl BlockStore for Cql {
    async fn blocks(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Block>)>, StoreError> {
        at_most(edges.len(), BATCH_MAX)?;
        let _permit = self.client.admit()?;
        self.block_records(edges).await
    }

    async fn set_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        write: Write,
    ) -> Result<Applied<BlockChange>, StoreError> {
        let _permit = self.client.admit()?;
        self.change_block(edge, patch, write).await
    }

    async fn block_list(
        &self,
        user: UserId,
        list: BlockList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<Block>, StoreError> {
        let _permit = self.client.admit()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows = match after {
            None => self.client.records(&FIRST, values![user.get(), kind(list), limit]).await?,
            Some(ListPosition { at, user: other }) => {
                self.client.records(&AFTER, values![user.get(), kind(list), at.0, other.get(), limit]).await?
            }
        };
        rows.iter().map(|row| block(user, row)).collect()
    }
}

impl Cql {
    /// Reads these edges' records, each once; leaves out edges that never had a record.
    pub(in crate::cql) async fn block_records(
        &self,
        edges: &[Edge],
    ) -> Result<Vec<(Edge, Stored<Block>)>, StoreError> {
        let mut sorted = edges.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let groups: Vec<Vec<Edge>> = sorted.chunk_by(|a, b| a.from == b.from).map(<[Edge]>::to_vec).collect();
        let reads = stream::iter(groups).map(|group| self.blocks_of(&RECORDS, group));
        let found: Vec<Vec<BlockRow>> = reads.buffer_unordered(AT_A_TIME).try_collect().await?;
        Ok(found.into_iter().flatten().map(|row| (row.block.edge, row.stored())).collect())
    }

    /// Reads a user's records.
    pub(in crate::cql) async fn blocks_of(
        &self,
        statement: &'static Statement,
        edges: Vec<Edge>,
    ) -> Result<Vec<BlockRow>, StoreError> {
        let Some(owner) = edges.first().map(|edge| edge.from) else { return Ok(Vec::new()) };
        let others: Vec<i64> = edges.iter().map(|edge| edge.to.get()).collect();
        let rows = self.client.records(statement, values![owner.get(), others]).await?;
        let read = |row: &NamedRow| {
            let (block, writer) = (block(owner, row)?, row.some_number("writer")?);
            Ok(BlockRow { block, writer, live: row.some_number("live")? != 0 })
        };
        rows.iter().map(read).collect()
    }
}

fn block(owner: UserId, row: &NamedRow) -> Result<Block, StoreError> {
    let permissions = row.number("permissions")?.map(|bits| {
        let bits = u32::try_from(bits).map_err(|_| malformed("permissions"))?;
        Permissions::new(bits).map_err(|_| malformed("permissions"))
    });
    Ok(Block {
        edge: Edge { from: owner, to: row.user("other")? },
        version: row.version("version")?,
        blocked: row.time("blocked")?,
        permissions: permissions.transpose()?,
        do_not_disturb: row.time("do_not_disturb")?,
        remark: row.text("remark")?.unwrap_or_default().into(),
        updated: row.time("updated")?.ok_or_else(|| malformed("updated"))?,
    })
}
