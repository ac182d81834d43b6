//! The contract between the cache and the store below it. One result or error of a load may be returned to
//! many readers.

use std::{error::Error, fmt, sync::Arc};

use crate::Version;

/// Reads the store below the tiers.
///
/// Every load may fill a copy, so it must read acknowledged state: from the primary, and with majority read
/// concern if the store has it. A load is dropped at its bound ([`Policy::load_bound`](crate::Policy)), and
/// may panic: its readers then get an error.
#[async_trait::async_trait]
pub trait Loader<K, V>: Send + Sync + 'static {
    /// Reads one record. Absence is `Ok(Loaded::Absent)`, never an error. Implemented by stores that read one
    /// record at less cost than a batch.
    ///
    /// # Errors
    /// The store's error. It is returned to every waiting reader, and is not cached.
    async fn load(&self, key: &K, options: LoadOptions) -> Result<Loaded<V>, LoadError>
    where
        K: Sync,
        V: Send + Sync,
    {
        let found = self.load_many(std::slice::from_ref(key), options).await?.into_iter().next();
        Ok(found.map_or(Loaded::Absent { version: Version::UNVERSIONED }, |(_, loaded)| loaded))
    }

    /// Reads many distinct records, at most [`Policy::batch_chunk`](crate::Policy), in one round trip if the
    /// store can; other stores use [`load_each`]. The answer has any order; a key absent from it was never
    /// stored.
    ///
    /// # Errors
    /// Like [`Loader::load`], for all the keys at once.
    async fn load_many(&self, keys: &[K], options: LoadOptions) -> Result<Vec<(K, Loaded<V>)>, LoadError>;
}

/// Reads records one after the other by [`Loader::load`], which the loader must implement.
///
/// # Errors
/// The store's first error.
pub async fn load_each<K: Clone + Sync, V: Send + Sync>(
    loader: &(impl Loader<K, V> + ?Sized),
    keys: &[K],
    options: LoadOptions,
) -> Result<Vec<(K, Loaded<V>)>, LoadError> {
    let mut loaded = Vec::with_capacity(keys.len());
    for key in keys {
        loaded.push((key.clone(), loader.load(key, options).await?));
    }
    Ok(loaded)
}

/// The requirements of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The record has at least this version: an older answer comes from a store that lags, is not kept, and
    /// is read again. Unversioned when nothing is known. For many keys, the largest of theirs.
    pub min_version: Version,
    /// Only the store may answer, no shared copy, however new.
    pub strong: bool,
}

impl LoadOptions {
    /// A load of a record known to have reached this version.
    #[must_use]
    pub const fn at_least(min_version: Version) -> Self {
        Self { min_version, strong: false }
    }
}

/// The state of a record in the store.
#[derive(Debug)]
pub enum Loaded<V> {
    /// The record exists.
    Found {
        /// The loaded record.
        value: Arc<V>,
        /// Its version; unversioned if the store has none.
        version: Version,
    },
    /// No live record.
    Absent {
        /// Version of the stub that a deleted record leaves; unversioned if it was never stored.
        version: Version,
    },
}

impl<V> Loaded<V> {
    /// The version that the record or its stub has.
    #[must_use]
    pub const fn version(&self) -> Version {
        match self {
            Self::Found { version, .. } | Self::Absent { version } => *version,
        }
    }
}

impl<V> Clone for Loaded<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Found { value, version } => Self::Found { value: Arc::clone(value), version: *version },
            Self::Absent { version } => Self::Absent { version: *version },
        }
    }
}

/// A failed load's error: the store's, shared by all waiting readers. Its text has no details;
/// [`LoadError::downcast_ref`] returns the cause.
#[derive(Clone)]
pub struct LoadError(Arc<dyn Error + Send + Sync>);

impl LoadError {
    /// Wraps the error of a store.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error of the store, if it is an `E`.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadError").field(&self.0).finish()
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store did not answer the load")
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}
