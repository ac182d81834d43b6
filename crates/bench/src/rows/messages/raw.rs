//! Commands that a service would send by hand with the MongoDB driver.

use std::{hint::black_box, sync::atomic::AtomicI64, sync::atomic::Ordering};

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use kith_store::{NewMessage, UserId};
use mongodb::{
    Collection, Database,
    bson::{Binary, Bson, Document, doc, spec::BinarySubtype},
};
use serde::Deserialize;

/// Messages in a document.
pub(super) const DOCUMENT: i64 = 100;

/// Documents with a hundred messages, filled without a look at what they have.
#[derive(Debug)]
pub(super) struct RawLogs {
    database: Database,
    /// The bare side's documents.
    pushed: Collection<Document>,
    /// Kith's documents, which are read.
    messages: Collection<LogDocument>,
    next: AtomicI64,
}

/// A document as stored, decoded as the driver does it.
#[derive(Debug, Deserialize)]
struct LogDocument {
    m: Vec<Element>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "decoding is what is measured")]
struct Element {
    i: Option<String>,
    f: i64,
    t: i64,
    y: i32,
    x: i32,
    ct: Option<String>,
    b: Binary,
    a: Option<Vec<i64>>,
    p: Option<i64>,
}

impl RawLogs {
    /// Uses this database, with its concerns.
    pub(super) fn over(database: Database) -> Self {
        let (pushed, messages) = (database.collection("pushed"), database.collection("messages"));
        Self { database, pushed, messages, next: AtomicI64::new(0) }
    }

    pub(super) const fn database(&self) -> &Database {
        &self.database
    }

    /// Adds a message at a log's end.
    pub(super) async fn push(&self, new: &NewMessage) -> Result<()> {
        let document = self.next.fetch_add(1, Ordering::Relaxed) / DOCUMENT;
        let id = doc! { "_id": { "c": "g1", "d": document } };
        let push = doc! { "$push": { "m": element(new) } };
        black_box(self.pushed.update_one(id, push).upsert(true).await?);
        Ok(())
    }

    /// Reads these documents in a Kith log, which have so many messages.
    pub(super) async fn documents(&self, log: &str, [first, last]: [i64; 2], messages: usize) -> Result<()> {
        let ids = doc! { "$gte": { "c": log, "d": first }, "$lte": { "c": log, "d": last } };
        let found: Vec<LogDocument> =
            self.messages.find(doc! { "_id": ids }).sort(doc! { "_id": 1 }).await?.try_collect().await?;
        let read = found.iter().map(|log| log.m.len()).sum::<usize>();
        ensure!(read == messages, "{read} messages are read of {messages}");
        black_box(found);
        Ok(())
    }

    /// Reads these documents' sizes, one for each log.
    pub(super) async fn sizes(&self, ids: &[(String, i64)]) -> Result<()> {
        let wanted: Vec<Bson> =
            ids.iter().map(|(log, document)| doc! { "c": log, "d": document }.into()).collect();
        let messages = self.database.collection::<Document>("messages");
        let found =
            messages.find(doc! { "_id": { "$in": wanted } }).batch_size(u32::try_from(ids.len() + 1)?);
        let found = found.projection(doc! { "n": { "$size": "$m" } });
        let sizes: Vec<Document> = found.await?.try_collect().await?;
        ensure!(sizes.len() == ids.len(), "{} sizes are read of {}", sizes.len(), ids.len());
        let last = sizes.last().context("there are logs")?;
        ensure!(last.get_i32("n")? > 0, "a document is empty");
        Ok(())
    }
}

/// The element as Kith's store writes it.
fn element(new: &NewMessage) -> Document {
    let binary = |bytes: &[u8]| Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() };
    doc! {
        "k": binary(&new.key.0), "h": binary(&new.hash.0),
        "i": new.client_message_id.as_ref().map(|id| id.as_str()),
        "f": new.sender.map_or(0, UserId::get), "t": new.sent.0, "y": 1, "x": 0,
        "ct": new.content_type.as_str(), "b": binary(&new.body),
    }
}
