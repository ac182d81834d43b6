//! The stores over one client.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use super::{
    client::{options::CqlOptions, session::Client},
    log_end::LogEnds,
    member::queue::ChangeQueue,
    relation::follow::bucket_cache::BucketCache,
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

    /// Sets the store with the logs, once. Without it no user can join or leave.
    pub(crate) fn set_log_ends(&self, ends: Weak<dyn LogEnds>) {
        self.log_ends.set(ends).ok();
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
