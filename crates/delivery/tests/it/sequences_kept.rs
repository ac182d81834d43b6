//! Both keepers give out block numbers by the same rules, in memory and in Redis: the same cases for both.

use std::{sync::Arc, time::Duration};

use kith_cache::remote::{SharedError, redis::Reply};
use kith_delivery::{FetchLease, MemorySequences, Offer, RedisSequences, SequenceKeeper, Take};
use kith_store::{ABOVE_MAX, Epoch, Seq, SeqRange, SequenceName};

use tokio::time::{sleep, timeout};

use crate::{
    model::TestRedis,
    sequence_stage::{named, range},
    stage::Epochs,
};

fn a() -> SequenceName {
    named("a")
}

fn block(first: Seq, last: Seq, seen: Seq) -> Offer {
    Offer { block: range(first, last), seen, lease: FetchLease::default() }
}

async fn offer(keeper: &dyn SequenceKeeper, first: Seq, last: Seq, seen: Seq) {
    keeper.offer(&a(), block(first, last, seen)).await.unwrap();
}

fn request(count: u32, seen: Seq) -> Take {
    Take { count, seen, low: 0, renews: false }
}

async fn take(keeper: &dyn SequenceKeeper, count: u32, seen: Seq) -> Option<SeqRange> {
    keeper.take(&a(), request(count, seen)).await.unwrap().numbers
}

async fn lease(keeper: &dyn SequenceKeeper, low: u64) -> Option<FetchLease> {
    keeper.take(&a(), Take { count: 1, seen: 0, low, renews: false }).await.unwrap().lease
}

fn numbers(first: Seq, last: Seq) -> Option<SeqRange> {
    Some(range(first, last))
}

macro_rules! cases {
    ($($case:ident)+) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&super::MemorySequences::new(10)).await;
            })+
        }
        mod in_redis {
            $(#[tokio::test]
            #[ignore = "needs Redis: run cargo xtask test"]
            async fn $case() {
                super::$case(&super::Redis::connect().await.keeper).await;
            })+
        }
    };
}

cases! {
    nothing_is_known_before_an_offer
    numbers_are_given_out_up_to_the_end
    block_that_follows_extends_the_present_one
    later_block_is_the_next_one
    block_that_follows_the_next_one_extends_it
    blocks_join_in_any_order
    block_with_gap_after_next_block_is_dropped
    one_caller_at_a_time_gets_a_lease
    lease_of_a_dead_node_ends
    lower_block_is_dropped
    block_below_what_is_known_gives_nothing
    block_above_what_is_known_replaces_an_old_one
    names_are_apart
    large_numbers_are_exact
}

async fn nothing_is_known_before_an_offer(keeper: &dyn SequenceKeeper) {
    assert_eq!(take(keeper, 1, 0).await, None);
}

async fn numbers_are_given_out_up_to_the_end(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 100, 0).await;
    assert_eq!(take(keeper, 1, 0).await, numbers(1, 1));
    assert_eq!(take(keeper, 60, 1).await, numbers(2, 61));
    assert_eq!(take(keeper, 60, 61).await, numbers(62, 100), "no number beyond the block");
    assert_eq!(take(keeper, 1, 100).await, None);
}

async fn block_that_follows_extends_the_present_one(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 10, 0).await;
    offer(keeper, 11, 20, 0).await;
    assert_eq!(take(keeper, 15, 0).await, numbers(1, 15));
}

async fn later_block_is_the_next_one(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 10, 0).await;
    offer(keeper, 21, 30, 0).await;
    assert_eq!(take(keeper, 15, 0).await, numbers(1, 10), "numbers between are of others");
    assert_eq!(take(keeper, 5, 0).await, numbers(21, 25));
    assert_eq!(take(keeper, 9, 0).await, numbers(26, 30));
    assert_eq!(take(keeper, 1, 0).await, None);
}

