//! The marks that audience readers have: a row for each reader, by ordinal.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    AudienceId, BATCH_MAX, MarkedReader, NoticeReader, NoticeReaderStore, NoticeRefusal, READERS_AT_ONCE,
    READERS_SCANNED, ReadBits, ReaderExtent, ReaderId, ReaderKey, ReaderMark, ReaderOrdinal, SLOTS_AT_ONCE,
    ScannedReader, StoreError, Timestamp, Version, at_most,
};
use rusqlite::{Connection, Row, params, types::ValueRef};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::{size, version},
    statement::{first, run},
};

/// Bytes in a word with its page.
const PACKED: usize = 12;

/// Index `notice_readers_by_id`, then primary key.
pub(crate) const READER: &str = "SELECT ordinal, version, since_ms, words FROM notice_readers
    WHERE audience = ?1 AND reader = ?2";
/// Primary key, from its end.
pub(crate) const LAST: &str =
    "SELECT ordinal FROM notice_readers WHERE audience = ?1 ORDER BY ordinal DESC LIMIT 1";
const INSERT: &str = "INSERT INTO notice_readers (audience, ordinal, reader, version, since_ms)
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (audience, reader) DO NOTHING";
/// Uses the primary key.
pub(crate) const PUT: &str = "UPDATE notice_readers SET version = ?3, since_ms = ?4, words = ?5
    WHERE audience = ?1 AND ordinal = ?2";
/// Primary key, in order.
pub(crate) const SCAN: &str = "SELECT ordinal, reader, since_ms, words FROM notice_readers
    WHERE audience = ?1 AND ordinal >= ?2 AND ordinal < ?3 ORDER BY ordinal LIMIT ?4";

#[async_trait]
impl NoticeReaderStore for Sqlite {
    async fn readers(&self, keys: &[ReaderKey], _strong: bool) -> Result<Vec<NoticeReader>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys: HashSet<ReaderKey> = keys.iter().copied().collect();
        let read = move |connection: &Connection| {
            keys.into_iter().filter_map(|key| reader(connection, key).transpose()).collect()
        };
        self.readers.read(read).await
    }

    async fn register_readers(
        &self,
        audience: AudienceId,
        readers: &[(ReaderId, Timestamp)],
        most: ReaderOrdinal,
    ) -> Result<Vec<NoticeReader>, StoreError> {
        at_most(readers.len(), READERS_AT_ONCE)?;
        let readers = readers.to_vec();
        let register = move |connection: &Connection| register(connection, audience, &readers, most);
        self.writer.write(register).await
    }

    async fn mark_reader(
        &self,
        key: ReaderKey,
        mark: ReaderMark,
        dead_pages: &[u32],
    ) -> Result<Option<MarkedReader>, StoreError> {
        at_most(mark.slots().len(), SLOTS_AT_ONCE)?;
        let dead_pages = dead_pages.to_vec();
        self.writer.write(move |connection| make(connection, key, &mark, &dead_pages)).await
    }

    async fn scan_readers(
        &self,
        audience: AudienceId,
        from: ReaderOrdinal,
        end: ReaderOrdinal,
        page: u32,
        limit: usize,
    ) -> Result<Vec<ScannedReader>, StoreError> {
        at_most(limit, READERS_SCANNED)?;
        let scanned = move |row: &Row<'_>| {
            let reader = ReaderId::new(row.get(1)?).map_err(|_| corrupt("notice_readers.reader"))?;
            let (since, word) = (Timestamp(row.get(2)?), bits(row, 3)?.word(page));
            Ok(ScannedReader { ordinal: row.get(0)?, reader, since, word })
        };
        self.readers.all(SCAN, (audience.get(), from, end, size(limit)), scanned).await
    }

    async fn count_readers(&self, audience: AudienceId) -> Result<ReaderExtent, StoreError> {
        // Readers are never removed, and ordinals have no gaps.
        let count = move |connection: &Connection| {
            let end = next(connection, audience)?;
            Ok(ReaderExtent { readers: end.into(), end })
        };
        self.readers.read(count).await
    }
}

fn register(
    connection: &Connection,
    audience: AudienceId,
    readers: &[(ReaderId, Timestamp)],
    most: ReaderOrdinal,
) -> Result<Vec<NoticeReader>, Failure> {
    let mut insert = connection.prepare_cached(INSERT)?;
    let (mut ordinal, mut registered) = (next(connection, audience)?, Vec::new());
    for (id, since) in readers {
        let key = ReaderKey { audience, reader: *id };
        let row = params![audience.get(), ordinal, id.get(), Version::FIRST.get(), since.0];
        if insert.execute(row)? == 0 {
            continue;
        }
        if ordinal >= most {
            return Err(StoreError::from(NoticeRefusal::TooManyReaders).into());
        }
        let bits = ReadBits::default();
        registered.push(NoticeReader { key, version: Version::FIRST, ordinal, since: *since, bits });
        ordinal += 1;
    }
    Ok(registered)
}

fn make(
    connection: &Connection,
    key: ReaderKey,
    mark: &ReaderMark,
    dead_pages: &[u32],
) -> Result<Option<MarkedReader>, Failure> {
    let Some(before) = reader(connection, key)? else { return Ok(None) };
    let Some(after) = before.marked(mark, dead_pages) else {
        return Ok(Some(MarkedReader { reader: before, is_changed: false }));
    };
    let NoticeReader { version, ordinal, since, bits, .. } = &after;
    let row = params![key.audience.get(), ordinal, version.get(), since.0, packed(bits)];
    run(connection, PUT, row)?;
    Ok(Some(MarkedReader { reader: after, is_changed: true }))
}

fn next(connection: &Connection, audience: AudienceId) -> Result<ReaderOrdinal, Failure> {
    let last: Option<ReaderOrdinal> = first(connection, LAST, [audience.get()], |row| Ok(row.get(0)?))?;
    Ok(last.map_or(0, |last| last.saturating_add(1)))
}

fn reader(connection: &Connection, key: ReaderKey) -> Result<Option<NoticeReader>, Failure> {
    first(connection, READER, [i64::from(key.audience.get()), key.reader.get()], |row| {
        let (ordinal, since) = (row.get(0)?, Timestamp(row.get(2)?));
        Ok(NoticeReader { key, version: version(row, 1)?, ordinal, since, bits: bits(row, 3)? })
    })
}

fn packed(bits: &ReadBits) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (page, word) in bits.words() {
        bytes.extend(page.to_be_bytes());
        bytes.extend(word.to_be_bytes());
    }
    bytes
}

fn bits(row: &Row<'_>, at: usize) -> Result<ReadBits, Failure> {
    let bytes = match row.get_ref(at)? {
        ValueRef::Null => &[],
        value => value.as_blob().map_err(|_| corrupt("notice_readers.words"))?,
    };
    let (words, []) = bytes.as_chunks::<PACKED>() else {
        return Err(corrupt("notice_readers.words").into());
    };
    let word = |bytes: &[u8; PACKED]| {
        let page = u32::from_be_bytes(std::array::from_fn(|at| bytes[at]));
        (page, u64::from_be_bytes(std::array::from_fn(|at| bytes[4 + at])))
    };
    Ok(ReadBits::new(words.iter().map(word)))
}
