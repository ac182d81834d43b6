//! Audience readers' marks: `{_id: {a, r}, a, o, s, v, w: {"12": word}}`, audience, reader, ordinal, since,
//! version and words by page. `reader_counters` has each audience's next ordinal: separate from the audience,
//! whose version shows that a notice has changed.

pub(in crate::mongo) mod ordinals;

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use kith_store::{
    AudienceId, BATCH_MAX, MarkedReader, NoticeReader, NoticeReaderStore, NoticeRefusal, READERS_AT_ONCE,
    READERS_SCANNED, ReadBits, ReaderExtent, ReaderId, ReaderKey, ReaderMark, ReaderOrdinal, SLOTS_AT_ONCE,
    ScannedReader, Slot, StoreError, Timestamp, Version, at_most,
};
use mongodb::{
    bson::{Document, RawDocument, RawDocumentBuf, doc},
    error::{Error, ErrorKind},
    options::{Hint, ReadConcern, ReturnDocument},
};

use crate::mongo::{
    database::Mongo,
    document::{count, fields, moment, number, number_in, version},
    error::{malformed, read_failed, write_failed},
    record::all,
};

const DUPLICATE_KEY: i32 = 11000;
/// The fewest ordinals that a node takes: many readers' first marks would all update one counter. Unused
/// ordinals are lost when a node stops.
const BLOCK: usize = 64;
/// The index on ordinals.
const ORDINAL: &str = "ordinal";

#[async_trait]
impl NoticeReaderStore for Mongo {
    async fn readers(&self, keys: &[ReaderKey], strong: bool) -> Result<Vec<NoticeReader>, StoreError> {
        let _permit = self.admit()?;
        at_most(keys.len(), BATCH_MAX)?;
        let concern = if strong { ReadConcern::linearizable() } else { ReadConcern::majority() };
        self.readers_by(keys.iter().copied().collect(), concern).await
    }

    async fn register_readers(
        &self,
        audience: AudienceId,
        readers: &[(ReaderId, Timestamp)],
        most: ReaderOrdinal,
    ) -> Result<Vec<NoticeReader>, StoreError> {
        let _permit = self.admit()?;
        at_most(readers.len(), READERS_AT_ONCE)?;
        let key = |reader: &ReaderId| ReaderKey { audience, reader: *reader };
        let mut wanted: BTreeMap<ReaderKey, Timestamp> = BTreeMap::new();
        for (reader, since) in readers {
            wanted.entry(key(reader)).or_insert(*since);
        }
        let known = self.readers_by(wanted.keys().copied().collect(), ReadConcern::majority()).await?;
        for known in known {
            wanted.remove(&known.key);
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let ordinals = self.take_ordinals(audience, wanted.len(), most).await?;
        let (version, bits) = (Version::FIRST, ReadBits::default());
        let new = wanted.into_iter().zip(ordinals).map(|((key, since), ordinal)| NoticeReader {
            key,
            version,
            ordinal,
            since,
            bits: bits.clone(),
        });
        self.insert_readers(new.collect()).await
    }

    async fn mark_reader(
        &self,
        key: ReaderKey,
        mark: ReaderMark,
        dead_pages: &[u32],
    ) -> Result<Option<MarkedReader>, StoreError> {
        let _permit = self.admit()?;
        at_most(mark.slots().len(), SLOTS_AT_ONCE)?;
        if let Some((differs, update)) = mark_update(&mark, dead_pages) {
            let mut filter = doc! { "_id": id(key) };
            filter.insert("$or", differs);
            let change = self.notice_readers.find_one_and_update(filter, update);
            let change = change.return_document(ReturnDocument::After).max_time(self.options.command);
            if let Some(after) = change.await.map_err(write_failed)? {
                return Ok(Some(MarkedReader { reader: reader(&after)?, is_changed: true }));
            }
        }
        // It changes nothing, or the reader is not registered.
        let found = self.find_one(&self.notice_readers, doc! { "_id": id(key) }).await?;
        let found = found.as_deref().map(reader).transpose()?;
        Ok(found.map(|reader| MarkedReader { reader, is_changed: false }))
    }

    async fn scan_readers(
        &self,
        audience: AudienceId,
        from: ReaderOrdinal,
        end: ReaderOrdinal,
        page: u32,
        limit: usize,
    ) -> Result<Vec<ScannedReader>, StoreError> {
        let _permit = self.admit()?;
        at_most(limit, READERS_SCANNED)?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let ordinals = doc! { "$gte": i64::from(from), "$lt": i64::from(end) };
        let find = self.notice_readers.find(doc! { "a": i64::from(audience.get()), "o": ordinals });
        let find = find.projection(doc! { "_id": 1, "o": 1, "s": 1, word_of(page): 1 });
        let find = find.sort(doc! { "a": 1, "o": 1 }).hint(Hint::Name(ORDINAL.to_owned()));
        let find = find.limit(count(limit)).batch_size(u32::try_from(limit).unwrap_or(u32::MAX));
        let cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        all(cursor, |found| scanned(found, page)).await
    }

    async fn count_readers(&self, audience: AudienceId) -> Result<ReaderExtent, StoreError> {
        let _permit = self.admit()?;
        let of_audience = || doc! { "a": i64::from(audience.get()) };
        let hint = || Hint::Name(ORDINAL.to_owned());
        let count = self.notice_readers.count_documents(of_audience()).hint(hint());
        let readers = count.max_time(self.options.command).await.map_err(read_failed)?;
        let last = self.notice_readers.find_one(of_audience()).sort(doc! { "a": -1, "o": -1 });
        let last = last.projection(doc! { "o": 1 }).max_time(self.options.command);
        let last = last.await.map_err(read_failed)?;
        let end = last.as_deref().map(ordinal_in).transpose()?.map_or(0, |last| last.saturating_add(1));
        Ok(ReaderExtent { readers, end })
    }
}

impl Mongo {
    /// Reserves this many ordinals that no other reader in the audience has or will have, all below `most`.
    async fn take_ordinals(
        &self,
        audience: AudienceId,
        count: usize,
        most: ReaderOrdinal,
    ) -> Result<Vec<ReaderOrdinal>, StoreError> {
        let mut taken = self.ordinals.take(audience, count);
        let missing = i64::try_from(count - taken.len()).unwrap_or(i64::MAX);
        if missing > 0 {
            let block = missing.max(i64::try_from(BLOCK).unwrap_or(i64::MAX));
            let add = vec![doc! { "$set": { "next": { "$add": [{ "$ifNull": ["$next", 0_i64] }, block] } } }];
            let id = doc! { "_id": i64::from(audience.get()) };
            let after = self.upsert(&self.reader_counters, id, add.into()).await?;
            let end = number_in(&after, "next")?.ok_or_else(|| malformed("next"))?;
            taken.extend(end - block..end - block + missing);
            self.ordinals.keep(audience, end - block + missing..end);
        }
        let fits = |ordinal: i64| ReaderOrdinal::try_from(ordinal).ok().filter(|ordinal| *ordinal < most);
        let taken: Option<Vec<ReaderOrdinal>> = taken.into_iter().map(fits).collect();
        taken.ok_or_else(|| NoticeRefusal::TooManyReaders.into())
    }

