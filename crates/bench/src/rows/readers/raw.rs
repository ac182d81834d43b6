//! Does a mark by hand: an update in the store, then a script that publishes it and writes the bit or the
//! number, in one pipeline.

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use fred::{interfaces::KeysInterface as _, types::Value};
use kith_store_cluster::MongoOptions;
use mongodb::{
    Collection, Database,
    bson::{Binary, Document, doc, spec::BinarySubtype},
    options::ReturnDocument,
};

use crate::rows::{mongodb::durable_database, redis::RawRedis};

/// Bytes in a reader's or a dialog's copy that goes to Redis.
const COPY: usize = 80;
/// Bytes in the bits for a hundred messages, each with 200 members, as the common way stores them.
const BITS_OF_100: usize = 5_400;
/// Messages in one document.
const DOCUMENT: i64 = 100;

/// The bare side's clients.
pub(super) struct RawMarks {
    database: Database,
    readers: Collection<Document>,
    dialogs: Collection<Document>,
    redis: RawRedis,
}

impl RawMarks {
    /// Connects to Kith's database, with its concerns.
    pub(super) async fn connect(kith: &MongoOptions, redis: &str) -> Result<Self> {
        let database = durable_database(kith).await?;
        let (readers, dialogs) = (database.collection("raw_readers"), database.collection("raw_dialogs"));
        let redis = RawRedis::patient(redis, &format!("raw_{}", kith.database)).await?;
        Ok(Self { database, readers, dialogs, redis })
    }

    /// Inserts the readers from 1 on.
    pub(super) async fn insert_readers(&self, readers: i64) -> Result<()> {
        let reader = |reader: i64| doc! { "_id": { "a": 1_i64, "r": reader }, "v": 1_i64, "w": {} };
        self.readers.insert_many((1..=readers).map(reader)).await?;
        Ok(())
    }

    /// A reader has read the notice with this bit, which is below 63.
    pub(super) async fn mark_notice(&self, reader: i64, bit: i32) -> Result<()> {
        let differs = doc! { "w.0": { "$not": { "$bitsAllSet": [bit] } } };
        let filter = doc! { "_id": { "a": 1_i64, "r": reader }, "$or": [differs] };
        let change = doc! { "$bit": { "w.0": { "or": 1_i64 << bit } }, "$inc": { "v": 1_i64 } };
        let after = self.readers.find_one_and_update(filter, change).return_document(ReturnDocument::After);
        black_box(after.await?.context("a reader is missing, or has read it")?);
        let words = vec![self.key("notice", bit), Value::from(reader), Value::from(1)];
        self.redis.publish_and(reader, vec![b'x'; COPY], ("SETBIT", words)).await
    }

    /// A user has read a conversation up to this number.
    pub(super) async fn mark_dialog(&self, user: i64, conversation: &str, seq: i64) -> Result<()> {
        let (dialog, raise) = raised(user, conversation, seq);
        black_box(self.dialogs.update_one(dialog, raise).upsert(true).await?);
        let mark = Value::Bytes(seq.to_be_bytes().to_vec().into());
        let words = vec![self.key("read", conversation), Value::from(1 + 8 * user), mark];
        self.redis.publish_and(user, vec![b'x'; COPY], ("SETRANGE", words)).await
    }

    /// Marks in the common way: a bit for each of these messages, and their documents.
    pub(super) async fn mark_bits(&self, user: i64, conversation: &str, messages: i64) -> Result<()> {
        let bit = |seq: i64| {
            let key = self.key("bits", format!("{conversation}:{seq}"));
            ("SETBIT", vec![key, Value::from(user), Value::from(1)])
        };
        self.redis.together((1..=messages).map(bit)).await?;
        let update = |document: i64| {
            let bits = Binary { subtype: BinarySubtype::Generic, bytes: vec![b'x'; BITS_OF_100] };
            // Without this field the update would change nothing.
            let set = doc! { "$set": { "bits": bits, "by": user } };
            doc! { "q": { "_id": { "c": conversation, "d": document } }, "u": set, "upsert": true }
        };
        self.update("raw_bits", (0..=messages / DOCUMENT).map(update).collect()).await
    }

    /// Raises what these users, each with its conversation, have read: in one command.
    pub(super) async fn mark_together(&self, marks: &[(i64, String)], seq: i64) -> Result<()> {
        let update = |(user, conversation): &(i64, String)| {
            let (dialog, raise) = raised(*user, conversation, seq);
            doc! { "q": dialog, "u": raise, "upsert": true }
        };
        self.update("raw_marks", marks.iter().map(update).collect()).await
    }

    /// Removes what it wrote to Redis. Other code removes the database.
    pub(super) async fn remove(&self) -> Result<()> {
        let keys: Vec<String> = self.redis.keys().await?;
        if keys.is_empty() {
            return Ok(());
        }
        let _removed: i64 = self.redis.client.del(keys).await?;
        Ok(())
    }

    async fn update(&self, collection: &str, updates: Vec<Document>) -> Result<()> {
        let count = i32::try_from(updates.len())?;
        let command = doc! {
            "update": collection,
            "updates": updates,
            "ordered": false,
            "writeConcern": { "w": "majority", "j": true },
        };
        let done = self.database.run_command(command).await?;
        ensure!(done.get_i32("n")? == count && !done.contains_key("writeErrors"), "an update is not done");
        Ok(())
    }

    fn key(&self, kind: &str, of: impl std::fmt::Display) -> Value {
        Value::from(self.redis.key(format_args!("{kind}:{of}")))
    }
}

fn raised(user: i64, conversation: &str, seq: i64) -> (Document, Document) {
    let dialog = doc! { "_id": { "u": user, "c": conversation } };
    (dialog, doc! { "$max": { "r": seq }, "$inc": { "v": 1_i64 } })
}
