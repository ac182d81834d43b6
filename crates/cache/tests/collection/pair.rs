//! Whether two belong together: records under pairs, in a cache like any other.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kith_cache::{
    Change, LoadError, LoadOptions, Loaded, Loader, Node, Pair, Policy, TieredCache, Version, load_each,
};
use parking_lot::Mutex;

type Edge = Pair<u64, u64>;

/// Which users block which, since when.
#[derive(Default)]
struct Blocks {
    since: Mutex<HashMap<Edge, (u64, Version)>>,
    loads: AtomicUsize,
}

#[async_trait::async_trait]
impl Loader<Edge, u64> for Blocks {
    async fn load(&self, edge: &Edge, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        Ok(match self.since.lock().get(edge) {
            Some((since, version)) => Loaded::Found { value: Arc::new(*since), version: *version },
            None => Loaded::Absent { version: Version::UNVERSIONED },
        })
    }

    async fn load_many(
        &self,
        keys: &[Edge],
        options: LoadOptions,
    ) -> Result<Vec<(Edge, Loaded<u64>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

fn stage() -> (Node, Arc<Blocks>, TieredCache<Edge, u64>) {
    let (node, blocks) = (Node::local(1), Arc::new(Blocks::default()));
    let policy = Policy { strict: true, ..Policy::new("block", |_| 8) };
    let cache = TieredCache::new(&node, policy, Arc::<Blocks>::clone(&blocks) as _);
    (node, blocks, cache)
}

#[tokio::test]
async fn absent_pair_is_cached_until_created() {
    let (_node, blocks, cache) = stage();
    for _ in 0..3 {
        assert!(cache.get(&Pair(1, 2)).await.unwrap().is_none());
    }
    assert_eq!(blocks.loads.load(Ordering::SeqCst), 1, "no costs as little as yes");
    let guard = cache.begin_write(&[Pair(1, 2)]).await;
    let version = Version::new(1);
    blocks.since.lock().insert(Pair(1, 2), (5, version));
    guard.committed(vec![(Pair(1, 2), Change::Put { value: Arc::new(5), version })]).await.unwrap();
    assert_eq!(*cache.get(&Pair(1, 2)).await.unwrap().unwrap().value, 5);
    assert!(cache.get(&Pair(2, 1)).await.unwrap().is_none(), "the order matters");
}

#[tokio::test]
async fn one_is_asked_about_many_in_one_batch() {
    let (_node, blocks, cache) = stage();
    blocks.since.lock().insert(Pair(1, 3), (7, Version::new(1)));
    let edges: Vec<Edge> = (2..=4).map(|other| Pair(1, other)).collect();
    let answers = cache.get_many(&edges, &kith_cache::Consistency::Cached).await;
    let blocked: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().is_some()).collect();
    assert_eq!(blocked, [false, true, false]);
}

#[tokio::test]
async fn change_of_a_pair_is_received_by_its_text() {
    let (node, blocks, cache) = stage();
    assert!(cache.get(&Pair(1, 12)).await.unwrap().is_none());
    assert!(cache.get(&Pair(11, 2)).await.unwrap().is_none());
    blocks.since.lock().insert(Pair(1, 12), (7, Version::new(1)));
    blocks.since.lock().insert(Pair(11, 2), (7, Version::new(1)));
    node.namespace("block").unwrap().apply(&Pair(1, 12).to_string(), None);
    assert!(cache.get(&Pair(1, 12)).await.unwrap().is_some());
    assert!(cache.peek(&Pair(11, 2)).is_none(), "no edge");
    assert!(cache.get(&Pair(11, 2)).await.unwrap().is_none(), "the other pair did not change");
}
