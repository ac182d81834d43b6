//! Follows, their lists, and the list lengths.

use std::{sync::LazyLock, time::Duration};

use async_trait::async_trait;
use kith_store::{
    Applied, BATCH_MAX, Edge, Follow, FollowCounts, FollowList, FollowStore, IMPORT_FOLLOWS_MAX,
    ImportedFollow, ListPosition, RelationEventKind, StoreError, Stored, Timestamp, UserId, Version, Write,
    at_most,
};
use rusqlite::{Connection, params, params_from_iter};

use super::{
    blocked::is_blocked,
    counts::{Tally, counts},
    log,
};
use crate::{
    Sqlite,
    batch::BatchQuery,
    error::Failure,
    row::{edge_of, follow_of, stored_follow},
    statement::{first, run},
};

macro_rules! select {
    () => {
        "SELECT from_id, to_id, version, live, since_ms, placed_ms FROM follows"
    };
}

/// Uses the primary key.
pub(crate) static BY_EDGES: LazyLock<BatchQuery> = LazyLock::new(|| BatchQuery::by_edge(select!()));
/// Uses the primary key.
pub(crate) const STATE: &str = "SELECT from_id, to_id, version, live, since_ms, placed_ms, changed_ms
    FROM follows WHERE from_id = ?1 AND to_id = ?2";
/// Index `follows_following` alone.
pub(crate) const FOLLOWING: &str = concat!(
    select!(),
    " WHERE live = 1 AND from_id = ?1 AND (placed_ms, to_id) < (?2, ?3)
    ORDER BY placed_ms DESC, to_id DESC LIMIT ?4"
);
/// Index `follows_fans` alone.
pub(crate) const FANS: &str = concat!(
    select!(),
    " WHERE live = 1 AND to_id = ?1 AND (placed_ms, from_id) < (?2, ?3)
    ORDER BY placed_ms DESC, from_id DESC LIMIT ?4"
);
/// On conflict, the follow continues a stub.
const PUT: &str = "INSERT OR REPLACE INTO follows
        (from_id, to_id, version, live, since_ms, placed_ms, changed_ms)
    VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6)";
/// Follows in one import statement.
const IMPORTED: usize = 50;
/// Returns those that did not exist.
static IMPORT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT OR IGNORE INTO follows (from_id, to_id, version, live, since_ms, placed_ms, changed_ms)
            VALUES {}(?,?,1,1,?,?,?) RETURNING from_id, to_id",
        "(?,?,1,1,?,?,?),".repeat(IMPORTED - 1)
    )
});
/// Uses the primary key.
pub(crate) const END: &str =
    "UPDATE follows SET version = ?3, live = 0, changed_ms = ?4 WHERE from_id = ?1 AND to_id = ?2";
/// Index `follows_following` alone.
pub(crate) const ANY_FROM: &str =
    "SELECT from_id, to_id FROM follows WHERE live = 1 AND from_id = ?1 LIMIT ?2";
/// Index `follows_fans` alone.
pub(crate) const ANY_TO: &str = "SELECT from_id, to_id FROM follows WHERE live = 1 AND to_id = ?1 LIMIT ?2";
#[async_trait]
impl FollowStore for Sqlite {
    async fn follows(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Follow>)>, StoreError> {
        self.readers.by_keys(&BY_EDGES, edges, stored_follow).await
    }

    async fn follow(&self, edge: Edge, kept: Duration, write: Write) -> Result<Applied<Follow>, StoreError> {
        self.writer.once(write, move |connection, write| follow(connection, edge, kept, write.now)).await
    }

    async fn unfollow(&self, edge: Edge, write: Write) -> Result<Applied<Version>, StoreError> {
        let end = move |connection: &Connection, write: &Write| {
            end(connection, edge, Some(edge), write.now)?.ok_or_else(|| StoreError::NotFound.into())
        };
        self.writer.once(write, end).await
    }

