//! Writes tables from a backup.

use std::{collections::HashMap, path::Path, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::StoreError;
use mongodb::bson::{Bson, Document, deserialize_from_slice};
use scylla::{client::session::Session, statement::prepared::PreparedStatement};
use tokio::sync::Mutex;

use super::{RawCell, RowWrite, columns::Columns, now, repeated};
use crate::{
    backup::{BackupError, BackupFile, BackupProgress, DocumentReader, ReportProgress},
    cql::client::{
        error::{malformed, prepare_failed},
        schema::CONNECTED_WITHIN,
        session::Client,
    },
};

/// Writes in flight.
const IN_FLIGHT: usize = 128;
/// The time limit for a write. The server has its own, which is lower.
const LIMIT: Duration = Duration::from_secs(30);

impl Client {
    /// Drops the tables, with all that is left of their rows, and creates those of this migration.
    pub(crate) async fn recreate(&self, newest: u32) -> Result<(), BackupError> {
        self.recreate_tables(newest).await.map_err(BackupError::Relations)
    }

    /// Writes a table's rows. What would have expired since the backup is left out: a restored database is as
    /// if its nodes had been stopped since then.
    pub(crate) async fn load(
        &self,
        folder: &Path,
        file: &BackupFile,
        report: ReportProgress<'_>,
    ) -> Result<(), BackupError> {
        let path = file.path(folder);
        let session = self.connected(CONNECTED_WITHIN).await.map_err(BackupError::Relations)?;
        let columns = Columns::of(self, session, &file.name).await.map_err(BackupError::Relations)?;
        let columns = columns.ok_or_else(|| BackupError::Damaged(path.clone()))?;
        let table = TableWriter { session, columns, prepared: Mutex::default() };
        let documents = DocumentReader::open(file, folder).map_err(BackupError::file(&path))?;
        let writes = stream::iter(documents).map(|document| async {
            let document = document.map_err(BackupError::file(&path))?;
            table.write(&document).await.map_err(BackupError::Relations)
        });
        let mut writes = std::pin::pin!(writes.buffer_unordered(IN_FLIGHT));
        let mut rows = 0;
        while writes.try_next().await?.is_some() {
            rows += 1;
            report(BackupProgress { name: &file.name, rows });
        }
        Ok(())
    }
}

struct TableWriter<'a> {
    session: &'a Session,
    columns: Columns,
    /// The statements that were prepared, by their text.
    prepared: Mutex<HashMap<String, PreparedStatement>>,
}

impl TableWriter<'_> {
    async fn write(&self, document: &[u8]) -> Result<(), StoreError> {
        let RowWrite { key, cells, written, expires } =
            deserialize_from_slice(document).map_err(|_| malformed("row"))?;
        let left = expires.map(|expires| expires - now());
        if left.is_some_and(|left| left <= 0) {
            return Ok(());
        }
        let left = i32::try_from(left.unwrap_or_default()).map_err(|_| malformed("e"))?;
        let statement = self.prepared(&self.text(&key, &cells)?).await?;
        let times = [written.to_be_bytes().to_vec(), left.to_be_bytes().to_vec()].map(RawCell);
        let (key, cells) = (values(&key)?, values(&cells)?);
        let values = if cells.is_empty() {
            [key, times.to_vec()].concat()
        } else {
            [times.to_vec(), cells, key].concat()
        };
        repeated(async || self.session.execute_unpaged(&statement, &values).await).await.map(drop)
    }

    /// The statement. An update makes cells and nothing else. A row that has only its key needs an insert: it
    /// is a note that anything later replaces, and the server does not say when it was written.
    fn text(&self, key: &Document, cells: &Document) -> Result<String, StoreError> {
        let is_known =
            |name: &String| self.columns.key().chain(self.columns.cells()).any(|known| known == name);
        if !key.keys().chain(cells.keys()).all(is_known) {
            return Err(malformed("column"));
        }
        let table = &self.columns.table;
        let names = |of: &Document, after: &str| -> Vec<String> {
            of.keys().map(|name| format!("{name}{after}")).collect()
        };
        if cells.is_empty() {
            let (columns, marks) = (names(key, "").join(", "), vec!["?"; key.len()].join(", "));
            return Ok(format!(
                "INSERT INTO {table} ({columns}) VALUES ({}) USING TIMESTAMP ? AND TTL ?",
                marks
            ));
        }
        let (cells, key) = (names(cells, " = ?").join(", "), names(key, " = ?").join(" AND "));
        let text = format!("UPDATE {table} USING TIMESTAMP ? AND TTL ? SET {} WHERE {}", cells, key);
        Ok(text)
    }

    async fn prepared(&self, text: &str) -> Result<PreparedStatement, StoreError> {
        let mut known = self.prepared.lock().await;
        if let Some(prepared) = known.get(text) {
            return Ok(prepared.clone());
        }
        let prepared = self.session.prepare(text).await;
        let mut prepared = prepared.map_err(|error| prepare_failed(&error))?;
        prepared.set_is_idempotent(true);
        prepared.set_request_timeout(Some(LIMIT));
        known.insert(text.to_owned(), prepared.clone());
        Ok(prepared)
    }
}

fn values(of: &Document) -> Result<Vec<RawCell>, StoreError> {
    let value = |value: &Bson| match value {
        Bson::Binary(binary) => Ok(RawCell(binary.bytes.clone())),
        _ => Err(malformed("row")),
    };
    of.values().map(value).collect()
}
