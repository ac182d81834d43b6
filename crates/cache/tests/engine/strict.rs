//! Scripts: paused nodes, and strict namespaces (interleavings 6 and 8, and what belongs to them).

use std::time::Duration;

use kith_cache::Consistency;
use tokio::time::Instant;

use crate::{
    holds::{Call, Direction},
    phase::Phase,
    truth::{Kind, ONE, RIGHT},
    wire::Link,
    world::{World, sleep_ms},
};

/// Interleaving 6.
#[tokio::test(start_paused = true)]
async fn first_answers_after_a_stop_are_right() {
    let (_world, [a, b]) = World::scripted().await;
    for id in [ONE, RIGHT] {
        a.put(id).await.unwrap();
        b.read(id).await;
    }
    b.phases.set(Phase::Paused);
    for id in [ONE, RIGHT] {
        a.put(id).await.unwrap();
    }
    sleep_ms(30_000).await;
    // Its memory is asked before any of its tasks takes a step.
    assert_eq!(b.cache(ONE.0).hit(&ONE.1).map(|entry| entry.map(|entry| *entry.value)), None);
    b.phases.set(Phase::Runs);
    assert_eq!((b.read(ONE).await, b.read(RIGHT).await), (Some(2), Some(2)));
}

/// Interleaving 6: the answer to a probe waits while the node is paused.
#[tokio::test(start_paused = true)]
async fn old_answer_gives_no_trust_after_a_stop() {
    let (_world, [a, b]) = World::with_cached(RIGHT).await;
    let probe = b.holds.held(Call::Probe, Direction::Response).await;
    b.phases.set(Phase::Paused);
    b.wire.lose_entries(1);
    probe.open();
    a.put(RIGHT).await.unwrap();
    sleep_ms(30_000).await;
    let mut next = b.holds.hold(Call::Probe, Direction::Request);
    b.phases.set(Phase::Runs);
    next.entered().await;
    assert_eq!(b.read(RIGHT).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn no_read_joins_a_load_of_an_untrusted_node() {
    let (_world, [a, b]) = World::scripted().await;
    a.put(RIGHT).await.unwrap();
    b.wire.set(Link::Frozen);
    let (load, early) = b.held(Call::Load, Direction::Response, |b| b.reads(RIGHT)).await;
    a.put(RIGHT).await.unwrap();
    let later = b.reads(RIGHT);
    sleep_ms(1).await;
    load.open();
    assert_eq!(later.await.unwrap(), Some(2));
    assert_eq!(early.await.unwrap(), Some(1), "it began before the write");
}

/// Interleaving 8.
#[tokio::test(start_paused = true)]
async fn strict_write_of_cut_node_is_not_acknowledged() {
    let (_world, [a, b]) = World::with_cached(RIGHT).await;
    a.wire.set(Link::Closed);
    let acknowledged = a.put(RIGHT).await;
    assert!(acknowledged.is_none() || b.read(RIGHT).await == Some(2));
}

/// Interleaving 8: the registry of the new epoch is empty.
#[tokio::test(start_paused = true)]
async fn strict_write_awaits_nodes_of_last_epoch() {
    let (world, [a, b]) = World::with_cached(RIGHT).await;
    world.take_dump();
    b.wire.set(Link::Frozen);
    world.restore_dump(false);
    while a.node.epoch() == 1 {
        sleep_ms(10).await;
    }
    a.put(RIGHT).await.unwrap();
    assert_eq!(b.read(RIGHT).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn strict_write_awaits_every_node() {
    let (_world, [a, b]) = World::with_cached(RIGHT).await;
    b.wire.lose_entries(1);
    a.put(RIGHT).await.unwrap();
    assert_eq!(b.read(RIGHT).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn strict_write_awaits_a_dead_node_for_its_trust() {
    let (_world, [a, b]) = World::scripted().await;
    b.kill();
    let began = Instant::now();
    a.put(RIGHT).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let began = Instant::now();
    a.put(RIGHT).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
}

/// Nodes that begin to wait while a confirmation is on its way get the next one together.
#[tokio::test(start_paused = true)]
async fn nodes_that_wait_share_a_confirmation() {
    let (_world, [a, b, c]) = World::scripted().await;
    sleep_ms(2_000).await;
    let mut first = c.holds.hold(Call::Confirm, Direction::Request);
    let writes = vec![a.puts((Kind::Right, 1))];
    first.entered().await;
    let writes = writes.into_iter().chain([a.puts((Kind::Right, 2)), b.puts((Kind::Right, 3))]);
    let writes: Vec<_> = writes.collect();
    sleep_ms(50).await;
    first.open();
    for write in writes {
        assert_eq!(write.await.unwrap(), Some(1));
    }
    assert_eq!(c.wire.calls(Call::Confirm), 2);
}

/// 1,200 changes are three entries. A node that has confirmed the last entry has applied them all, also an
/// entry that it missed.
#[tokio::test(start_paused = true)]
async fn large_strict_write_awaits_one_confirmation() {
    let (_world, [a, b]) = World::scripted().await;
    let ids: Vec<_> = (0..1_200).map(|key| (Kind::Right, key)).collect();
    a.write(&ids, true).await.unwrap();
    sleep_ms(2_000).await;
    for lost in [0, 1] {
        let ends = [ids[0], ids[ids.len() - 1]];
        for id in ends {
            assert_eq!(b.read(id).await, Some(1 + lost));
        }
        let before = b.wire.calls(Call::Confirm);
        b.wire.lose_entries(lost);
        a.write(&ids, true).await.unwrap();
        assert_eq!(b.wire.calls(Call::Confirm) - before, 1);
        for id in ends {
            assert_eq!(b.read(id).await, Some(2 + lost));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unpublished_strict_write_is_queued_whole() {
    let (world, [a]) = World::scripted().await;
    world.server.refuse_writes(true);
    let ids: Vec<_> = (0..600).map(|key| (Kind::Right, key)).collect();
    assert_eq!(a.write(&ids, true).await, None);
    assert_eq!(a.queue.len(), 600);
}

#[tokio::test(start_paused = true)]
async fn token_holds_on_a_node_that_receives_nothing() {
    let (_world, [a, b]) = World::with_cached(ONE).await;
    b.wire.set(Link::Frozen);
    let (token, position) = a.put(ONE).await.unwrap();
    assert_eq!(b.read(ONE).await, Some(1), "it cannot know, and is within its bound");
    assert_eq!(b.ask(ONE, &Consistency::AtLeast(vec![token])).await.unwrap(), Some(position));
}

#[tokio::test(start_paused = true)]
async fn strong_read_on_a_cut_node_is_of_the_store() {
    let (_world, [a, b]) = World::with_cached(ONE).await;
    b.wire.set(Link::Frozen);
    a.put(ONE).await.unwrap();
    assert_eq!(b.ask(ONE, &Consistency::Strong).await.unwrap(), Some(2));
}

/// The bound of a node that is cut off: just before it the old may be read, at it no more.
#[tokio::test(start_paused = true)]
async fn cut_node_serves_memory_for_the_bound() {
    for link in [Link::Closed, Link::Frozen, Link::Stalled] {
        let (_world, [a, b]) = World::with_cached(ONE).await;
        b.wire.set(link);
        a.put(ONE).await.unwrap();
        sleep_ms(1_500).await;
        assert_eq!(b.read(ONE).await, Some(1), "{link:?}: within the bound");
        sleep_ms(1_500).await;
        assert_eq!(b.read(ONE).await, Some(2), "{link:?}");
    }
}
