//! When faults were active and had an effect.

use std::{collections::BTreeMap, time::Duration};

use super::Bounds;
use crate::history::Fault;

/// When the cluster had faults.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    by_name: BTreeMap<&'a str, FaultSpans>,
    /// When any fault had an effect.
    any: Vec<[u64; 2]>,
}

/// When a fault had an effect, as disjoint times in order.
#[derive(Debug)]
struct FaultSpans {
    bound: u64,
    /// When it was active, and the healing time after each of these times.
    effective: Vec<[u64; 2]>,
}

impl<'a> Faults<'a> {
    /// A fault without an end lasts until the run's end, and a fault without a begin lasts from the run's
    /// begin.
    pub(super) fn new(faults: impl Iterator<Item = &'a Fault>, bounds: &Bounds) -> Self {
        let mut all: Vec<&Fault> = faults.collect();
        all.sort_by_key(|fault| (fault.at, !fault.on));
        let mut events: BTreeMap<&str, Vec<&Fault>> = BTreeMap::new();
        for fault in all {
            events.entry(&fault.what).or_default().push(fault);
        }
        let by_name = events.into_iter().map(|(name, events)| (name, FaultSpans::new(name, &events, bounds)));
        let by_name: BTreeMap<&str, FaultSpans> = by_name.collect();
        let any = joined(by_name.values().flat_map(|spans| &spans.effective).copied().collect());
        Self { by_name, any }
    }

    /// Whether any fault had an effect during a call. `call`: when it began and ended.
    pub(super) fn disturbed(&self, call: [u64; 2]) -> bool {
        meets(&self.any, call)
    }

    /// The names of faults that had an effect during a call.
    pub(super) fn around(&self, call: [u64; 2]) -> impl Iterator<Item = &'a str> {
        let met = self.by_name.iter().filter(move |(_, spans)| meets(&spans.effective, call));
        met.map(|(name, _)| *name)
    }

    /// The bound for reads under this fault alone. `None`: there was no such fault.
    pub(super) fn bound(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).map(|spans| spans.bound)
    }
}

impl FaultSpans {
    fn new(name: &str, events: &[&Fault], bounds: &Bounds) -> Self {
        let effect = bounds.of(name);
        let heals = nanos(effect.heals);
        let effective = times(events).into_iter().map(|[began, ended]| [began, ended.saturating_add(heals)]);
        Self { bound: nanos(effect.bound), effective: joined(effective.collect()) }
    }
}

/// Whether any of the times overlaps this time.
fn meets(times: &[[u64; 2]], [began, ended]: [u64; 2]) -> bool {
    let before = times.partition_point(|[on, _]| *on <= ended);
    before > 0 && times[before - 1][1] >= began
}

/// Converts to nanoseconds, at most `u64::MAX`.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// When a fault was active, by its events in order.
fn times(events: &[&Fault]) -> Vec<[u64; 2]> {
    let mut times = Vec::new();
    let mut on: Vec<u64> = Vec::new();
    for event in events {
        if event.on {
            on.push(event.at);
        } else {
            times.push([on.pop().unwrap_or_default(), event.at]);
        }
    }
    times.extend(on.into_iter().map(|began| [began, u64::MAX]));
    joined(times)
}

/// Merges times that overlap.
fn joined(mut times: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    times.sort_unstable();
    let mut joined: Vec<[u64; 2]> = Vec::new();
    for [began, ended] in times {
        match joined.last_mut() {
            Some(last) if began <= last[1] => last[1] = last[1].max(ended),
            _ => joined.push([began, ended]),
        }
    }
    joined
}
