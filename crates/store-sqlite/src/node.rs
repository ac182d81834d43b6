//! The node's data: ids, epoch, keys, liveness.

use std::time::Duration;

use async_trait::async_trait;
use kith_store::{Epoch, IdBlock, IdKind, NodeStore, StoreError, Timestamp};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt, unavailable},
    request,
    statement::{first, run},
    user,
};

const ALLOCATE: &str = "INSERT INTO id_counters (kind, next) VALUES (?1, ?2 + ?3)
    ON CONFLICT (kind) DO UPDATE SET next = max(next, ?2) + ?3 RETURNING next";
const EPOCH: &str = "SELECT value, server FROM node_state WHERE name = 'epoch'";
const RAISE: &str = "INSERT INTO node_state (name, value, server) VALUES ('epoch', ?1 + 1, ?2)
    ON CONFLICT (name) DO UPDATE SET value = ?1 + 1, server = ?2 WHERE value = ?1";
const KEEP_KEY: &str = "INSERT OR IGNORE INTO node_keys (name, key) VALUES (?1, ?2)";
const KEY: &str = "SELECT key FROM node_keys WHERE name = ?1";

#[async_trait]
impl NodeStore for Sqlite {
    fn backend(&self) -> &'static str {
        "sqlite"
    }

    /// Asks a reader, and the writer whether a write could begin; it writes nothing for that.
    async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        let ask = |connection: &Connection| Ok(connection.query_row("SELECT 1", [], |_| Ok(()))?);
        let both = async { tokio::try_join!(self.readers.read(ask), self.writer.ping()) };
        let answered = tokio::time::timeout(limit, both).await;
        answered.map_err(|_| unavailable("sqlite did not answer in time"))?.map(|_| ())
    }

    async fn clock(&self, _limit: Duration) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn allocate_ids(&self, kind: IdKind, count: u32) -> Result<IdBlock, StoreError> {
        self.writer
            .write(move |connection| {
                let mut allocate = connection.prepare_cached(ALLOCATE)?;
                let row = params![kind.name(), IdKind::FIRST_ALLOCATED, count];
                let next: i64 = allocate.query_row(row, |row| row.get(0))?;
                Ok(IdBlock { first: next - i64::from(count), count })
            })
            .await
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        self.readers.read(epoch).await
    }

    async fn raise_epoch(&self, seen: u64, server: &str) -> Result<Epoch, StoreError> {
        let server = server.to_owned();
        self.writer
            .write(move |connection| {
                if epoch(connection)?.number == seen {
                    let seen = i64::try_from(seen).map_err(|_| corrupt("node_state.epoch"))?;
                    run(connection, RAISE, params![seen, server])?;
                }
                epoch(connection)
            })
            .await
    }

    async fn key(&self, name: &str, candidate: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let name = name.to_owned();
        self.writer
            .write(move |connection| {
                run(connection, KEEP_KEY, params![name, candidate])?;
                Ok(connection.prepare_cached(KEY)?.query_row([name], |row| row.get(0))?)
            })
            .await
    }

    /// Also erases the names of deleted users that are free by now.
    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.writer
            .write(move |connection| {
                user::free_names(connection, now)?;
                request::forget(connection, now)
            })
            .await
    }
}

fn epoch(connection: &Connection) -> Result<Epoch, Failure> {
    let epoch = first(connection, EPOCH, [], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
    let (number, server) = epoch.unwrap_or_default();
    Ok(Epoch { number: u64::try_from(number).map_err(|_| corrupt("node_state.epoch"))?, server })
}
