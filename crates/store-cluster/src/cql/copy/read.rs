//! Reads tables for a backup.

use std::{collections::BTreeMap, path::Path, time::Duration};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use kith_store::StoreError;
use mongodb::bson::{Binary, Document, serialize_to_vec, spec::BinarySubtype};
use scylla::{
    client::session::Session,
    deserialize::row::ColumnIterator,
    response::{
        PagingState, PagingStateResponse,
        query_result::{QueryResult, QueryRowsResult},
    },
    statement::prepared::PreparedStatement,
};

use super::{RawCell, RowWrite, columns::Columns, now, repeated};
use crate::{
    backup::{BackupError, BackupFile, BackupProgress, BackupStore, DocumentWriter, ReportProgress},
    cql::client::{
        error::{malformed, prepare_failed, read_failed},
        schema::{CONNECTED_WITHIN, tables},
        session::Client,
    },
};

/// Parts of the token ring, each read from its beginning to its end.
const PARTS: i64 = 64;
/// Tokens in a part.
const WIDTH: i64 = 1 << 58;
/// Parts in flight.
const IN_FLIGHT: usize = 4;
const PAGE_ROWS: i32 = 1_000;
/// The time limit for a page. The server has its own, which is lower.
const LIMIT: Duration = Duration::from_secs(60);

/// A row, by column.
type RawRow = Vec<Option<Vec<u8>>>;

impl Client {
    /// Writes a file for each table.
    pub(crate) async fn back_up(
        &self,
        folder: &Path,
        report: ReportProgress<'_>,
    ) -> Result<Vec<BackupFile>, BackupError> {
        let session = self.connected(CONNECTED_WITHIN).await.map_err(BackupError::Relations)?;
        let mut files = Vec::new();
        // Memberships come before members, which they follow: so a change in between is in the members, and a
        // restore can write it into the memberships.
        for name in tables().into_iter().rev() {
            let columns = Columns::of(self, session, &name).await.map_err(BackupError::Relations)?;
            let Some(columns) = columns else { continue };
            let writing = |error| BackupError::file(folder.join(&name))(error);
            let mut writer = DocumentWriter::create(folder, BackupStore::Cql, &name).map_err(writing)?;
            let scan = TableScan::prepare(session, columns).await.map_err(BackupError::Relations)?;
            let mut writes = std::pin::pin!(scan.writes());
            while let Some(write) = writes.try_next().await.map_err(BackupError::Relations)? {
                let rows = writer.add(&write).map_err(writing)?;
                report(BackupProgress { name: &name, rows });
            }
            files.push(writer.end().map_err(writing)?);
        }
        Ok(files)
    }

