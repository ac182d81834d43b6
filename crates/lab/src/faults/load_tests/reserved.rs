//! Callers reserve numbers in one sequence through three nodes: without a fault no number is missing, and a
//! killed node loses no more than a block.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_proto::sequence::v1::{
    ReserveSeqsRequest, SeqRange, sequence_service_client::SequenceServiceClient,
};
use rand::Rng as _;
use tokio::{task::JoinSet, time::sleep};

use super::{
    Sizes,
    progress::disturb,
    site_fault::{FaultTurns, SiteFault},
    workload::Workload,
};
use crate::faults::{
    Figure, Plan, Site,
    calls::{failed, with_deadline},
};

const NODES: u32 = 3;
const CALLERS: i64 = 30;
/// The most numbers in a call.
const COUNT_MAX: u32 = 20;
/// The goal is this many times fewer calls than other rows have writes.
const FEWER: u64 = 2;
/// The largest block: the most numbers that a fault loses, besides unanswered calls.
const BLOCK_MAX: u64 = 6_400;
const KILLS: FaultTurns<'_> = FaultTurns {
    faults: &[SiteFault::NodeKilled],
    node: None,
    lasts: &[Duration::ZERO],
    healthy_for: Duration::from_secs(4),
};
/// How long a caller pauses if its node does not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// Numbers in calls without an answer.
const UNANSWERED: &str = "numbers without an answer";

/// The ranges in all answers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReservedNumbers {
    /// Numbers below the highest number that no answer has.
    missing: u64,
    /// Numbers that several answers have.
    twice: u64,
}

/// Figures: reservations, numbers that are missing or were reserved twice, without a fault and while nodes
/// are killed.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut site = Site::start(&Plan { nodes: NODES, ..plan.clone() }).await?;
    let goal = sizes.writes.div_ceil(FEWER);
    let state = || Workload::new(site.channels(), plan.seed, "reservations are answered", goal);
    let (healthy, killed) = (state(), state());
    let (_, numbers) = reserve_all(&healthy, "healthy", until_enough(&healthy)).await?;
    let mut figures = numbers.figures("without a fault", &healthy, 0);

    let deaths = KILLS.inject(&mut site, &killed.progress);
    let (deaths, numbers) = reserve_all(&killed, "killed", deaths).await?;
    figures.push(Figure::at_least_count("deaths", deaths, 1));
    figures.extend(numbers.figures("while nodes die", &killed, deaths * BLOCK_MAX));
    Ok(figures)
}

/// Reserves numbers of the sequence with this name until there are enough. Returns the disturbance's result.
async fn reserve_all(
    state: &Arc<Workload>,
    name: &'static str,
    disturbance: impl Future<Output = Result<u64>>,
) -> Result<(u64, ReservedNumbers)> {
    let mut calling = JoinSet::new();
    for caller in 0..CALLERS {
        calling.spawn(reserve(Arc::clone(state), name, caller));
    }
    let (disturbed, ranges, _) = disturb(&state.progress, calling, disturbance).await?;
    Ok((disturbed, ReservedNumbers::of(ranges.concat())))
}

async fn until_enough(state: &Workload) -> Result<u64> {
    while !state.progress.has_enough() {
        sleep(PAUSE).await;
    }
    Ok(0)
}

/// Reserves numbers through one node until there are enough.
async fn reserve(state: Arc<Workload>, name: &str, caller: i64) -> Result<Vec<SeqRange>> {
    let (mut random, mut ranges) = (state.random(caller), Vec::new());
    let node = &state.nodes[usize::try_from(caller)? % state.nodes.len()];
    while !state.progress.is_over() {
        let count = random.random_range(1..=COUNT_MAX);
        let request = ReserveSeqsRequest { name: name.to_owned(), count: count.try_into()?, above: 0 };
        match SequenceServiceClient::new(node.clone()).reserve_seqs(with_deadline(request)).await {
            Ok(answer) => {
                ranges.extend(answer.into_inner().ranges);
                state.progress.add(1);
            }
            Err(status) => {
                state.count(UNANSWERED, count.into());
                state.fail(&failed(&status, false).0);
                sleep(PAUSE).await;
            }
        }
    }
    Ok(ranges)
}

impl ReservedNumbers {
    fn of(mut ranges: Vec<SeqRange>) -> Self {
        ranges.sort_unstable_by_key(|range| range.first);
        let (mut missing, mut twice, mut last) = (0, 0, 0);
        for range in ranges {
            missing += (range.first - last - 1).max(0).unsigned_abs();
            twice += (last.min(range.last) - range.first + 1).max(0).unsigned_abs();
            last = last.max(range.last);
        }
        Self { missing, twice }
    }

    /// `lost_max`: how many numbers may be missing besides those in calls without an answer. If it is 0, no
    /// call may fail.
    fn figures(self, when: &str, state: &Workload, lost_max: u64) -> Vec<Figure> {
        let missing_max = lost_max + state.counted(UNANSWERED);
        let mut figures = vec![
            state.done(&format!("reservations {when}")),
            Figure::none(format!("numbers reserved twice {when}"), self.twice),
            Figure::at_most_count(format!("numbers missing {when}"), self.missing, missing_max),
        ];
        if lost_max == 0 {
            figures.push(Figure::none("numbers without an answer", state.counted(UNANSWERED)));
        }
        figures.extend(state.failures());
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranges: &[(i64, i64)]) -> ReservedNumbers {
        ReservedNumbers::of(ranges.iter().map(|&(first, last)| SeqRange { first, last }).collect())
    }

    #[test]
    fn missing_and_repeated_numbers_are_counted() {
        assert_eq!(of(&[(4, 6), (1, 3), (7, 7)]), ReservedNumbers { missing: 0, twice: 0 });
        assert_eq!(of(&[(3, 4), (8, 9)]), ReservedNumbers { missing: 5, twice: 0 });
        assert_eq!(of(&[(1, 9), (2, 3), (9, 10)]), ReservedNumbers { missing: 0, twice: 3 });
    }
}
