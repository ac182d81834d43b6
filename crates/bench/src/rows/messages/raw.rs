//! Commands that a service would send by hand with the MongoDB driver.

use std::hint::black_box;

use anyhow::{Result, ensure};
use futures::TryStreamExt as _;
use mongodb::{
    Collection, Database,
    bson::{Binary, doc},
};
use serde::Deserialize;

/// Messages in a document.
pub(super) const DOCUMENT: i64 = 100;

/// Kith's documents, each with a hundred messages.
#[derive(Debug)]
pub(super) struct RawLogs(Collection<LogDocument>);

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
    pub(super) fn over(database: &Database) -> Self {
        Self(database.collection("messages"))
    }

    /// Reads these documents in a log, which have so many messages.
    pub(super) async fn documents(&self, log: &str, [first, last]: [i64; 2], messages: usize) -> Result<()> {
        let ids = doc! { "$gte": { "c": log, "d": first }, "$lte": { "c": log, "d": last } };
        let found: Vec<LogDocument> =
            self.0.find(doc! { "_id": ids }).sort(doc! { "_id": 1 }).await?.try_collect().await?;
        let read = found.iter().map(|log| log.m.len()).sum::<usize>();
        ensure!(read == messages, "{read} messages are read of {messages}");
        black_box(found);
        Ok(())
    }
}
