//! The arguments and results of cache calls: keys, entries, tiers, read consistency, and the changes that
//! writes report.

use std::{
    fmt::{Debug, Display},
    hash::Hash,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use crate::{Token, Version};

/// The requirements of a key. `Display` and `FromStr` are inverse: the text identifies the key between nodes.
pub trait Key: Hash + Eq + Clone + Debug + Display + FromStr + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Debug + Display + FromStr + Send + Sync + 'static> Key for K {}

/// A record from a tier.
#[derive(Debug)]
pub struct Entry<V> {
    /// The cached record.
    pub value: Arc<V>,
    /// Its version; unversioned if the store has none.
    pub version: Version,
    /// The tier that gave it.
    pub tier: Tier,
    /// Time since the load that read it from the store began, in whole milliseconds.
    pub age: Duration,
    /// Whether it was served after its expiry, because the store was slow or failed.
    pub stale: bool,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), ..*self }
    }
}

/// The tiers, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The memory of this node.
    Memory,
    /// The copies that nodes share.
    Redis,
    /// The store, which is the source of truth.
    Store,
}

impl Tier {
    /// `memory`, `redis` or `store`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Store => "store",
        }
    }
}

/// The consistency of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Within the bound of the namespace.
    #[default]
    Cached,
    /// The read is not older than the writes that gave these tokens. Without tokens it acts like
    /// [`Consistency::Cached`].
    AtLeast(Vec<Token>),
    /// Read from the store by a load that began after the call.
    Strong,
}

/// The effect of a committed write on a record.
#[derive(Debug)]
pub enum Change<V> {
    /// It has this value now. Memory takes it immediately.
    Put {
        /// The record as committed.
        value: Arc<V>,
        /// The version that the store gave it; unversioned acts as `Invalidate`.
        version: Version,
    },
    /// It was deleted. Memory takes this immediately.
    Deleted {
        /// Version of the stub it left; unversioned acts as `Invalidate`.
        version: Version,
    },
    /// It changed in an unknown way.
    Invalidate {
        /// Its present version, if known.
        version: Option<Version>,
    },
}

impl<V> Change<V> {
    /// The version that the change gave the record, if it is known.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Put { version, .. } | Self::Deleted { version } => Some(*version),
            Self::Invalidate { version } => *version,
        }
        .filter(|version| version.is_versioned())
    }
}
