//! Memory in front of a store, for a node of a cluster: reads come from memory, and are never stale for longer than a
//! stated bound.
//!
//! A [`Node`] holds what all its namespaces share: clock, bus, trust. A [`TieredCache`] is one namespace: a
//! kind of record with a [`Policy`] and a [`Loader`] that reads the store. Writers take a [`WriteGuard`]
//! around their commit. The crate knows no domain and no store.
//!
//! Three rules prevent that a late value comes back. Each is a named guard that tests disable: a load fills only if its
//! key was not invalidated since it began; a value older than the floor of its key never fills; nothing fills while a
//! write of its key is in progress.

mod bus;
mod bus_metrics;
mod clock;
mod collection;
mod counters;
mod delayed_invalidation;
mod entry;
mod error;
mod failpoints;
pub mod fake;
mod flight;
mod guards;
mod inner;
mod ledger;
mod load;
mod loader;
mod memory;
mod metric;
mod metrics;
mod namespace;
mod node;
mod pending_repeats;
mod policy;
mod random;
mod read;
mod recall;
mod recent;
pub mod remote;
mod resync;
mod resync_rounds;
mod shares;
mod slot;
mod source;
mod tiered;
mod token;
mod turns;
mod until;
mod version;
mod write;

pub use bus::{Acknowledge, Bus, BusError, Invalidation, LocalBus};
pub use clock::{Clock, Moment, SystemClock};
pub use collection::{
    ItemsCodec, ListEpoch, ListPolicies, ListWrite, NotAKey, Page, PageKey, PageLoader, Paged, PagedList,
    Pair, SmallSet,
};
pub use delayed_invalidation::LATE_WRITES_FOR;
pub use entry::{Change, Consistency, Entry, Key, Tier};
pub use error::CacheError;
pub use loader::{LoadError, LoadOptions, Loaded, Loader};
pub use metric::{Metric, MetricKind};
pub use metrics::METRICS;
pub use namespace::{Depth, Namespace, Presence, Stats, TierCopy};
pub use node::{Node, NodeConfig};
pub use policy::Policy;
pub use random::{Random, ThreadRandom};
pub use resync::{Resynced, Resyncing};
pub use shares::MemoryUse;
pub use tiered::TieredCache;
pub use token::{Position, Token, TokenError};
pub use turns::{OwnedTurn, Turn, Turns};
pub use version::Version;
pub use write::WriteGuard;
