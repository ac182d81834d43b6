//! The embedded store, and statements that a service would write by hand with rusqlite.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use anyhow::Result;
use kith_store::{ImportedFollow, Stores};
use kith_store_sqlite::{SqliteHandle, SqliteOptions, open};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::rows::raw_writer::open_durable;

/// An embedded store in a folder that goes with it.
#[derive(Debug)]
pub(in crate::rows) struct DataFile {
    pub(in crate::rows) options: SqliteOptions,
    pub(in crate::rows) stores: Stores,
    handle: SqliteHandle,
    folder: TempDir,
}

impl DataFile {
    /// Opens an empty file.
    pub(in crate::rows) async fn open() -> Result<Self> {
        let folder = TempDir::new()?;
        let options = SqliteOptions::new(Path::new(folder.path()).join("kith.db"));
        let handle = open(options.clone()).await?;
        let stores = handle.stores();
        stores.migrations.migrate().await?;
        Ok(Self { options, stores, handle, folder })
    }

    /// Closes the file, which stays as long as the folder does.
    pub(in crate::rows) async fn close(self) -> (SqliteOptions, TempDir) {
        self.handle.close().await;
        (self.options, self.folder)
    }
}

/// Writes the rows for these follows, chunk by chunk, each in one transaction, by one connection with the
/// store's settings.
pub(in crate::rows) async fn write_rows(
    options: SqliteOptions,
    graph: Arc<[ImportedFollow]>,
    chunk: usize,
) -> Result<()> {
    tokio::task::spawn_blocking(move || {
        let mut connection = open_durable(&options)?;
        for follows in graph.chunks(chunk) {
            commit(&mut connection, follows)?;
        }
        Ok(())
    })
    .await?
}

fn commit(connection: &mut Connection, follows: &[ImportedFollow]) -> Result<()> {
    let transaction = connection.transaction()?;
    let mut counts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    {
        let mut insert =
            transaction.prepare_cached("INSERT INTO follows VALUES (?1, ?2, 1, 1, ?3, ?4, ?4)")?;
        for follow in follows {
            let (from, to) = (follow.edge.from.get(), follow.edge.to.get());
            insert.execute(params![from, to, follow.since.0, 1_700_000_000_000_i64])?;
            counts.entry(from).or_default().0 += 1;
            counts.entry(to).or_default().1 += 1;
        }
        let mut count = transaction.prepare_cached(
            "INSERT INTO follow_counts VALUES (?1, ?2, ?3)
             ON CONFLICT (id) DO UPDATE SET following = following + ?2, fans = fans + ?3",
        )?;
        for (user, (following, fans)) in counts {
            count.execute([user, following, fans])?;
        }
    }
    transaction.commit()?;
    Ok(())
}
