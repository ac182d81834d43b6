use std::{sync::Arc, time::Duration};

use kith_cache::{CacheError, Clock, Consistency, Moment, Policy, fake::Sequence};

use crate::{
    stage::{SECOND, Stage, trusted_until, version},
    until::until,
};

#[tokio::test]
async fn copy_is_served_until_ttl_ends_by_clock() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    stage.clock.advance(50 * SECOND);
    assert_eq!(stage.read(1).await, Some(1));
    stage.clock.advance(10 * SECOND);
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.read(1).await, Some(2));
}

#[tokio::test]
async fn copy_without_ttl_stays_until_changed() {
    let forever = |policy: &mut Policy<String>| {
        policy.ttl = Policy::<String>::UNTIL_CHANGED;
        policy.negative_ttl = Policy::<String>::UNTIL_CHANGED;
    };
    let stage = Stage::of(forever, |_| {}).warm().await;
    assert_eq!((stage.read(1).await, stage.read(2).await), (Some(1), None));
    let loads = stage.store.loads();
    stage.store.put(1, 2);
    stage.store.put(2, 1);
    for _ in 0..100 {
        stage.clock.advance(24 * 3600 * SECOND);
        assert_eq!((stage.read(1).await, stage.read(2).await), (Some(1), None));
    }
    assert_eq!(stage.store.loads(), loads, "neither a load nor a refresh in 100 days");
    stage.cache.invalidate(&[(1, None), (2, None)]).await.unwrap();
    assert_eq!((stage.read(1).await, stage.read(2).await), (Some(2), Some(1)));
}

#[tokio::test]
async fn absence_is_kept_for_the_negative_ttl() {
    let stage = Stage::new();
    assert_eq!(stage.read(1).await, None);
    stage.store.put(1, 1);
    stage.clock.advance(4 * SECOND);
    assert_eq!(stage.read(1).await, None);
    stage.clock.advance(SECOND);
    assert_eq!(stage.read(1).await, Some(1));
}

#[tokio::test]
async fn chance_shortens_a_ttl_and_never_lengthens_it() {
    for (chance, served, gone) in [(0.0, 59_999, 60_000), (0.5, 56_999, 57_000), (0.99, 54_059, 54_060)] {
        let random = |config: &mut kith_cache::NodeConfig| config.random = Arc::new(Sequence::new([chance]));
        let stage = Stage::of(|policy| policy.early_refresh = 1.0, random).warm().await;
        stage.clock.advance(Duration::from_millis(served));
        assert_eq!(stage.cached(1), Some(1));
        stage.clock.advance(Duration::from_millis(gone - served));
        assert_eq!(stage.cached(1), None);
    }
}

#[tokio::test]
async fn age_counts_from_the_start_of_the_load() {
    let (stage, gate, read) = Stage::loading(1).await;
    stage.clock.advance(3 * SECOND);
    gate.open();
    read.await.unwrap();
    assert_eq!(stage.cache.peek(&1).unwrap().age, 3 * SECOND);
}

#[tokio::test]
async fn late_hit_refreshes_once_in_background() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    stage.clock.advance(52 * SECOND);
    let gate = stage.store.gate();
    for _ in 0..3 {
        assert_eq!(stage.read(1).await, Some(1));
    }
    gate.open();
    until(|| stage.cached(1) == Some(2)).await;
    assert_eq!(stage.store.loads(), 2);
}

