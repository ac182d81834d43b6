use std::{collections::BTreeMap, time::Duration};

use crate::history::{Call, Fault};

/// When what was wrong with the cluster.
#[derive(Debug)]
pub(super) struct Faults<'a> {
    heals: u64,
    /// By name: apart from each other, in their order.
    by_name: BTreeMap<&'a str, Vec<[u64; 2]>>,
    /// When any was on.
    any: Vec<[u64; 2]>,
}

impl<'a> Faults<'a> {
    /// A fault that never ends lasts; one that only ends had been on from the beginning.
    pub(super) fn new(faults: impl Iterator<Item = &'a Fault>, heals: Duration) -> Self {
        let mut all: Vec<&Fault> = faults.collect();
        all.sort_by_key(|fault| (fault.at, !fault.on));
        let mut turns: BTreeMap<&str, Vec<&Fault>> = BTreeMap::new();
        for fault in all {
            turns.entry(&fault.what).or_default().push(fault);
        }
        let by_name: BTreeMap<_, _> = turns.into_iter().map(|(name, turns)| (name, times(&turns))).collect();
        let any = joined(by_name.values().flatten().copied().collect());
        Self { heals: nanos(heals), by_name, any }
    }

    /// Whether a fault was on during the call, or shortly before it.
    pub(super) fn disturbed(&self, call: &Call) -> bool {
        self.meets(&self.any, call)
    }

    /// The faults that were on during the call or shortly before it, by name.
    pub(super) fn around(&self, call: &Call) -> impl Iterator<Item = &'a str> {
        let met = self.by_name.iter().filter(|(_, times)| self.meets(times, call));
        met.map(|(name, _)| *name)
    }

    fn meets(&self, times: &[[u64; 2]], call: &Call) -> bool {
        let before = times.partition_point(|[began, _]| *began <= call.ended);
        before > 0 && times[before - 1][1].saturating_add(self.heals) >= call.began
    }
}

/// Nanoseconds; all there are if it is longer.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// When the fault of these turns, which are in order, was on.
fn times(turns: &[&Fault]) -> Vec<[u64; 2]> {
    let mut times = Vec::new();
    let mut on: Vec<u64> = Vec::new();
    for turn in turns {
        if turn.on {
            on.push(turn.at);
        } else {
            times.push([on.pop().unwrap_or_default(), turn.at]);
        }
    }
    times.extend(on.into_iter().map(|began| [began, u64::MAX]));
    joined(times)
}

/// Those that meet are one.
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
