//! One run of the comparison: readers measure the age of what they read while the scheduled writes run under
//! a fault. Then all records are compared with the store until all are fresh or the time limit is reached.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, sleep_until},
};

use super::{
    Ages, Fault, Scheme, SchemeNode, Sizes,
    ages::millis,
    plan::{Schedule, Step, StepKind, plan},
    site::SchemeSite,
};
use crate::cache_node::Store;

/// The pause between two reads by a reader.
const PAUSE: Duration = Duration::from_millis(2);
/// The pause between two looks at all records after the fault.
const LOOK: Duration = Duration::from_secs(1);
/// A run ends early after this many consecutive looks that found no stale record: nothing is written any
/// more.
const CLEAN_LOOKS: u32 = 2;

/// Observations by one scheme's readers under one fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The scheme that ran.
    pub scheme: Scheme,
    /// The fault during the run.
    pub fault: Fault,
    /// How long the fault lasted, in milliseconds.
    pub fault_ms: u64,
    /// How long readers read, in milliseconds: until nothing was stale any more, at most as long as makes it
    /// stale for ever.
    pub lasted_ms: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Writes that were refused.
    pub refused: u64,
    /// The ages that readers observed.
    #[serde(flatten)]
    pub ages: Ages,
    /// Records for which a node returned an old version for ever.
    pub stale_for_ever: usize,
    /// Reads from the store.
    pub loads: u64,
    /// The longest delay with which the machine woke an idle thread, in milliseconds. On a busy machine, it
    /// is part of every age.
    pub machine_ms: u64,
}

#[cfg(test)]
impl Run {
    /// A run without a fault, in which readers met this.
    pub(super) const fn without_fault(scheme: Scheme, ages: Ages) -> Self {
        Self {
            scheme,
            fault: Fault::Nothing,
            fault_ms: 500,
            lasted_ms: 700,
            writes: 3,
            refused: 0,
            ages,
            stale_for_ever: 0,
            loads: 4,
            machine_ms: 5,
        }
    }
}

/// The state that readers share.
#[derive(Clone, Debug)]
struct ReaderContext {
    store: Store,
    began: Instant,
    bound: Duration,
    /// Records below this number are read.
    keys: Arc<AtomicU64>,
    end: watch::Receiver<bool>,
}

/// Runs one scheme under one fault. The schedule of writes follows from the seed alone, and so does which
/// record a reader chooses among those that may be read by then.
///
/// # Errors
/// When Redis or a node does not start, or a look at all records fails.
pub async fn run(scheme: Scheme, fault: Fault, sizes: &Sizes, seed: u64) -> Result<Run> {
    let store = Store::new(fault.late(), seed);
    for key in 0..sizes.keys {
        let _first = store.commit(key);
    }
    let site = SchemeSite::start(scheme, sizes.nodes, &store, seed).await?;
    let warm = if fault.schedule() == Schedule::Cold { 0 } else { sizes.keys };
    // All memories must hold these records.
    site.stale(warm).await?;
    let (end, loads, keys) = (watch::Sender::new(false), store.loads(), Arc::new(AtomicU64::new(warm)));
    let (began, bound) = (Instant::now(), fault.bound());
    let context =
        ReaderContext { store: store.clone(), began, bound, keys: Arc::clone(&keys), end: end.subscribe() };
    let ended = end.subscribe();
    let pauses = thread::spawn(move || longest_pause(&ended));
    let readers = readers(&site, &context, sizes.readers, seed);
    let lasts = fault.lasts(sizes);
    fault.begin(&site)?;
    let steps = plan(seed, sizes, lasts, fault.schedule());
    let writes = tokio::spawn(run_steps(site.nodes.clone(), store.clone(), steps, keys));
    sleep(lasts).await;
    fault.end(&site)?;
    let healed = Instant::now();
    let WriteCounts { acknowledged: writes, refused } = writes.await?;
    let stale_for_ever = stale_for_ever(&site, &context, sizes.ever, healed).await?;
    let (lasted_ms, fault_ms) = (millis(began.elapsed()), millis(lasts));
    end.send_replace(true);
    let ages = sum(readers).await;
    let loads = store.loads() - loads;
    // The thread does nothing that could panic.
    let machine_ms = millis(pauses.join().unwrap_or_default());
    Ok(Run { scheme, fault, fault_ms, lasted_ms, writes, refused, ages, stale_for_ever, loads, machine_ms })
}

