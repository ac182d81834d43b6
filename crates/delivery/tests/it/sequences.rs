//! Tests the allocator: who shares a step, when blocks are fetched, and what happens when Redis or the store
//! is away.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use futures::{future::join_all, poll};
use kith_delivery::SequenceLimits;
use kith_store::{SeqRange, StoreError};
use tokio::{sync::Semaphore, task::yield_now};

use crate::sequence_stage::{TestNode, named, range};

fn node() -> TestNode {
    TestNode::new(SequenceLimits::default())
}

/// Lets what runs in the background come to its end.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// No permit is left.
fn shut(gate: &Semaphore) {
    gate.forget_permits(Semaphore::MAX_PERMITS);
}

fn numbers(ranges: &[SeqRange]) -> Vec<i64> {
    ranges.iter().flat_map(|range| range.first..=range.last).collect()
}

#[tokio::test]
async fn numbers_begin_at_one_and_follow_each_other() {
    let node = node();
    assert_eq!(node.reserve(1, 0).await, [range(1, 1)]);
    assert_eq!(node.reserve(3, 0).await, [range(2, 4)]);
    assert_eq!(node.sequences.reserve(&named("b"), 2, 0).await.unwrap(), [range(1, 2)]);
    assert_eq!(node.reserve(1, 0).await, [range(5, 5)]);
}

/// Published schemes promise this, too: a thousand numbers take about ten store steps.
#[tokio::test]
async fn thousand_numbers_are_about_ten_steps() {
    let node = node();
    for next in 1..=1_000 {
        // Slow enough that blocks do not grow.
        node.clock.advance(Duration::from_millis(5));
        let got = node.reserve(1, 0).await;
        assert_eq!(got, [range(next, next)], "no gap while nothing fails");
        settle().await;
    }
    let steps = node.store.steps();
    assert!((10..=11).contains(&steps.len()) && steps.iter().all(|step| *step == 100), "{steps:?}");
}

#[tokio::test]
async fn blocks_grow_under_load_up_to_the_maximum() {
    let node = node();
    for _ in 0..200 {
        node.reserve(100, 0).await;
        settle().await;
    }
    let steps = node.store.steps();
    assert_eq!(steps[..7], [100, 200, 400, 800, 1_600, 3_200, 6_400]);
    assert!(steps.len() < 12 && steps[7..].iter().all(|step| *step == 6_400), "{steps:?}");
}

#[tokio::test]
async fn next_block_is_fetched_before_the_last_number() {
    let node = node();
    node.reserve(50, 0).await;
    settle().await;
    assert_eq!(node.store.steps(), [100], "half is left");
    node.reserve(1, 0).await;
    settle().await;
    assert_eq!(node.store.steps().len(), 2);
    // No caller waits for a step that is not answered.
    shut(&node.store.gate);
    assert_eq!(node.reserve(60, 0).await, [range(52, 111)]);
}

/// Published schemes have this fault: when a block ends callers sleep for 250 ms and try again.
#[tokio::test]
async fn caller_at_end_of_block_waits_for_one_step() {
    let node = node();
    node.reserve(100, 0).await;
    settle().await;
    shut(&node.store.gate);
    node.reserve(200, 0).await;
    let mut waits = Box::pin(node.reserve(1_000, 0));
    assert!(poll!(&mut waits).is_pending());
    node.store.gate.add_permits(2);
    assert_eq!(numbers(&waits.await).len(), 1_000);
}

#[tokio::test]
async fn callers_share_one_take() {
    let node = node();
    node.reserve(1, 0).await;
    shut(&node.server.gate);
    let calls = (0..32).map(|_| node.reserve(3, 0));
    let mut all = Box::pin(join_all(calls));
    assert!(poll!(&mut all).is_pending());
    assert_eq!(
        node.server.takes.load(Ordering::Acquire),
        3,
        "two of the call before, one of the first of these"
    );
    node.server.gate.add_permits(8);
    let given: Vec<i64> = all.await.iter().flat_map(|ranges| numbers(ranges)).collect();
    let distinct: BTreeSet<i64> = given.iter().copied().collect();
    assert_eq!(distinct, (2..=97).collect());
    assert_eq!((given.len(), node.server.takes.load(Ordering::Acquire)), (96, 4), "one for the other 31");
}

#[tokio::test]
async fn call_that_comes_later_gets_higher_numbers() {
    let node = node();
    let other = node.another();
    let mut last = 0;
    for turn in 0..60 {
        let node = if turn % 2 == 0 { &node.sequences } else { &other };
        let got = numbers(&node.reserve(&named("a"), 7, 0).await.unwrap());
        assert!(got[0] > last, "{got:?} after {last}");
        last = got[6];
        settle().await;
    }
}

/// Published schemes have this fault: if two nodes fetch at once, one node's block is lost.
#[tokio::test]
async fn nodes_that_need_numbers_at_once_leave_no_gap() {
    let node = node();
    let nodes = [node.another(), node.another(), node.another()];
    shut(&node.store.gate);
    let name = named("a");
    let calls = nodes.iter().cycle().take(30).map(|node| node.reserve(&name, 40, 0));
    let mut all = Box::pin(join_all(calls));
    assert!(poll!(&mut all).is_pending());
    settle().await;
    node.store.gate.add_permits(100);
    let given: BTreeSet<i64> = all.await.into_iter().flat_map(|ranges| numbers(&ranges.unwrap())).collect();
    assert_eq!(given, (1..=1_200).collect());
}

