//! All namespaces of a node share its memory: used copies stay, whichever namespace has them.

use std::sync::Arc;

use kith_cache::{Loader, Policy, TieredCache};

use crate::stage::{Cache, Stage, Store};

/// Holds some 300 small copies.
const MEMORY_BYTES: u64 = 100_000;
const KEYS: u64 = 2_000;

fn stage() -> Stage {
    let stage = Stage::of(|_| {}, |config| config.memory_bytes = MEMORY_BYTES);
    (0..KEYS).for_each(|key| stage.store.put(key, 1));
    stage
}

/// A second namespace of the same node, whose copies weigh this.
fn other(stage: &Stage, weigh: fn(&String) -> usize) -> Cache {
    let loader: Arc<dyn Loader<u64, String>> = Arc::<Store>::clone(&stage.store);
    TieredCache::new(&stage.node, Policy::new("other", weigh), loader)
}

async fn read(cache: &Cache, keys: std::ops::Range<u64>) {
    for key in keys {
        cache.get(&key).await.unwrap();
    }
}

fn weight(stage: &Stage, name: &str) -> u64 {
    stage.node.namespace(name).unwrap().stats().weight_bytes
}

#[tokio::test]
async fn any_namespace_may_have_all_of_the_memory() {
    let stage = stage();
    let other = other(&stage, String::len);
    for (cache, name) in [(&stage.cache, "thing"), (&other, "other"), (&stage.cache, "thing")] {
        read(cache, 0..KEYS).await;
        let (of, all) = (weight(&stage, name), weight(&stage, "thing") + weight(&stage, "other"));
        assert!(all <= MEMORY_BYTES && of > MEMORY_BYTES * 9 / 10, "{of} of {all} bytes");
        assert_eq!(stage.node.namespace(name).unwrap().stats().weight_limit_bytes, MEMORY_BYTES);
    }
}

#[tokio::test]
async fn what_is_read_stays_in_a_flood_of_others() {
    let stage = stage();
    let other = other(&stage, String::len);
    for from in (0..KEYS).step_by(100) {
        read(&other, 0..20).await;
        read(&stage.cache, from..from + 100).await;
    }
    let kept = (0..20).filter(|key| other.peek(key).is_some()).count();
    assert_eq!(kept, 20, "a flood of a hundred times as many keys");
    assert!(stage.stats().evictions > KEYS / 2, "{:?}", stage.stats());
}

#[tokio::test]
async fn large_copy_is_kept_among_many_small_ones() {
    let stage = stage();
    for _ in 0..4 {
        read(&stage.cache, 0..KEYS / 8).await;
    }
    let large = other(&stage, |_| 20_000);
    read(&large, 0..1).await;
    assert!(weight(&stage, "thing") + weight(&stage, "other") <= MEMORY_BYTES);
    assert!(large.peek(&0).is_some(), "it is as large as sixty others that are used");
}

#[tokio::test]
async fn namespaces_find_no_copies_of_each_other() {
    let stage = stage();
    let other = other(&stage, String::len);
    read(&stage.cache, 0..10).await;
    assert_eq!((0..10).filter(|key| other.peek(key).is_some()).count(), 0);
    read(&other, 0..10).await;
    stage.node.namespace("thing").unwrap().flush();
    assert_eq!((0..10).filter(|key| stage.cached(*key).is_some()).count(), 0);
    assert_eq!((0..10).filter(|key| other.peek(key).is_some()).count(), 10);
}
