//! Settings that users make for others.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use kith_store::{
    Applied, Block, BlockChange, BlockList, BlockPatch, BlockStore, Edge, ListPosition, RelationEventKind,
    StoreError, Stored, Timestamp, UserId, Version, Write,
};
use rusqlite::{Connection, params};

use super::{follow, log};
use crate::{
    Sqlite,
    batch::BatchQuery,
    error::Failure,
    row::{block_of, stored_block},
    state::check_expected,
    statement::{first, run},
};

macro_rules! select {
    () => {
        "SELECT from_id, to_id, version, deleted, blocked_ms, permissions, dnd_ms, remark, updated_ms
    FROM blocks"
    };
}

/// Uses the primary key.
pub(crate) const BY_EDGE: &str = concat!(select!(), " WHERE from_id = ?1 AND to_id = ?2");
/// Uses the primary key.
pub(crate) static BY_EDGES: LazyLock<BatchQuery> = LazyLock::new(|| BatchQuery::by_edge(select!()));
/// Index `blocks_blocked`, then the primary key.
pub(crate) const BLOCKED: &str = concat!(
    select!(),
    " WHERE blocked_ms IS NOT NULL AND from_id = ?1 AND (blocked_ms, to_id) < (?2, ?3)
    ORDER BY blocked_ms DESC, to_id DESC LIMIT ?4"
);
/// Index `blocks_dnd`, then the primary key.
pub(crate) const DO_NOT_DISTURB: &str = concat!(
    select!(),
    " WHERE dnd_ms IS NOT NULL AND from_id = ?1 AND (dnd_ms, to_id) < (?2, ?3)
    ORDER BY dnd_ms DESC, to_id DESC LIMIT ?4"
);
/// Index `blocks_from`, then the primary key. The time of a position is ignored.
pub(crate) const SET: &str = concat!(
    select!(),
    " INDEXED BY blocks_from WHERE deleted = 0 AND from_id = ?1 AND to_id < ?3 AND ?2 IS NOT NULL
    ORDER BY to_id DESC LIMIT ?4"
);
/// On conflict, the new state replaces a record or a stub.
const PUT: &str = "INSERT OR REPLACE INTO blocks
        (from_id, to_id, version, deleted, blocked_ms, permissions, dnd_ms, remark, updated_ms)
    VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8)";
/// Uses the primary key.
pub(crate) const REMOVE: &str = "UPDATE blocks SET version = version + 1, deleted = 1, blocked_ms = NULL,
    permissions = NULL, dnd_ms = NULL, remark = '', updated_ms = ?3 WHERE from_id = ?1 AND to_id = ?2";
/// Index `blocks_from` alone.
pub(crate) const ANY_FROM: &str =
    "SELECT from_id, to_id FROM blocks WHERE deleted = 0 AND from_id = ?1 LIMIT ?2";
/// Index `blocks_to` alone.
pub(crate) const ANY_TO: &str = "SELECT from_id, to_id FROM blocks WHERE deleted = 0 AND to_id = ?1 LIMIT ?2";

#[async_trait]
impl BlockStore for Sqlite {
    async fn blocks(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Block>)>, StoreError> {
        self.readers.by_keys(&BY_EDGES, edges, stored_block).await
    }

    async fn set_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        write: Write,
    ) -> Result<Applied<BlockChange>, StoreError> {
        self.writer.once(write, move |connection, write| set(connection, edge, &patch, write)).await
    }

    async fn block_list(
        &self,
        user: UserId,
        list: BlockList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<Block>, StoreError> {
        let sql = match list {
            BlockList::Blocked => BLOCKED,
            BlockList::DoNotDisturb => DO_NOT_DISTURB,
            BlockList::All => SET,
        };
        self.readers.page(sql, user, after, limit, block_of).await
    }
}

/// Ends an active record, and leaves a stub with its version.
pub(crate) fn remove(connection: &Connection, edge: Edge, now: Timestamp) -> Result<(), Failure> {
    run(connection, REMOVE, [edge.from.get(), edge.to.get(), now.0])
}

fn set(
    connection: &Connection,
    edge: Edge,
    patch: &BlockPatch,
    write: &Write,
) -> Result<BlockChange, Failure> {
    let before = before(connection, edge, write)?;
    let block = before.patched(patch, write.now);
    put(connection, &block)?;
    if block.permissions != before.permissions {
        let kind = RelationEventKind::SetPermissions { before: before.permissions, after: block.permissions };
        log::note(connection, edge, kind, write.now)?;
    }
    let cut = match patch.blocked {
        Some(true) => follow::end(connection, edge.reversed(), Some(edge), write.now)?,
        Some(false) | None => None,
    };
    Ok(BlockChange { block, cut })
}

/// The record, or an empty one if none is active. A stub is not a record, but its versions continue.
fn before(connection: &Connection, edge: Edge, write: &Write) -> Result<Block, Failure> {
    let stored = first(connection, BY_EDGE, [edge.from.get(), edge.to.get()], stored_block)?;
    let (block, current) = match stored.map_or(Stored::Never, |(_, stored)| stored) {
        Stored::Live(block) => {
            let current = block.version;
            (Arc::unwrap_or_clone(block), current)
        }
        Stored::Deleted(version) => (Block { version, ..Block::unset(edge) }, Version::NONE),
        Stored::Never => (Block::unset(edge), Version::NONE),
    };
    check_expected(write, current)?;
    Ok(block)
}

fn put(connection: &Connection, block: &Block) -> Result<(), Failure> {
    let row = params![
        block.edge.from.get(),
        block.edge.to.get(),
        block.version.get(),
        block.blocked.map(|at| at.0),
        block.permissions.map(|permissions| permissions.bits()),
        block.do_not_disturb.map(|at| at.0),
        block.remark.as_str(),
        block.updated.0
    ];
    run(connection, PUT, row)
}
