//! Call and namespace figures: since the start, and since an earlier reading.

use kith_cache::Stats;
use kith_proto::admin::v1 as wire;
use kith_service::rpc::versions::wire_duration;

use super::convert::signed;
use crate::edge::{LatencySnapshot, MethodCounts};

/// The service for operators. Its calls are not counted as caller calls.
const OWN: &str = "kith.admin.v1.AdminService";

/// Callers' unary calls, all methods together.
pub(super) fn of_callers(counted: &[MethodCounts]) -> wire::CallFigures {
    let (mut times, mut errors, mut faults) = (LatencySnapshot::default(), 0, 0);
    for one in counted.iter().filter(|one| one.unary && one.service != OWN) {
        times.add(&one.times);
        errors += one.errors;
        faults += one.faults;
    }
    figures(&times, errors, faults)
}

/// The calls by method.
pub(super) fn of_methods(counted: &[MethodCounts]) -> Vec<wire::MethodFigures> {
    let method = |one: &MethodCounts| wire::MethodFigures {
        service: one.service.clone(),
        method: one.method.clone(),
        figures: Some(figures(&one.times, one.errors, one.faults)),
    };
    counted.iter().map(method).collect()
}

fn figures(times: &LatencySnapshot, errors: u64, faults: u64) -> wire::CallFigures {
    wire::CallFigures {
        calls: signed(times.calls()),
        errors: signed(errors),
        faults: signed(faults),
        p50: times.quantile(0.5).map(wire_duration),
        p99: times.quantile(0.99).map(wire_duration),
    }
}

/// The figures since an earlier reading, for the methods that were called since.
pub(super) fn calls_since(now: &[MethodCounts], before: &[MethodCounts]) -> Vec<MethodCounts> {
    let earlier = |one: &MethodCounts| {
        before.iter().find(|other| other.service == one.service && other.method == one.method)
    };
    let since = |one: &MethodCounts| match earlier(one) {
        Some(before) => MethodCounts {
            errors: one.errors.saturating_sub(before.errors),
            faults: one.faults.saturating_sub(before.faults),
            times: one.times.since(&before.times),
            ..one.clone()
        },
        None => one.clone(),
    };
    now.iter().map(since).filter(|one| one.times.calls() > 0).collect()
}

/// A namespace's figures since an earlier reading. Sizes and running loads are present values.
pub(super) fn stats_since(now: &Stats, before: &Stats) -> Stats {
    Stats {
        entries: now.entries,
        weight_bytes: now.weight_bytes,
        weight_limit_bytes: now.weight_limit_bytes,
        loads_in_flight: now.loads_in_flight,
        hits: now.hits.saturating_sub(before.hits),
        misses: now.misses.saturating_sub(before.misses),
        joined: now.joined.saturating_sub(before.joined),
        loads: now.loads.saturating_sub(before.loads),
        load_errors: now.load_errors.saturating_sub(before.load_errors),
        stale_served: now.stale_served.saturating_sub(before.stale_served),
        fills_rejected: now.fills_rejected.saturating_sub(before.fills_rejected),
        invalidations: now.invalidations.saturating_sub(before.invalidations),
        evictions: now.evictions.saturating_sub(before.evictions),
        shed: now.shed.saturating_sub(before.shed),
        shared_hits: now.shared_hits.saturating_sub(before.shared_hits),
        shared_misses: now.shared_misses.saturating_sub(before.shared_misses),
        shared_errors: now.shared_errors.saturating_sub(before.shared_errors),
        store_reads: now.store_reads.saturating_sub(before.store_reads),
        invalidations_received: now.invalidations_received.saturating_sub(before.invalidations_received),
        resync_checked: now.resync_checked.saturating_sub(before.resync_checked),
        resync_stale: now.resync_stale.saturating_sub(before.resync_stale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_absolute_and_counters_since_last() {
        let before = Stats { entries: 9, hits: 100, loads: 7, loads_in_flight: 3, ..Stats::default() };
        let now = Stats { entries: 4, hits: 150, loads: 7, loads_in_flight: 1, ..Stats::default() };
        let since = Stats { entries: 4, hits: 50, loads_in_flight: 1, ..Stats::default() };
        assert_eq!(stats_since(&now, &before), since);
    }
}
