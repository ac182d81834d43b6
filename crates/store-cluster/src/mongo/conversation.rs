//! What is set for all users of a conversation: `{_id: conversation, v, min, trim, w, u}`. `trim` is true or absent; `w` is a
//! random number of the insert, `u` one of the last update.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{BATCH_MAX, Conversation, ConversationId, ConversationStore, Seq, StoreError, Version};
use mongodb::{
    bson::{Document, RawDocument, doc},
    options::ReadConcern,
};

use super::{
    connect::Mongo,
    dialog_row::next,
    document::{fields, number, version},
    error::{malformed, read_failed},
};

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
        let _entered = self.enter()?;
        let raise = raising(min_seq, trim, rand::random());
        let raised =
            self.upsert(&self.conversations, doc! { "_id": id.to_string() }, vec![raise].into()).await?;
        conversation(&raised)
    }
}

impl Mongo {
    async fn conversations_by(
        &self,
        ids: &[ConversationId],
        concern: ReadConcern,
    ) -> Result<Vec<Conversation>, StoreError> {
        let _entered = self.enter()?;
        if ids.len() > BATCH_MAX {
            return Err(StoreError::Overloaded);
        }
        let ids: HashSet<String> = ids.iter().map(ConversationId::to_string).collect();
        let mut found = Vec::with_capacity(ids.len());
        if ids.is_empty() {
            return Ok(found);
        }
        let limit = ids.len();
        let filter = doc! { "_id": { "$in": ids.into_iter().collect::<Vec<_>>() } };
        let mut cursor = self.cursor(&self.conversations, filter, None, limit, concern).await?;
        while cursor.advance().await.map_err(read_failed)? {
            found.push(conversation(cursor.current())?);
        }
        Ok(found)
    }
}

/// Raises the bound, and the version only if something changes.
fn raising(min_seq: Seq, trim: bool, nonce: i64) -> Document {
    let lower = doc! { "$lt": [{ "$ifNull": ["$min", 0_i64] }, min_seq] };
    let untrimmed = doc! { "$and": [trim, { "$ne": ["$trim", true] }] };
    let changes = doc! { "$or": [lower, untrimmed] };
    let if_changed = |value: Document, unchanged: &str| doc! { "$cond": [changes.clone(), value, unchanged] };
    let mut set = doc! {
        "v": if_changed(next("$v"), "$v"),
        "min": { "$max": [{ "$ifNull": ["$min", 0_i64] }, min_seq] },
        "w": if_changed(doc! { "$ifNull": ["$w", nonce] }, "$w"),
        "u": if_changed(doc! { "$literal": nonce }, "$u"),
    };
    if trim {
        set.insert("trim", true);
    }
    doc! { "$set": set }
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
