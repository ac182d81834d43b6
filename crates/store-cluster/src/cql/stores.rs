//! The stores over one client.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use kith_store::{Coordination, NamedFeed};

use super::{
    client::{options::CqlOptions, session::Client},
    feed::reader::RelationFeed,
    follow::bucket_cache::BucketCache,
    log_end::LogEnds,
    maintenance::sweeper,
    member::queue::ChangeQueue,
};

/// Implements every relation store; each has its own folder here.
pub(crate) struct Cql {
    pub(crate) client: Arc<Client>,
    pub(super) heads: BucketCache,
    pub(super) change_queue: ChangeQueue,
    pub(super) log_ends: OnceLock<Weak<dyn LogEnds>>,
    /// This store, for work that continues after its call has ended.
    pub(super) this: Weak<Self>,
}

impl Cql {
    /// Begins to connect, without a time limit; `None` if the options cannot be used.
    pub(crate) fn open(options: CqlOptions) -> Option<Arc<Self>> {
        let (calls, bucket_entries) = (options.calls(), options.bucket_entries);
        let client = Client::open(options)?;
        Some(Arc::new_cyclic(|this| Self {
            client,
            heads: BucketCache::new(bucket_entries),
            change_queue: ChangeQueue::new(calls),
            log_ends: OnceLock::new(),
            this: Weak::clone(this),
        }))
    }

    /// Starts the sweep, which counts lists and completes dead nodes' changes, while the stores are in use.
    pub(crate) fn sweep(self: &Arc<Self>, coordination: &Weak<dyn Coordination>) {
        sweeper::start(self, coordination);
    }

    /// The change feeds.
    pub(crate) fn feeds(self: &Arc<Self>) -> Vec<NamedFeed> {
        let shards = 0..i32::try_from(self.client.options.feed_shards).unwrap_or(i32::MAX);
        let feed = |shard| NamedFeed {
            name: format!("relation_feed_{shard}"),
            feed: Arc::new(RelationFeed::new(Arc::clone(self), shard)),
        };
        shards.map(feed).collect()
    }

    /// Ends the background work.
    pub(crate) fn close(&self) {
        self.client.close();
    }
}

impl fmt::Debug for Cql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cql").field("client", &self.client).finish_non_exhaustive()
    }
}
