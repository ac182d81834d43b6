//! Requests that have been answered, kept in the transaction that made their write.

use kith_store::{Applied, REQUEST_KEPT, Request, StoreError, Timestamp, Write};
use rusqlite::{Connection, params};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::{Failure, corrupt, internal},
    statement::{first, run},
    writer::Writer,
};

/// The most requests that one call deletes.
const FORGET_MAX: i64 = 1000;

/// Primary key. A request counts until it is forgotten: a clock that jumps must not make a repeat take
/// effect.
pub(crate) const READ: &str = "SELECT fingerprint, reply FROM requests WHERE id = ?1";
const KEEP: &str = "INSERT OR REPLACE INTO requests (id, fingerprint, reply, at_ms) VALUES (?1, ?2, ?3, ?4)";
/// Index `requests_at`.
pub(crate) const FORGET: &str = "DELETE FROM requests WHERE rowid IN
    (SELECT rowid FROM requests WHERE at_ms <= ?1 ORDER BY at_ms LIMIT ?2)";

impl Writer {
    /// Makes a write's change, unless an earlier write with its request id did.
    pub(crate) async fn once<T, F>(&self, write: Write, change: F) -> Result<Applied<T>, StoreError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(&Connection, &Write) -> Result<T, Failure> + Send + 'static,
    {
        self.write(move |connection| once(connection, &write, || change(connection, &write))).await
    }
}

fn once<T: Serialize + DeserializeOwned>(
    connection: &Connection,
    write: &Write,
    change: impl FnOnce() -> Result<T, Failure>,
) -> Result<Applied<T>, Failure> {
    let Some(request) = &write.request else {
        return Ok(Applied { record: change()?, replayed: false });
    };
    if let Some(record) = earlier(connection, request)? {
        return Ok(Applied { record, replayed: true });
    }
    let record = change()?;
    let reply = serde_json::to_string(&record).map_err(|_| internal("a reply cannot be written down"))?;
    let row = params![request.id.as_str(), request.fingerprint, reply, write.now.0];
    run(connection, KEEP, row)?;
    Ok(Applied { record, replayed: false })
}

/// Deletes expired requests.
pub(crate) fn forget(connection: &Connection, now: Timestamp) -> Result<u64, Failure> {
    let forgotten = connection.prepare_cached(FORGET)?.execute(params![oldest(now), FORGET_MAX])?;
    Ok(u64::try_from(forgotten).unwrap_or(u64::MAX))
}

fn earlier<T: DeserializeOwned>(connection: &Connection, request: &Request) -> Result<Option<T>, Failure> {
    let kept = first(connection, READ, params![request.id.as_str()], |row| {
        Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, String>(1)?))
    });
    let Some((fingerprint, reply)) = kept? else { return Ok(None) };
    if fingerprint != request.fingerprint {
        return Err(StoreError::RequestMismatch.into());
    }
    Ok(Some(serde_json::from_str(&reply).map_err(|_| corrupt("requests.reply"))?))
}

/// Requests up to this time are expired.
fn oldest(now: Timestamp) -> i64 {
    now.0.saturating_sub(i64::try_from(REQUEST_KEPT.as_millis()).unwrap_or(i64::MAX))
}
