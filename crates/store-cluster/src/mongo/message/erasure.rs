//! Erasures of users' messages: `{_id: user, v, open, s}`. `open` is true or absent; `s` is the whole record
//! as JSON.

use async_trait::async_trait;
use kith_store::{Erasure, ErasureStore, StoreError, Timestamp, UserId};
use mongodb::{
    bson::{Bson, Document, RawDocument, RawDocumentBuf, doc},
    options::{Hint, ReadConcern},
};

use crate::mongo::{
    database::Mongo,
    document::count,
    error::{is_duplicate, malformed, read_failed, write_failed},
    record::all,
    write::backoff,
};

/// The most collisions between callers that begin an erasure for one user.
const BEGINS_MAX: u32 = 16;

#[async_trait]
impl ErasureStore for Mongo {
    async fn begin_erasure(&self, user: UserId, again: bool, now: Timestamp) -> Result<Erasure, StoreError> {
        let _permit = self.admit()?;
        for tries in 1..=BEGINS_MAX {
            let before = self.erasure_of(user).await?;
            if let Some(before) = before.filter(|before| !(before.ended && again)) {
                return Ok(before);
            }
            let begun = Erasure::first(user, before.as_ref(), now);
            let written = match before {
                Some(before) => self.replace_erasure(&before, &begun).await?,
                None => self.insert_erasure(&begun).await?,
            };
            if written {
                return Ok(begun);
            }
            tokio::time::sleep(backoff(tries)).await;
        }
        Err(StoreError::Overloaded)
    }

    async fn unfinished_erasures(
        &self,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Erasure>, StoreError> {
        let _permit = self.admit()?;
        let after = after.map_or(0, UserId::get);
        let find = self.erasures.find(doc! { "open": true, "_id": { "$gt": after } });
        let find = find.sort(doc! { "open": 1, "_id": 1 }).limit(count(limit));
        let find = find.hint(Hint::Name("unfinished".to_owned())).max_time(self.options.command);
        all(find.await.map_err(read_failed)?, erasure).await
    }

    async fn save_erasure(&self, saved: &Erasure) -> Result<Option<Erasure>, StoreError> {
        let _permit = self.admit()?;
        let next = Erasure { version: saved.version.next(), ..*saved };
        Ok(self.replace_erasure(saved, &next).await?.then_some(next))
    }
}

impl Mongo {
    /// Linearizable: a deposed primary must not return none.
    async fn erasure_of(&self, user: UserId) -> Result<Option<Erasure>, StoreError> {
        let find = self.erasures.find_one(doc! { "_id": user.get() });
        let find = find.read_concern(ReadConcern::linearizable()).max_time(self.options.command);
        find.await.map_err(read_failed)?.as_deref().map(erasure).transpose()
    }

    /// False: another caller has created it.
    async fn insert_erasure(&self, erasure: &Erasure) -> Result<bool, StoreError> {
        let mut made = record(erasure)?;
        made.insert("_id", erasure.user.get());
        let made = RawDocumentBuf::try_from(&made).map_err(|_| malformed("s"))?;
        match self.erasures.insert_one(made).await {
            Ok(_) => Ok(true),
            Err(error) if is_duplicate(&error) => Ok(false),
            Err(error) => Err(write_failed(error)),
        }
    }

    /// False: the stored one differs from `before`.
    async fn replace_erasure(&self, before: &Erasure, after: &Erasure) -> Result<bool, StoreError> {
        let filter = doc! { "_id": before.user.get(), "v": before.version.get() };
        let mut update = doc! { "$set": record(after)? };
        if after.ended {
            update.insert("$unset", doc! { "open": "" });
        }
        let written = self.erasures.update_one(filter, update).await.map_err(write_failed)?;
        Ok(written.matched_count == 1)
    }
}

/// A record's fields besides its id.
fn record(erasure: &Erasure) -> Result<Document, StoreError> {
    let state = serde_json::to_string(erasure).map_err(|_| malformed("s"))?;
    let mut record = doc! { "v": erasure.version.get(), "s": state };
    if !erasure.ended {
        record.insert("open", Bson::Boolean(true));
    }
    Ok(record)
}

fn erasure(found: &RawDocument) -> Result<Erasure, StoreError> {
    let state = found.get_str("s").map_err(|_| malformed("s"))?;
    serde_json::from_str(state).map_err(|_| malformed("s"))
}
