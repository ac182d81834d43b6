//! Callers reserve numbers in one sequence through three nodes: without a fault no number is missing, and a
//! killed node loses no more than a block.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use kith_proto::sequence::v1::{
    ReserveSeqsRequest, SeqRange, sequence_service_client::SequenceServiceClient,
};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{task::JoinSet, time::sleep};
use tonic::transport::Channel;

use super::{
    Sizes,
    outcomes::FailedCalls,
    progress::{Progress, disturb},
    site_fault::{FaultTurns, SiteFault},
};
use crate::faults::{
    Figure, Plan, Site,
    calls::{failed, with_deadline},
};

const NODES: u32 = 3;
const CALLERS: u64 = 30;
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

/// The state that callers share.
#[derive(Debug)]
struct SequenceState {
    nodes: Vec<Channel>,
    name: &'static str,
    progress: Progress,
    reserved: Mutex<Vec<SeqRange>>,
    failed: Mutex<FailedCalls>,
    /// Numbers in calls without an answer.
    unanswered: AtomicU64,
}

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
    let healthy = SequenceState::new(&site, "healthy", goal);
    reserve_all(&healthy, plan.seed, until_enough(&healthy)).await?;
    let mut figures = healthy.figures("without a fault", 0);

    let killed = SequenceState::new(&site, "killed", goal);
    let deaths = reserve_all(&killed, plan.seed, KILLS.inject(&mut site, &killed.progress)).await?;
    figures.push(Figure::at_least_count("deaths", deaths, 1));
    figures.extend(killed.figures("while nodes die", deaths * BLOCK_MAX));
    Ok(figures)
}

async fn reserve_all(
    state: &Arc<SequenceState>,
    seed: u64,
    disturbance: impl Future<Output = Result<u64>>,
) -> Result<u64> {
    let mut calling = JoinSet::new();
    for caller in 0..CALLERS {
        calling.spawn(Arc::clone(state).reserve(caller, SmallRng::seed_from_u64(seed.wrapping_add(caller))));
    }
    Ok(disturb(&state.progress, calling, disturbance).await?.0)
}

async fn until_enough(state: &SequenceState) -> Result<u64> {
    while !state.progress.has_enough() {
        sleep(PAUSE).await;
    }
    Ok(0)
}

impl SequenceState {
    fn new(site: &Site, name: &'static str, goal: u64) -> Arc<Self> {
        Arc::new(Self {
            nodes: site.channels(),
            name,
            progress: Progress::new("reservations are answered", goal),
            reserved: Mutex::default(),
            failed: Mutex::default(),
            unanswered: AtomicU64::new(0),
        })
    }

    /// Reserves numbers through one node until there are enough.
    async fn reserve(self: Arc<Self>, caller: u64, mut random: SmallRng) -> Result<()> {
        let node = &self.nodes[usize::try_from(caller)? % self.nodes.len()];
        while !self.progress.is_over() {
            let count = random.random_range(1..=COUNT_MAX);
            let request =
                ReserveSeqsRequest { name: self.name.to_owned(), count: count.try_into()?, above: 0 };
            match SequenceServiceClient::new(node.clone()).reserve_seqs(with_deadline(request)).await {
                Ok(answer) => {
                    self.reserved.lock().extend(answer.into_inner().ranges);
                    self.progress.add(1);
                }
                Err(status) => {
                    self.unanswered.fetch_add(count.into(), Ordering::Relaxed);
                    self.failed.lock().add(&failed(&status, false).0);
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    /// `lost_max`: how many numbers may be missing besides the numbers in calls without an answer.
    fn figures(&self, when: &str, lost_max: u64) -> Vec<Figure> {
        let ReservedNumbers { missing, twice } = ReservedNumbers::of(self.reserved.lock().clone());
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        let failed = self.failed.lock();
        let mut figures = vec![
            Figure::at_least_count(
                format!("reservations {when}"),
                self.progress.done(),
                self.progress.goal(),
            ),
            Figure::none(format!("numbers reserved twice {when}"), twice),
            Figure::at_most_count(format!("numbers missing {when}"), missing, lost_max + unanswered),
        ];
        if lost_max == 0 {
            figures.push(Figure::none(format!("calls failed {when}"), failed.count));
        }
        figures.extend(failed.figures());
        figures
    }
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
