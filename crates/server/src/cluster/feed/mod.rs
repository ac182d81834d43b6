//! The adapter from the store's change feed to the cache. One node at a time reads a feed, under a lease in
//! the store, where its position is also saved.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use kith_cache::{
    Invalidation,
    remote::{Changes, Feed, FeedError, FeedPosition},
};
use kith_store::{
    ChangeFeed, Coordination, FeedBatch, FeedChange, Migrations, NamedFeed, StoreError, Stores,
};

use kith_service::{change::ChangesConfig, rpc::versions::cache_version, write::feed_mapping::FeedMapping};

use super::kept_changes::{ChangesKeeper, KeptFeed};

/// How long to wait for a new feed's position.
const FIRST: Duration = Duration::from_millis(200);
/// How long a node may take to begin a new feed.
const BEGINS: Duration = Duration::from_secs(2);

/// The store's change feed, in tier types.
#[derive(Clone, Debug)]
pub(super) struct StoreFeed {
    /// Names the reader's lease, and the mark for its progress.
    name: String,
    feed: Arc<dyn ChangeFeed>,
    coordination: Arc<dyn Coordination>,
    migrations: Arc<dyn Migrations>,
    mappings: Arc<[Arc<dyn FeedMapping>]>,
    keeper: Option<ChangesKeeper>,
    holder: String,
}

impl StoreFeed {
    /// Returns all feeds that the store has; none if only this process can change the store. `holder` names
    /// this node. `changes`: whether and which of their changes are kept.
    pub(super) fn all(
        stores: &Stores,
        mappings: &Arc<[Arc<dyn FeedMapping>]>,
        holder: &str,
        changes: ChangesConfig,
    ) -> Vec<Self> {
        let keeper = ChangesKeeper::new(stores, changes);
        let of = |named: &NamedFeed| Self {
            name: named.name.clone(),
            feed: Arc::clone(&named.feed),
            coordination: Arc::clone(&stores.coordination),
            migrations: Arc::clone(&stores.migrations),
            mappings: Arc::clone(mappings),
            keeper: keeper.clone(),
            holder: holder.to_owned(),
        };
        stores.feeds.iter().map(of).collect()
    }

    /// Opens the feed at its present end. Changes that it delivers before it reports its position are
    /// delivered, too.
    async fn begin(&self) -> Result<OpenFeed, FeedError> {
        let mut changes = self.feed.open(None).await.map_err(|error| meaning(&error))?;
        // A new generation begins once the feed is open, so that no change falls between; and before the
        // feed's position is saved, so that the next leader does not take the loss for a continuation.
        let kept = self.begin_to_keep(false).await?;
        let first = changes.next(FIRST).await.map_err(|error| meaning(&error))?;
        let mut open = OpenFeed {
            feed: self.clone(),
            changes,
            kept,
            unread: Vec::new(),
            position: FeedPosition::default(),
            saved: Vec::new(),
        };
        open.unread = open.read(first).await?;
        Ok(open)
    }

    async fn begin_to_keep(&self, follows: bool) -> Result<Option<KeptFeed>, FeedError> {
        match &self.keeper {
            Some(keeper) => keeper.begin(&self.name, follows).await,
            None => Ok(None),
        }
    }

    /// Saves the present end as the position, if the feed has none. Returns false if another node does so
    /// now, or the end is not known yet.
    pub(super) async fn begin_new(&self) -> Result<bool, FeedError> {
        if self.mark().await?.is_some() {
            return Ok(true);
        }
        if !self.lead(BEGINS).await? {
            return Ok(false);
        }
        let mut begun = self.begin().await?;
        let mark = begun.position().mark;
        let saved = !mark.is_empty() && begun.save(&mark).await?;
        self.yield_lead().await;
        Ok(saved)
    }

    async fn mark(&self) -> Result<Option<Vec<u8>>, FeedError> {
        self.coordination.mark(&self.name).await.map_err(|_| FeedError::Unavailable)
    }

    async fn lease(&self, name: &str, lasts: Duration) -> Result<bool, FeedError> {
        self.coordination.lease(name, &self.holder, lasts).await.map_err(|_| FeedError::Unavailable)
    }
}

/// The lease that notes that a feed was read to its end.
fn end_lease(feed: &str) -> String {
    format!("{feed}_end")
}

#[async_trait]
impl Feed for StoreFeed {
    fn name(&self) -> &str {
        &self.name
    }

    async fn lead(&self, lasts: Duration) -> Result<bool, FeedError> {
        self.lease(&self.name, lasts).await
    }

    async fn yield_lead(&self) {
        // The lease expires by itself.
        drop(self.coordination.release(&self.name, &self.holder).await);
    }

