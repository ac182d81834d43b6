use std::sync::Arc;

use futures::future::join_all;
use kith_cache::{CacheError, Consistency};

use crate::{
    stage::{Broken, Stage, version},
    until::until,
};

#[tokio::test]
async fn thousand_callers_of_cold_key_make_one_load() {
    let stage = Stage::new();
    stage.store.put(1, 4);
    let gate = stage.store.gate();
    let reads: Vec<_> = (0..1_000).map(|_| stage.spawn_read(1)).collect();
    until(|| stage.stats().joined == 999).await;
    gate.open();
    for read in join_all(reads).await {
        assert_eq!(read.unwrap(), Some(4));
    }
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_on_many_threads_make_one_load_a_key() {
    let stage = Arc::new(Stage::new());
    for key in 0..50 {
        stage.store.put(key, 1);
    }
    let caller = || {
        let stage = Arc::clone(&stage);
        tokio::spawn(async move {
            for key in 0..50 {
                assert_eq!(stage.read(key).await, Some(1));
            }
        })
    };
    for task in join_all((0..64).map(|_| caller())).await {
        task.unwrap();
    }
    assert_eq!(stage.store.loads(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_on_many_threads_all_get_answers() {
    let stage = Stage::new();
    stage.store.yield_in_loads();
    for key in 0..2_000 {
        stage.store.put(key, 1);
        let reads: Vec<_> = (0..4).map(|_| stage.spawn_read(key)).collect();
        reads[usize::try_from(key % 4).unwrap()].abort();
        for read in join_all(reads).await {
            assert!(read.map_or_else(|error| error.is_cancelled(), |read| read == Some(1)));
        }
    }
    assert_eq!(stage.stats().stale_served, 0);
}

#[tokio::test]
async fn a_load_whose_caller_left_still_fills() {
    let (stage, gate, leader) = Stage::loading(1).await;
    leader.abort();
    assert!(leader.await.unwrap_err().is_cancelled());
    gate.open();
    until(|| stage.cached(1) == Some(1)).await;
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test]
async fn load_survives_the_caller_that_began_it() {
    let (stage, gate, leader) = Stage::loading(1).await;
    let joiner = stage.spawn_read(1);
    until(|| stage.stats().joined == 1).await;
    leader.abort();
    assert!(leader.await.unwrap_err().is_cancelled());
    gate.open();
    assert_eq!(joiner.await.unwrap(), Some(1));
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test]
async fn joined_reads_end_without_polled_leader() {
    let stage = Stage::new();
    stage.store.put(1, 1);
    let mut gate = stage.store.gate();
    let mut leader = Box::pin(stage.cache.get(&1));
    assert!(futures::poll!(&mut leader).is_pending());
    gate.entered().await;
    let joiner = stage.spawn_read(1);
    until(|| stage.stats().joined == 1).await;
    gate.open();
    assert_eq!(joiner.await.unwrap(), Some(1));
    assert_eq!(version(leader.await.unwrap()), Some(1));
}

#[tokio::test]
async fn loader_panic_fails_its_readers_only() {
    let stage = Stage::new();
    stage.store.put(1, 1);
    stage.store.panic_next();
    let gate = stage.store.gate();
    let reads: Vec<_> = (0..3)
        .map(|_| {
            let cache = stage.cache.clone();
            tokio::spawn(async move { cache.get(&1).await })
        })
        .collect();
    until(|| stage.stats().joined == 2).await;
    gate.open();
    for read in join_all(reads).await {
        assert!(matches!(read.unwrap(), Err(CacheError::Panicked)));
    }
    assert_eq!(stage.read(1).await, Some(1));
}

#[tokio::test]
async fn an_error_reaches_every_reader_and_is_not_kept() {
    let stage = Stage::new();
    stage.store.put(1, 1);
    stage.store.break_down(true);
    let Err(CacheError::Load(error)) = stage.cache.get(&1).await else { panic!("the store was broken") };
    assert_eq!(error.downcast_ref::<Broken>(), Some(&Broken));
    stage.store.break_down(false);
    assert_eq!(stage.read(1).await, Some(1));
}

#[tokio::test]
async fn unversioned_invalidation_blocks_the_fill() {
    let (stage, gate, read) = Stage::loading(1).await;
    stage.store.put(1, 2);
    stage.invalidate(1, 0).await;
    gate.open();
    assert_eq!(read.await.unwrap(), Some(1), "its call overlaps the write");
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.read(1).await, Some(2));
}

#[tokio::test]
async fn read_after_invalidation_joins_no_old_flight() {
    let (stage, gate, old) = Stage::loading(1).await;
    stage.store.put(1, 2);
    stage.invalidate(1, 2).await;
    let new = stage.spawn_read(1);
    until(|| new.is_finished() || stage.stats().joined == 1).await;
    gate.open();
    assert_eq!(new.await.unwrap(), Some(2));
    assert_eq!(old.await.unwrap(), Some(1));
    assert_eq!(stage.cached(1), Some(2));
}

#[tokio::test]
async fn only_values_at_the_floor_fill() {
    for (case, loaded, invalidations, kept) in [
        ("older than the floor", 4, &[5][..], None),
        ("at the floor", 5, &[5], Some(5)),
        ("a second invalidation reaches the detached flight", 5, &[5, 6], None),
        ("an older invalidation lowers no floor", 4, &[5, 3], None),
    ] {
        let (stage, gate, read) = Stage::loading(loaded).await;
        for version in invalidations {
            stage.invalidate(1, *version).await;
        }
        gate.open();
        assert_eq!(read.await.unwrap(), Some(loaded), "{case}");
        assert_eq!(stage.cached(1), kept, "{case}");
    }
}

#[tokio::test]
async fn copy_survives_invalidation_of_older_version() {
    let stage = Stage::new();
    stage.store.put(1, 5);
    stage.read(1).await;
    stage.invalidate(1, 5).await;
    stage.invalidate(1, 3).await;
    assert_eq!(stage.cached(1), Some(5));
    stage.invalidate(1, 6).await;
    assert_eq!(stage.cached(1), None);
}

#[tokio::test]
async fn lagging_store_is_read_again_below_the_floor() {
    let (stage, first, old) = Stage::loading(4).await;
    stage.invalidate(1, 5).await;
    let mut second = stage.store.gate();
    let new = stage.spawn_read(1);
    second.entered().await;
    stage.store.put(1, 5);
    second.open();
    assert_eq!(new.await.unwrap(), Some(5));
    assert_eq!(stage.store.min_versions.lock().last().unwrap().get(), 5);
    first.open();
    assert_eq!(old.await.unwrap(), Some(4));
    assert_eq!(stage.cached(1), Some(5));
}

#[tokio::test]
async fn unreachable_floor_does_not_block_a_read() {
    let (stage, gate, old) = Stage::loading(4).await;
    stage.invalidate(1, 1_000).await;
    assert_eq!(stage.read(1).await, Some(4));
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.store.loads(), 4);
    gate.open();
    old.await.unwrap();
}

#[tokio::test]
async fn value_loaded_before_flush_does_not_fill() {
    let (stage, gate, read) = Stage::loading(1).await;
    stage.store.put(1, 2);
    stage.node.flush();
    gate.open();
    assert_eq!(read.await.unwrap(), Some(1));
    assert_eq!(stage.read(1).await, Some(2));
}

#[tokio::test]
async fn no_read_joins_a_flight_from_before_a_flush() {
    let (stage, gate, old) = Stage::loading(1).await;
    stage.store.put(1, 2);
    stage.node.flush();
    let new = stage.spawn_read(1);
    until(|| new.is_finished() || stage.stats().joined == 1).await;
    gate.open();
    assert_eq!(new.await.unwrap(), Some(2));
    old.await.unwrap();
}

#[tokio::test]
async fn a_flush_hides_every_copy_at_once() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    stage.node.flush();
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.read(1).await, Some(2));
}

#[tokio::test]
async fn slow_load_does_not_replace_a_newer_value() {
    for versioned in [true, false] {
        let stage = Stage::new();
        if !versioned {
            stage.store.hide_versions();
        }
        stage.store.put(1, 1);
        let mut gate = stage.store.gate();
        let slow = stage.spawn_read(1);
        gate.entered().await;
        stage.store.put(1, 2);
        assert_eq!(stage.read_with(1, &Consistency::Strong).await, Some(2));
        gate.open();
        assert_eq!(slow.await.unwrap(), Some(1));
        assert_eq!(stage.cached(1), Some(2));
    }
}
