use std::{sync::Arc, time::Duration};

use kith_cache::{CacheError, Change, Consistency, Version, WriteGuard};
use tokio::task::JoinHandle;

use crate::{
    gate::Gate,
    stage::{SECOND, Stage, value},
    until::until,
};

fn put(key: u64, version: u64) -> (u64, Change<String>) {
    (key, Change::Put { value: Arc::new(value(key, version)), version: Version::new(version) })
}

fn deleted(key: u64, version: u64) -> (u64, Change<String>) {
    (key, Change::Deleted { version: Version::new(version) })
}

impl Stage {
    async fn write(&self) -> WriteGuard<u64, String> {
        self.cache.begin_write(&[1]).await
    }

    /// A write to record 1 is in progress; it is applied while a read's load is held at the gate.
    async fn reading_during_a_write() -> (Self, WriteGuard<u64, String>, Gate, JoinHandle<Option<u64>>) {
        let stage = Self::new();
        stage.store.put(1, 1);
        let guard = stage.write().await;
        let mut gate = stage.store.gate();
        let read = stage.spawn_read(1);
        gate.entered().await;
        stage.store.put(1, 2);
        (stage, guard, gate, read)
    }

    /// Record 1 is at version 1, and a write to it is in progress.
    async fn writing() -> (Self, WriteGuard<u64, String>) {
        let stage = Self::new().warm().await;
        let guard = stage.write().await;
        (stage, guard)
    }
}

#[tokio::test]
async fn copies_are_dropped_before_the_commit() {
    let (stage, guard) = Stage::writing().await;
    assert_eq!(stage.cached(1), None);
    guard.aborted().await;
}

#[tokio::test]
async fn reads_during_a_write_fill_nothing() {
    let (stage, guard) = Stage::writing().await;
    assert_eq!(stage.read(1).await, Some(1));
    assert_eq!(stage.cached(1), None);
    stage.store.put(1, 2);
    assert_eq!(stage.read(1).await, Some(2));
    guard.aborted().await;
    assert_eq!(stage.read(1).await, Some(2));
    assert_eq!(stage.cached(1), Some(2));
}

#[tokio::test]
async fn earlier_load_does_not_fill_during_a_write() {
    let (stage, gate, read) = Stage::loading(1).await;
    let guard = stage.write().await;
    gate.open();
    assert_eq!(read.await.unwrap(), Some(1));
    assert_eq!(stage.cached(1), None);
    guard.aborted().await;
}

#[tokio::test]
async fn read_during_write_joins_no_earlier_flight() {
    let (stage, gate, old) = Stage::loading(1).await;
    let guard = stage.write().await;
    stage.store.put(1, 2);
    let new = stage.spawn_read(1);
    until(|| new.is_finished() || stage.stats().joined == 1).await;
    gate.open();
    assert_eq!(new.await.unwrap(), Some(2));
    old.await.unwrap();
    guard.aborted().await;
}

#[tokio::test]
async fn a_committed_value_is_in_memory_at_once() {
    let (stage, guard) = Stage::writing().await;
    stage.store.put(1, 2);
    guard.committed(vec![put(1, 2)]).await.unwrap();
    assert_eq!(stage.cached(1), Some(2));
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test]
async fn a_committed_delete_is_known_at_once() {
    let (stage, guard) = Stage::writing().await;
    stage.store.delete(1, 2);
    guard.committed(vec![deleted(1, 2)]).await.unwrap();
    assert_eq!(stage.read(1).await, None);
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test]
async fn an_insert_replaces_the_knowledge_of_absence() {
    let stage = Stage::new();
    assert_eq!(stage.read(1).await, None);
    let guard = stage.write().await;
    stage.store.put(1, 1);
    guard.committed(vec![(1, Change::Invalidate { version: None })]).await.unwrap();
    assert_eq!(stage.read(1).await, Some(1));
}

#[tokio::test]
async fn load_that_missed_a_write_does_not_fill() {
    let (stage, guard, gate, read) = Stage::reading_during_a_write().await;
    guard.committed(vec![(1, Change::Invalidate { version: Some(Version::new(2)) })]).await.unwrap();
    gate.open();
    assert_eq!(read.await.unwrap(), Some(1));
    assert_eq!(stage.cached(1), None);
}

#[tokio::test]
async fn write_keeps_no_value_while_another_runs() {
    let stage = Stage::new().warm().await;
    let (first, second) = (stage.write().await, stage.write().await);
    stage.store.put(1, 3);
    first.committed(vec![put(1, 2)]).await.unwrap();
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.read(1).await, Some(3));
    assert_eq!(stage.cached(1), None, "the other write goes on");
    second.committed(vec![put(1, 3)]).await.unwrap();
    assert_eq!(stage.cached(1), Some(3));
}

