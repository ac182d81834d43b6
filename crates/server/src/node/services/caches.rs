//! How copies live in memory, as it is configured.

use kith_cache::Policy;
use kith_service::{
    conversation, dialog,
    group::{self, members},
    message::documents,
    notice, presence, relation, user,
    write::cache_defaults::CacheDefaults,
};

use crate::config::{Backend, Config};

/// Of all namespaces. A share is a weight: a domain that has more of them makes those of the others smaller.
const SHARES: u64 = user::cache::SHARES
    + group::cache::SHARES
    + members::cache::SHARES
    + relation::cache::SHARES
    + conversation::cache::SHARES
    + documents::cache::SHARES
    + dialog::cache::SHARES
    + notice::cache::SHARES
    + presence::cache::SHARES;

/// As configured where others may write to the store. A file is locked by this node, so that copies of what it holds stay until
/// this node changes it.
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
        memory_bytes: cache.memory_bytes,
        shares: SHARES,
    }
}