    async fn readers_by(
        &self,
        keys: HashSet<ReaderKey>,
        concern: ReadConcern,
    ) -> Result<Vec<NoticeReader>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let limit = keys.len();
        let filter = doc! { "_id": { "$in": keys.into_iter().map(id).collect::<Vec<_>>() } };
        all(self.cursor(&self.notice_readers, filter, None, limit, concern).await?, reader).await
    }

    /// Inserts readers, and returns those that another caller has not just inserted.
    async fn insert_readers(&self, mut new: Vec<NoticeReader>) -> Result<Vec<NoticeReader>, StoreError> {
        let documents: Vec<RawDocumentBuf> = new.iter().map(document).collect::<Result<_, _>>()?;
        let insert = self.notice_readers.insert_many(documents).ordered(false);
        let Err(error) = insert.await else { return Ok(new) };
        let Some(duplicates) = duplicates(&error) else { return Err(write_failed(error)) };
        let refused: HashSet<ReaderKey> =
            duplicates.iter().filter_map(|at| new.get(*at)).map(|reader| reader.key).collect();
        new.retain(|reader| !refused.contains(&reader.key));
        let expected = refused.len();
        if self.readers_by(refused, ReadConcern::majority()).await?.len() < expected {
            // An ordinal was taken: the counter was changed by hand.
            return Err(malformed("reader_counters.next"));
        }
        Ok(new)
    }
}

/// The documents in an insert that a unique index refused, if nothing else failed.
fn duplicates(error: &Error) -> Option<Vec<usize>> {
    let ErrorKind::InsertMany(failed) = &*error.kind else { return None };
    let refused = failed.write_errors.as_ref().filter(|_| failed.write_concern_error.is_none())?;
    refused.iter().map(|refused| (refused.code == DUPLICATE_KEY).then_some(refused.index)).collect()
}

