//! Follow rows, and the parts of the batch that writes a row.

use std::sync::Arc;

use kith_store::{Edge, Follow, FollowList, StoreError, Stored, Timestamp, UserId, Version};
use serde::{Deserialize, Serialize};

use super::bucket::{LISTS, number};
use crate::cql::client::{
    error::malformed,
    row::NamedRow,
    session::{Bound, Statement, Values, values},
};

pub(in crate::cql) const STATE: Statement =
    Statement::plain("UPDATE %k.follows SET live = ?, version = ?, since = ?, changed = ? WHERE edge = ?");
pub(in crate::cql) const ENTRY: Statement = Statement::plain(
    "UPDATE %k.follow_lists SET live = ?, version = ?, since = ? \
     WHERE owner = ? AND list = ? AND bucket = ? AND placed = ? AND other = ?",
);

/// Has its own timestamp, so that one batch may contain several versions.
const IMPORTED_ENTRY: Statement = Statement::plain(
    "UPDATE %k.follow_lists USING TIMESTAMP ? SET live = ?, version = ?, since = ? \
     WHERE owner = ? AND list = ? AND bucket = ? AND placed = ? AND other = ?",
);

/// The key that a row has.
pub(in crate::cql) fn key(edge: Edge) -> [u8; 16] {
    (u128::from(edge.from.get().cast_unsigned()) << 64 | u128::from(edge.to.get().cast_unsigned()))
        .to_be_bytes()
}

/// The edge that a row has.
pub(in crate::cql) fn edge_of(row: &NamedRow) -> Result<Edge, StoreError> {
    let key = row.bytes("edge")?.unwrap_or_default();
    let ([from, to], []) = key.as_chunks::<8>() else { return Err(malformed("edge")) };
    let user = |id: &[u8; 8]| UserId::new(i64::from_be_bytes(*id)).map_err(|_| malformed("edge"));
    Ok(Edge { from: user(from)?, to: user(to)? })
}

/// A follow's position in both lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cql) struct ListSlot {
    pub(in crate::cql) at: i64,
    pub(in crate::cql) in_following: i32,
    pub(in crate::cql) in_fans: i32,
}

/// A follow's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cql) struct State {
    pub(in crate::cql) live: bool,
    pub(in crate::cql) version: i64,
    pub(in crate::cql) since: i64,
    /// When this was written.
    pub(in crate::cql) changed: i64,
}

/// A row in `follows`. A follow that has a slot and was never active has no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cql) struct FollowRow {
    pub(in crate::cql) edge: Edge,
    /// The follow's position.
    pub(in crate::cql) slot: ListSlot,
    /// Whether the slot is from a conditional write. False: it is from an import.
    pub(in crate::cql) is_conditional: bool,
    /// The slot that an import gave it.
    pub(in crate::cql) imported_slot: Option<ListSlot>,
    pub(in crate::cql) state: Option<State>,
}

impl FollowRow {
    /// Decodes a row. `None`: it has no slot. No write by this program leaves such a row.
    pub(in crate::cql) fn of(edge: Edge, record: &NamedRow) -> Result<Option<Self>, StoreError> {
        let conditional = slot(record, ["placed", "in_following", "in_fans"])?;
        let imported_slot = slot(record, ["brought", "brought_following", "brought_fans"])?;
        let Some(current) = conditional.or(imported_slot) else { return Ok(None) };
        let state = match record.number("version")? {
            None => None,
            Some(version) => Some(State {
                live: record.some_number("live")? != 0,
                version,
                since: record.some_number("since")?,
                changed: record.some_number("changed")?,
            }),
        };
        Ok(Some(Self { edge, slot: current, is_conditional: conditional.is_some(), imported_slot, state }))
    }

    pub(in crate::cql) fn is_live(&self) -> bool {
        self.state.is_some_and(|state| state.live)
    }

    /// Returns its version, which the next version must exceed; 0: none.
    pub(in crate::cql) fn version(&self) -> i64 {
        self.state.map_or(0, |state| state.version)
    }

    /// The follow, if it was ever active.
    pub(in crate::cql) fn follow(&self) -> Result<Option<Follow>, StoreError> {
        self.state.map(|state| follow(self.edge, self.slot, state)).transpose()
    }

    pub(in crate::cql) fn stored(&self) -> Result<Stored<Follow>, StoreError> {
        match self.follow()? {
            None => Ok(Stored::Never),
            Some(follow) if self.is_live() => Ok(Stored::Live(Arc::new(follow))),
            Some(follow) => Ok(Stored::Deleted(follow.version)),
        }
    }
}

fn slot(record: &NamedRow, [at, following, fans]: [&'static str; 3]) -> Result<Option<ListSlot>, StoreError> {
    let Some(at) = record.number(at)? else { return Ok(None) };
    Ok(Some(ListSlot { at, in_following: record.small(following)?, in_fans: record.small(fans)? }))
}

pub(in crate::cql) fn follow(edge: Edge, slot: ListSlot, state: State) -> Result<Follow, StoreError> {
    let version = Version::new(state.version).ok_or_else(|| malformed("version"))?;
    Ok(Follow { edge, version, since: Timestamp(state.since), placed: Timestamp(slot.at) })
}

/// Writes the follow's state.
pub(in crate::cql) fn state_part(edge: Edge, state: State) -> Bound {
    let State { live, version, since, changed } = state;
    let row = values![live, version, since, changed, key(edge)];
    Bound(&STATE, row)
}

/// Writes its entries in both lists.
pub(in crate::cql) fn entry_parts(edge: Edge, slot: ListSlot, state: State) -> [Bound; 2] {
    LISTS.map(|list| entry_part(edge, list, slot, state))
}

/// Writes its entry in one list.
pub(in crate::cql) fn entry_part(edge: Edge, list: FollowList, slot: ListSlot, state: State) -> Bound {
    let (owner, bucket, other) = entry_key(edge, list, slot);
    Bound(&ENTRY, entry(state, owner, number(list), bucket, slot.at, other))
}

/// Like `entry_part`, but for an imported follow.
pub(in crate::cql) fn imported_entry_part(
    edge: Edge,
    list: FollowList,
    slot: ListSlot,
    state: State,
) -> Bound {
    let (owner, bucket, other) = entry_key(edge, list, slot);
    let mut row = values![state.version];
    row.extend(entry(state, owner, number(list), bucket, slot.at, other));
    Bound(&IMPORTED_ENTRY, row)
}

fn entry(state: State, owner: UserId, list: i32, bucket: i32, at: i64, other: UserId) -> Values {
    values![state.live, state.version, state.since, owner.get(), list, bucket, at, other.get()]
}

/// The list's owner, the bucket, and the user in the entry.
pub(in crate::cql) fn entry_key(edge: Edge, list: FollowList, slot: ListSlot) -> (UserId, i32, UserId) {
    match list {
        FollowList::Following => (edge.from, slot.in_following, edge.to),
        FollowList::Fans => (edge.to, slot.in_fans, edge.from),
    }
}
