//! Cleans up after deleted users.

use kith_store::{Edge, RemovedEdges, Timestamp, UserId};
use rusqlite::{Connection, Row};

use super::{block, follow};
use crate::{
    error::Failure,
    row::{edge_of, size, user_id},
    statement::{all, run},
};

/// On conflict: the latest note stays. A note holds the id: none is written for a user who is deleted
/// already, since the deletion that it announces will be refused.
const NOTE: &str = "INSERT INTO edge_removals (id, noted_ms) SELECT ?1, ?2
    WHERE NOT EXISTS (SELECT 1 FROM users WHERE id = ?1 AND deleted = 1)
    ON CONFLICT (id) DO UPDATE SET noted_ms = MAX(noted_ms, ?2)";
/// On conflict, the latest note stays.
const HOLD: &str = "INSERT INTO edge_removals (id, noted_ms) VALUES (?1, ?2)
    ON CONFLICT (id) DO UPDATE SET noted_ms = MAX(noted_ms, ?2)";
/// Uses the primary key.
const IS_NOTED: &str = "SELECT EXISTS (SELECT 1 FROM edge_removals WHERE id = ?1)";
/// Index `edge_removals_noted`.
pub(crate) const NOTED: &str = "SELECT id, noted_ms FROM edge_removals ORDER BY noted_ms LIMIT ?1";
/// Uses the primary key.
pub(crate) const END: &str = "DELETE FROM edge_removals WHERE id = ?1 AND noted_ms <= ?2";

/// Records that a user's edges are to be removed.
pub(crate) fn note(connection: &Connection, user: UserId, at: Timestamp) -> Result<(), Failure> {
    run(connection, NOTE, [user.get(), at.0])
}

/// Holds the id of a user that this transaction deletes.
pub(crate) fn hold(connection: &Connection, user: UserId, at: Timestamp) -> Result<(), Failure> {
    run(connection, HOLD, [user.get(), at.0])
}

/// Whether a user's removal is noted.
pub(crate) fn is_noted(connection: &Connection, user: UserId) -> Result<bool, Failure> {
    Ok(connection.prepare_cached(IS_NOTED)?.query_row([user.get()], |row| row.get(0))?)
}

/// The notes, the earliest first.
pub(crate) fn noted(connection: &Connection, limit: usize) -> Result<Vec<(UserId, Timestamp)>, Failure> {
    let note = |row: &Row<'_>| Ok((user_id(row, 0, "edge_removals.id")?, Timestamp(row.get(1)?)));
    all(connection, NOTED, [size(limit)], note)
}

/// Deletes a user's note, unless it is a later note.
pub(crate) fn end(connection: &Connection, user: UserId, noted: Timestamp) -> Result<(), Failure> {
    run(connection, END, [user.get(), noted.0])
}

/// Ends some of a user's follows and blocks.
pub(crate) fn remove(connection: &Connection, user: UserId, limit: usize) -> Result<RemovedEdges, Failure> {
    let now = Timestamp::now();
    let mut removed = RemovedEdges::default();
    for sql in [follow::ANY_FROM, follow::ANY_TO] {
        for edge in some(connection, sql, user, limit - removed.follows.len())? {
            follow::end(connection, edge, None, now)?;
            removed.follows.push(edge);
        }
    }
    for sql in [block::ANY_FROM, block::ANY_TO] {
        let room = limit - removed.follows.len() - removed.blocks.len();
        for edge in some(connection, sql, user, room)? {
            block::remove(connection, edge, now)?;
            removed.blocks.push(edge);
        }
    }
    Ok(removed)
}

/// Finds some of a user's edges with `sql`.
fn some(connection: &Connection, sql: &str, user: UserId, limit: usize) -> Result<Vec<Edge>, Failure> {
    all(connection, sql, [user.get(), size(limit)], edge_of)
}
