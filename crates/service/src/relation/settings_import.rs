//! Imports and exports the settings of users for others, with their times.

use kith_proto::{relation::v1 as wire, r#type::v1::ImportResult};
use kith_store::{
    Block, BlockList, BlockPatch, Edge, ListPosition, Permissions, Stored, Timestamp, UserId, Write,
};

use super::{Blocks, Follows, blocks::store_error, convert::edge};
use crate::{
    error::{Error, Reason, valid},
    rpc::{
        batch::{Limits, import_result, missing},
        versions::{past_moment, wire_time},
    },
};

/// Imports one user's settings for another one.
pub(super) async fn import(
    blocks: Blocks,
    follows: Follows,
    limits: Limits,
    record: wire::ImportSettings,
) -> ImportResult {
    let imported = async {
        let settings = record.settings.as_ref().ok_or_else(|| missing("settings"))?;
        let wanted = read(settings).map_err(|error| error.within("settings"))?;
        blocks.import(wanted, follows, &limits).await
    };
    import_result(record.record, imported.await)
}

/// A record as it was elsewhere. Its version is not used.
fn read(record: &wire::SettingsRecord) -> Result<Block, Error> {
    let edge = edge(record.user_id, record.target_id, "target_id")?;
    let time = |field, time: &Option<prost_types::Timestamp>| {
        time.as_ref().map(|time| past_moment(field, time)).transpose()
    };
    Ok(Block {
        blocked: time("block_time", &record.block_time)?,
        permissions: record
            .permissions
            .map(|bits| valid("permissions", Permissions::new(bits)))
            .transpose()?,
        do_not_disturb: time("do_not_disturb_time", &record.do_not_disturb_time)?,
        remark: valid("remark", Block::remark(&record.remark))?,
        ..Block::unset(edge)
    })
}

pub(super) fn to_wire(block: &Block) -> wire::SettingsRecord {
    wire::SettingsRecord {
        user_id: block.edge.from.get(),
        target_id: block.edge.to.get(),
        block_time: block.blocked.map(wire_time),
        permissions: block.permissions.map(|permissions| permissions.bits().into()),
        do_not_disturb_time: block.do_not_disturb.map(wire_time),
        remark: block.remark.to_string(),
    }
}

/// Whether two records have the same settings.
fn is_same(one: &Block, other: &Block) -> bool {
    let settings =
        |block: &Block| (block.blocked, block.permissions, block.do_not_disturb, block.remark.clone());
    settings(one) == settings(other)
}

/// The writes that make `wanted` from a record in which nothing else is set, each at its time. `None`:
/// another value is set.
fn writes(stored: &Block, wanted: &Block) -> Option<Vec<(Timestamp, BlockPatch)>> {
    let merges = |is: Option<Timestamp>, wanted: Option<Timestamp>| is.is_none() || is == wanted;
    let fits = merges(stored.blocked, wanted.blocked)
        && merges(stored.do_not_disturb, wanted.do_not_disturb)
        && (stored.permissions.is_none() || stored.permissions == wanted.permissions)
        && (stored.remark.is_empty() || stored.remark == wanted.remark);
    if !fits {
        return None;
    }
    let mut writes = Vec::new();
    let permissions = wanted.permissions.filter(|_| stored.permissions.is_none()).map(Some);
    let remark = Some(wanted.remark.clone()).filter(|_| stored.remark != wanted.remark);
    if permissions.is_some() || remark.is_some() {
        writes.push((Timestamp::now(), BlockPatch { permissions, remark, ..BlockPatch::default() }));
    }
    if let Some(at) = wanted.blocked.filter(|_| stored.blocked.is_none()) {
        writes.push((at, BlockPatch::blocked(true)));
    }
    if let Some(at) = wanted.do_not_disturb.filter(|_| stored.do_not_disturb.is_none()) {
        writes.push((at, BlockPatch { do_not_disturb: Some(true), ..BlockPatch::default() }));
    }
    Some(writes)
}

impl Blocks {
    /// Adds what is not set yet. Returns the id of the user whose settings they are.
    ///
    /// # Errors
    /// NOT_FOUND of a user, ALREADY_EXISTS, FAILED_PRECONDITION, or errors of the store.
    async fn import(&self, wanted: Block, follows: Follows, limits: &Limits) -> Result<i64, Error> {
        follows.check_users_exist(wanted.edge).await?;
        let stored = self.stored(wanted.edge).await?;
        if stored.as_ref().is_some_and(|stored| is_same(stored, &wanted)) {
            return Err(Error::new(Reason::IdTaken, "the settings are stored already"));
        }
        let stored = stored.unwrap_or_else(|| Block::unset(wanted.edge));
        let writes = writes(&stored, &wanted)
            .ok_or_else(|| Error::new(Reason::StateForbids, "other settings are stored for the user"))?;
        for (at, patch) in writes {
            let deadline = limits.import_deadline();
            self.write_block(wanted.edge, patch, &follows, Write::at(at), deadline).await?;
        }
        Ok(wanted.edge.from.get())
    }

    async fn stored(&self, edge: Edge) -> Result<Option<Block>, Error> {
        let found = self.store.blocks(&[edge]).await.map_err(store_error)?;
        Ok(found.into_iter().find_map(|(_, stored)| match stored {
            Stored::Live(block) => Some(std::sync::Arc::unwrap_or_clone(block)),
            Stored::Deleted(_) | Stored::Never => None,
        }))
    }

    /// A page of all settings that a user has made, and after which user it continues.
    pub(super) async fn export_page(
        &self,
        user: UserId,
        after: Option<UserId>,
        size: usize,
    ) -> Result<(Vec<Block>, Option<i64>), Error> {
        let after = after.map(|user| ListPosition { at: Timestamp(0), user });
        let page = self.store.block_list(user, BlockList::All, after, size).await.map_err(store_error)?;
        let next = page.last().filter(|_| page.len() == size).map(|last| last.edge.to.get());
        Ok((page, next))
    }
}
