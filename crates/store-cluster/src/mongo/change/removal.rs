//! Removes the oldest kept changes.

use kith_store::{KeptPositions, StoreError, Timestamp};
use mongodb::{
    bson::{Bson, RawDocument, doc},
    options::Hint,
};

use super::{Numbers, POSITION};
use crate::mongo::{
    command::run_read,
    database::{CHANGES, Mongo},
    document::{count, number_in},
    error::{malformed, read_failed, write_failed},
};

/// The most entries that one step removes from a feed.
const REMOVED_MAX: usize = 1_000;

/// An entry that may be removed; the oldest is the least.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OldEntry {
    /// When it was written, but not before the feed's earlier entries.
    written: Timestamp,
    feed: String,
    number: i64,
    bytes: u64,
}

impl Mongo {
    /// Removes entries that were written before `cutoff`, and the oldest ones while all take more than
    /// `bytes_max`; at most [`REMOVED_MAX`]. Returns whether more is left to remove.
    pub(super) async fn remove_oldest(&self, cutoff: Timestamp, bytes_max: u64) -> Result<bool, StoreError> {
        let state = self.changes_state().await?;
        if self.remove_below(&state.floors).await? {
            return Ok(true);
        }
        let excess = self.changes_bytes().await?.saturating_sub(bytes_max);
        let mut old = Vec::new();
        for (feed, last) in self.last_numbers().await? {
            old.extend(
                self.old_entries(
                    &feed,
                    KeptPositions { first: state.floor(&feed) + 1, last },
                    cutoff,
                    excess,
                )
                .await?,
            );
        }
        old.sort_unstable();
        old.truncate(REMOVED_MAX);
        let removed = removable(&old, cutoff, excess);
        if removed.is_empty() {
            return Ok(false);
        }
        // A feed's entries rise, so that the last number of each is kept.
        let floors: Numbers = removed.iter().map(|entry| (entry.feed.clone(), entry.number)).collect();
        let state = self.raise_floors(&floors, doc! {}).await?;
        Ok(self.remove_below(&state.floors).await? || removed.len() == REMOVED_MAX)
    }

    /// Removes entries up to these floors, at most [`REMOVED_MAX`] of each feed. Returns whether more is left
    /// to remove.
    pub(super) async fn remove_below(&self, floors: &Numbers) -> Result<bool, StoreError> {
        let mut is_more_left = false;
        for (feed, floor) in floors {
            let first = self.changes.find_one(doc! { "f": feed }).sort(doc! { "n": 1 });
            let first = first.projection(doc! { "_id": 0, "n": 1 }).hint(Hint::Name(POSITION.to_owned()));
            let first = first.max_time(self.options.command).await.map_err(read_failed)?;
            let first = first.map(|found| number_of(&found)).transpose()?;
            let Some(first) = first.filter(|first| first <= floor) else { continue };
            let last = (*floor).min(first.saturating_add(count(REMOVED_MAX) - 1));
            let removed = doc! { "f": feed, "n": { "$lte": last } };
            self.changes.delete_many(removed).await.map_err(write_failed)?;
            is_more_left |= last < *floor;
        }
        Ok(is_more_left)
    }

    /// The feed's first entries that may be removed, at most [`REMOVED_MAX`], without the last one.
    async fn old_entries(
        &self,
        feed: &str,
        kept: KeptPositions,
        cutoff: Timestamp,
        excess: u64,
    ) -> Result<Vec<OldEntry>, StoreError> {
        let find = self.changes.find(doc! { "f": feed, "n": { "$gte": kept.first, "$lt": kept.last } });
        let find = find.sort(doc! { "n": 1 }).limit(count(REMOVED_MAX)).hint(Hint::Name(POSITION.to_owned()));
        let find = find.projection(doc! { "_id": 0, "n": 1, "t": 1, "bytes": { "$bsonSize": "$$ROOT" } });
        let mut found = find.max_time(self.options.command).await.map_err(read_failed)?;
        let (mut old, mut written) = (Vec::new(), Timestamp(i64::MIN));
        while found.advance().await.map_err(read_failed)? {
            let document = found.current();
            written = written.max(Timestamp(number_in(document, "t")?.ok_or_else(|| malformed("t"))?));
            if written >= cutoff && excess == 0 {
                break;
            }
            let bytes = number_in(document, "bytes")?.unwrap_or_default().cast_unsigned();
            old.push(OldEntry { written, feed: feed.to_owned(), number: number_of(document)?, bytes });
        }
        Ok(old)
    }

    /// The bytes that all entries take, without compression and indexes.
    async fn changes_bytes(&self) -> Result<u64, StoreError> {
        let stats = run_read(&self.database, doc! { "collStats": CHANGES });
        let stats = stats.await.map_err(read_failed)?;
        let size = stats.get("size").and_then(|size| match size {
            Bson::Int32(size) => u64::try_from(*size).ok(),
            Bson::Int64(size) => u64::try_from(*size).ok(),
            _ => None,
        });
        size.ok_or_else(|| malformed("size"))
    }
}

/// The oldest entries that are older than `cutoff`, or needed to be `excess` bytes less.
fn removable(old: &[OldEntry], cutoff: Timestamp, excess: u64) -> &[OldEntry] {
    let mut bytes = 0_u64;
    let stays = |entry: &OldEntry| {
        let is_needed = bytes < excess;
        bytes = bytes.saturating_add(entry.bytes);
        entry.written >= cutoff && !is_needed
    };
    &old[..old.iter().position(stays).unwrap_or(old.len())]
}

fn number_of(document: &RawDocument) -> Result<i64, StoreError> {
    number_in(document, "n")?.ok_or_else(|| malformed("n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(written: i64, feed: &str, number: i64) -> OldEntry {
        OldEntry { written: Timestamp(written), feed: feed.to_owned(), number, bytes: 10 }
    }

    #[test]
    fn oldest_of_all_feeds_are_removed_first() {
        let mut all = [old(3, "a", 1), old(3, "a", 2), old(1, "b", 1), old(4, "b", 2)];
        all.sort_unstable();
        let removed = |cutoff, excess| removable(&all, Timestamp(cutoff), excess).len();
        assert_eq!([0, 2, 4, 5].map(|cutoff| removed(cutoff, 0)), [0, 1, 3, 4]);
        assert_eq!([1, 10, 11, 1_000].map(|excess| removed(0, excess)), [1, 1, 2, 4]);
        assert_eq!(removed(4, 10), 3);
        assert_eq!(all.map(|entry| (entry.feed, entry.number))[1..3], [("a".into(), 1), ("a".into(), 2)]);
    }
}