async fn block_that_follows_the_next_one_extends_it(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 10, 0).await;
    offer(keeper, 21, 30, 0).await;
    offer(keeper, 31, 40, 0).await;
    assert_eq!(take(keeper, 10, 0).await, numbers(1, 10));
    assert_eq!(take(keeper, 30, 0).await, numbers(21, 40));
}

async fn blocks_join_in_any_order(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 10, 0).await;
    offer(keeper, 31, 40, 0).await;
    offer(keeper, 21, 30, 0).await;
    offer(keeper, 11, 20, 0).await;
    assert_eq!(take(keeper, 50, 0).await, numbers(1, 40));
}

async fn block_with_gap_after_next_block_is_dropped(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 10, 0).await;
    offer(keeper, 21, 30, 0).await;
    offer(keeper, 41, 50, 0).await;
    assert_eq!(take(keeper, 20, 0).await, numbers(1, 10));
    assert_eq!(take(keeper, 30, 0).await, numbers(21, 30));
    assert_eq!(take(keeper, 1, 0).await, None);
}

async fn one_caller_at_a_time_gets_a_lease(keeper: &dyn SequenceKeeper) {
    let first = lease(keeper, 0).await.unwrap();
    assert_eq!(lease(keeper, 0).await, None, "another caller fetches the first block");
    keeper.offer(&a(), Offer { block: range(1, 10), seen: 0, lease: first }).await.unwrap();
    assert_eq!(lease(keeper, 9).await, None, "nine are left");
    let second = lease(keeper, 9).await.unwrap();
    offer(keeper, 11, 20, 0).await;
    assert_eq!(lease(keeper, 100).await, None, "an offer under another lease does not end this one");
    keeper.offer(&a(), Offer { block: range(21, 30), seen: 0, lease: second }).await.unwrap();
    assert!(lease(keeper, 100).await.is_some());
}

async fn lease_of_a_dead_node_ends(keeper: &dyn SequenceKeeper) {
    assert!(lease(keeper, 0).await.is_some());
    let again = async || {
        while lease(keeper, 0).await.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), again()).await.unwrap();
}

/// Published schemes have this fault: a slow caller replaces a later block by its own.
async fn lower_block_is_dropped(keeper: &dyn SequenceKeeper) {
    offer(keeper, 101, 110, 0).await;
    assert_eq!(take(keeper, 1, 0).await, numbers(101, 101));
    offer(keeper, 1, 100, 0).await;
    assert_eq!(take(keeper, 20, 0).await, numbers(102, 110));
    offer(keeper, 51, 60, 0).await;
    assert_eq!(take(keeper, 1, 0).await, None, "numbers do not fall");
}

async fn block_below_what_is_known_gives_nothing(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 100, 0).await;
    take(keeper, 10, 0).await;
    assert_eq!(take(keeper, 1, 11).await, None);
    assert_eq!(take(keeper, 1, 10).await, numbers(11, 11));
}

async fn block_above_what_is_known_replaces_an_old_one(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 100, 0).await;
    offer(keeper, 301, 310, 0).await;
    take(keeper, 10, 0).await;
    offer(keeper, 501, 600, 500).await;
    assert_eq!(take(keeper, 200, 500).await, numbers(501, 600));
    assert_eq!(take(keeper, 1, 0).await, None, "the next one was replaced, too");
}

async fn names_are_apart(keeper: &dyn SequenceKeeper) {
    offer(keeper, 1, 100, 0).await;
    assert_eq!(keeper.take(&named("b"), request(1, 0)).await.unwrap().numbers, None);
    assert_eq!(keeper.take(&named("A"), request(1, 0)).await.unwrap().numbers, None);
}

async fn large_numbers_are_exact(keeper: &dyn SequenceKeeper) {
    let first = ABOVE_MAX + 1;
    offer(keeper, first, first + 99, ABOVE_MAX).await;
    for number in 0..3 {
        let expected = numbers(first + number, first + number);
        assert_eq!(take(keeper, 1, ABOVE_MAX).await, expected);
    }
    offer(keeper, first + 100, first + 199, 0).await;
    offer(keeper, first + 301, first + 310, 0).await;
    assert_eq!(take(keeper, 500, 0).await, numbers(first + 3, first + 199));
    assert_eq!(take(keeper, 500, 0).await, numbers(first + 301, first + 310));
}