#[tokio::test]
async fn older_write_that_ends_last_does_not_install() {
    let stage = Stage::new().warm().await;
    let (older, newer) = (stage.write().await, stage.write().await);
    stage.store.put(1, 3);
    newer.committed(vec![put(1, 3)]).await.unwrap();
    older.committed(vec![put(1, 2)]).await.unwrap();
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.read(1).await, Some(3));
}

#[tokio::test]
async fn invalidation_during_write_blocks_install() {
    let (stage, guard) = Stage::writing().await;
    stage.invalidate(1, 0).await;
    guard.committed(vec![put(1, 2)]).await.unwrap();
    assert_eq!(stage.cached(1), None);
    let guard = stage.write().await;
    stage.node.flush();
    guard.committed(vec![put(1, 3)]).await.unwrap();
    assert_eq!(stage.cached(1), None);
}

#[tokio::test]
async fn aborted_write_is_unpublished_and_reads_fill() {
    let stage = Stage::new().warm().await;
    stage.write().await.aborted().await;
    assert!(stage.bus.published().is_empty());
    assert_eq!(stage.read(1).await, Some(1));
    assert_eq!(stage.cached(1), Some(1));
}

#[tokio::test]
async fn commit_publishes_version_and_position() {
    let stage = Stage::new();
    let guard = stage.cache.begin_write(&[1, 1, 2]).await;
    let token = guard.committed(vec![put(1, 2), deleted(2, 9)]).await.unwrap();
    let published: Vec<_> = stage
        .bus
        .published()
        .into_iter()
        .map(|change| (change.key, change.version.map(Version::get)))
        .collect();
    assert_eq!(published, [("1".to_owned(), Some(2)), ("2".to_owned(), Some(9))]);
    assert_eq!(token, stage.node.token());
    assert_eq!(stage.cached(1), Some(2), "a key named twice is marked once");
}

#[tokio::test]
async fn unknown_outcome_drops_concurrent_load() {
    let (stage, guard, gate, read) = Stage::reading_during_a_write().await;
    guard.unknown().await.unwrap();
    gate.open();
    read.await.unwrap();
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.read(1).await, Some(2));
}

#[tokio::test]
async fn guard_without_verdict_is_unknown() {
    let (stage, guard, gate, read) = Stage::reading_during_a_write().await;
    drop(guard);
    gate.open();
    read.await.unwrap();
    assert_eq!(stage.read(1).await, Some(2));
    until(|| stage.bus.published().len() == 1).await;
    assert_eq!(stage.bus.published()[0].version, None);
}

#[test]
fn guard_dropped_without_runtime_unmarks_keys() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stage = Stage::new();
    stage.store.put(1, 1);
    drop(runtime.block_on(stage.write()));
    assert_eq!(runtime.block_on(stage.read(1)), Some(1));
    assert_eq!(stage.cached(1), Some(1));
}

#[tokio::test]
async fn verdict_refused_by_the_bus_is_unknown() {
    let (stage, guard) = Stage::writing().await;
    stage.bus.fail(true);
    assert!(matches!(guard.committed(vec![put(1, 2)]).await, Err(CacheError::Bus(_))));
    assert_eq!(stage.cached(1), None);
    stage.store.put(1, 2);
    assert_eq!(stage.read(1).await, Some(2));
    assert_eq!(stage.cached(1), Some(2), "the mark is gone");
}

#[tokio::test(start_paused = true)]
async fn late_write_is_seen_at_5_30_and_90_seconds() {
    let stage = Stage::new().warm().await;
    stage.write().await.unknown().await.unwrap();
    let mut version = 1;
    for wait in [4, 2, 25, 60] {
        stage.store.put(1, version);
        stage.read(1).await;
        version += 1;
        stage.store.put(1, version);
        assert_eq!(stage.read(1).await, Some(version - 1), "a copy from before it landed");
        tokio::time::sleep(wait * SECOND).await;
        let expected = if wait == 4 { version - 1 } else { version };
        assert_eq!(stage.read(1).await, Some(expected), "after {wait} s more");
        stage.invalidate(1, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_unknown_outcomes_flush() {
    let stage = Stage::with(|policy| policy.late_writes = 1).warm().await;
    stage.write().await.unknown().await.unwrap();
    stage.cache.begin_write(&[2]).await.unknown().await.unwrap();
    for wait in [6, 25, 60] {
        stage.store.put(3, wait);
        assert_eq!(stage.read(3).await, Some(wait));
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(stage.cached(3), None);
    }
    stage.read(3).await;
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(stage.cached(3), Some(60), "they end");
}

#[tokio::test]
async fn strong_read_during_write_sees_commits() {
    let (stage, guard) = Stage::writing().await;
    stage.store.put(1, 2);
    assert_eq!(stage.read_with(1, &Consistency::Strong).await, Some(2));
    guard.committed(vec![put(1, 2)]).await.unwrap();
    assert_eq!(stage.cached(1), Some(2));
}
