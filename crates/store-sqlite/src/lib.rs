//! The embedded store: one SQLite file, one writer with group commit, a few readers.
//!
//! [`open`] locks the file for this process; [`SqliteHandle::stores`] returns the stores for `kith-store`. A
//! write is acknowledged after its commit, which it shares with all writes that waited with it. No call
//! blocks the calling thread: the store's threads do the work, behind bounded queues.

mod application;
pub mod backup;
mod batch;
mod change;
mod condition;
mod conversation;
mod coordination;
mod data_files;
mod dialog;
mod error;
mod group;
mod identity;
mod lock;
mod member;
mod message;
mod metrics;
mod migrate;
mod node;
mod notice;
mod open;
mod open_error;
mod readers;
mod reads;
mod relation;
mod request;
mod room;
mod row;
mod secret;
mod sequence;
mod state;
mod statement;
mod strong;
mod user;
mod writer;

#[cfg(test)]
mod tests;

use std::{sync::Arc, thread::JoinHandle};

use kith_store::{Outcome, StoreError, Stores};

pub use condition::{Probe, WriteObstacle};
pub use metrics::{METRICS, Metric};
pub use open::{SqliteOptions, migration_status, open, open_in_memory, open_in_memory_with, quick_check};
pub use open_error::{MissingRight, OpenError};
pub use room::{ROOM_LEAST, free_bytes, has_room};

use crate::{change::Collecting, message::HeaderTables, readers::Readers, writer::Writer};

/// An open data file. Dropping it and all its stores also completes queued calls, but does not wait for them.
#[derive(Debug)]
pub struct SqliteHandle {
    sqlite: Arc<Sqlite>,
}

impl SqliteHandle {
    /// The stores. They outlive the handle, and answer
    /// [`Unavailable`](kith_store::StoreError::Unavailable) once it is closed.
    #[must_use]
    pub fn stores(&self) -> Stores {
        Stores {
            users: Arc::<Sqlite>::clone(&self.sqlite),
            accesses: Arc::<Sqlite>::clone(&self.sqlite),
            groups: Arc::<Sqlite>::clone(&self.sqlite),
            follows: Arc::<Sqlite>::clone(&self.sqlite),
            blocks: Arc::<Sqlite>::clone(&self.sqlite),
            relation_log: Arc::<Sqlite>::clone(&self.sqlite),
            members: Arc::<Sqlite>::clone(&self.sqlite),
            applications: Arc::<Sqlite>::clone(&self.sqlite),
            dialogs: Arc::<Sqlite>::clone(&self.sqlite),
            conversations: Arc::<Sqlite>::clone(&self.sqlite),
            erasures: Arc::<Sqlite>::clone(&self.sqlite),
            reactions: Arc::<Sqlite>::clone(&self.sqlite),
            message_upkeep: Arc::<Sqlite>::clone(&self.sqlite),
            messages: Arc::<Sqlite>::clone(&self.sqlite),
            sequences: Arc::<Sqlite>::clone(&self.sqlite),
            notices: Arc::<Sqlite>::clone(&self.sqlite),
            notice_readers: Arc::<Sqlite>::clone(&self.sqlite),
            edges: Arc::<Sqlite>::clone(&self.sqlite),
            strong: Arc::<Sqlite>::clone(&self.sqlite),
            secrets: Arc::<Sqlite>::clone(&self.sqlite),
            node: Arc::<Sqlite>::clone(&self.sqlite),
            migrations: Arc::<Sqlite>::clone(&self.sqlite),
            coordination: Arc::<Sqlite>::clone(&self.sqlite),
            // Only this process uses the file.
            fan_out_notes: None,
            changes: Arc::<Sqlite>::clone(&self.sqlite),
            changes_writer: None,
            feeds: Vec::new(),
        }
    }

    /// Reads its files' condition.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.sqlite.writer.probe()
    }

    /// Finishes the calls that are queued, writes the log back into the file, and releases its lock.
    pub async fn close(self) {
        let closed = tokio::task::spawn_blocking(move || {
            self.sqlite.readers.close().into_iter().for_each(join);
            // Last: the last connection that closes writes the log back, which a reader cannot.
            self.sqlite.writer.close().into_iter().for_each(join);
        });
        if closed.await.is_err() {
            tracing::error!("the store was not closed in good order");
        }
    }

    /// Copies this store into memory, with this many readers; the two are independent afterwards. Occupies a
    /// reader here during the copy.
    ///
    /// # Errors
    /// If this store is a file, is closed or being written, or there is no memory or no thread for the copy.
    pub async fn copy_in_memory(&self, readers: usize) -> Result<Self, StoreError> {
        self.sqlite
            .readers
            .read(move |connection| {
                let failed = |error| StoreError::Unavailable {
                    outcome: Outcome::NotApplied,
                    source: Arc::new(error) as Arc<_>,
                };
                Ok(open::copy(connection, readers).map_err(failed)?)
            })
            .await
    }

    /// Checks the whole file's integrity and returns the faults. Occupies a reader; the cost grows with the
    /// file.
    ///
    /// # Errors
    /// If the file cannot be read at all.
    pub async fn integrity_check(&self) -> Result<Vec<String>, StoreError> {
        self.sqlite
            .readers
            .read(|connection| {
                let mut check = connection.prepare("PRAGMA integrity_check")?;
                let lines = check.query_map([], |row| row.get::<_, String>(0))?;
                let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
                Ok(lines.into_iter().filter(|line| line != "ok").collect())
            })
            .await
    }
}

/// Implements the stores.
#[derive(Debug)]
struct Sqlite {
    readers: Readers,
    writer: Writer,
    header_tables: Arc<HeaderTables>,
    collecting: Collecting,
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the store panicked");
    }
}