    async fn open(&self, at_end: bool) -> Result<Box<dyn Changes>, FeedError> {
        if at_end {
            return Ok(Box::new(self.begin().await?));
        }
        let mark = self.mark().await?.ok_or(FeedError::Lost)?;
        let changes = self.feed.open(Some(&mark)).await.map_err(|error| meaning(&error))?;
        Ok(Box::new(OpenFeed {
            feed: self.clone(),
            changes,
            kept: self.begin_to_keep(true).await?,
            unread: Vec::new(),
            position: FeedPosition { mark: mark.clone(), ..FeedPosition::default() },
            saved: mark,
        }))
    }

    /// Indexes that cannot be created again are no reason not to read the feed.
    async fn restore(&self) -> Result<(), FeedError> {
        match self.migrations.restore_indexes().await {
            Ok(()) => Ok(()),
            Err(StoreError::Unavailable { .. }) => Err(FeedError::Unavailable),
            Err(error) => {
                tracing::error!(%error, "indexes of the store cannot be created again: run `kith migrate`");
                Ok(())
            }
        }
    }

    async fn note_end(&self, lasts: Duration) -> Result<(), FeedError> {
        self.lease(&end_lease(&self.name), lasts).await.map(drop)
    }

    async fn is_end_noted(&self) -> Result<bool, FeedError> {
        let end = [end_lease(&self.name)];
        let held = self.coordination.held(&end).await.map_err(|_| FeedError::Unavailable)?;
        Ok(!held.is_empty())
    }

    /// Lists and windows do not contain changes that no node published.
    async fn dependent_changes(&self, changes: &[Invalidation]) -> Result<Vec<Invalidation>, FeedError> {
        let mut dependent_changes = Vec::new();
        for change in changes {
            for mapping in self.mappings.iter().filter(|mapping| mapping.namespace() == change.namespace) {
                mapping.drop_others(&change.key).await?;
                dependent_changes.extend(mapping.dependents(&change.key).await?);
            }
        }
        Ok(dependent_changes)
    }
}

impl StoreFeed {
    /// The invalidations for these changes. Record kinds without copies have none.
    fn invalidations(&self, changes: &[FeedChange]) -> Vec<Invalidation> {
        changes.iter().filter_map(|change| self.invalidation(change)).collect()
    }

    fn invalidation(&self, change: &FeedChange) -> Option<Invalidation> {
        let mapped =
            |mapping: &Arc<dyn FeedMapping>| Some((mapping.namespace(), mapping.key(&change.record)?));
        let (namespace, key) = self.mappings.iter().find_map(mapped)?;
        // A change by hand may have set the version back: copies with every version are dropped.
        let version = change.version.filter(|_| !change.by_hand).map(cache_version);
        Some(Invalidation { namespace, key, version, copy: None })
    }
}

#[derive(Debug)]
struct OpenFeed {
    feed: StoreFeed,
    changes: Box<dyn kith_store::FeedStream>,
    /// `None`: changes are not kept.
    kept: Option<KeptFeed>,
    /// Read before the first request.
    unread: Vec<Invalidation>,
    /// The position after the returned changes.
    position: FeedPosition,
    /// The mark that was saved last.
    saved: Vec<u8>,
}

#[async_trait]
impl Changes for OpenFeed {
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError> {
        if !self.unread.is_empty() {
            return Ok(std::mem::take(&mut self.unread));
        }
        let batch = self.changes.next(patience).await.map_err(|error| meaning(&error))?;
        self.read(batch).await
    }

    fn position(&self) -> FeedPosition {
        self.position.clone()
    }

    async fn save(&mut self, mark: &[u8]) -> Result<bool, FeedError> {
        if mark == self.saved || mark.is_empty() {
            return Ok(true);
        }
        let StoreFeed { name, coordination, holder, .. } = &self.feed;
        let saved = coordination.set_mark(name, holder, mark).await.map_err(|_| FeedError::Unavailable)?;
        self.saved = mark.to_vec();
        Ok(saved)
    }
}

impl OpenFeed {
    /// Keeps a batch's changes, and returns them as invalidations.
    async fn read(&mut self, batch: FeedBatch) -> Result<Vec<Invalidation>, FeedError> {
        if let Some(kept) = &mut self.kept {
            kept.keep(&batch.changes).await?;
        }
        let changes = self.feed.invalidations(&batch.changes);
        self.position = position_after(batch);
        Ok(changes)
    }
}

fn position_after(batch: FeedBatch) -> FeedPosition {
    let written = batch
        .written
        .and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at.0.try_into().ok()?)));
    FeedPosition { mark: batch.mark, is_at_end: batch.is_last, written }
}

fn meaning(error: &kith_store::FeedError) -> FeedError {
    match error {
        kith_store::FeedError::Lost => FeedError::Lost,
        kith_store::FeedError::Unavailable(_) => FeedError::Unavailable,
    }
}

#[cfg(all(test, feature = "cluster"))]
mod tests;
