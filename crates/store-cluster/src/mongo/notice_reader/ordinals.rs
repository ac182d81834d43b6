//! Reader ordinals, from a counter for each audience.

use std::{collections::HashMap, ops::Range};

use kith_store::{AudienceId, NoticeRefusal, ReaderOrdinal, StoreError};
use mongodb::bson::doc;
use parking_lot::Mutex;

use super::super::{connect::Mongo, document::number_in, error::malformed};

/// The fewest ordinals that a node takes: many readers' first marks would all update one counter. Unused
/// ordinals are lost when a node stops.
const BLOCK: usize = 64;

/// Ordinals that this node has taken and not used, by audience.
#[derive(Debug, Default)]
pub(in super::super) struct ReservedOrdinals(Mutex<HashMap<AudienceId, Range<i64>>>);

impl ReservedOrdinals {
    /// Up to `most` that are left.
    fn take(&self, audience: AudienceId, most: usize) -> Vec<i64> {
        let mut left = self.0.lock();
        left.get_mut(&audience).map_or_else(Vec::new, |range| range.take(most).collect())
    }

    fn keep(&self, audience: AudienceId, rest: Range<i64>) {
        if !rest.is_empty() {
            self.0.lock().insert(audience, rest);
        }
    }
}

impl Mongo {
    /// Reserves this many ordinals that no other reader in the audience has or will have, all below `most`.
    pub(super) async fn take_ordinals(
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
}
