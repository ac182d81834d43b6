use kith_cache::{CacheError, Consistency, Entry};
use tokio::task::JoinHandle;

use crate::{
    stage::{SECOND, Stage, version},
    until::until,
};

type Answer = Result<Option<Entry<String>>, CacheError>;

impl Stage {
    async fn read_many(&self, keys: &[u64]) -> Vec<Option<u64>> {
        versions(self.cache.get_many(keys, &Consistency::Cached).await)
    }

    /// A cached read of these keys in its own task.
    fn spawn_batch<const N: usize>(&self, keys: [u64; N]) -> JoinHandle<Vec<Answer>> {
        let cache = self.cache.clone();
        tokio::spawn(async move { cache.get_many(&keys, &Consistency::Cached).await })
    }

    fn filled(self, keys: std::ops::Range<u64>) -> Self {
        keys.for_each(|key| self.store.put(key, key + 1));
        self
    }
}

fn versions(answers: Vec<Answer>) -> Vec<Option<u64>> {
    answers.into_iter().map(|answer| version(answer.unwrap())).collect()
}

#[tokio::test]
async fn batch_keeps_key_order_and_loads_repeats_once() {
    let stage = Stage::new().filled(0..5);
    assert_eq!(stage.read_many(&[3, 9, 1, 3, 3]).await, [Some(4), None, Some(2), Some(4), Some(4)]);
    assert_eq!(*stage.store.chunks.lock(), [3]);
    assert_eq!(stage.read_many(&[1, 3, 9]).await, [Some(2), Some(4), None]);
    assert_eq!(stage.store.loads(), 1, "memory has them, absence too");
    assert!(stage.read_many(&[]).await.is_empty());
}

#[tokio::test]
async fn batch_loads_only_missing_keys_in_chunks() {
    let stage = Stage::new().filled(0..1_203);
    stage.read(0).await;
    stage.read(1).await;
    let keys: Vec<u64> = (0..1_203).collect();
    let expected: Vec<_> = (0..1_203).map(|key| Some(key + 1)).collect();
    assert_eq!(stage.read_many(&keys).await, expected);
    let mut chunks = stage.store.chunks.lock().clone();
    chunks.sort_unstable();
    assert_eq!(chunks, [201, 500, 500]);
}

#[tokio::test]
async fn large_batch_is_answered_before_fill() {
    let stage = Stage::new().filled(0..100);
    let keys: Vec<u64> = (0..100).collect();
    let filled = || keys.iter().filter(|key| stage.cache.peek(key).is_some()).count();
    assert!(stage.read_many(&keys).await.iter().all(Option::is_some));
    assert_eq!(filled(), 0);
    tokio::task::yield_now().await;
    assert!((1..100).contains(&filled()), "{} are filled at once", filled());
    until(|| filled() == keys.len()).await;
}

#[tokio::test]
async fn a_chunk_that_fails_fails_its_keys_alone() {
    let stage = Stage::with(|policy| policy.batch_chunk = 2).filled(0..4);
    let (mut first, mut second) = (stage.store.gate(), stage.store.gate());
    let batch = stage.spawn_batch([0, 1, 2, 3]);
    first.entered().await;
    second.entered().await;
    stage.store.panic_next();
    first.open();
    until(|| stage.stats().load_errors == 1).await;
    second.open();
    let answers = batch.await.unwrap();
    assert!(answers[..2].iter().all(|answer| matches!(answer, Err(CacheError::Panicked))));
    assert!(answers[2..].iter().all(Result::is_ok));
}

#[tokio::test]
async fn overlapping_batches_load_each_key_once() {
    let stage = Stage::new().filled(0..6);
    let (left, right) = (stage.store.gate(), stage.store.gate());
    let (first, second) = (stage.spawn_batch([0, 1, 2, 3]), stage.spawn_batch([5, 4, 3, 2]));
    until(|| stage.stats().joined == 2).await;
    right.open();
    left.open();
    assert_eq!(versions(first.await.unwrap()), [1, 2, 3, 4].map(Some));
    assert_eq!(versions(second.await.unwrap()), [6, 5, 4, 3].map(Some));
    assert_eq!(*stage.store.chunks.lock(), [4, 2]);
}

