//! Sequences: a row for each, with its last block's end.

use async_trait::async_trait;
use kith_store::{SEQUENCES_READ, Seq, SeqRange, SequenceName, SequenceStore, StoreError, at_most};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::Sqlite;

/// Uses the primary key.
pub(crate) const LAST: &str = "SELECT last FROM sequences WHERE name = ?1";
const TAKE: &str = "INSERT INTO sequences (name, last) VALUES (?1, ?2 + ?3)
    ON CONFLICT (name) DO UPDATE SET last = max(last, ?2) + ?3 RETURNING last";

#[async_trait]
impl SequenceStore for Sqlite {
    async fn take_seqs(&self, name: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError> {
        let name = name.clone();
        let take = move |connection: &Connection| {
            let mut take = connection.prepare_cached(TAKE)?;
            let last: Seq = take.query_row(params![name.as_str(), above, count], |row| row.get(0))?;
            Ok(SeqRange { first: last - i64::from(count) + 1, last })
        };
        self.writer.write(take).await
    }

    async fn max_seqs(&self, names: &[SequenceName]) -> Result<Vec<Seq>, StoreError> {
        at_most(names.len(), SEQUENCES_READ)?;
        let names = names.to_vec();
        let read = move |connection: &Connection| {
            let mut read = connection.prepare_cached(LAST)?;
            let mut last = |name: &SequenceName| -> rusqlite::Result<Seq> {
                let last: Option<Seq> = read.query_row([name.as_str()], |row| row.get(0)).optional()?;
                Ok(last.unwrap_or(0))
            };
            Ok(names.iter().map(&mut last).collect::<rusqlite::Result<_>>()?)
        };
        self.readers.read(read).await
    }
}
