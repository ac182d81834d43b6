//! Settings that conversations have for all their users: `{_id: conversation, v, min, trim, w, u}`. `trim` is
//! true or absent; `w` is a random number from the insert, `u` from the last update.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    BATCH_MAX, Conversation, ConversationId, ConversationStore, Seq, StoreError, Version, at_most,
};
use mongodb::{
    bson::{RawDocument, RawDocumentBuf, doc},
    options::{Hint, ReadConcern, ReturnDocument},
};

use super::{
    database::Mongo,
    document::{count, fields, number, version},
    error::{is_duplicate, malformed, read_failed, write_failed},
    record::all,
    write::backoff,
};

/// The most collisions between writers to one record: each collision means that another writer raised or
/// created it.
const UPSERTS_MAX: u32 = 16;

#[async_trait]
impl ConversationStore for Mongo {
    async fn conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        self.conversations_by(ids, ReadConcern::majority()).await
    }

    async fn strong_conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        self.conversations_by(ids, ReadConcern::linearizable()).await
    }

    async fn raise_min_seq(
        &self,
        id: ConversationId,
        min_seq: Seq,
        trim: bool,
    ) -> Result<Conversation, StoreError> {
        if min_seq <= 0 && !trim {
            let found = self.conversations(&[id]).await?;
            return Ok(found.into_iter().next().unwrap_or(Conversation::absent(id)));
        }
        let _permit = self.admit()?;
        for tries in 1..=UPSERTS_MAX {
            if let Some(raised) = self.try_raise(id, min_seq, trim).await? {
                return conversation(&raised);
            }
            let found = self.find_one(&self.conversations, doc! { "_id": id.to_string() }).await?;
            let found = found.as_deref().map(conversation).transpose()?;
            if let Some(record) = found.filter(|record| record.raised(min_seq, trim).is_none()) {
                return Ok(record);
            }
            tokio::time::sleep(backoff(tries)).await;
        }
        Err(StoreError::Overloaded)
    }

    async fn untrimmed_conversations(
        &self,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        let _permit = self.admit()?;
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let find = self.conversations.find(doc! { "trim": true, "_id": { "$gt": after } });
        let find = find.sort(doc! { "trim": 1, "_id": 1 }).limit(count(limit));
        let find = find.hint(Hint::Name("trim".to_owned())).max_time(self.options.command);
        all(find.await.map_err(read_failed)?, conversation).await
    }

    async fn end_trim(
        &self,
        id: ConversationId,
        version: Version,
    ) -> Result<Option<Conversation>, StoreError> {
        let _permit = self.admit()?;
        let update = doc! {
            "$set": { "u": rand::random::<i64>() },
            "$unset": { "trim": "" },
            "$inc": { "v": 1_i64 },
        };
        let end = self
            .conversations
            .find_one_and_update(doc! { "_id": id.to_string(), "v": version.get(), "trim": true }, update)
            .return_document(ReturnDocument::After)
            .max_time(self.options.command);
        end.await.map_err(write_failed)?.as_deref().map(conversation).transpose()
    }
}

impl Mongo {
    async fn conversations_by(
        &self,
        ids: &[ConversationId],
        concern: ReadConcern,
    ) -> Result<Vec<Conversation>, StoreError> {
        let _permit = self.admit()?;
        at_most(ids.len(), BATCH_MAX)?;
        let ids: HashSet<String> = ids.iter().map(ConversationId::to_string).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let limit = ids.len();
        let filter = doc! { "_id": { "$in": ids.into_iter().collect::<Vec<_>>() } };
        all(self.cursor(&self.conversations, filter, None, limit, concern).await?, conversation).await
    }

    /// Raises a record's bound and version, or creates it. `None`: no change is needed, or another caller has
    /// just created it.
    ///
    /// Operators and not a pipeline, as in `dialog/row.rs`.
    async fn try_raise(
        &self,
        id: ConversationId,
        min_seq: Seq,
        trim: bool,
    ) -> Result<Option<RawDocumentBuf>, StoreError> {
        let nonce: i64 = rand::random();
        let mut differs = vec![doc! { "min": { "$lt": min_seq } }];
        let mut set = doc! { "u": nonce };
        if trim {
            differs.push(doc! { "trim": { "$ne": true } });
            set.insert("trim", true);
        }
        let update = doc! {
            "$set": set,
            "$max": { "min": min_seq.max(0) },
            "$inc": { "v": 1_i64 },
            "$setOnInsert": { "w": nonce },
        };
        let raise = self
            .conversations
            .find_one_and_update(doc! { "_id": id.to_string(), "$or": differs }, update)
            .upsert(true)
            .return_document(ReturnDocument::After)
            .max_time(self.options.command);
        match raise.await {
            Ok(raised) => Ok(raised),
            Err(error) if is_duplicate(&error) => Ok(None),
            Err(error) => Err(write_failed(error)),
        }
    }
}

fn conversation(document: &RawDocument) -> Result<Conversation, StoreError> {
    let id = document.get_str("_id").map_err(|_| malformed("_id"))?;
    let mut record = Conversation::absent(id.parse().map_err(|_| malformed("_id"))?);
    for field in fields(document) {
        let (name, value) = field?;
        match name {
            "v" => record.version = version(value)?,
            "min" => record.min_seq = number(value, "min")?,
            "trim" => record.trim = value.as_bool().ok_or_else(|| malformed("trim"))?,
            _ => {}
        }
    }
    if record.version == Version::NONE { Err(malformed("v")) } else { Ok(record) }
}