#[tokio::test]
async fn a_batch_that_left_still_fills() {
    let stage = Stage::new().filled(0..3);
    let mut gate = stage.store.gate();
    let batch = stage.spawn_batch([0, 1, 2]);
    gate.entered().await;
    batch.abort();
    assert!(batch.await.is_err());
    gate.open();
    until(|| stage.cached(2) == Some(3)).await;
}

#[tokio::test]
async fn invalidation_during_batch_drops_only_its_key() {
    let stage = Stage::new().filled(0..3);
    let mut gate = stage.store.gate();
    let batch = stage.spawn_batch([0, 1, 2]);
    gate.entered().await;
    stage.invalidate(1, 0).await;
    gate.open();
    batch.await.unwrap();
    assert_eq!([stage.cached(0), stage.cached(1), stage.cached(2)], [Some(1), None, Some(3)]);
}

#[tokio::test]
async fn a_strong_batch_asks_the_store_for_every_key() {
    let stage = Stage::new().filled(0..3);
    stage.read_many(&[0, 1, 2]).await;
    stage.store.put(1, 9);
    let answers = stage.cache.get_many(&[0, 1, 2], &Consistency::Strong).await;
    assert_eq!(version(answers[1].clone().unwrap()), Some(9));
    assert_eq!(*stage.store.chunks.lock(), [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn slow_batch_is_answered_from_stale_copies() {
    let stage = Stage::new().filled(0..2);
    stage.read_many(&[0, 1]).await;
    stage.clock.advance(61 * SECOND);
    let _gate = stage.store.gate();
    let began = tokio::time::Instant::now();
    let answers = stage.cache.get_many(&[0, 1], &Consistency::Cached).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().as_ref().unwrap().stale));
    assert_eq!(began.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn batch_on_hung_store_ends_at_hard_timeout() {
    let stage = Stage::new().filled(0..3);
    stage.read(0).await;
    let _gate = stage.store.gate();
    let began = tokio::time::Instant::now();
    let answers = stage.cache.get_many(&[0, 1, 2], &Consistency::Cached).await;
    assert_eq!(began.elapsed(), 2 * SECOND);
    assert!(answers[0].is_ok());
    assert!(matches!(answers[1], Err(CacheError::Timeout)));
}

#[tokio::test]
async fn a_batch_asks_a_lagging_store_again() {
    let stage = Stage::new();
    stage.store.put(1, 4);
    stage.store.put(2, 1);
    let mut old = stage.store.gate();
    let first = stage.spawn_read(1);
    old.entered().await;
    stage.invalidate(1, 5).await;
    let mut lagging = stage.store.gate();
    let batch = stage.spawn_batch([1, 2]);
    lagging.entered().await;
    stage.store.put(1, 5);
    lagging.open();
    let answers = batch.await.unwrap();
    assert_eq!(version(answers[0].clone().unwrap()), Some(5));
    old.open();
    first.await.unwrap();
}

#[tokio::test]
async fn invalidation_before_late_fill_is_kept() {
    let stage = Stage::new().filled(0..100);
    let keys: Vec<u64> = (0..100).collect();
    stage.read_many(&keys).await;
    assert_eq!(stage.cached(1), None, "the fill is a task that has had no turn yet");
    stage.store.put(0, 2);
    stage.invalidate(0, 2).await;
    assert_eq!(stage.read(1).await, Some(2));
    assert_eq!(stage.store.loads(), 1, "a reader in between shares the load that has ended");
    until(|| stage.cached(99).is_some()).await;
    assert_eq!((stage.cached(0), stage.cached(1)), (None, Some(2)));
    assert_eq!(stage.read(0).await, Some(2));
}
