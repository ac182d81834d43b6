//! The configured policies for copies in memory.

use kith_cache::Policy;
use kith_service::write::cache_defaults::CacheDefaults;

use crate::config::{Backend, Config};

/// The configured defaults, if others may write to the store. This node locks a data file, so copies stay
/// until this node changes the record.
pub(super) fn cache_defaults(config: &Config) -> CacheDefaults {
    let cache = &config.cache;
    let (ttl, negative_ttl) = match config.store.backend {
        Backend::Sqlite => (Policy::<()>::UNTIL_CHANGED, Policy::<()>::UNTIL_CHANGED),
        Backend::Cluster => (cache.ttl, cache.negative_ttl),
    };
    CacheDefaults {
        ttl,
        negative_ttl,
        jitter: cache.jitter,
        max_stale: cache.max_stale,
        soft_timeout: cache.load_soft,
        hard_timeout: cache.load_hard,
        loads_in_flight: cache.loads_in_flight,
        early_refresh: cache.early_refresh,
    }
}
