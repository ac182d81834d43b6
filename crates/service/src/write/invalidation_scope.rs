//! What is given up around a write besides its own record: lists that may show it, records that may end with it.

use std::future::Future;

use kith_cache::{CacheError, Change, Key, ListWrite, Token, WriteGuard};
use kith_store::{Outcome, StoreError};

use crate::write::mutations::{Committed, unknown};

/// Invalidations that begin before a write, and end with its outcome.
pub(crate) trait InvalidationScope: Send {
    /// Whether the write is acknowledged only after this is published to the other nodes.
    fn is_strict(&self) -> bool {
        false
    }

    /// The write is committed: its copies in memory are dropped, and it is published to the other nodes.
    fn committed(self) -> impl Future<Output = Result<Token, CacheError>> + Send;

    /// The outcome of the write is unknown: it may be applied now or later.
    fn unknown(self) -> impl Future<Output = Result<Token, CacheError>> + Send;

    /// The write was not applied.
    fn aborted(self) -> impl Future<Output = ()> + Send;
}

/// Runs a write with these additional invalidations. They are published after the record, so that the token covers
/// both; also for a repeated request, whose first attempt may not have been published.
pub(crate) async fn write_with_invalidations<T: Send + Sync>(
    invalidations: impl InvalidationScope,
    write: impl Future<Output = Result<Committed<T>, StoreError>> + Send,
) -> Result<Committed<T>, StoreError> {
    match write.await {
        Ok(written) => {
            let strict = invalidations.is_strict();
            match invalidations.committed().await {
                Ok(token) => Ok(Committed { record: written.record, token }),
                Err(_) if strict => Err(unknown("other nodes may not know of the write yet")),
                Err(_) => Ok(written),
            }
        }
        Err(error) => {
            if error.outcome() == Outcome::Unknown {
                // What could not be published to others now is queued by the cache.
                drop(invalidations.unknown().await);
            } else {
                invalidations.aborted().await;
            }
            Err(error)
        }
    }
}

impl<L: Key> InvalidationScope for ListWrite<L> {
    fn committed(self) -> impl Future<Output = Result<Token, CacheError>> + Send {
        Self::committed(self)
    }

    fn unknown(self) -> impl Future<Output = Result<Token, CacheError>> + Send {
        Self::unknown(self)
    }

    fn aborted(self) -> impl Future<Output = ()> + Send {
        Self::aborted(self)
    }
}

/// Records that the write of another record may change, in an unknown way.
#[derive(Debug)]
pub(crate) struct RecordInvalidations<K: Key, V: Send + Sync + 'static> {
    pub(crate) guard: WriteGuard<K, V>,
    /// Those that the guard has marked.
    pub(crate) keys: Vec<K>,
}

impl<K: Key, V: Send + Sync + 'static> InvalidationScope for RecordInvalidations<K, V> {
    fn is_strict(&self) -> bool {
        self.guard.is_strict()
    }

    fn committed(self) -> impl Future<Output = Result<Token, CacheError>> + Send {
        let changes = self.keys.into_iter().map(|key| (key, Change::Invalidate { version: None })).collect();
        self.guard.committed(changes)
    }

    fn unknown(self) -> impl Future<Output = Result<Token, CacheError>> + Send {
        self.guard.unknown()
    }

    fn aborted(self) -> impl Future<Output = ()> + Send {
        self.guard.aborted()
    }
}
