//! Whether a user has blocked another user: checked before each write that a block forbids.

use kith_store::Edge;
use rusqlite::Connection;

use crate::error::Failure;

/// Uses the primary key.
pub(crate) const IS_BLOCKED: &str =
    "SELECT 1 FROM blocks WHERE from_id = ?1 AND to_id = ?2 AND +blocked_ms IS NOT NULL";

/// Whether `edge.from` has blocked `edge.to`.
pub(crate) fn is_blocked(connection: &Connection, edge: Edge) -> Result<bool, Failure> {
    Ok(connection.prepare_cached(IS_BLOCKED)?.exists([edge.from.get(), edge.to.get()])?)
}
