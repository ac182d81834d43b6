//! Writers and readers at every await of each other, by chance that follows from a seed, in virtual time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use kith_cache::{Consistency, ListEpoch, LoadError, LoadOptions, Node, Page, PageLoader, Paged, PagedList};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;

use crate::stage::{List, Span, cut, policies};

const SEEDS: u64 = 150;
const WRITES: u64 = 20;
const READS: u64 = 120;

/// All states that a list ever had.
struct Past {
    states: Mutex<Vec<BTreeSet<u64>>>,
    /// The last state whose write was acknowledged.
    acknowledged: Mutex<usize>,
    /// States that all pages of an epoch, so far, can be of.
    epochs: Mutex<HashMap<ListEpoch, BTreeSet<usize>>>,
    chance: Mutex<SmallRng>,
}

impl Past {
    fn below(&self, end: u64) -> u64 {
        self.chance.lock().random_range(0..end)
    }

    async fn pause(&self) {
        let time = self.below(2_000);
        sleep(Duration::from_micros(time)).await;
    }

    fn latest(&self) -> usize {
        self.states.lock().len() - 1
    }

    fn commit(&self, item: u64) -> usize {
        let mut states = self.states.lock();
        let mut state = states.last().unwrap().clone();
        if !state.remove(&item) {
            state.insert(item);
        }
        states.push(state);
        states.len() - 1
    }

    /// Whether a read that began after state `from` was acknowledged may get this page now.
    fn check(&self, seed: u64, from: usize, span: Span, paged: &Paged<u64>) {
        let states = self.states.lock();
        let fits = |at: &usize| cut(&states[*at], span) == *paged.entry.value;
        let fitting: BTreeSet<usize> = (from..states.len()).filter(fits).collect();
        assert!(!fitting.is_empty(), "seed {seed}: a page of before the state {from}: {paged:?}");
        let Some(epoch) = paged.epoch else { return };
        let mut epochs = self.epochs.lock();
        let common = epochs.entry(epoch).or_insert_with(|| (0..states.len()).collect());
        common.retain(|at| cut(&states[*at], span) == *paged.entry.value);
        assert!(!common.is_empty(), "seed {seed}: the pages of an epoch are of no one state: {paged:?}");
    }
}

#[async_trait::async_trait]
impl PageLoader<u64, Span, u64> for Past {
    async fn page(&self, _list: &u64, span: &Span, _options: LoadOptions) -> Result<Page<u64>, LoadError> {
        self.pause().await;
        let page = cut(self.states.lock().last().unwrap(), *span);
        self.pause().await;
        Ok(page)
    }
}

async fn write(past: &Past, list: &List) {
    let guard = list.begin_write(&[1]).await;
    past.pause().await;
    if past.below(5) == 0 {
        guard.aborted().await;
        return;
    }
    let state = past.commit(1 + past.below(12));
    past.pause().await;
    if past.below(5) == 0 {
        guard.unknown().await.unwrap();
    } else {
        guard.committed().await.unwrap();
    }
    let mut acknowledged = past.acknowledged.lock();
    *acknowledged = state.max(*acknowledged);
}

async fn read(seed: u64, past: &Past, list: &List) {
    let from = *past.acknowledged.lock();
    let span = Span { after: past.below(4) * 3, size: 3 };
    let consistency = if past.below(10) == 0 { Consistency::Strong } else { Consistency::Cached };
    let paged = list.page(&1, &span, &consistency).await.unwrap();
    past.check(seed, from, span, &paged);
}

async fn run(seed: u64) {
    let past = Arc::new(Past {
        states: Mutex::new(vec![(1..=9).collect()]),
        acknowledged: Mutex::new(0),
        epochs: Mutex::default(),
        chance: Mutex::new(SmallRng::seed_from_u64(seed)),
    });
    let list = PagedList::new(&Node::local(1), policies(), Arc::<Past>::clone(&past) as _);
    let actors = (0..6).map(|actor| {
        let (past, list) = (Arc::clone(&past), list.clone());
        tokio::spawn(async move {
            for _ in 0..if actor < 2 { WRITES } else { READS } {
                past.pause().await;
                if actor < 2 {
                    // Pages are to be found between two writes.
                    sleep(Duration::from_millis(past.below(30))).await;
                    write(&past, &list).await;
                } else {
                    read(seed, &past, &list).await;
                }
            }
        })
    });
    for actor in actors.collect::<Vec<_>>() {
        actor.await.unwrap();
    }
    assert!(past.latest() > 10, "seed {seed}: writers wrote");
    assert!(past.epochs.lock().len() > 3, "seed {seed}: pages were read under epochs");
}

#[tokio::test(start_paused = true)]
async fn no_page_is_older_than_an_acknowledged_change_and_those_of_one_epoch_are_of_one_state() {
    for seed in 0..SEEDS {
        run(seed).await;
    }
}
