use std::{
    fmt::{Debug, Display},
    hash::Hash,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use crate::{Token, Version};

/// What a key must be. `Display` and `FromStr` are each other's inverse: the text names the key between nodes.
pub trait Key: Hash + Eq + Clone + Debug + Display + FromStr + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Debug + Display + FromStr + Send + Sync + 'static> Key for K {}

/// A record as a tier gave it.
#[derive(Debug)]
pub struct Entry<V> {
    /// The record.
    pub value: Arc<V>,
    /// Its version; unversioned if the store has none.
    pub version: Version,
    /// Who gave it.
    pub tier: Tier,
    /// Time since the load that read it from the store began, in whole milliseconds.
    pub age: Duration,
    /// Served after its expiry, since the store was slow or failed.
    pub stale: bool,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), ..*self }
    }
}

/// Where a copy of a record can be, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The memory of this node.
    Memory,
    /// The copies that nodes share.
    Redis,
    /// The store, which holds the truth.
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

/// How fresh the answer of a read must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// As fresh as the bound of the namespace says.
    #[default]
    Cached,
    /// Not older than the writes that gave these tokens. No token: as [`Consistency::Cached`].
    AtLeast(Vec<Token>),
    /// Read from the store by a load that began after the call.
    Strong,
}

/// What a committed write did to a record.
#[derive(Debug)]
pub enum Change<V> {
    /// It has this value now. Memory takes it at once.
    Put {
        /// The record as committed.
        value: Arc<V>,
        /// The version that the store gave it; unversioned acts as `Invalidate`.
        version: Version,
    },
    /// It does not live any more. Memory keeps that at once.
    Deleted {
        /// Version of the stub it left; unversioned acts as `Invalidate`.
        version: Version,
    },
    /// It changed in a way that is not known here.
    Invalidate {
        /// The version it has now, if known.
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
