//! The change feed: one change stream over the database, with read concern majority.
//!
//! A separate task reads the stream, because a driver's future must not be dropped early, and passes the
//! events on through a bounded channel. Changes by hand get their versions in batches.

mod appended;
mod event;
mod event_fields;
mod reader;
mod version_assignment;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{
    ChangeFeed, FEED_BATCH_MAX, FeedBatch, FeedChange, FeedError, FeedRecord, FeedStream, Outcome,
    StoreError, Version,
};
use tokio::{
    sync::mpsc::Receiver,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use super::{database::Mongo, error::out_of_time};
use event::{EventMeaning, VersionEffect, WATCHED, WatchedCollection};
use reader::StreamItem;
#[cfg(test)]
pub(super) use reader::watch;
use version_assignment::HandEdits;

/// Opens change streams.
#[derive(Debug)]
pub(super) struct DocumentFeed {
    mongo: Arc<Mongo>,
}

impl DocumentFeed {
    pub(super) fn new(mongo: Arc<Mongo>) -> Self {
        Self { mongo }
    }
}

#[async_trait]
impl ChangeFeed for DocumentFeed {
    async fn open(&self, after: Option<&[u8]>) -> Result<Box<dyn FeedStream>, FeedError> {
        let (mark, items) = reader::start(&self.mongo, after).await?;
        let mongo = Arc::clone(&self.mongo);
        Ok(Box::new(OpenDocumentFeed { mongo, items, held: Vec::new(), assignment: None, ended: None, mark }))
    }
}

/// Assigns versions in a separate task.
struct VersionAssignment {
    task: JoinHandle<Result<HashMap<FeedRecord, Version>, StoreError>>,
    until: Instant,
}

/// An open change stream.
struct OpenDocumentFeed {
    mongo: Arc<Mongo>,
    items: Receiver<Result<StreamItem, FeedError>>,
    /// Items that were read and are not returned yet.
    held: Vec<StreamItem>,
    /// Assigns versions to the held events; continues if a call is dropped.
    assignment: Option<VersionAssignment>,
    /// Why the stream has ended.
    ended: Option<FeedError>,
    mark: Vec<u8>,
}

impl fmt::Debug for OpenDocumentFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("held", &self.held.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl FeedStream for OpenDocumentFeed {
    async fn next(&mut self, patience: Duration) -> Result<FeedBatch, FeedError> {
        if self.assignment.is_none() {
            self.gather(patience).await;
        }
        if self.held.is_empty() {
            return match &self.ended {
                Some(error) => Err(error.clone()),
                None => Ok(FeedBatch {
                    changes: Vec::new(),
                    mark: self.mark.clone(),
                    is_last: true,
                    written: None,
                }),
            };
        }
        let assigned = self.assigned_versions().await;
        self.assignment = None;
        let assigned = match assigned {
            Ok(assigned) => assigned,
            Err(error) => {
                let error = FeedError::Unavailable(error);
                self.held.clear();
                self.ended = Some(error.clone());
                return Err(error);
            }
        };
        let held = std::mem::take(&mut self.held);
        let is_last = held.len() < FEED_BATCH_MAX;
        if let Some(last) = held.last() {
            self.mark.clone_from(&last.mark);
        }
        let written = held.iter().filter_map(|item| item.written).min();
        let changes = held.into_iter().filter_map(|item| change(item.meaning, &assigned)).collect();
        Ok(FeedBatch { changes, mark: self.mark.clone(), is_last, written })
    }
}

impl OpenDocumentFeed {
    /// Waits for an event, and takes all available events.
    async fn gather(&mut self, patience: Duration) {
        if self.held.is_empty() && self.ended.is_none() {
            match timeout(patience, self.items.recv()).await {
                Ok(item) => self.hold(item),
                Err(_) => return,
            }
        }
        while self.held.len() < FEED_BATCH_MAX && self.ended.is_none() {
            match self.items.try_recv() {
                Ok(item) => self.hold(Some(item)),
                Err(_) => return,
            }
        }
    }

    fn hold(&mut self, item: Option<Result<StreamItem, FeedError>>) {
        match item {
            Some(Ok(item)) => self.held.push(item),
            Some(Err(error)) => self.ended = Some(error),
            // The runtime ends.
            None => self.ended = Some(FeedError::Unavailable(out_of_time(Outcome::NotApplied))),
        }
    }

    /// Waits until held changes by hand have versions.
    async fn assigned_versions(&mut self) -> Result<HashMap<FeedRecord, Version>, StoreError> {
        let edits = hand_edits(&self.held);
        if edits.is_empty() {
            return Ok(HashMap::new());
        }
        let VersionAssignment { task, until } = self.assignment.get_or_insert_with(|| {
            let limit = self.mongo.options.write_majority + self.mongo.options.command;
            let task = tokio::spawn(assign_versions(Arc::clone(&self.mongo), edits));
            VersionAssignment { task, until: Instant::now() + limit }
        });
        let assigned = timeout_at(*until, task).await.map_err(|_| out_of_time(Outcome::Unknown))?;
        assigned.unwrap_or_else(|_| Err(out_of_time(Outcome::Unknown)))
    }
}

async fn assign_versions(
    mongo: Arc<Mongo>,
    edits: Vec<(&'static WatchedCollection, HandEdits)>,
) -> Result<HashMap<FeedRecord, Version>, StoreError> {
    let mut assigned = HashMap::new();
    for (watched, edits) in edits {
        assigned.extend(mongo.assign_versions(watched, edits).await?);
    }
    tracing::info!(records = assigned.len(), "hand edits were given versions");
    Ok(assigned)
}

/// The changes by hand, by collection. A record whose version was changed in one event and left in another
/// counts as changed.
fn hand_edits(held: &[StreamItem]) -> Vec<(&'static WatchedCollection, HandEdits)> {
    let mut records: HashMap<FeedRecord, bool> = HashMap::new();
    for item in held {
        if let EventMeaning::Change(record, effect @ (VersionEffect::Unchanged | VersionEffect::Edited)) =
            item.meaning
        {
            *records.entry(record).or_default() |= effect == VersionEffect::Edited;
        }
    }
    let of = |watched: &'static WatchedCollection| {
        let mut of_collection = HandEdits::default();
        for (record, is_edited) in &records {
            let ids = if *is_edited { &mut of_collection.edited } else { &mut of_collection.unchanged };
            ids.extend((watched.id)(record));
        }
        (!of_collection.is_empty()).then_some((watched, of_collection))
    };
    WATCHED.iter().filter_map(of).collect()
}

fn change(meaning: EventMeaning, assigned: &HashMap<FeedRecord, Version>) -> Option<FeedChange> {
    let (record, effect) = match meaning {
        EventMeaning::Change(record, effect) => (record, effect),
        EventMeaning::Appended(conversation, seqs) => {
            let record = FeedRecord::Messages(conversation, seqs);
            return Some(FeedChange { record, version: None, by_hand: false });
        }
        EventMeaning::Nothing | EventMeaning::End => return None,
    };
    let (version, by_hand) = match effect {
        VersionEffect::Raised(version) => (Some(version), false),
        VersionEffect::Unchanged | VersionEffect::Edited => (assigned.get(&record).copied(), true),
        // This program leaves stubs.
        VersionEffect::Removed => (None, true),
    };
    Some(FeedChange { record, version, by_hand })
}