#[tokio::test]
async fn failed_refresh_keeps_the_copy_for_its_ttl() {
    let stage = Stage::new().warm().await;
    stage.store.break_down(true);
    stage.clock.advance(52 * SECOND);
    stage.read(1).await;
    until(|| stage.stats().load_errors == 1).await;
    for _ in 0..3 {
        assert_eq!(stage.read(1).await, Some(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.store.loads(), 2);
}

#[tokio::test(start_paused = true)]
async fn slow_store_serves_stale_and_fills_later() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    stage.clock.advance(61 * SECOND);
    let gate = stage.store.gate();
    let began = tokio::time::Instant::now();
    let entry = stage.cache.get(&1).await.unwrap().unwrap();
    assert!(entry.stale && entry.version.get() == 1 && entry.age == 61 * SECOND);
    assert_eq!(began.elapsed().as_millis(), 100);
    gate.open();
    until(|| stage.cached(1) == Some(2)).await;
    assert_eq!(stage.stats().stale_served, 1);
}

#[tokio::test(start_paused = true)]
async fn invalidated_stale_copy_is_not_served() {
    let stage = Stage::new().warm().await;
    stage.clock.advance(61 * SECOND);
    let mut gate = stage.store.gate();
    let read = stage.spawn_read(1);
    gate.entered().await;
    stage.invalidate(1, 0).await;
    tokio::time::sleep(SECOND).await;
    assert!(!read.is_finished());
    gate.open();
    assert_eq!(read.await.unwrap(), Some(1));
    assert_eq!(stage.stats().stale_served, 0);
}

#[tokio::test]
async fn failing_store_serves_stale_up_to_the_bound() {
    let stage = Stage::new().warm().await;
    stage.store.break_down(true);
    stage.clock.advance(659 * SECOND);
    assert!(stage.cache.get(&1).await.unwrap().unwrap().stale);
    stage.clock.advance(SECOND);
    assert!(matches!(stage.cache.get(&1).await, Err(CacheError::Load(_))));
}

#[tokio::test]
async fn a_strict_namespace_serves_nothing_stale() {
    let stage = Stage::with(|policy| policy.strict = true).warm().await;
    stage.store.break_down(true);
    stage.clock.advance(60 * SECOND);
    assert!(matches!(stage.cache.get(&1).await, Err(CacheError::Load(_))));
}

#[tokio::test(start_paused = true)]
async fn load_fills_after_its_read_timed_out() {
    let stage = Stage::new();
    stage.store.put(1, 1);
    let gate = stage.store.gate();
    let began = tokio::time::Instant::now();
    assert!(matches!(stage.cache.get(&1).await, Err(CacheError::Timeout)));
    assert_eq!(began.elapsed(), 2 * SECOND);
    gate.open();
    until(|| stage.cached(1) == Some(1)).await;
}

#[tokio::test(start_paused = true)]
async fn endless_load_is_dropped_at_its_bound() {
    let stage = Stage::new();
    stage.store.put(1, 1);
    let _gate = stage.store.gate();
    assert!(matches!(stage.cache.get(&1).await, Err(CacheError::Timeout)));
    assert_eq!(stage.stats().loads_in_flight, 1);
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(stage.stats().loads_in_flight, 0);
    assert_eq!(stage.read(1).await, Some(1));
}

#[tokio::test]
async fn strict_read_needs_trust() {
    let stage = Stage::of(|policy| policy.strict = true, trusted_until(1_500)).warm().await;
    stage.store.put(1, 2);
    stage.clock.advance(Duration::from_millis(1_499));
    assert!(stage.node.trusted());
    assert_eq!(stage.read(1).await, Some(1));
    stage.clock.advance(Duration::from_millis(1));
    assert!(!stage.node.trusted());
    assert_eq!(stage.read(1).await, Some(2));
}

#[tokio::test]
async fn strict_batch_needs_trust() {
    let stage = Stage::of(|policy| policy.strict = true, trusted_until(1_500)).warm().await;
    stage.store.put(1, 2);
    let batch = async || {
        let answers = stage.cache.get_many(&[1], &Consistency::Cached).await;
        version(answers.into_iter().next().unwrap().unwrap())
    };
    assert_eq!(batch().await, Some(1));
    stage.clock.advance(Duration::from_millis(1_500));
    assert_eq!(batch().await, Some(2));
}

#[tokio::test]
async fn untrusted_memory_serves_for_the_grace() {
    let stage = Stage::of(|_| {}, trusted_until(1_500)).warm().await;
    stage.store.put(1, 2);
    stage.clock.advance(Duration::from_millis(2_999));
    assert_eq!(stage.read(1).await, Some(1));
    stage.clock.advance(Duration::from_millis(1));
    assert_eq!(stage.read(1).await, Some(2));
    stage.node.trust_until(stage.clock.now().after(SECOND));
    assert_eq!(stage.cached(1), Some(2));
}

#[tokio::test]
async fn without_trust_no_stale_copy_is_served() {
    let stage = Stage::of(|_| {}, trusted_until(1_500)).warm().await;
    stage.store.break_down(true);
    stage.clock.advance(61 * SECOND);
    assert!(stage.cache.get(&1).await.is_err());
    stage.node.trust_until(Moment::NEVER);
    assert!(stage.cache.get(&1).await.unwrap().unwrap().stale);
}
