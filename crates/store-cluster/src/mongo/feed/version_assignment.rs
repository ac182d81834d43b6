//! Assigns versions to records that were changed by hand.

use std::collections::HashMap;

use kith_store::{FeedRecord, StoreError, Version};
use mongodb::{
    Collection,
    bson::{Bson, Document, RawDocumentBuf, doc},
    options::UpdateModifications,
};

use super::{
    super::{
        database::Mongo,
        document::number_in,
        error::{malformed, read_failed, write_failed},
    },
    event::{VERSION_END, WatchedCollection, version},
};

/// Counts assigned versions.
const RENEWED_COUNTER: &str = "versions.renewed";
/// No record is ever written so often that its version rises by this much.
const RENEWAL_STEP: i64 = 1 << 32;

/// The ids of records of one kind that were changed by hand.
#[derive(Clone, Debug, Default)]
pub(super) struct HandEdits {
    /// Records with an unchanged version.
    pub(super) unchanged: Vec<Bson>,
    /// Records with a changed version.
    pub(super) edited: Vec<Bson>,
}

impl HandEdits {
    pub(super) fn is_empty(&self) -> bool {
        self.unchanged.is_empty() && self.edited.is_empty()
    }
}

impl Mongo {
    /// Assigns each record a version above all versions that this program assigned, and returns it; none for
    /// a removed record. A repetition assigns another version. Sets `u` as every write does, so that the feed
    /// does not take the change for a change by hand.
    pub(super) async fn assign_versions(
        &self,
        watched: &WatchedCollection,
        edits: HandEdits,
    ) -> Result<HashMap<FeedRecord, Version>, StoreError> {
        let collection = &self.database.collection(watched.name);
        let HandEdits { unchanged, edited } = edits;
        self.raise_versions(collection, &unchanged).await?;
        self.renew_versions(collection, &edited).await?;
        let ids = [unchanged, edited].concat();
        let found = self.versions(collection, watched, &ids).await?;
        let damaged = found.iter().filter(|(_, version)| version.is_none());
        let damaged: Vec<Bson> = damaged.filter_map(|(record, _)| (watched.id)(record)).collect();
        if damaged.is_empty() {
            return Ok(with_readable_version(found));
        }
        self.renew_versions(collection, &damaged).await?;
        self.versions(collection, watched, &ids).await.map(with_readable_version)
    }

    /// Raises each version by 1, if it is a number.
    async fn raise_versions(
        &self,
        collection: &Collection<RawDocumentBuf>,
        ids: &[Bson],
    ) -> Result<(), StoreError> {
        let raise = vec![doc! { "$set": { "v": next(), "u": rand::random::<i64>() } }];
        self.update_documents(collection, ids, is_number(), raise.into()).await
    }

    /// Raises each version above all that it can have had, regardless of its present value.
    pub(in crate::mongo) async fn renew_versions(
        &self,
        collection: &Collection<RawDocumentBuf>,
        ids: &[Bson],
    ) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let count = doc! { "$inc": { "count": 1_i64 } };
        let counted = self.upsert(&self.node, doc! { "_id": RENEWED_COUNTER }, count.into()).await?;
        let count = number_in(&counted, "count")?.ok_or_else(|| malformed("count"))?;
        let above = count
            .checked_mul(RENEWAL_STEP)
            .filter(|above| *above < VERSION_END)
            .ok_or_else(|| malformed("count"))?;
        let beyond = doc! { "$and": [is_number(), { "$gte": ["$v", above] }] };
        let version = doc! { "$cond": [beyond, next(), above] };
        let renew = vec![doc! { "$set": { "v": version, "u": rand::random::<i64>() } }];
        self.update_documents(collection, ids, doc! { "$literal": true }, renew.into()).await
    }

    async fn update_documents(
        &self,
        collection: &Collection<RawDocumentBuf>,
        ids: &[Bson],
        which: Document,
        change: UpdateModifications,
    ) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let filter = doc! { "_id": { "$in": ids }, "$expr": which };
        collection.update_many(filter, change).await.map(drop).map_err(write_failed)
    }

    /// The versions of existing records; `None`: it cannot be decoded.
    async fn versions(
        &self,
        collection: &Collection<RawDocumentBuf>,
        watched: &WatchedCollection,
        ids: &[Bson],
    ) -> Result<HashMap<FeedRecord, Option<Version>>, StoreError> {
        let find = collection.find(doc! { "_id": { "$in": ids } }).projection(doc! { "v": 1 });
        let mut cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        let mut found = HashMap::new();
        while cursor.advance().await.map_err(read_failed)? {
            let document = cursor.current();
            let field = |name: &str| document.get(name).ok().flatten();
            let record = field("_id").and_then(watched.record).ok_or_else(|| malformed("_id"))?;
            found.insert(record, field("v").and_then(version));
        }
        Ok(found)
    }
}

/// Damaged documents are left out here, so they are published with an unknown version; another change by hand
/// that damages a document is published, too.
fn with_readable_version(found: HashMap<FeedRecord, Option<Version>>) -> HashMap<FeedRecord, Version> {
    found.into_iter().filter_map(|(record, version)| Some((record, version?))).collect()
}

/// Whether the version, and the next version, is a valid number of any type.
fn is_number() -> Document {
    doc! { "$and": [{ "$isNumber": "$v" }, { "$gte": ["$v", 0] }, { "$lt": ["$v", VERSION_END - 1] }] }
}

fn next() -> Document {
    doc! { "$add": [{ "$toLong": { "$ceil": "$v" } }, 1_i64] }
}
