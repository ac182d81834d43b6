//! Data that nodes keep for themselves and for each other: small documents in one collection, each changed by
//! one conditional command.

use std::time::Duration;

use async_trait::async_trait;
use kith_store::{Epoch, IdBlock, IdKind, NodeStore, Outcome, StoreError, Timestamp};
use mongodb::{
    Collection,
    bson::{Binary, Document, RawDocument, RawDocumentBuf, doc, spec::BinarySubtype},
    options::{ReturnDocument, UpdateModifications},
};
use tokio::time::Instant;

use super::{
    command::run_read,
    database::Mongo,
    document::number_in,
    error::{is_duplicate, malformed, out_of_time, read_failed, write_failed},
};

const EPOCH: &str = "epoch";
/// How long after a read of the epoch no ping is sent.
const EPOCH_IS_PING: Duration = Duration::from_millis(500);
/// The first two writers of a document collide at most once.
const UPSERTS_MAX: usize = 8;

#[async_trait]
impl NodeStore for Mongo {
    fn backend(&self) -> &'static str {
        "cluster"
    }

    async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        // Nodes that share Redis read the same document each second for the epoch.
        if self.epoch_read.lock().is_some_and(|at| at.elapsed() < EPOCH_IS_PING) {
            return Ok(());
        }
        // The read runs in its own task, because a driver's future must not be dropped half-way. A primary
        // answers, so it should take writes, too.
        let node: Collection<RawDocumentBuf> = self.node.clone();
        let read = tokio::spawn(async move { node.find_one(doc! { "_id": EPOCH }).max_time(limit).await });
        let answered = match tokio::time::timeout(limit, read).await {
            Ok(Ok(answer)) => answer.map(drop).map_err(read_failed),
            Ok(Err(_)) | Err(_) => Err(out_of_time(Outcome::NotApplied)),
        };
        self.reachability.record_ping(!matches!(answered, Err(StoreError::Unavailable { .. })));
        answered
    }

    async fn clock(&self, limit: Duration) -> Result<Option<Timestamp>, StoreError> {
        // Like `ping`, this runs in its own task. Leases run by this clock, which is the primary's.
        let database = self.database.clone();
        let hello = doc! { "hello": 1 };
        let asked = tokio::spawn(async move { run_read(&database, hello).await });
        let reply = match tokio::time::timeout(limit, asked).await {
            Ok(Ok(reply)) => reply.map_err(read_failed)?,
            Ok(Err(_)) | Err(_) => return Err(out_of_time(Outcome::NotApplied)),
        };
        let time = reply.get_datetime("localTime").map_err(|_| malformed("localTime"))?;
        Ok(Some(Timestamp(time.timestamp_millis())))
    }

    async fn allocate_ids(&self, kind: IdKind, count: u32) -> Result<IdBlock, StoreError> {
        let _permit = self.admit()?;
        let id = format!("ids.{}", kind.name());
        let from = doc! { "$max": ["$next", IdKind::FIRST_ALLOCATED] };
        let next = doc! { "$set": { "next": { "$add": [from, i64::from(count)] } } };
        let after = self.upsert(&self.node, doc! { "_id": id }, vec![next].into()).await?;
        let next = number_in(&after, "next")?.ok_or_else(|| malformed("next"))?;
        Ok(IdBlock { first: next - i64::from(count), count })
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        let _permit = self.admit()?;
        let asked = Instant::now();
        let found = self.find_one(&self.node, doc! { "_id": EPOCH }).await?;
        *self.epoch_read.lock() = Some(asked);
        found.map_or_else(|| Ok(Epoch::default()), |document| epoch_in(&document))
    }

    async fn raise_epoch(&self, seen: u64, server: &str) -> Result<Epoch, StoreError> {
        let _permit = self.admit()?;
        let was = i64::try_from(seen).map_err(|_| malformed("value"))?;
        let update = doc! { "$set": { "value": was.saturating_add(1), "server": server } };
        let raise = self
            .node
            .find_one_and_update(doc! { "_id": EPOCH, "value": was }, update)
            .upsert(seen == 0)
            .return_document(ReturnDocument::After);
        match raise.await {
            Ok(Some(document)) => epoch_in(&document),
            Ok(None) => self.epoch().await,
            // Another node has raised the epoch from 0.
            Err(error) if is_duplicate(&error) => self.epoch().await,
            Err(error) => Err(write_failed(error)),
        }
    }

    async fn key(&self, name: &str, candidate: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let _permit = self.admit()?;
        let key = Binary { subtype: BinarySubtype::Generic, bytes: candidate.to_vec() };
        let filter = doc! { "_id": format!("key.{name}") };
        let kept = self.upsert(&self.node, filter, doc! { "$setOnInsert": { "key": key } }.into()).await?;
        let key = kept.get_binary("key").map_err(|_| malformed("key"))?;
        key.bytes.try_into().map_err(|_| malformed("key"))
    }

    async fn forget_requests(&self, _now: Timestamp) -> Result<u64, StoreError> {
        // An index removes the expired documents.
        Ok(0)
    }
}

impl Mongo {
    /// Updates or creates a document in this collection, and returns the result.
    pub(super) async fn upsert(
        &self,
        collection: &Collection<RawDocumentBuf>,
        filter: Document,
        update: UpdateModifications,
    ) -> Result<RawDocumentBuf, StoreError> {
        for _ in 0..UPSERTS_MAX {
            let action = collection.find_one_and_update(filter.clone(), update.clone());
            match action.upsert(true).return_document(ReturnDocument::After).await {
                Ok(Some(document)) => return Ok(document),
                Ok(None) => return Err(malformed("document")),
                Err(error) if is_duplicate(&error) => {}
                Err(error) => return Err(write_failed(error)),
            }
        }
        Err(StoreError::Overloaded)
    }
}

/// An epoch that was raised before servers were stored has no server.
fn epoch_in(document: &RawDocument) -> Result<Epoch, StoreError> {
    let value = number_in(document, "value")?.ok_or_else(|| malformed("value"))?;
    let number = u64::try_from(value).map_err(|_| malformed("value"))?;
    let server = document.get("server").map_err(|_| malformed("server"))?;
    let server = server.map(|server| server.as_str().ok_or_else(|| malformed("server"))).transpose()?;
    Ok(Epoch { number, server: server.unwrap_or_default().to_owned() })
}
