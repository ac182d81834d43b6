//! Plans when a client calls which node, and the outcome of each call.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use kith_lab::checker::{Bounds, FaultEffect};
use rand::{Rng as _, rngs::StdRng};

use crate::builder::MS;

const CLIENTS: u32 = 8;
/// The clients below stay with one node.
pub(crate) const PINNED: u32 = 6;
const NODES: u32 = 4;
pub(crate) const FAULTS: [Range<u64>; 2] = [600 * MS..900 * MS, 1_600 * MS..1_900 * MS];
/// The oldest that a node answers, while nothing is wrong and while a fault is on.
const LAGS: [u64; 2] = [20 * MS, 150 * MS];

pub(crate) const BOUNDS: Bounds = Bounds {
    healthy: Duration::from_millis(100),
    faulty: FaultEffect { bound: Duration::from_millis(400), heals: Duration::from_millis(100) },
    by_fault: BTreeMap::new(),
};

#[derive(Clone, Debug)]
pub(crate) struct PlannedCall {
    pub(crate) client: u32,
    pub(crate) node: u32,
    pub(crate) began: u64,
    /// When it takes effect, if it does.
    pub(crate) effect: u64,
    pub(crate) ended: u64,
    /// The request number of a write. A repeated write has the same number.
    pub(crate) request: Option<u64>,
    pub(crate) outcome: PlannedOutcome,
}

impl PlannedCall {
    /// The time up to which a cached read sees writes.
    pub(crate) fn known(&self, random: &mut StdRng) -> u64 {
        self.effect.saturating_sub(random.random_range(0..LAGS[usize::from(is_disturbed(self.began))]))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlannedOutcome {
    Answered,
    Refused,
    /// No answer came; whether it takes effect nevertheless.
    Open(bool),
}

/// How clients call.
pub(crate) struct CallProfile {
    /// How many calls each client makes.
    pub(crate) calls: usize,
    /// A call's maximum length, and a client's maximum pause before the next call.
    pub(crate) lasts: u64,
    pub(crate) pause: u64,
    /// How often a write that was lost is sent again, and how often a call is a write else.
    pub(crate) again: f64,
    pub(crate) writes: f64,
    /// How many in 100 calls during a fault get no answer. Up to 18 others are refused.
    pub(crate) lost: i32,
}

impl CallProfile {
    /// All clients' calls, ordered by their effects.
    pub(crate) fn all_plans(&self, random: &mut StdRng) -> Vec<PlannedCall> {
        let mut requests = 0;
        let mut plans: Vec<PlannedCall> =
            (0..CLIENTS).flat_map(|client| self.plans(client, random, &mut requests)).collect();
        plans.sort_by_key(|plan| plan.effect);
        plans
    }

    /// A client's calls, in sequence. `requests` counts all clients' requests.
    fn plans(&self, client: u32, random: &mut StdRng, requests: &mut u64) -> Vec<PlannedCall> {
        let mut plans: Vec<PlannedCall> = Vec::new();
        let mut now = random.random_range(1..5 * MS);
        while plans.len() < self.calls {
            let node = if client < PINNED { client % NODES } else { random.random_range(0..NODES) };
            let ended = now + random.random_range(MS..self.lasts);
            let outcome = self.outcome(now, random);
            let late = if outcome == PlannedOutcome::Open(true) { 50 * MS } else { 0 };
            let effect = random.random_range(now + 1..ended + late);
            let lost = plans.last().filter(|last| matches!(last.outcome, PlannedOutcome::Open(_)));
            let again = lost.and_then(|last| last.request).filter(|_| random.random_bool(self.again));
            let request = again.or_else(|| random.random_bool(self.writes).then(|| next(requests)));
            plans.push(PlannedCall { client, node, began: now, effect, ended, request, outcome });
            now = ended + random.random_range(1..self.pause);
        }
        plans
    }

    fn outcome(&self, now: u64, random: &mut StdRng) -> PlannedOutcome {
        let disturbed = is_disturbed(now);
        match random.random_range(0..100) {
            drawn if disturbed && drawn < self.lost => PlannedOutcome::Open(random.random_bool(0.5)),
            0..18 if disturbed => PlannedOutcome::Refused,
            _ => PlannedOutcome::Answered,
        }
    }
}

fn is_disturbed(now: u64) -> bool {
    FAULTS.iter().any(|fault| fault.contains(&now))
}

fn next(requests: &mut u64) -> u64 {
    *requests += 1;
    *requests
}
