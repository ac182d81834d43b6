//! Memory in front of a store, for a node in a cluster: reads come from memory, and are never stale for
//! longer than a stated bound.
//!
//! A [`Node`] holds what all its namespaces share: clock, bus, trust. A [`TieredCache`] is one namespace: a
//! record kind with a [`Policy`] and a [`Loader`] that reads the store. Writers take a [`WriteGuard`] around
//! their commit. The crate knows no domain and no store.
//!
//! Three rules prevent that a late value comes back. Each is a named guard that tests disable: a load fills
//! only if its key was not invalidated since it began; a value older than its key's floor never fills;
//! nothing fills while a write to its key is in progress.

mod api;
mod collection;
pub mod fake;
mod local;
mod metrics;
mod node;
pub mod remote;
mod source;
pub mod spans;
mod storage;
mod testing;

pub use api::{
    clock::{Clock, Moment, SystemClock},
    entry::{Change, Consistency, Entry, Key, Tier},
    error::CacheError,
    loader::{LoadError, LoadOptions, Loaded, Loader, load_each},
    policy::Policy,
    random::{Random, ThreadRandom},
    session::Session,
    token::{Position, Token, TokenError, UNPUBLISHED, UNSEEN},
    token_issuer::{TOKEN_KEPT, TokenIssuer, UNSEEN_KEPT},
    version::Version,
};
pub use collection::{
    ItemsCodec, ListEpoch, ListPolicies, NotAKey, Page, PageAnswer, PageKey, PageLoader, PagedList,
};
pub use local::{
    delayed_invalidation::LATE_WRITES_FOR,
    namespace::{Depth, Namespace, Presence, Stats, TierCopy},
    resync::{ResyncReport, Resyncer},
    tiered_cache::TieredCache,
    write_guard::WriteGuard,
    write_parts::WriteParts,
};
pub use metrics::{
    exposition::METRICS,
    metric::{Metric, MetricKind},
};
pub use node::{
    bus::{Acknowledge, Bus, BusError, Invalidation, LocalBus},
    shared_node::{HiddenWrites, Node, NodeConfig},
};
pub use source::admission::{AdmissionQueue, OwnedPermit, Permit};
