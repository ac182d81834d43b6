//! Conversion between tier types and wire types.

use std::{ops::RangeInclusive, time::Duration};

use kith_cache::{Presence, Stats, TierCopy};
use kith_proto::admin::v1 as wire;

use kith_service::rpc::versions::{duration, wire_duration};

pub(super) fn copy(copy: &TierCopy) -> wire::TierCopy {
    let presence = match copy.presence {
        Presence::Value => wire::Presence::Value,
        Presence::Null => wire::Presence::Null,
        Presence::None => wire::Presence::None,
    };
    wire::TierCopy {
        tier: copy.tier.as_str().to_owned(),
        presence: presence.into(),
        version: signed(copy.version.get()),
        age: copy.age.map(wire_duration),
        ttl: copy.ttl.map(wire_duration),
        size_bytes: signed(copy.size_bytes),
    }
}

pub(super) fn stats(namespace: &str, stats: &Stats) -> wire::NamespaceStats {
    wire::NamespaceStats {
        namespace: namespace.to_owned(),
        entries: signed(stats.entries),
        weight_bytes: signed(stats.weight_bytes),
        weight_limit_bytes: signed(stats.weight_limit_bytes),
        hits: signed(stats.hits),
        misses: signed(stats.misses),
        joined: signed(stats.joined),
        loads: signed(stats.loads),
        load_errors: signed(stats.load_errors),
        loads_in_flight: signed(stats.loads_in_flight),
        stale_served: signed(stats.stale_served),
        fills_rejected: signed(stats.fills_rejected),
        invalidations: signed(stats.invalidations),
        evictions: signed(stats.evictions),
        shed: signed(stats.shed),
        redis_hits: signed(stats.shared_hits),
        redis_misses: signed(stats.shared_misses),
        redis_errors: signed(stats.shared_errors),
        store_reads: signed(stats.store_reads),
        invalidations_heard: signed(stats.invalidations_received),
        resync_checked: signed(stats.resync_checked),
        resync_stale: signed(stats.resync_stale),
    }
}

/// The time in a request: `default` if it has none, `None` if it is out of bounds.
pub(super) fn within(
    asked: Option<prost_types::Duration>,
    default: Duration,
    bounds: &RangeInclusive<Duration>,
) -> Option<Duration> {
    let Some(asked) = asked else { return Some(default) };
    duration(&asked).filter(|asked| bounds.contains(asked))
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
