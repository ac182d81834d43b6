//! One run of the sequence number comparison: callers on all nodes request numbers during a fault, and
//! duplicate numbers are counted at the end.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use kith_lab_servers::redis_server::RedisServer;
use rand::Rng as _;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    NumberFault, NumberNode, NumberScheme, PublishedAllocator, kith::KithNumbers, store::OneSequenceStore,
};
use crate::cache_node::Store;

/// How long a caller pauses after a failed call.
const PAUSE: Duration = Duration::from_millis(10);
/// A caller that dies does so within this time after a call begins.
const DIES_WITHIN_MS: u64 = 6;
/// The caller dies in one call in this many, where callers die.
const DIES_ONE_IN: u32 = 20;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct NumberSizes {
    /// The number of nodes.
    pub nodes: usize,
    /// Callers for each node.
    pub callers: usize,
    /// How long the fault lasts.
    pub fault: Duration,
}

impl NumberSizes {
    /// Three nodes, each with four callers, 8 s.
    pub const FULL: Self = Self { nodes: 3, callers: 4, fault: Duration::from_secs(8) };
    /// A run that is long enough to see that it works.
    pub const QUICK: Self = Self { fault: Duration::from_secs(2), ..Self::FULL };
}

/// The results of one run.
#[derive(Clone, Copy, Debug)]
pub struct NumberRun {
    /// The scheme that ran.
    pub scheme: NumberScheme,
    /// The fault during the run.
    pub fault: NumberFault,
    /// Numbers that callers got.
    pub numbers: usize,
    /// Numbers that another call had already got.
    pub twice: usize,
    /// Calls that got none.
    pub failed: usize,
    /// Steps that the store took.
    pub steps: u64,
    /// Median time of a call in microseconds, failed calls included.
    pub p50_us: u64,
    /// The time that 99 of 100 calls do not exceed.
    pub p99_us: u64,
    /// The time that the slowest call took.
    pub longest_us: u64,
}

/// The numbers that a caller got.
#[derive(Debug, Default)]
struct CallerNumbers {
    numbers: Vec<i64>,
    micros: Vec<u64>,
    failed: usize,
}

/// Runs a scheme under a fault.
///
/// # Errors
/// When Redis or a node does not start.
pub async fn run_numbers(scheme: NumberScheme, fault: NumberFault, sizes: &NumberSizes) -> Result<NumberRun> {
    let (mut redis, ends, epochs) =
        (RedisServer::start(&[]).await?, OneSequenceStore::default(), Store::new(Duration::ZERO, 1));
    let mut nodes: Vec<Arc<dyn NumberNode>> = Vec::new();
    for id in (1_u64..).take(sizes.nodes) {
        nodes.push(match scheme {
            NumberScheme::Kith => Arc::new(KithNumbers::start(id, &redis.uri(), &epochs, &ends).await?),
            NumberScheme::Described => Arc::new(PublishedAllocator::start(&redis.uri(), &ends, true).await?),
            NumberScheme::Program => Arc::new(PublishedAllocator::start(&redis.uri(), &ends, false).await?),
        });
    }
    let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut callers = JoinSet::new();
    for node in nodes.iter().flat_map(|node| std::iter::repeat_n(node, sizes.callers)) {
        let dies = fault == NumberFault::CallersDie;
        callers.spawn(call(Arc::clone(node), Arc::clone(&stop), Arc::clone(&taken), dies));
    }
    let injected = fault.inject(&mut redis, sizes.fault, &taken).await;
    stop.store(true, Ordering::Release);
    let seen = callers.join_all().await;
    injected?;
    Ok(sum(scheme, fault, ends.steps(), &seen))
}

async fn call(
    node: Arc<dyn NumberNode>,
    stop: Arc<AtomicBool>,
    taken: Arc<AtomicUsize>,
    dies: bool,
) -> CallerNumbers {
    let mut seen = CallerNumbers::default();
    while !stop.load(Ordering::Acquire) {
        if dies && rand::rng().random_ratio(1, DIES_ONE_IN) {
            let dies_after = Duration::from_millis(rand::rng().random_range(0..DIES_WITHIN_MS));
            // Whatever it gets is used by none.
            drop(timeout(dies_after, node.next()).await);
            continue;
        }
        let begun = Instant::now();
        let answer = node.next().await;
        // Failed calls count, too: a caller that waited in vain has waited the longest.
        seen.micros.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        match answer {
            Ok(number) => {
                seen.numbers.push(number);
                taken.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                seen.failed += 1;
                sleep(PAUSE).await;
            }
        }
    }
    seen
}

fn sum(scheme: NumberScheme, fault: NumberFault, steps: u64, seen: &[CallerNumbers]) -> NumberRun {
    let mut micros: Vec<u64> = seen.iter().flat_map(|seen| seen.micros.iter().copied()).collect();
    micros.sort_unstable();
    let numbers: Vec<i64> = seen.iter().flat_map(|seen| seen.numbers.iter().copied()).collect();
    let distinct: HashSet<i64> = numbers.iter().copied().collect();
    let at = |hundredths: usize| micros.get(micros.len() * hundredths / 100).copied().unwrap_or_default();
    NumberRun {
        scheme,
        fault,
        numbers: numbers.len(),
        twice: numbers.len() - distinct.len(),
        failed: seen.iter().map(|seen| seen.failed).sum(),
        steps,
        p50_us: at(50),
        p99_us: at(99),
        longest_us: micros.last().copied().unwrap_or_default(),
    }
}
