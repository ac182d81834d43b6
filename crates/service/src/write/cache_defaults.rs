//! How copies behave where a domain says nothing else.

use std::time::Duration;

use kith_cache::{ListEpoch, ListPolicies, Page, Policy};

/// How copies behave where a domain says nothing else.
#[derive(Clone, Copy, Debug)]
pub struct CacheDefaults {
    /// How long a copy is served.
    pub ttl: Duration,
    /// How long an absence is served.
    pub negative_ttl: Duration,
    /// The fraction by which lifetimes differ, so that copies do not expire together.
    pub jitter: f64,
    /// How old a copy may be that is served while the store is away.
    pub max_stale: Duration,
    /// How long a caller waits for a load before it is served an older copy.
    pub soft_timeout: Duration,
    /// How long a load may take.
    pub hard_timeout: Duration,
    /// How many loads a namespace has at the same time.
    pub loads_in_flight: usize,
    /// How eagerly copies are refreshed before they expire.
    pub early_refresh: f64,
}

impl CacheDefaults {
    /// The policy for a namespace whose copies weigh so much.
    #[must_use]
    pub fn policy<V>(&self, name: &'static str, weigh: fn(&V) -> usize) -> Policy<V> {
        Policy {
            ttl: self.ttl,
            negative_ttl: self.negative_ttl,
            jitter: self.jitter,
            max_stale: self.max_stale,
            soft_timeout: self.soft_timeout,
            hard_timeout: self.hard_timeout,
            loads_in_flight: self.loads_in_flight,
            early_refresh: self.early_refresh,
            ..Policy::new(name, weigh)
        }
    }

    /// The policies for a list's two namespaces. Its items have no bytes outside of themselves.
    #[must_use]
    pub fn list<T>(&self, epochs: &'static str, pages: &'static str) -> ListPolicies<T> {
        let weigh = |page: &Page<T>| size_of::<Page<T>>() + page.items.len() * size_of::<T>();
        ListPolicies { epochs: self.policy(epochs, ListEpoch::weight), pages: self.policy(pages, weigh) }
    }
}

/// Changes a policy for records that most id pairs lack: their absence is asked for as often, and kept as
/// long, as a record.
pub(crate) fn often_absent<V>(mut policy: Policy<V>) -> Policy<V> {
    policy.negative_ttl = policy.ttl;
    policy
}