    async fn follow_list(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<Follow>, StoreError> {
        let sql = match list {
            FollowList::Following => FOLLOWING,
            FollowList::Fans => FANS,
        };
        self.readers.page(sql, user, after, limit, follow_of).await
    }

    async fn follow_counts(&self, users: &[UserId]) -> Result<Vec<FollowCounts>, StoreError> {
        at_most(users.len(), BATCH_MAX)?;
        let users = users.to_vec();
        self.readers.read(move |connection| counts(connection, &users)).await
    }

    async fn import_follows(&self, follows: &[ImportedFollow], now: Timestamp) -> Result<(), StoreError> {
        at_most(follows.len(), IMPORT_FOLLOWS_MAX)?;
        let mut follows = follows.to_vec();
        // Neighbours in the table follow one another; the first follow on an edge counts.
        follows.sort_by_key(|one| one.edge);
        self.writer.write(move |connection| import(connection, &follows, now)).await
    }
}

/// Ends a follow and returns its last version; `None`: it is not active. If it ends a friendship, both get
/// the event that `by.from` ended it with `by.to`; `None`: they are not friends.
pub(crate) fn end(
    connection: &Connection,
    edge: Edge,
    by: Option<Edge>,
    now: Timestamp,
) -> Result<Option<Version>, Failure> {
    let Some(Known { follow, live: true, .. }) = known(connection, edge)? else { return Ok(None) };
    let version = follow.version.next();
    let row = params![edge.from.get(), edge.to.get(), version.get(), now.0];
    run(connection, END, row)?;
    Tally::of(edge, -1).note(connection)?;
    if let Some(by) = by
        && known(connection, edge.reversed())?.is_some_and(|back| back.live)
    {
        log::note(connection, by, RelationEventKind::Unfriended, now)?;
    }
    Ok(Some(version))
}

/// The stored state for an edge that existed once.
struct Known {
    follow: Follow,
    live: bool,
    changed: Timestamp,
}

fn known(connection: &Connection, edge: Edge) -> Result<Option<Known>, Failure> {
    first(connection, STATE, [edge.from.get(), edge.to.get()], |row| {
        Ok(Known { follow: follow_of(row)?, live: row.get(3)?, changed: Timestamp(row.get(6)?) })
    })
}

fn follow(connection: &Connection, edge: Edge, kept: Duration, now: Timestamp) -> Result<Follow, Failure> {
    let known = known(connection, edge)?;
    if let Some(Known { follow, live: true, .. }) = known {
        return Ok(follow);
    }
    if is_blocked(connection, edge.reversed())? {
        return Err(StoreError::Blocked.into());
    }
    let version = known.as_ref().map_or(Version::NONE, |before| before.follow.version).next();
    let former = known.filter(|stub| now.0.saturating_sub(stub.changed.0).max(0) < millis(kept));
    // If the clock was set back, a later follow still comes first in the lists.
    let placed = former.map_or(now, |stub| stub.follow.placed.min(now));
    let follow = Follow { edge, version, since: now, placed };
    put(connection, &follow, now)?;
    Tally::of(edge, 1).note(connection)?;
    Ok(follow)
}

fn put(connection: &Connection, follow: &Follow, now: Timestamp) -> Result<(), Failure> {
    let (edge, version) = (follow.edge, follow.version.get());
    let row = params![edge.from.get(), edge.to.get(), version, follow.since.0, follow.placed.0, now.0];
    run(connection, PUT, row)
}

fn import(connection: &Connection, follows: &[ImportedFollow], now: Timestamp) -> Result<(), Failure> {
    let mut tally = Tally::default();
    let mut insert = connection.prepare_cached(&IMPORT)?;
    for follows in follows.chunks(IMPORTED) {
        // Unused places repeat a follow, which exists by then.
        let padded = follows.iter().chain(follows.last().into_iter().cycle()).take(IMPORTED);
        let row = |one: &ImportedFollow| [one.edge.from.get(), one.edge.to.get(), one.since.0, now.0, now.0];
        let mut inserted = insert.query(params_from_iter(padded.flat_map(row)))?;
        while let Some(row) = inserted.next()? {
            tally.add(edge_of(row)?, 1);
        }
    }
    tally.note(connection)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
