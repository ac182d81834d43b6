//! One run of the comparison of sequence numbers: callers on all nodes request numbers during a fault, and
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

/// What a caller does after a call that failed.
const PAUSE: Duration = Duration::from_millis(10);
/// A caller that dies does so within this time after the begin of a call.
const DIES_WITHIN_MS: u64 = 6;
/// One call in so many is one in which the caller dies, where callers die.
const DIES_ONE_IN: u32 = 20;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct NumberSizes {
    /// Nodes.
    pub nodes: usize,
    /// Callers of each node.
    pub callers: usize,
    /// How long the fault lasts.
    pub fault: Duration,
}

impl NumberSizes {
    /// Three nodes, four callers of each, 8 s.
    pub const FULL: Self = Self { nodes: 3, callers: 4, fault: Duration::from_secs(8) };
    /// Enough to see that it works.
    pub const QUICK: Self = Self { fault: Duration::from_secs(2), ..Self::FULL };
}

/// What one run saw.
#[derive(Clone, Copy, Debug)]
pub struct NumberRun {
    /// The scheme.
    pub scheme: NumberScheme,
    /// The fault.
    pub fault: NumberFault,
    /// Numbers that callers got.
    pub numbers: usize,
    /// Of them, those that another call had got before.
    pub twice: usize,
    /// Calls that got none.
    pub failed: usize,
    /// Steps of the store.
    pub steps: u64,
    /// Microseconds of a call, also of one that failed: in the middle, of all but the slowest hundredth, and of the slowest.
    pub p50_us: u64,
    /// See there.
    pub p99_us: u64,
    /// See there.
    pub longest_us: u64,
}

/// What a caller got.
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
        // Also of a call that failed: who waited in vain has waited the longest.
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
