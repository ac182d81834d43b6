//! Reads users and groups.

use std::{collections::HashSet, sync::Arc};

use kith_store::{BATCH_MAX, Params, StoreError, Stored, Version, at_most};
use mongodb::{
    Collection, Cursor,
    bson::{Bson, Document, RawDocument, RawDocumentBuf, doc},
    options::{Hint, ReadConcern},
};

use super::{
    database::Mongo,
    document::{count, number_in, version},
    error::{malformed, read_failed},
};

/// The most documents in one reply from the server.
const ANSWER_MAX: usize = 1000;

/// A record that is stored in a separate collection under its id. A deleted record leaves `{_id, v, deleted:
/// true}` and what its kind must keep.
pub(super) trait Record: Sized + Send + Sync + 'static {
    /// How ids of secrets name the kind.
    const OWNER: &'static str;
    /// Fields that outlive a deletion, in its stub and in a record that is created again under the id.
    const KEPT: &'static [&'static str] = &[];

    /// The collection.
    fn collection(mongo: &Mongo) -> &Collection<RawDocumentBuf>;
    /// Reads a living record's document.
    fn read(document: &RawDocument) -> Result<Self, StoreError>;
    /// Returns this state's version.
    fn version(&self) -> Version;
    /// Further parameters.
    fn params(&self) -> &Params;
}

/// The filter for a page of records.
#[derive(Debug)]
pub(super) struct PageFilter {
    /// The fields that must be equal.
    pub(super) filter: Document,
    /// The index that has these fields and then the id. It is named, for the planner might prefer the index
    /// on ids and look at every record.
    pub(super) index: &'static str,
}

/// Reads a document that may be a stub.
pub(super) fn stored<R: Record>(document: &RawDocument) -> Result<Stored<R>, StoreError> {
    if is_stub(document)? {
        version_of(document).map(Stored::Deleted)
    } else {
        R::read(document).map(|record| Stored::Live(Arc::new(record)))
    }
}

/// Reads the version in a record or stub.
pub(super) fn version_of(document: &RawDocument) -> Result<Version, StoreError> {
    let value = document.get("v").map_err(|_| malformed("v"))?;
    version(value.ok_or_else(|| malformed("v"))?)
}

fn lacks_version(document: &RawDocument) -> bool {
    version_of(document).is_err()
}

/// Whether the record was deleted.
pub(super) fn is_stub(document: &RawDocument) -> Result<bool, StoreError> {
    Ok(document.get("deleted").map_err(|_| malformed("deleted"))?.is_some())
}

/// The documents in a reply, as `of` reads them.
///
/// # Errors
/// Fails if the server fails, or a document cannot be read.
pub(super) async fn all<T>(
    mut cursor: Cursor<RawDocumentBuf>,
    of: impl Fn(&RawDocument) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    while cursor.advance().await.map_err(read_failed)? {
        found.push(of(cursor.current())?);
    }
    Ok(found)
}

impl PageFilter {
    /// Selects all records.
    pub(super) fn all() -> Self {
        Self { filter: Document::new(), index: "_id_" }
    }
}

impl Mongo {
    /// Reads one record by its id.
    pub(super) async fn one<R: Record>(&self, id: i64) -> Result<Stored<R>, StoreError> {
        let collection = R::collection(self);
        let mut found = self.find_one(collection, doc! { "_id": id }).await?;
        if found.as_deref().is_some_and(lacks_version) {
            self.renew_versions(collection, &[id.into()]).await?;
            found = self.find_one(collection, doc! { "_id": id }).await?;
        }
        found.map_or(Ok(Stored::Never), |document| stored(&document))
    }

    /// Reads the records with these ids in one query.
    pub(super) async fn many<R: Record>(
        &self,
        ids: Vec<i64>,
        concern: ReadConcern,
    ) -> Result<Vec<(i64, Stored<R>)>, StoreError> {
        at_most(ids.len(), BATCH_MAX)?;
        let distinct: HashSet<i64> = ids.into_iter().collect();
        if distinct.is_empty() {
            return Ok(Vec::new());
        }
        let limit = distinct.len();
        let filter = doc! { "_id": { "$in": distinct.into_iter().collect::<Vec<_>>() } };
        let with_id = |document: &RawDocument| {
            let id = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
            Ok((id, stored(document)?))
        };
        self.versioned::<R, _>(filter, None, limit, concern, with_id).await
    }

    /// Reads the living records that `page` admits, by ascending id above `after`, at most `limit`.
    pub(super) async fn page<R: Record>(
        &self,
        page: PageFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut filter = page.filter;
        filter.insert("_id", doc! { "$gt": after.unwrap_or_default() });
        filter.insert("deleted", doc! { "$ne": true });
        self.versioned::<R, _>(filter, Some(page.index), limit, ReadConcern::majority(), R::read).await
    }

    /// Reads documents as [`cursor`](Self::cursor) does. Documents that lack a version are given a version
    /// first: the change feed gives a version to each record that is changed by hand, but has not seen those
    /// that were changed while it was lost.
    async fn versioned<R: Record, T>(
        &self,
        filter: Document,
        by_id_in: Option<&str>,
        limit: usize,
        concern: ReadConcern,
        of: impl Fn(&RawDocument) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let collection = R::collection(self);
        let cursor = || self.cursor(collection, filter.clone(), by_id_in, limit, concern.clone());
        let found = all(cursor().await?, &of).await;
        if !matches!(found, Err(StoreError::Corrupt { .. })) {
            return found;
        }
        let without = all(cursor().await?, |document| {
            let id = document.get("_id").ok().flatten().filter(|_| lacks_version(document));
            id.map(Bson::try_from).transpose().map_err(|_| malformed("_id"))
        });
        let without: Vec<Bson> = without.await?.into_iter().flatten().collect();
        if without.is_empty() {
            return found;
        }
        self.renew_versions(collection, &without).await?;
        all(cursor().await?, of).await
    }

    /// Reads one document.
    pub(super) async fn find_one(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
    ) -> Result<Option<RawDocumentBuf>, StoreError> {
        collection.find_one(filter).max_time(self.options.command).await.map_err(read_failed)
    }

    /// Reads documents with this read concern, at most `limit`; with an index by ascending id.
    pub(super) async fn cursor(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        by_id_in: Option<&str>,
        limit: usize,
        concern: ReadConcern,
    ) -> Result<Cursor<RawDocumentBuf>, StoreError> {
        let batch = u32::try_from(limit.min(ANSWER_MAX)).unwrap_or(u32::MAX);
        let mut find = collection.find(filter).limit(count(limit)).batch_size(batch).read_concern(concern);
        if let Some(index) = by_id_in {
            find = find.sort(doc! { "_id": 1 }).hint(Hint::Name(index.to_owned()));
        }
        find.max_time(self.options.command).await.map_err(read_failed)
    }
}
