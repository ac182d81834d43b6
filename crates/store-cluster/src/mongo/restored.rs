//! Runs once after MongoDB was restored from a backup, while no node runs.

use kith_store::{ChangesStore as _, IdKind, RestoreSkips, StoreError};
use mongodb::bson::doc;

use super::{
    connect::ClusterHandle,
    database::Mongo,
    document::number_in,
    error::{malformed, write_failed},
};

/// The values with which a restored database continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredCounters {
    /// The new epoch. Tokens and copies from other epochs are invalid.
    pub epoch: i64,
    /// The next id for each kind.
    pub next_ids: Vec<(IdKind, i64)>,
    /// How many sequences were raised.
    pub sequences: u64,
}

impl ClusterHandle {
    /// Raises the epoch and skips ids and sequence numbers, also if their counters did not exist in the
    /// backup. Lets the change feeds begin at their ends, and, if changes are kept, begins a new generation.
    /// May be repeated: each call skips again.
    ///
    /// # Errors
    /// If the store cannot answer. A part may have been done.
    pub async fn finish_restore(&self, skips: RestoreSkips) -> Result<RestoredCounters, StoreError> {
        let mongo = &self.mongo;
        let mut next_ids = Vec::new();
        for kind in IdKind::ALL {
            next_ids.push((kind, mongo.skip_ids(kind, skips.ids).await?));
        }
        let sequences = mongo.skip_seqs(skips.seqs).await?;
        let feeds: Vec<String> = self.stores().feeds.into_iter().map(|feed| feed.name).collect();
        mongo.forget_marks(&feeds).await?;
        // Other systems read changes that are lost now.
        if let Some(extent) = mongo.changes_extent().await? {
            mongo.begin_generation(extent.dialogs).await?;
        }
        // Comes last, so that a node that follows this epoch has the rest.
        let epoch = mongo.raise_epoch_above(skips.epoch).await?;
        Ok(RestoredCounters { epoch, next_ids, sequences })
    }
}

impl Mongo {
    /// Returns the next id.
    async fn skip_ids(&self, kind: IdKind, count: i64) -> Result<i64, StoreError> {
        let _permit = self.admit()?;
        let from = doc! { "$max": ["$next", IdKind::FIRST_ALLOCATED] };
        let skip = vec![doc! { "$set": { "next": { "$add": [from, count] } } }];
        let id = doc! { "_id": format!("ids.{}", kind.name()) };
        let after = self.upsert(&self.node, id, skip.into()).await?;
        number_in(&after, "next")?.ok_or_else(|| malformed("next"))
    }

    /// Returns how many sequences it raised.
    async fn skip_seqs(&self, count: i64) -> Result<u64, StoreError> {
        let _permit = self.admit()?;
        let skip = vec![doc! { "$set": { "last": { "$add": ["$last", count] } } }];
        Ok(self.sequences.update_many(doc! {}, skip).await.map_err(write_failed)?.matched_count)
    }

    /// Removes the positions of change feeds, which come from the time of the backup. Nodes begin without
    /// copies, in a new epoch, so that they need no change from before it.
    async fn forget_marks(&self, names: &[String]) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let forget = doc! { "$unset": { "mark": "" } };
        let feeds = doc! { "_id": { "$in": names } };
        self.leases.update_many(feeds, forget).await.map(drop).map_err(write_failed)
    }

    /// Returns the new epoch.
    async fn raise_epoch_above(&self, least: i64) -> Result<i64, StoreError> {
        let _permit = self.admit()?;
        let above = doc! { "$add": [{ "$max": ["$value", least] }, 1_i64] };
        let raise = vec![doc! { "$set": { "value": above } }];
        let after = self.upsert(&self.node, doc! { "_id": "epoch" }, raise.into()).await?;
        number_in(&after, "value")?.ok_or_else(|| malformed("value"))
    }
}