#[tokio::test]
async fn memory_keeps_the_names_that_were_used_last() {
    let keeper = MemorySequences::new(4);
    for name in ["a", "b", "c", "d", "e"] {
        keeper.offer(&named(name), block(1, 10, 0)).await.unwrap();
    }
    let mut known = 0;
    // The newest first: taking from an unknown name is a use, too.
    for name in ["e", "d", "c", "b", "a"] {
        known += usize::from(keeper.take(&named(name), request(1, 0)).await.unwrap().numbers.is_some());
    }
    assert!((1..=4).contains(&known), "{known}");
}

/// Sequences in the tests' Redis, under their own prefix.
struct Redis {
    keeper: RedisSequences,
    epochs: Arc<Epochs>,
    redis: TestRedis,
}

impl Redis {
    async fn connect() -> Self {
        let redis = TestRedis::connect().await;
        let epochs = Epochs::of(&redis, 5);
        let keeper = RedisSequences::over(Arc::clone(&redis.runner), Arc::<Epochs>::clone(&epochs));
        Self { keeper, epochs, redis }
    }

    fn follow(&self, number: u64) {
        self.epochs.follow(&self.redis, number);
    }

    /// Runs a command on the sequence's key.
    async fn ask(&self, script: &'static str) -> Reply {
        self.redis.eval(script, vec![format!("{{{}:seq:a}}:5", self.redis.runner.tag())], []).await
    }
}

/// Published schemes have this fault: after a failover, or with an old dump, numbers are given out again.
#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn numbers_of_another_epoch_are_not_given_out() {
    let redis = Redis::connect().await;
    offer(&redis.keeper, 1, 100, 0).await;
    redis.follow(6);
    assert_eq!(take(&redis.keeper, 1, 0).await, None);
    offer(&redis.keeper, 101, 200, 0).await;
    assert_eq!(take(&redis.keeper, 1, 0).await, numbers(101, 101));
    redis.follow(5);
    assert_eq!(take(&redis.keeper, 1, 0).await, numbers(1, 1));
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn other_server_and_no_epoch_are_away() {
    let redis = Redis::connect().await;
    offer(&redis.keeper, 1, 100, 0).await;
    *redis.epochs.followed.lock() = Some(Epoch { number: 5, server: "another".to_owned() });
    assert_eq!(redis.keeper.take(&a(), request(1, 0)).await, Err(SharedError::Unavailable));
    assert_eq!(redis.keeper.offer(&a(), block(101, 200, 0)).await, Err(SharedError::Unavailable));
    *redis.epochs.followed.lock() = None;
    assert_eq!(redis.keeper.take(&a(), request(1, 0)).await, Err(SharedError::Unavailable));
    redis.follow(5);
    assert_eq!(take(&redis.keeper, 1, 0).await, numbers(1, 1), "nothing was changed");
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn sequence_that_is_not_used_ends() {
    let redis = Redis::connect().await;
    let lasts = async || match redis.ask("return redis.call('PTTL', KEYS[1])").await {
        Reply::Number(ms) => ms,
        other => panic!("{other:?}"),
    };
    let kept = async || (25 * 3_600_000 - 60_000..=25 * 3_600_000).contains(&lasts().await);
    let forget_end = async || redis.ask("return redis.call('PERSIST', KEYS[1])").await;
    lease(&redis.keeper, 5).await;
    assert!(kept().await, "a lease makes the key");
    offer(&redis.keeper, 1, 100, 0).await;
    assert!(kept().await);
    forget_end().await;
    take(&redis.keeper, 1, 0).await;
    assert_eq!(lasts().await, -1, "a use alone costs no renewal");
    redis.keeper.take(&a(), Take { renews: true, ..request(1, 0) }).await.unwrap();
    assert!(kept().await);
}
