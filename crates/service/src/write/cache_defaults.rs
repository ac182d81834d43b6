//! How copies behave where a domain says nothing else, and the share of memory that each namespace has.

use std::time::Duration;

use kith_cache::Policy;

/// How copies behave where a domain says nothing else.
#[derive(Clone, Copy, Debug)]
pub struct CacheDefaults {
    /// How long a copy is served.
    pub ttl: Duration,
    /// How long an absence is served.
    pub negative_ttl: Duration,
    /// By which part of it lifetimes differ, so that copies do not expire together.
    pub jitter: f64,
    /// How old a copy may be that is served while the store is away.
    pub max_stale: Duration,
    /// How long a caller waits for a load before it is served an older copy.
    pub soft_timeout: Duration,
    /// How long a load may take.
    pub hard_timeout: Duration,
    /// Loads of one namespace at the same time.
    pub loads_in_flight: usize,
    /// How eagerly copies are refreshed before they expire.
    pub early_refresh: f64,
    /// Memory of all namespaces, in bytes.
    pub memory_bytes: u64,
    /// Shares of all namespaces of the node.
    pub shares: u64,
}

impl CacheDefaults {
    /// The policy of a namespace that has `shares` of the memory, and whose copies weigh so much. What it does not use of its
    /// shares is lent to others (ADR 0028).
    #[must_use]
    pub fn policy<V>(&self, name: &'static str, shares: u64, weigh: fn(&V) -> usize) -> Policy<V> {
        Policy {
            ttl: self.ttl,
            negative_ttl: self.negative_ttl,
            jitter: self.jitter,
            max_stale: self.max_stale,
            memory_bytes: self.memory_bytes / self.shares.max(1) * shares,
            soft_timeout: self.soft_timeout,
            hard_timeout: self.hard_timeout,
            loads_in_flight: self.loads_in_flight,
            early_refresh: self.early_refresh,
            ..Policy::new(name, weigh)
        }
    }
}

/// Of two namespaces that share what one is given.
pub(crate) fn halved<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.memory_bytes /= 2;
    policy
}

/// Of records that most pairs of ids do not have: their absence is asked for as often, and kept as long as a record.
pub(crate) fn often_absent<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.negative_ttl = policy.ttl;
    policy
}
