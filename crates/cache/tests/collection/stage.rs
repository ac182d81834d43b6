//! Lists in a store in the hands of a test, and a node before them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kith_cache::{
    Consistency, ListEpoch, ListPolicies, LoadError, LoadOptions, Node, NodeConfig, Page, PageAnswer,
    PageLoader, PagedList, Policy, Stats,
    fake::{ManualClock, RecordingBus},
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::gate::{Gate, Gates};

pub(crate) type List = PagedList<u64, Span, u64>;

/// A page: this many items above a given item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) after: u64,
    pub(crate) size: usize,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.after, self.size)
    }
}

impl FromStr for Span {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (after, size) = text.split_once('+').ok_or(())?;
        Ok(Self { after: after.parse().map_err(drop)?, size: size.parse().map_err(drop)? })
    }
}

/// Up to three items from the beginning.
pub(crate) const FIRST: Span = Span { after: 0, size: 3 };

/// Lists of numbers. A load reads when it begins and answers when its gate opens.
#[derive(Default)]
pub(crate) struct Store {
    lists: Mutex<BTreeMap<u64, BTreeSet<u64>>>,
    gates: Gates,
    broken: Mutex<bool>,
    loads: AtomicUsize,
}

impl Store {
    pub(crate) fn set(&self, list: u64, items: impl IntoIterator<Item = u64>) {
        self.lists.lock().insert(list, items.into_iter().collect());
    }

    pub(crate) fn add(&self, list: u64, item: u64) {
        self.lists.lock().entry(list).or_default().insert(item);
    }

    pub(crate) fn remove(&self, list: u64, item: u64) {
        self.lists.lock().entry(list).or_default().remove(&item);
    }

    pub(crate) fn break_down(&self) {
        *self.broken.lock() = true;
    }

    /// Holds the next load between its read and its answer.
    pub(crate) fn gate(&self) -> Gate {
        self.gates.close()
    }

    pub(crate) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }
}

/// Cuts a page out of this set.
pub(crate) fn cut(items: &BTreeSet<u64>, span: Span) -> Page<u64> {
    let mut behind = items.range(span.after + 1..).copied();
    let items = behind.by_ref().take(span.size).collect();
    Page { items, more: behind.next().is_some() }
}

#[async_trait::async_trait]
impl PageLoader<u64, Span, u64> for Store {
    async fn page(&self, list: &u64, span: &Span, _options: LoadOptions) -> Result<Page<u64>, LoadError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let page = cut(&self.lists.lock().get(list).cloned().unwrap_or_default(), *span);
        self.gates.pass().await;
        if *self.broken.lock() {
            return Err(LoadError::new(std::io::Error::from(std::io::ErrorKind::NotConnected)));
        }
        Ok(page)
    }
}

pub(crate) fn policies() -> ListPolicies<u64> {
    ListPolicies {
        epochs: Policy::new("things_epoch", ListEpoch::weight),
        pages: Policy::new("things_page", |page| page.items.len() * 8),
    }
}

/// A node without peers with lists over a store.
pub(crate) struct Stage {
    pub(crate) clock: ManualClock,
    pub(crate) bus: Arc<RecordingBus>,
    pub(crate) node: Node,
    pub(crate) store: Arc<Store>,
    pub(crate) list: List,
}

impl Stage {
    /// The list 1 has the items 1 to 7, of which nothing is in memory.
    pub(crate) fn new() -> Self {
        let (clock, bus) = (ManualClock::new(), Arc::new(RecordingBus::new()));
        let mut config = NodeConfig::local(7);
        config.clock = Arc::new(clock.clone());
        config.bus = Arc::<RecordingBus>::clone(&bus);
        let (node, store) = (Node::new(config), Arc::new(Store::default()));
        store.set(1, 1..=7);
        let list = List::new(&node, policies(), Arc::<Store>::clone(&store) as _);
        Self { clock, bus, node, store, list }
    }

    /// Reads the first page into memory.
    pub(crate) async fn warm(self) -> Self {
        assert_eq!(self.first().await, [1, 2, 3]);
        self
    }

    /// Starts a read of the first page whose load is held at the gate.
    pub(crate) async fn loading() -> (Self, Gate, JoinHandle<Vec<u64>>) {
        let stage = Self::new();
        let mut gate = stage.store.gate();
        let reader = stage.spawn_first();
        gate.entered().await;
        (stage, gate, reader)
    }

    /// The first page of list 1, by a cached read.
    pub(crate) async fn first(&self) -> Vec<u64> {
        self.read(&Consistency::Cached).await.entry.value.items.clone()
    }

    /// The first page of the list 1.
    pub(crate) async fn read(&self, consistency: &Consistency) -> PageAnswer<u64> {
        self.list.page(&1, &FIRST, consistency).await.unwrap()
    }

    pub(crate) fn spawn_first(&self) -> JoinHandle<Vec<u64>> {
        let list = self.list.clone();
        let cached = Consistency::Cached;
        tokio::spawn(async move { list.page(&1, &FIRST, &cached).await.unwrap().entry.value.items.clone() })
    }

    pub(crate) fn stats(&self, namespace: &str) -> Stats {
        self.node.namespace(namespace).unwrap().stats()
    }
}