/// Alternative conditions on a reader that a mark changes, and the change. `None`: it changes no reader.
///
/// `$bitsAllSet` and no `$bitsAnyClear`: that does not match a reader without a word. Positions and no mask:
/// a mask with bit 63 is negative, and refused.
fn mark_update(mark: &ReaderMark, dead_pages: &[u32]) -> Option<(Vec<Document>, Document)> {
    let words = words_of(mark.slots());
    let mut update = doc! { "$inc": { "v": 1_i64 } };
    let differs: Vec<Document> = match mark {
        ReaderMark::Forget(since) => {
            update.insert("$set", doc! { "w": {} });
            update.insert("$max", doc! { "s": since.0 });
            return Some((vec![doc! { "s": { "$lt": since.0 } }, doc! { "w": { "$ne": {} } }], update));
        }
        ReaderMark::Read(_) => {
            let bits = words.iter().map(|(page, word)| (word_of(*page), doc! { "or": signed(*word) }.into()));
            update.insert("$bit", bits.collect::<Document>());
            let lacks = |(page, word): (&u32, &u64)| {
                doc! { word_of(*page): { "$not": { "$bitsAllSet": positions(*word) } } }
            };
            words.iter().map(lacks).collect()
        }
        ReaderMark::Unread(_) => {
            let bits =
                words.iter().map(|(page, word)| (word_of(*page), doc! { "and": signed(!*word) }.into()));
            update.insert("$bit", bits.collect::<Document>());
            let has =
                |(page, word): (&u32, &u64)| doc! { word_of(*page): { "$bitsAnySet": positions(*word) } };
            words.iter().map(has).collect()
        }
    };
    let dead = dead_pages.iter().filter(|page| !words.contains_key(page));
    let dead: Document = dead.map(|page| (word_of(*page), "".into())).collect();
    if !dead.is_empty() {
        update.insert("$unset", dead);
    }
    (!differs.is_empty()).then_some((differs, update))
}

/// The bits for these slots, by page.
fn words_of(slots: &[Slot]) -> BTreeMap<u32, u64> {
    ReadBits::default().with(slots).words().collect()
}

fn positions(word: u64) -> Vec<i32> {
    (0..64).filter(|bit| word & (1 << bit) != 0).collect()
}

/// Converts the bits to the number that MongoDB stores.
const fn signed(word: u64) -> i64 {
    word.cast_signed()
}

fn word_of(page: u32) -> String {
    format!("w.{page}")
}

fn id(key: ReaderKey) -> Document {
    doc! { "a": i64::from(key.audience.get()), "r": key.reader.get() }
}

fn document(new: &NoticeReader) -> Result<RawDocumentBuf, StoreError> {
    let document = doc! {
        "_id": id(new.key),
        "a": i64::from(new.key.audience.get()),
        "o": i64::from(new.ordinal),
        "s": new.since.0,
        "v": new.version.get(),
        "w": {},
    };
    RawDocumentBuf::try_from(&document).map_err(|_| malformed("reader"))
}

fn reader(document: &RawDocument) -> Result<NoticeReader, StoreError> {
    let mut reader = NoticeReader {
        key: key_in(document)?,
        version: Version::NONE,
        ordinal: ordinal_in(document)?,
        since: Timestamp(0),
        bits: ReadBits::default(),
    };
    for field in fields(document) {
        let (name, value) = field?;
        match name {
            "v" => reader.version = version(value)?,
            "s" => reader.since = moment(value, "s")?,
            "w" => reader.bits = bits(value.as_document().ok_or_else(|| malformed("w"))?)?,
            _ => {}
        }
    }
    if reader.version == Version::NONE { Err(malformed("v")) } else { Ok(reader) }
}

fn scanned(document: &RawDocument, page: u32) -> Result<ScannedReader, StoreError> {
    let words = document.get("w").map_err(|_| malformed("w"))?.and_then(|words| words.as_document());
    let bits = words.map(bits).transpose()?.unwrap_or_default();
    let (ordinal, reader) = (ordinal_in(document)?, key_in(document)?.reader);
    let since = Timestamp(number_in(document, "s")?.ok_or_else(|| malformed("s"))?);
    Ok(ScannedReader { ordinal, reader, since, word: bits.word(page) })
}

fn bits(words: &RawDocument) -> Result<ReadBits, StoreError> {
    let word = |field: Result<crate::mongo::document::Field<'_>, StoreError>| {
        let (page, word) = field?;
        let page = page.parse().map_err(|_| malformed("w"))?;
        Ok((page, number(word, "w")?.cast_unsigned()))
    };
    Ok(ReadBits::new(fields(words).map(word).collect::<Result<Vec<_>, StoreError>>()?))
}

fn key_in(document: &RawDocument) -> Result<ReaderKey, StoreError> {
    let id = document.get_document("_id").map_err(|_| malformed("_id"))?;
    let number = |field| number_in(id, field)?.ok_or_else(|| malformed("_id"));
    let audience = AudienceId::new(number("a")?).map_err(|_| malformed("_id"))?;
    Ok(ReaderKey { audience, reader: ReaderId::new(number("r")?).map_err(|_| malformed("_id"))? })
}

fn ordinal_in(document: &RawDocument) -> Result<ReaderOrdinal, StoreError> {
    let ordinal = number_in(document, "o")?.ok_or_else(|| malformed("o"))?;
    ReaderOrdinal::try_from(ordinal).map_err(|_| malformed("o"))
}
