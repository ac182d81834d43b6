//! Keeps the changes that the reader of a feed reads, so that other systems can read them later.
//!
//! An entry is stored before its batch is handed on, so before a mark can be saved that passes it: a leader
//! that dies leaves changes that are read and kept again, and none that is missed. The unique number of an
//! entry ends all but one of two leaders that read the same feed.

use std::sync::Arc;

use kith_cache::remote::FeedError;
use kith_service::change::ChangesConfig;
use kith_store::{
    ChangesEntry, ChangesExtent, ChangesStore, ChangesWriter, ENTRY_CHANGES_MAX, FEED_BATCH_MAX, FeedChange,
    FeedRecord, StoreError, Stores, Timestamp,
};

const _: () = assert!(FEED_BATCH_MAX <= ENTRY_CHANGES_MAX);

/// Begins and ends the keeping of changes.
#[derive(Clone, Debug)]
pub(super) struct ChangesKeeper {
    store: Arc<dyn ChangesStore>,
    writer: Arc<dyn ChangesWriter>,
    config: ChangesConfig,
}

impl ChangesKeeper {
    /// `None`: the store keeps its changes itself.
    pub(super) fn new(stores: &Stores, config: ChangesConfig) -> Option<Self> {
        let writer = Arc::clone(stores.changes_writer.as_ref()?);
        Some(Self { store: Arc::clone(&stores.changes), writer, config })
    }

    /// Begins to keep a feed's changes after the feed was opened; `None`: changes are not kept. `follows`:
    /// whether the feed was opened at its saved mark, up to which all changes are kept. Otherwise changes may
    /// be missing, so that a new generation begins.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) async fn begin(&self, feed: &str, follows: bool) -> Result<Option<KeptFeed>, FeedError> {
        let extent = self.extent().await?;
        let ChangesConfig { kept, dialogs, .. } = self.config;
        if kept.is_zero() {
            if extent.is_some() {
                self.end();
            }
            return Ok(None);
        }
        let extent = match extent.filter(|extent| follows && extent.dialogs == dialogs) {
            Some(extent) => extent,
            None => self.begin_generation(dialogs).await?,
        };
        let last = extent.feeds.get(feed).map_or(0, |positions| positions.last);
        let writer = Arc::clone(&self.writer);
        Ok(Some(KeptFeed { writer, feed: feed.to_owned(), dialogs, next: Some(last + 1) }))
    }

    /// Leaders of several feeds may begin a generation at the same moment: the last one counts. That is no
    /// harm, because what each has read since it opened its feed has a position in every later generation.
    async fn begin_generation(&self, dialogs: bool) -> Result<ChangesExtent, FeedError> {
        self.store.begin_generation(dialogs).await.map_err(|error| unavailable(&error))?;
        // Without a generation, another node has just ended the keeping.
        self.extent().await?.ok_or(FeedError::Unavailable)
    }

    async fn extent(&self) -> Result<Option<ChangesExtent>, FeedError> {
        self.store.changes_extent().await.map_err(|error| unavailable(&error))
    }

    /// Removes what an earlier configuration has kept: readers would otherwise take it for all changes. The
    /// feed does not wait for it. The next leader completes it if this node dies.
    fn end(&self) {
        tracing::warn!("changes are not kept any more: other systems that read them have to begin again");
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            if let Err(error) = store.end_changes().await {
                tracing::warn!(%error, "kept changes were not removed");
            }
        });
    }
}

/// Keeps the changes of an open feed.
#[derive(Debug)]
pub(super) struct KeptFeed {
    writer: Arc<dyn ChangesWriter>,
    feed: String,
    dialogs: bool,
    /// The next entry's number. `None`: it is not known whether an entry was stored, or another node reads
    /// the feed. Nothing is kept after that, so that no change is passed over.
    next: Option<i64>,
}

impl KeptFeed {
    /// Stores a batch as an entry, if there is any change to keep.
    ///
    /// # Errors
    /// If it may not be stored. The feed must be opened again, at its saved mark.
    pub(super) async fn keep(&mut self, batch: &[FeedChange]) -> Result<(), FeedError> {
        let is_kept = |change: &&FeedChange| self.dialogs || !matches!(change.record, FeedRecord::Dialog(_));
        let changes: Vec<FeedChange> = batch.iter().filter(is_kept).copied().collect();
        if changes.is_empty() {
            return Ok(());
        }
        let number = self.next.take().ok_or(FeedError::Unavailable)?;
        let entry = ChangesEntry { feed: self.feed.clone(), number, written: Timestamp::now(), changes };
        if !self.writer.append_changes(&entry).await.map_err(|error| unavailable(&error))? {
            tracing::debug!(feed = self.feed, "another node keeps this feed's changes, too");
            return Err(FeedError::Unavailable);
        }
        self.next = Some(number + 1);
        Ok(())
    }
}

fn unavailable(error: &StoreError) -> FeedError {
    tracing::debug!(%error, "changes cannot be kept now");
    FeedError::Unavailable
}

#[cfg(test)]
mod tests;
