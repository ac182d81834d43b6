//! Kept changes: `{f: feed, n: number, t: time, b: packed changes}` each, and in the collection `node` the
//! state `{_id: "changes", g: generation, dialogs, floors: {feed: number}}`.
//!
//! Entries up to their feed's floor do not count, whether they still exist or not. A floor never falls.
//! Whoever removes entries raises the floors first, by one command, and then removes in steps: readers never
//! see a part. A reader of a feed that was suspended for long cannot add an entry before those that remain.

mod removal;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use kith_store::{
    ChangesEntry, ChangesExtent, ChangesStore, ChangesWriter, ENTRIES_READ_MAX, KeptPositions, StoreError,
    Timestamp, pack_changes, unpack_changes,
};
use mongodb::{
    bson::{Binary, Bson, Document, RawDocument, RawDocumentBuf, doc, rawdoc, spec::BinarySubtype},
    options::Hint,
};

use super::{
    database::Mongo,
    document::{count, fields, number, number_in},
    error::{is_duplicate, malformed, read_failed, write_failed},
    record::all,
};

/// The state's id.
const STATE: &str = "changes";
/// The index by feed and number.
const POSITION: &str = "position";

/// A number of each feed.
type Numbers = BTreeMap<String, i64>;

#[derive(Debug, Default)]
struct ChangesState {
    /// `None`: changes are not kept.
    generation: Option<i64>,
    dialogs: bool,
    /// The numbers up to which no entries are kept; 0 for other feeds.
    floors: Numbers,
}

impl ChangesState {
    fn floor(&self, feed: &str) -> i64 {
        self.floors.get(feed).copied().unwrap_or(0)
    }
}

#[async_trait]
impl ChangesStore for Mongo {
    async fn changes_extent(&self) -> Result<Option<ChangesExtent>, StoreError> {
        let _permit = self.admit()?;
        let state = self.changes_state().await?;
        let Some(generation) = state.generation else { return Ok(None) };
        let mut last = self.last_numbers().await?;
        for (feed, floor) in &state.floors {
            let last = last.entry(feed.clone()).or_default();
            *last = (*last).max(*floor);
        }
        let kept = |(feed, last): (String, i64)| {
            let first = state.floor(&feed) + 1;
            (feed, KeptPositions { first, last })
        };
        Ok(Some(ChangesExtent {
            generation: generation.cast_unsigned(),
            dialogs: state.dialogs,
            feeds: last.into_iter().map(kept).collect(),
        }))
    }

    async fn changes_after(&self, feed: &str, after: i64) -> Result<Vec<ChangesEntry>, StoreError> {
        let _permit = self.admit()?;
        let after = self.changes_state().await?.floor(feed).max(after);
        let find = self.changes.find(doc! { "f": feed, "n": { "$gt": after } }).sort(doc! { "n": 1 });
        let find = find.limit(count(ENTRIES_READ_MAX)).hint(Hint::Name(POSITION.to_owned()));
        let found = find.max_time(self.options.command).await.map_err(read_failed)?;
        all(found, |document| entry(feed, document)).await
    }

    async fn begin_generation(&self, dialogs: bool) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let generation: i64 = rand::random();
        // An entry that is added after this read belongs to the new generation: that is no harm.
        let floors = self.last_numbers().await?;
        let begin = doc! { "$set": { "g": generation, "dialogs": dialogs } };
        self.raise_floors(&floors, begin).await.map(drop)
    }

    async fn end_changes(&self) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let Some(generation) = self.changes_state().await?.generation else { return Ok(()) };
        let floors = self.last_numbers().await?;
        let state = self.raise_floors(&floors, Document::new()).await?;
        while self.remove_below(&state.floors).await? {}
        // Comes last, so that an end that was interrupted is repeated. Another node may have begun a new
        // generation meanwhile, which stays.
        let ended = doc! { "_id": STATE, "g": generation };
        self.node.update_one(ended, doc! { "$unset": { "g": "" } }).await.map(drop).map_err(write_failed)
    }

    async fn trim_changes(&self, kept: Duration, bytes_max: u64) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        self.remove_oldest(Timestamp::now().before(kept), bytes_max).await
    }
}

#[async_trait]
impl ChangesWriter for Mongo {
    async fn append_changes(&self, entry: &ChangesEntry) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        let packed = Binary { subtype: BinarySubtype::Generic, bytes: pack_changes(&entry.changes) };
        let document = rawdoc! { "f": &*entry.feed, "n": entry.number, "t": entry.written.0, "b": packed };
        match self.changes.insert_one(document).await {
            Ok(_) => Ok(true),
            Err(error) if is_duplicate(&error) => Ok(false),
            Err(error) => Err(write_failed(error)),
        }
    }
}

impl Mongo {
    async fn changes_state(&self) -> Result<ChangesState, StoreError> {
        let found = self.find_one(&self.node, doc! { "_id": STATE }).await?;
        found.map_or_else(|| Ok(ChangesState::default()), |found| state_in(&found))
    }

    /// Raises floors to these numbers, makes another change to the state in the same command, and returns
    /// the state after it.
    async fn raise_floors(&self, floors: &Numbers, mut change: Document) -> Result<ChangesState, StoreError> {
        let raise: Document =
            floors.iter().map(|(feed, floor)| (format!("floors.{feed}"), Bson::from(*floor))).collect();
        change.insert("$max", raise);
        let raised = self.upsert(&self.node, doc! { "_id": STATE }, change.into()).await?;
        state_in(&raised)
    }

    /// The last entry of each feed that has any. The index is searched once for each feed.
    async fn last_numbers(&self) -> Result<Numbers, StoreError> {
        let last = [
            doc! { "$sort": { "f": -1, "n": -1 } },
            doc! { "$group": { "_id": "$f", "last": { "$first": "$n" } } },
        ];
        let find = self.changes.aggregate(last).hint(Hint::Name(POSITION.to_owned()));
        let found = find.max_time(self.options.command).with_type::<RawDocumentBuf>();
        let found = all(found.await.map_err(read_failed)?, |document| {
            let feed = document.get_str("_id").map_err(|_| malformed("f"))?;
            Ok((feed.to_owned(), number_in(document, "last")?.ok_or_else(|| malformed("n"))?))
        });
        found.await.map(Numbers::from_iter)
    }
}

fn state_in(document: &RawDocument) -> Result<ChangesState, StoreError> {
    let floors = document.get("floors").map_err(|_| malformed("floors"))?;
    let floors = floors.and_then(|floors| floors.as_document()).map(fields).into_iter().flatten();
    let floor = |field| {
        let (feed, floor): (&str, _) = field?;
        Ok((feed.to_owned(), number(floor, "floors")?))
    };
    Ok(ChangesState {
        generation: number_in(document, "g")?,
        dialogs: document.get_bool("dialogs").unwrap_or_default(),
        floors: floors.map(floor).collect::<Result<_, StoreError>>()?,
    })
}

fn entry(feed: &str, document: &RawDocument) -> Result<ChangesEntry, StoreError> {
    let packed = document.get_binary("b").map_err(|_| malformed("b"))?;
    Ok(ChangesEntry {
        feed: feed.to_owned(),
        number: number_in(document, "n")?.ok_or_else(|| malformed("n"))?,
        written: Timestamp(number_in(document, "t")?.ok_or_else(|| malformed("t"))?),
        changes: unpack_changes(packed.bytes).ok_or_else(|| malformed("b"))?,
    })
}
