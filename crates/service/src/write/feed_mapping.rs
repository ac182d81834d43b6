//! How a record's change in the store affects copies: one mapping for each kind of record, given by its
//! domain.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use kith_cache::{Invalidation, remote::FeedError};
use kith_store::FeedRecord;

/// Maps changes in one kind of record to copies.
#[async_trait]
pub trait FeedMapping: Debug + Send + Sync {
    /// The namespace that keeps the record's copies.
    fn namespace(&self) -> &'static str;

    /// The copy's key; `None`: the record has another kind.
    fn key(&self, record: &FeedRecord) -> Option<String>;

    /// The invalidations for everything else that may show this key's record, such as lists.
    ///
    /// # Errors
    /// When a store that has to be asked does not answer.
    async fn dependents(&self, key: &str) -> Result<Vec<Invalidation>, FeedError>;

    /// Drops what shows this key's record apart from namespaces.
    ///
    /// # Errors
    /// When what keeps it does not answer; the change is read again then.
    async fn drop_others(&self, _key: &str) -> Result<(), FeedError> {
        Ok(())
    }
}

/// A mapping that needs nothing but the key.
#[derive(Clone, Copy, Debug)]
pub struct KeyMapping {
    /// See [`FeedMapping::namespace`].
    pub namespace: &'static str,
    /// See [`FeedMapping::key`].
    pub key: fn(&FeedRecord) -> Option<String>,
    /// See [`FeedMapping::dependents`].
    pub dependents: fn(&str) -> Vec<Invalidation>,
}

impl KeyMapping {
    /// The mapping of records that only their own copy shows.
    #[must_use]
    pub fn of_record(
        namespace: &'static str,
        key: fn(&FeedRecord) -> Option<String>,
    ) -> Arc<dyn FeedMapping> {
        Arc::new(Self { namespace, key, dependents: |_| Vec::new() })
    }
}

#[async_trait]
impl FeedMapping for KeyMapping {
    fn namespace(&self) -> &'static str {
        self.namespace
    }

    fn key(&self, record: &FeedRecord) -> Option<String> {
        (self.key)(record)
    }

    async fn dependents(&self, key: &str) -> Result<Vec<Invalidation>, FeedError> {
        Ok((self.dependents)(key))
    }
}
