//! Leases and marks: a document `{_id: name, holder, until, mark}` each. The clock is the server's.

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use kith_store::{Coordination, StoreError, millis};
use mongodb::{
    bson::{Binary, DateTime, RawDocument, doc, spec::BinarySubtype},
    options::ReadConcern,
};

use super::{
    connect::Mongo,
    error::{malformed, write_failed},
    record::all,
};

#[async_trait]
impl Coordination for Mongo {
    async fn lease(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        let me = doc! { "$literal": holder };
        let run_out = doc! { "$lte": [{ "$ifNull": ["$until", DateTime::from_millis(0)] }, "$$NOW"] };
        let mine = doc! { "$or": [run_out, { "$eq": ["$holder", me.clone()] }] };
        let lasts = millis(lasts);
        let until = doc! { "$cond": [mine.clone(), { "$add": ["$$NOW", lasts] }, "$until"] };
        let holds = doc! { "$cond": [mine, me, "$holder"] };
        let take = vec![doc! { "$set": { "holder": holds, "until": until } }];
        let held = self.upsert(&self.leases, doc! { "_id": name }, take.into()).await?;
        Ok(held.get_str("holder").map_err(|_| malformed("holder"))? == holder)
    }

    async fn held(&self, names: &[String]) -> Result<HashSet<String>, StoreError> {
        let _permit = self.admit()?;
        let lasts = doc! { "$gt": ["$until", "$$NOW"] };
        let filter = doc! { "_id": { "$in": names }, "$expr": lasts };
        let cursor = self.cursor(&self.leases, filter, None, names.len(), ReadConcern::majority()).await?;
        let name =
            |lease: &RawDocument| lease.get_str("_id").map(str::to_owned).map_err(|_| malformed("_id"));
        Ok(all(cursor, name).await?.into_iter().collect())
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let end = doc! { "$set": { "until": DateTime::from_millis(0) } };
        let released = self.leases.update_one(doc! { "_id": name, "holder": holder }, end).await;
        released.map(drop).map_err(write_failed)
    }

    async fn mark(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let _permit = self.admit()?;
        let Some(found) = self.find_one(&self.leases, doc! { "_id": name }).await? else {
            return Ok(None);
        };
        match found.get("mark").map_err(|_| malformed("mark"))? {
            Some(mark) => {
                mark.as_binary().map(|mark| Some(mark.bytes.to_vec())).ok_or_else(|| malformed("mark"))
            }
            None => Ok(None),
        }
    }

    async fn set_mark(&self, name: &str, holder: &str, mark: &[u8]) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        let lasts = doc! { "$gt": ["$until", "$$NOW"] };
        let held = doc! { "_id": name, "holder": holder, "$expr": lasts };
        let mark = Binary { subtype: BinarySubtype::Generic, bytes: mark.to_vec() };
        let set =
            self.leases.update_one(held, doc! { "$set": { "mark": mark } }).await.map_err(write_failed)?;
        Ok(set.matched_count == 1)
    }
}
