use futures::future::join_all;
use kith_cache::{CacheError, Consistency};

use crate::{
    gate::Gate,
    stage::{SECOND, Stage},
    until::until,
};

#[tokio::test(start_paused = true)]
async fn excess_loads_are_shed() {
    let stage = Stage::with(|policy| policy.loads_in_flight = 3);
    let gates: Vec<_> = (0..3).map(|_| stage.store.gate()).collect();
    let reads: Vec<_> = (0..10)
        .map(|key| {
            let cache = stage.cache.clone();
            tokio::spawn(async move { cache.get(&key).await })
        })
        .collect();
    until(|| stage.stats().loads_in_flight == 3).await;
    tokio::time::sleep(SECOND).await;
    assert!(gates.into_iter().all(Gate::open));
    let answers: Vec<_> = join_all(reads).await.into_iter().map(Result::unwrap).collect();
    let shed = answers.iter().filter(|answer| matches!(answer, Err(CacheError::Overloaded))).count();
    assert_eq!((shed, stage.store.loads(), stage.stats().shed), (7, 3, 7));
}

#[tokio::test]
async fn a_load_that_waits_gets_its_turn() {
    let stage = Stage::with(|policy| policy.loads_in_flight = 1);
    stage.store.put(2, 1);
    let mut gate = stage.store.gate();
    let first = stage.spawn_read(1);
    gate.entered().await;
    let second = stage.spawn_read(2);
    until(|| stage.stats().misses == 2).await;
    gate.open();
    assert_eq!(second.await.unwrap(), Some(1));
    first.await.unwrap();
}

#[tokio::test]
async fn oversized_value_is_served_and_not_kept() {
    let stage = Stage::with(|policy| policy.value_bytes_max = 6);
    stage.store.put(1, 9);
    assert_eq!(stage.read(1).await, Some(9));
    assert_eq!(stage.cached(1), Some(9));
    stage.store.put(1, 10);
    stage.invalidate(1, 10).await;
    assert_eq!(stage.read(1).await, Some(10));
    assert_eq!(stage.cached(1), None);
}

#[tokio::test]
async fn memory_stays_below_its_weight() {
    let stage = Stage::of(|_| {}, |config| config.memory_bytes = 10_000);
    for key in 0..1_000 {
        stage.store.put(key, 1);
        stage.read(key).await;
    }
    let stats = stage.stats();
    assert!(stats.weight_bytes <= 10_000 && stats.entries > 10, "{stats:?}");
    assert!(stats.evictions > 800, "{stats:?}");
}

#[tokio::test]
async fn ended_load_or_write_leaves_no_state() {
    let stage = Stage::new();
    let weak = std::sync::Arc::downgrade(&stage.store);
    stage.read(1).await;
    stage.cache.begin_write(&[1]).await.aborted().await;
    let Stage { store, cache, node, .. } = stage;
    drop((store, cache));
    assert!(weak.upgrade().is_none());
    assert!(node.namespaces().is_empty());
}

#[tokio::test]
async fn hot_batch_keys_displace_cold_keys() {
    const BATCH: std::ops::Range<u64> = 1_000..1_012;
    let stage = Stage::of(|_| {}, |config| config.memory_bytes = 60_000);
    (0..200).chain(BATCH).for_each(|key| stage.store.put(key, 1));
    for key in (0..200).chain(0..200) {
        stage.read(key).await;
    }
    let keys: Vec<u64> = BATCH.collect();
    let kept = || keys.iter().filter(|key| stage.cached(**key).is_some()).count();
    for _ in 0..100 {
        stage.cache.get_many(&keys, &Consistency::Cached).await;
        until(|| stage.store.loads() > 0 && stage.stats().loads_in_flight == 0).await;
        tokio::task::yield_now().await;
        if kept() > keys.len() / 2 {
            return;
        }
    }
    panic!("{} of {} are in memory", kept(), keys.len());
}
