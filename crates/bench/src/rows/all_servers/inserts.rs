//! Measures what a message costs without any service: a document of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use kith_store_cluster::MongoOptions;
use mongodb::{
    Collection, Database, IndexModel,
    bson::{Binary, Document, doc, spec::BinarySubtype},
    options::IndexOptions,
};

use crate::rows::{messages::body, mongodb::durable_database};

/// Messages in one conversation.
const CONVERSATIONS: i64 = 1_000;

/// A collection in a separate database, which no node watches, with Kith's concerns.
#[derive(Clone, Debug)]
pub(in crate::rows) struct Inserts {
    database: Database,
    messages: Collection<Document>,
    next: Arc<AtomicI64>,
}

impl Inserts {
    /// Opens an empty collection, with an index for message numbers in a conversation and an index for client
    /// ids.
    pub(in crate::rows) async fn open(uri: &str, name: &str) -> Result<Self> {
        let database = durable_database(&MongoOptions::new(uri, format!("{name}_bare"))).await?;
        let messages = database.collection("messages");
        for keys in [doc! { "c": 1, "n": 1 }, doc! { "i": 1 }] {
            let unique = IndexOptions::builder().unique(true).build();
            messages.create_index(IndexModel::builder().keys(keys).options(unique).build()).await?;
        }
        Ok(Self { database, messages, next: Arc::default() })
    }

    /// Adds a message.
    pub(in crate::rows) async fn insert(self) -> Result<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let sent = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let body = Binary { subtype: BinarySubtype::Generic, bytes: body() };
        let message = doc! {
            "c": number % CONVERSATIONS, "n": number / CONVERSATIONS, "i": format!("c{number}"),
            "f": 1_i64, "t": i64::try_from(sent)?, "b": body,
        };
        self.messages.insert_one(message).await?;
        Ok(())
    }

    pub(in crate::rows) async fn remove(&self) -> Result<()> {
        Ok(self.database.drop().await?)
    }
}
