//! Memory that one namespace does not use serves another one.

use std::sync::Arc;

use kith_cache::{Loader, Policy, TieredCache};

use crate::stage::{Cache, Stage, Store};

const SHARE: u64 = 20_000;

/// A second namespace of the same node, with a share of the same size.
fn other(stage: &Stage) -> Cache {
    let policy = Policy { memory_bytes: SHARE, ..Policy::new("other", String::len) };
    let loader: Arc<dyn Loader<u64, String>> = Arc::<Store>::clone(&stage.store);
    TieredCache::new(&stage.node, policy, loader)
}

/// Reads these keys as often as limits are set.
async fn read(stage: &Stage, cache: &Cache, keys: u64, times: usize) {
    for _ in 0..times {
        for key in 0..keys {
            cache.get(&key).await.unwrap();
        }
        stage.node.lend_memory();
    }
}

fn entries(stage: &Stage, name: &str) -> u64 {
    stage.node.namespace(name).unwrap().stats().entries
}

fn weights(stage: &Stage) -> u64 {
    stage.node.namespaces().iter().map(|namespace| namespace.stats().weight_bytes).sum()
}

#[tokio::test]
async fn unused_share_is_lent_and_given_back() {
    let stage = Stage::with(|policy| policy.memory_bytes = SHARE);
    let other = other(&stage);
    (0..1_000).for_each(|key| stage.store.put(key, 1));
    read(&stage, &stage.cache, 1_000, 1).await;
    let fixed = entries(&stage, "thing");

    read(&stage, &stage.cache, 1_000, 3).await;
    let lent = entries(&stage, "thing");
    assert!(lent > fixed * 14 / 10, "{lent} copies where a share has room for {fixed}");
    assert!(weights(&stage) <= 2 * SHARE);

    read(&stage, &other, 1_000, 12).await;
    let back = entries(&stage, "other");
    assert!(back > fixed * 9 / 10, "{back} copies where a share has room for {fixed}");
    assert!(weights(&stage) <= 2 * SHARE);
    assert!(entries(&stage, "thing") > fixed * 9 / 10, "it keeps its own share");
}

#[tokio::test]
async fn smaller_limit_evicts_at_once() {
    let stage = Stage::with(|policy| policy.memory_bytes = SHARE);
    (0..1_000).for_each(|key| stage.store.put(key, 1));
    read(&stage, &stage.cache, 1_000, 1).await;
    let namespace = stage.node.namespace("thing").unwrap();
    namespace.limit_memory(SHARE / 4);
    let stats = namespace.stats();
    assert!(stats.weight_bytes <= SHARE / 4 && stats.entries > 10, "{stats:?}");
    assert_eq!(stats.weight_limit_bytes, SHARE / 4);
}
