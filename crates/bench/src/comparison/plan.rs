//! The size of a run, and its schedule with writes and loads. The schedule depends on the seed, the sizes and
//! the fault, never on the scheme.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

/// Between a pair's two writes, at most: the second meets the loads that the first has caused.
const BETWEEN: Duration = Duration::from_millis(60);
/// How long before a write the loads may begin that it is to overtake, at most.
const BEFORE: Duration = Duration::from_millis(30);
/// How many loads on each node a pair of writes is to overtake.
const LOADS: usize = 2;
/// One write in this many dies where writers die.
const DIES_ONE_IN: u32 = 10;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of records.
    pub keys: u64,
    /// Pairs of writes in a second. Both writes in a pair change the same record.
    pub pairs: u32,
    /// Readers on each node.
    pub readers: u64,
    /// How long a link is cut or frozen.
    pub outage: Duration,
    /// How long any other fault lasts.
    pub fault: Duration,
    /// A record that is still stale this long after the fault's end counts as stale for ever.
    pub ever: Duration,
}

impl Sizes {
    /// Three nodes, 200 records, 60 pairs, 4 readers; 5 s, 3 s, 12 s.
    pub const FULL: Self = Self {
        nodes: 3,
        keys: 200,
        pairs: 60,
        readers: 4,
        outage: Duration::from_secs(5),
        fault: Duration::from_secs(3),
        ever: Duration::from_secs(12),
    };

    /// A plan that is large enough to see that it works.
    pub const QUICK: Self = Self {
        keys: 60,
        outage: Duration::from_secs(1),
        fault: Duration::from_secs(1),
        ever: Duration::from_secs(2),
        ..Self::FULL
    };
}

/// The kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Read,
    Write,
    /// A write whose writer dies between its commit and its broadcast.
    DyingWrite,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When, since the fault began.
    pub(super) at: Duration,
    /// The node that takes the step.
    pub(super) node: usize,
    /// The key of the record.
    pub(super) key: u64,
    /// The kind of step.
    pub(super) kind: StepKind,
}

/// How pairs of writes are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// Writes random records that all nodes have in memory.
    Warm,
    /// Like `Warm`, but some writers die.
    Dying,
    /// Writes records in turn that no node has read yet; all nodes load the record at about that time.
    Cold,
}

/// A run's steps, in their order: pairs of writes to one record, the second by another node a little later.
/// They follow from the seed and are the same for every scheme.
pub(super) fn plan(seed: u64, sizes: &Sizes, lasts: Duration, schedule: Schedule) -> Vec<Step> {
    let mut random = SmallRng::seed_from_u64(seed);
    let last = lasts.saturating_sub(BETWEEN);
    let pause = Duration::from_secs(1) / sizes.pairs.max(1);
    let (mut steps, mut at, mut cold) = (Vec::new(), BEFORE, (0..sizes.keys).cycle());
    while at < last {
        let chosen = if schedule == Schedule::Cold { cold.next() } else { None };
        let key = chosen.unwrap_or_else(|| random.random_range(0..sizes.keys));
        let node = random.random_range(0..sizes.nodes);
        let second = at + random.random_range(Duration::ZERO..BETWEEN);
        for (at, node) in [(at, node), (second, (node + 1) % sizes.nodes)] {
            let dies = schedule == Schedule::Dying && random.random_ratio(1, DIES_ONE_IN);
            steps.push(Step {
                at,
                node,
                key,
                kind: if dies { StepKind::DyingWrite } else { StepKind::Write },
            });
        }
        let loads = if schedule == Schedule::Cold { LOADS } else { 0 };
        for node in (0..sizes.nodes).flat_map(|node| std::iter::repeat_n(node, loads)) {
            let at = random.random_range(at - BEFORE..at + BETWEEN);
            steps.push(Step { at, node, key, kind: StepKind::Read });
        }
        at += pause;
    }
    steps.sort_by_key(|step| step.at);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seed: u64, schedule: Schedule) -> Vec<Step> {
        plan(seed, &Sizes::FULL, Duration::from_secs(3), schedule)
    }

    #[test]
    fn what_is_done_follows_from_the_seed() {
        assert_eq!(of(7, Schedule::Dying), of(7, Schedule::Dying));
        assert_ne!(of(7, Schedule::Dying), of(8, Schedule::Dying));
    }

    #[test]
    fn schedule_decides_writer_deaths_and_loads() {
        let has = |schedule, kind| of(7, schedule).iter().any(|step| step.kind == kind);
        for (schedule, dying, read) in
            [(Schedule::Warm, false, false), (Schedule::Dying, true, false), (Schedule::Cold, false, true)]
        {
            assert_eq!(
                (has(schedule, StepKind::DyingWrite), has(schedule, StepKind::Read)),
                (dying, read),
                "{schedule:?}"
            );
        }
    }

    #[test]
    fn a_cold_record_has_one_pair_of_writes() {
        let mut written = [0; 200];
        for step in of(7, Schedule::Cold).iter().filter(|step| step.kind == StepKind::Write) {
            written[usize::try_from(step.key).unwrap()] += 1;
        }
        assert!(written.iter().all(|writes| [0, 2].contains(writes)), "{written:?}");
        assert!(written.iter().sum::<i32>() > 300);
    }
}
