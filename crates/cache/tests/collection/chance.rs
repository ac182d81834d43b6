//! Writers and readers at every await of each other, at random that follows from a seed, in virtual time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use kith_cache::{
    Consistency, ListEpoch, LoadError, LoadOptions, Node, Page, PageAnswer, PageLoader, PagedList,
    remote::{FakeServer, Retention},
};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::{Instant, sleep};

use crate::{
    peer::Peer,
    stage::{List, Span, cut, policies},
    wire::{Door, Wire},
};

const SEEDS: u64 = 150;
/// How many seeds run with several nodes.
const SEEDS_OF_NODES: u64 = 40;
const WRITES: u64 = 20;
const WRITERS: usize = 2;
/// Time until every node has received a change.
const PROPAGATION_TIME: Duration = Duration::from_millis(50);

/// All states that a list ever had.
struct History {
    seed: u64,
    states: Mutex<Vec<BTreeSet<u64>>>,
    /// When writes were acknowledged, on which node, and their states.
    acknowledged: Mutex<Vec<(Instant, usize, usize)>>,
    /// How many writers have ended.
    written: Mutex<usize>,
    /// The states that all of an epoch's pages, so far, can show.
    epochs: Mutex<HashMap<ListEpoch, BTreeSet<usize>>>,
    chance: Mutex<SmallRng>,
}

impl History {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            seed,
            states: Mutex::new(vec![(1..=9).collect()]),
            acknowledged: Mutex::default(),
            written: Mutex::default(),
            epochs: Mutex::default(),
            chance: Mutex::new(SmallRng::seed_from_u64(seed)),
        })
    }

    fn below(&self, end: u64) -> u64 {
        self.chance.lock().random_range(0..end)
    }

    async fn pause(&self) {
        let time = self.below(2_000);
        sleep(Duration::from_micros(time)).await;
    }

    fn epochs_seen(&self) -> u64 {
        u64::try_from(self.epochs.lock().len()).unwrap()
    }

    fn latest(&self) -> usize {
        self.states.lock().len() - 1
    }

    /// The latest state that a read on this node must see now.
    fn must_see(&self, node: usize) -> usize {
        let seen = |(at, by, _): &&(Instant, usize, usize)| *by == node || at.elapsed() > PROPAGATION_TIME;
        self.acknowledged.lock().iter().filter(seen).map(|(_, _, state)| *state).max().unwrap_or(0)
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
    fn check(&self, from: usize, span: Span, paged: &PageAnswer<u64>, alone: bool) {
        let seed = self.seed;
        let states = self.states.lock();
        let fits = |at: &usize| cut(&states[*at], span) == *paged.entry.value;
        let fitting: BTreeSet<usize> = (from..states.len()).filter(fits).collect();
        assert!(!fitting.is_empty(), "seed {seed}: a page of before the state {from}: {paged:?}");
        let Some(epoch) = paged.epoch else { return };
        let mut epochs = self.epochs.lock();
        let common = epochs.entry(epoch).or_insert_with(|| (0..states.len()).collect());
        common.retain(|at| cut(&states[*at], span) == *paged.entry.value);
        assert!(
            !alone || !common.is_empty(),
            "seed {seed}: the pages of an epoch are of no one state: {paged:?}"
        );
    }
}

#[async_trait::async_trait]
impl PageLoader<u64, Span, u64> for History {
    async fn page(&self, _list: &u64, span: &Span, _options: LoadOptions) -> Result<Page<u64>, LoadError> {
        self.pause().await;
        let page = cut(self.states.lock().last().unwrap(), *span);
        self.pause().await;
        Ok(page)
    }
}

async fn write(history: &History, node: usize, list: &List) {
    let guard = list.begin_write(&[1]).await;
    history.pause().await;
    if history.below(5) == 0 {
        guard.aborted();
        return;
    }
    let state = history.commit(1 + history.below(12));
    history.pause().await;
    if history.below(5) == 0 {
        guard.unknown().await.unwrap();
    } else {
        guard.committed().await.unwrap();
    }
    history.acknowledged.lock().push((Instant::now(), node, state));
}

/// `alone`: the writes of the list all go through this node.
async fn read(history: &History, node: usize, list: &List, alone: bool) {
    let from = history.must_see(node);
    let span = Span { after: history.below(4) * 3, size: 3 };
    let consistency = if history.below(10) == 0 { Consistency::Strong } else { Consistency::Cached };
    let paged = list.page(&1, &span, &consistency).await.unwrap();
    history.check(from, span, &paged, alone);
}

/// Two writers and four readers who read as long as something is written, spread over these nodes. Pages are
/// to be found between two writes: `rest` is the longest pause of a writer.
async fn run(history: &Arc<History>, nodes: &[List], rest: u64) {
    let actors = (0..WRITERS + 4).map(|actor| {
        let node = actor % nodes.len();
        let (history, list, alone) = (Arc::clone(history), nodes[node].clone(), nodes.len() == 1);
        tokio::spawn(async move {
            for _ in 0..WRITES {
                if actor < WRITERS {
                    sleep(Duration::from_millis(history.below(rest))).await;
                    write(&history, node, &list).await;
                }
            }
            *history.written.lock() += usize::from(actor < WRITERS);
            while *history.written.lock() < WRITERS {
                history.pause().await;
                read(&history, node, &list, alone).await;
            }
        })
    });
    for actor in actors.collect::<Vec<_>>() {
        actor.await.unwrap();
    }
    assert!(history.latest() > 10, "seed {}: writers wrote", history.seed);
}

/// Whether pages were found under epochs at all.
fn assert_epochs_seen(epochs: u64, seeds: u64) {
    assert!(epochs > seeds * 10, "{epochs} epochs in {seeds} seeds");
}

#[tokio::test(start_paused = true)]
async fn pages_are_current_and_of_one_state() {
    let mut epochs = 0;
    for seed in 0..SEEDS {
        let history = History::new(seed);
        let list = PagedList::new(&Node::local(1), policies(), Arc::<History>::clone(&history) as _);
        run(&history, &[list], 30).await;
        epochs += history.epochs_seen();
    }
    assert_epochs_seen(epochs, SEEDS);
}

#[tokio::test(start_paused = true)]
async fn pages_are_current_on_each_node() {
    let mut epochs = 0;
    for seed in 0..SEEDS_OF_NODES {
        let history = History::new(seed);
        let server = FakeServer::new(Retention::default());
        let peer = |id| {
            let chance = Some(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed * 10 + id))));
            let wire = Wire { server: server.clone(), changes: Door::open(), reads: Door::open(), chance };
            Peer::following(id, wire, Arc::<History>::clone(&history) as _)
        };
        let peers: Vec<Peer> = (0..3).map(peer).collect();
        sleep(PROPAGATION_TIME).await;
        let lists: Vec<List> = peers.iter().map(|peer| peer.list.clone()).collect();
        run(&history, &lists, 100).await;
        epochs += history.epochs_seen();
    }
    assert_epochs_seen(epochs, SEEDS_OF_NODES);
}