    /// Whether any table has a row.
    pub(crate) async fn has_rows(&self) -> Result<bool, StoreError> {
        let session = self.connected(CONNECTED_WITHIN).await?;
        for name in tables() {
            if let Some(columns) = Columns::of(self, session, &name).await? {
                let text = format!("SELECT {} FROM {} LIMIT 1", columns.partition[0], columns.table);
                let found = session.query_unpaged(text, ()).await.map_err(|error| read_failed(&error))?;
                if rows_of(found)?.rows_num() > 0 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Reads a table, so that all rows of a partition are of one moment: they may change together.
struct TableScan<'a> {
    session: &'a Session,
    columns: Columns,
    /// Reads a part of the ring.
    part: PreparedStatement,
    /// Reads a partition.
    partition: PreparedStatement,
}

impl<'a> TableScan<'a> {
    async fn prepare(session: &'a Session, columns: Columns) -> Result<Self, StoreError> {
        let (select, ring) = (columns.select(), format!("token({})", columns.partition.join(", ")));
        let prepare = async |condition: String| {
            let prepared = session.prepare(format!("{select} WHERE {condition}")).await;
            let mut prepared = prepared.map_err(|error| prepare_failed(&error))?;
            prepared.set_page_size(PAGE_ROWS);
            prepared.set_request_timeout(Some(LIMIT));
            prepared.set_is_idempotent(true);
            Ok::<_, StoreError>(prepared)
        };
        let part = prepare(format!("{ring} >= ? AND {ring} <= ?")).await?;
        let partition = prepare(columns.partition.join(" = ? AND ") + " = ?").await?;
        Ok(Self { session, columns, part, partition })
    }

    /// All of the table, as writes that restore it.
    fn writes(&self) -> impl Stream<Item = Result<Vec<u8>, StoreError>> + '_ {
        let parts = stream::iter(0..PARTS).map(move |part| self.part(part));
        parts.flatten_unordered(IN_FLIGHT).map_ok(|page| stream::iter(page.into_iter().map(Ok))).try_flatten()
    }

    /// The pages of a part of the ring.
    fn part(&self, part: i64) -> impl Stream<Item = Result<Vec<Vec<u8>>, StoreError>> + '_ {
        let first = (part - PARTS / 2) * WIDTH;
        let last = first + (WIDTH - 1);
        let begin = Some(Place { first, last, paging: PagingState::start(), read: Vec::new() });
        Box::pin(stream::try_unfold(begin, move |place| async move {
            match place {
                Some(place) => self.page(place).await.map(Some),
                None => Ok(None),
            }
        }))
    }

    /// Reads a page. Its last partition may go on in the next page: it is read again as a whole.
    async fn page(&self, place: Place) -> Result<(Vec<Vec<u8>>, Option<Place>), StoreError> {
        let Place { first, last, paging, read } = place;
        let (found, after) = repeated(async || {
            self.session.execute_single_page(&self.part, (first, last), paging.clone()).await
        })
        .await?;
        let mut rows = raw_rows(&rows_of(found)?)?;
        let next = match after {
            PagingStateResponse::NoMorePages => None,
            PagingStateResponse::HasMorePages { state } => {
                let cut = rows.last().map_or_else(|| read.clone(), |row| self.partition_of(row).to_vec());
                Some(Place { first, last, paging: state, read: cut })
            }
        };
        rows.retain(|row| self.partition_of(row) != read);
        if let Some(Place { read: cut, .. }) = &next
            && *cut != read
        {
            rows.retain(|row| self.partition_of(row) != *cut);
            rows.extend(self.whole(cut).await?);
        }
        Ok((self.restoring(&rows)?, next))
    }

    /// Reads a partition in one request.
    async fn whole(&self, key: &[Option<Vec<u8>>]) -> Result<Vec<RawRow>, StoreError> {
        let found = repeated(async || {
            let key: Vec<RawCell> = key.iter().flatten().cloned().map(RawCell).collect();
            self.session.execute_unpaged(&self.partition, key).await
        });
        raw_rows(&rows_of(found.await?)?)
    }

    fn partition_of<'r>(&self, row: &'r RawRow) -> &'r [Option<Vec<u8>>] {
        &row[..self.columns.partition.len()]
    }

    /// The writes that restore these rows. Static cells, which each row of a partition repeats, are restored
    /// once.
    fn restoring(&self, rows: &[RawRow]) -> Result<Vec<Vec<u8>>, StoreError> {
        let (mut writes, mut last): (Vec<RowWrite>, &[_]) = (Vec::new(), &[]);
        let (keys, fixed) =
            (self.columns.partition.len() + self.columns.clustering.len(), self.columns.fixed.len());
        for row in rows {
            let (key, cells) = row.split_at(keys);
            let (fixed, regular) = cells.split_at(fixed * 3);
            if self.partition_of(row) != last {
                last = self.partition_of(row);
                let key = document(self.columns.partition.iter().zip(key));
                writes.extend(grouped(&key, self.columns.fixed.iter().zip(fixed.chunks_exact(3)))?);
            }
            // A partition may have static cells alone.
            if key.iter().all(Option::is_some) {
                let key = document(self.columns.key().zip(key));
                let cells = grouped(&key, self.columns.regular.iter().zip(regular.chunks_exact(3)))?;
                if cells.is_empty() {
                    writes.push(RowWrite { key, cells: Document::new(), written: 1, expires: None });
                }
                writes.extend(cells);
            }
        }
        writes.iter().map(|write| serialize_to_vec(write).map_err(|_| malformed("row"))).collect()
    }
}

/// Where a scan is.
struct Place {
    first: i64,
    last: i64,
    paging: PagingState,
    /// The key of the partition that was read as a whole already.
    read: Vec<Option<Vec<u8>>>,
}

/// Groups cells by when they were written and when they expire. Each is a value, a time and what is left.
fn grouped<'a>(
    key: &Document,
    cells: impl Iterator<Item = (&'a String, &'a [Option<Vec<u8>>])>,
) -> Result<Vec<RowWrite>, StoreError> {
    let (mut groups, now) = (BTreeMap::<_, Document>::new(), now());
    for (name, cell) in cells {
        let [Some(value), Some(written), left] = cell else { continue };
        let written = i64::from_be_bytes(written.as_slice().try_into().map_err(|_| malformed("WRITETIME"))?);
        let left = left.as_ref().map(|left| left.as_slice().try_into().map(i32::from_be_bytes));
        let left = left.transpose().map_err(|_| malformed("TTL"))?;
        let expires = left.map(|left| now + i64::from(left));
        groups.entry((written, expires)).or_default().insert(name, binary(value));
    }
    let write = |((written, expires), cells)| RowWrite { key: key.clone(), cells, written, expires };
    Ok(groups.into_iter().map(write).collect())
}

fn document<'a>(values: impl Iterator<Item = (&'a String, &'a Option<Vec<u8>>)>) -> Document {
    values.filter_map(|(name, value)| Some((name.clone(), binary(value.as_ref()?).into()))).collect()
}

fn binary(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

fn rows_of(found: QueryResult) -> Result<QueryRowsResult, StoreError> {
    found.into_rows_result().map_err(|_| malformed("rows"))
}

fn raw_rows(found: &QueryRowsResult) -> Result<Vec<RawRow>, StoreError> {
    let mut rows = Vec::with_capacity(found.rows_num());
    for row in found.rows::<ColumnIterator<'_, '_>>().map_err(|_| malformed("row"))? {
        let columns = row.map_err(|_| malformed("row"))?;
        let cell = |column: Result<scylla::deserialize::row::RawColumn<'_, '_>, _>| {
            column
                .map(|column| column.slice.map(|bytes| bytes.as_slice().to_vec()))
                .map_err(|_| malformed("row"))
        };
        rows.push(columns.map(cell).collect::<Result<RawRow, StoreError>>()?);
    }
    Ok(rows)
}
