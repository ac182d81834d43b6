use kith_cache::{Consistency, Invalidation, Position, Token, Version};

use crate::{
    stage::{SECOND, Stage},
    until::until,
};

fn at(epoch: u64, number: u64) -> Consistency {
    Consistency::AtLeast(vec![Token::new(Position { partition: 0, epoch, number })])
}

#[tokio::test]
async fn reached_token_is_answered_from_memory() {
    let stage = Stage::new().warm().await;
    stage.invalidate(2, 0).await;
    assert_eq!(stage.read_with(1, &at(7, 1)).await, Some(1));
    assert_eq!(stage.read_with(1, &Consistency::AtLeast(Vec::new())).await, Some(1));
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_ahead_is_waited_for_a_little() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    let cache = stage.cache.clone();
    let read = tokio::spawn(async move { cache.get_with(&1, &at(7, 1)).await.unwrap().unwrap() });
    tokio::time::sleep(SECOND / 100).await;
    assert!(!read.is_finished());
    let version = Some(Version::new(2));
    stage.node.apply(1, &[Invalidation { namespace: "thing", key: "1".into(), version, copy: None }]);
    assert_eq!(read.await.unwrap().version.get(), 2);
    assert_eq!(stage.store.loads(), 2);
}

#[tokio::test(start_paused = true)]
async fn token_that_stays_ahead_is_answered_by_store() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    let began = tokio::time::Instant::now();
    assert_eq!(stage.read_with(1, &at(7, 5)).await, Some(2));
    assert_eq!(began.elapsed().as_millis(), 20);
}

#[tokio::test]
async fn token_of_another_epoch_reads_the_store() {
    let foreign = Token::new(Position { partition: 3, epoch: 7, number: 0 });
    for asked in [at(6, 0), at(8, 0), Consistency::AtLeast(vec![foreign])] {
        let stage = Stage::new().warm().await;
        stage.store.put(1, 2);
        assert_eq!(stage.read_with(1, &asked).await, Some(2));
    }
}

#[tokio::test]
async fn all_tokens_of_a_read_count() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    let position = |number| Token::new(Position { partition: 0, epoch: 7, number });
    let both = Consistency::AtLeast(vec![position(0), position(3)]);
    assert_eq!(stage.read_with(1, &both).await, Some(2));
}

#[tokio::test]
async fn a_strong_read_asks_the_store_and_fills() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    assert_eq!(stage.read(1).await, Some(1));
    assert_eq!(stage.read_with(1, &Consistency::Strong).await, Some(2));
    assert_eq!(stage.cached(1), Some(2));
}

#[tokio::test]
async fn strong_read_starts_a_flight_others_join() {
    let stage = Stage::new();
    stage.store.put(1, 1);
    let (mut older, mut newer) = (stage.store.gate(), stage.store.gate());
    let old = stage.spawn_read(1);
    older.entered().await;
    stage.store.put(1, 2);
    let strong = stage.spawn_strong(1);
    newer.entered().await;
    let cached = stage.spawn_read(1);
    until(|| stage.stats().joined == 1).await;
    newer.open();
    assert_eq!(strong.await.unwrap(), Some(2));
    assert_eq!(cached.await.unwrap(), Some(2));
    older.open();
    assert_eq!(old.await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_strong_read_is_never_answered_stale() {
    let stage = Stage::new().warm().await;
    stage.store.break_down(true);
    stage.clock.advance(61 * SECOND);
    assert!(stage.cache.get_with(&1, &Consistency::Strong).await.is_err());
    assert!(stage.cache.get_many(&[1], &Consistency::Strong).await[0].is_err());
    assert!(stage.cache.get(&1).await.unwrap().unwrap().stale);
}

#[tokio::test]
async fn a_token_of_a_write_shows_that_write() {
    let stage = Stage::new().warm().await;
    stage.store.put(1, 2);
    let token = stage.cache.invalidate(&[(1, Some(Version::new(2)))]).await.unwrap();
    assert_eq!(token.positions(), [Position { partition: 0, epoch: 7, number: 1 }]);
    assert!(stage.node.has_reached(std::slice::from_ref(&token)));
    assert_eq!(stage.read_with(1, &Consistency::AtLeast(vec![token])).await, Some(2));
}

#[tokio::test]
async fn token_ahead_or_of_other_epoch_is_not_reached() {
    let stage = Stage::new();
    stage.node.reach(3);
    let token = |partition, epoch, number| Token::new(Position { partition, epoch, number });
    let reached = token(0, 7, 3);
    assert!(stage.node.has_reached(&[]) && stage.node.has_reached(std::slice::from_ref(&reached)));
    for other in [token(0, 7, 4), token(0, 6, 3), token(1, 7, 3)] {
        assert!(!stage.node.has_reached(&[reached.clone(), other]));
    }
}

#[tokio::test]
async fn adopting_a_baseline_flushes() {
    let stage = Stage::new().warm().await;
    stage.node.adopt(8, 40);
    assert_eq!((stage.node.epoch(), stage.node.applied()), (8, 40));
    assert_eq!(stage.cached(1), None);
    stage.node.reach(39);
    assert_eq!(stage.node.applied(), 40, "numbers do not go back");
}