#[tokio::test]
async fn numbers_are_above_what_the_caller_knows() {
    let node = node();
    assert_eq!(node.reserve(2, 500).await, [range(501, 502)]);
    assert_eq!(node.reserve(1, 10).await, [range(503, 503)], "it is known that they are higher");
    let other = node.another();
    assert_eq!(other.reserve(&named("a"), 1, 0).await.unwrap(), [range(504, 504)]);
    let far = numbers(&other.reserve(&named("a"), 1, 100_000).await.unwrap());
    assert!(numbers(&node.reserve(1, 0).await)[0] > far[0]);
}

/// Published schemes have this fault: the block in Redis is extended though the store has given out numbers
/// meanwhile. Here it is void.
#[tokio::test]
async fn numbers_come_from_store_without_redis() {
    let node = node();
    node.reserve(10, 0).await;
    node.server.is_unavailable.store(true, Ordering::Release);
    shut(&node.store.gate);
    let mut calls = Box::pin(join_all((0..20).map(|_| node.reserve(2, 0))));
    assert!(poll!(&mut calls).is_pending());
    node.store.gate.add_permits(10);
    let given: BTreeSet<i64> = calls.await.iter().flat_map(|ranges| numbers(ranges)).collect();
    assert_eq!(given, (101..=140).collect());
    assert_eq!(node.store.steps(), [100, 2, 38], "one step for all who waited");
    node.server.is_unavailable.store(false, Ordering::Release);
    let after = numbers(&node.reserve(1, 0).await);
    assert!(after[0] > 140, "{after:?}");
}

#[tokio::test]
async fn block_of_unanswered_offer_is_not_reused() {
    let node = node();
    node.server.loses_answers.store(true, Ordering::Release);
    let mut given = BTreeSet::new();
    for _ in 0..50 {
        for number in numbers(&node.reserve(30, 0).await) {
            assert!(given.insert(number), "{number} was given out before");
        }
        settle().await;
    }
}

#[tokio::test]
async fn redis_numbers_are_issued_without_the_store() {
    let node = node();
    node.reserve(1, 0).await;
    node.store.is_unavailable.store(true, Ordering::Release);
    assert_eq!(node.reserve(99, 0).await, [range(2, 100)]);
    let refused = node.sequences.reserve(&named("a"), 1, 0).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    node.store.is_unavailable.store(false, Ordering::Release);
    assert_eq!(numbers(&node.reserve(1, 0).await).len(), 1);
}

/// Published schemes have this fault: a caller that dies keeps the lock. Here there is none.
#[tokio::test]
async fn callers_continue_when_fetcher_is_cancelled() {
    let node = node();
    shut(&node.store.gate);
    let mut gone = Box::pin(node.reserve(5, 0));
    assert!(poll!(&mut gone).is_pending());
    let mut waits = Box::pin(node.reserve(7, 0));
    assert!(poll!(&mut waits).is_pending());
    drop(gone);
    node.store.gate.add_permits(10);
    assert_eq!(numbers(&waits.await).len(), 7);
}

#[tokio::test]
async fn calls_and_numbers_that_wait_are_bounded() {
    let node = TestNode::new(SequenceLimits { waiting: 3, waiting_of_one: 20, ..SequenceLimits::default() });
    shut(&node.store.gate);
    let call = |count| node.reserve(count, 0);
    let mut waiting: Vec<_> = [call(10), call(20)].into_iter().map(Box::pin).collect();
    for waits in &mut waiting {
        assert!(poll!(waits).is_pending());
    }
    let refused = node.sequences.reserve(&named("a"), 1, 0).await;
    assert!(matches!(refused, Err(StoreError::Overloaded)), "20 numbers wait: {refused:?}");
    let (b, c) = (named("b"), named("c"));
    let mut third = Box::pin(node.sequences.reserve(&b, 1, 0));
    assert!(poll!(&mut third).is_pending());
    let refused = node.sequences.reserve(&c, 1, 0).await;
    assert!(matches!(refused, Err(StoreError::Overloaded)), "three calls wait: {refused:?}");
    node.store.gate.add_permits(100);
    assert!(third.await.is_ok());
    assert_eq!(join_all(waiting).await.len(), 2);
    assert!(node.sequences.reserve(&c, 1, 0).await.is_ok());
}

#[tokio::test]
async fn names_that_a_node_knows_are_bounded() {
    let node = TestNode::new(SequenceLimits { names: 2, ..SequenceLimits::default() });
    for round in 1..=3 {
        for name in ["a", "b", "c", "d"] {
            let got = node.sequences.reserve(&named(name), 1, 0).await.unwrap();
            assert_eq!(got, [range(round, round)], "{name}");
        }
    }
    shut(&node.server.gate);
    let (a, b) = (named("a"), named("b"));
    let mut waiting =
        [Box::pin(node.sequences.reserve(&a, 1, 0)), Box::pin(node.sequences.reserve(&b, 1, 0))];
    for waits in &mut waiting {
        assert!(poll!(waits).is_pending());
    }
    let refused = node.sequences.reserve(&named("c"), 1, 0).await;
    assert!(matches!(refused, Err(StoreError::Overloaded)), "calls wait for both: {refused:?}");
}

/// Published schemes have this fault: reading the end takes numbers.
#[tokio::test]
async fn reading_the_end_takes_no_number() {
    let node = node();
    node.reserve(1, 0).await;
    for _ in 0..3 {
        assert_eq!(node.sequences.max_seqs(&[named("a"), named("b")]).await.unwrap(), [100, 0]);
    }
    assert_eq!(node.reserve(1, 0).await, [range(2, 2)]);
}