/// Checks until no record is stale any more, or stale records count as stale for ever. Returns how many are.
async fn stale_for_ever(
    site: &SchemeSite,
    context: &ReaderContext,
    ever: Duration,
    healed: Instant,
) -> Result<usize> {
    let (mut clean, mut at) = (0, healed);
    loop {
        at = (at + LOOK).min(healed + ever);
        sleep_until(at.into()).await;
        let stale = site.stale(context.keys.load(Ordering::Relaxed)).await?.len();
        clean = if stale == 0 { clean + 1 } else { 0 };
        if clean >= CLEAN_LOOKS || at >= healed + ever {
            return Ok(stale);
        }
    }
}

/// How many writes were acknowledged, and how many were refused.
#[derive(Clone, Copy, Debug, Default)]
struct WriteCounts {
    acknowledged: u64,
    refused: u64,
}

/// Does each step at its time. A written record is read from then on.
async fn run_steps(
    nodes: Vec<Arc<dyn SchemeNode>>,
    store: Store,
    steps: Vec<Step>,
    keys: Arc<AtomicU64>,
) -> WriteCounts {
    let (began, mut calls) = (tokio::time::Instant::now(), JoinSet::new());
    for step in steps {
        sleep_until(began + step.at).await;
        if step.kind != StepKind::Read {
            keys.fetch_max(step.key + 1, Ordering::Relaxed);
        }
        calls.spawn(run_step(Arc::clone(&nodes[step.node]), store.clone(), step));
    }
    let mut done = WriteCounts::default();
    for one in calls.join_all().await {
        done.acknowledged += one.acknowledged;
        done.refused += one.refused;
    }
    done
}

async fn run_step(node: Arc<dyn SchemeNode>, store: Store, step: Step) -> WriteCounts {
    let acknowledged = match step.kind {
        StepKind::Read => {
            // Readers count; this task only loads.
            drop(node.read(step.key).await);
            return WriteCounts::default();
        }
        StepKind::Write => node.write(step.key).await.is_ok(),
        StepKind::DyingWrite => {
            // Its age is counted from the commit, as if it had been acknowledged at once.
            let version = store.commit(step.key);
            store.acknowledge(step.key, version);
            true
        }
    };
    WriteCounts { acknowledged: u64::from(acknowledged), refused: u64::from(!acknowledged) }
}

fn readers(site: &SchemeSite, context: &ReaderContext, each: u64, seed: u64) -> JoinSet<Ages> {
    let mut readers = JoinSet::new();
    for (at, node) in (0..).zip(&site.nodes) {
        for reader in 0..each {
            let random = SmallRng::seed_from_u64(seed.wrapping_add(1 + at * each + reader));
            readers.spawn(read_on(Arc::clone(node), context.clone(), random));
        }
    }
    readers
}

async fn read_on(node: Arc<dyn SchemeNode>, context: ReaderContext, mut random: SmallRng) -> Ages {
    let mut ages = Ages::default();
    while !*context.end.borrow() {
        sleep(PAUSE).await;
        let keys = context.keys.load(Ordering::Relaxed);
        if keys == 0 {
            continue;
        }
        let (key, began) = (random.random_range(0..keys), Instant::now());
        match node.read(key).await {
            Ok(version) => {
                let age = context.store.staleness(key, version, began);
                ages.answered(began.saturating_duration_since(context.began), age, context.bound);
            }
            Err(_) => ages.failed += 1,
        }
    }
    ages
}

async fn sum(mut readers: JoinSet<Ages>) -> Ages {
    let mut sum = Ages::default();
    while let Some(ages) = readers.join_next().await {
        // A reader that panicked has failed.
        sum.add(&ages.unwrap_or(Ages { failed: 1, ..Ages::default() }));
    }
    sum
}

/// The pause between two looks at the machine's clock.
const CLOCK_LOOK: Duration = Duration::from_millis(2);

/// How late the machine woke this thread at worst, until it is ended.
fn longest_pause(ended: &watch::Receiver<bool>) -> Duration {
    let mut longest = Duration::ZERO;
    // Without the readers no signal ends it.
    while !*ended.borrow() && ended.has_changed().is_ok() {
        let began = Instant::now();
        thread::sleep(CLOCK_LOOK);
        longest = longest.max(began.elapsed().saturating_sub(CLOCK_LOOK));
    }
    longest
}
