//! Scripts: what the shared server loses or brings back (interleavings 1, 2, 7, and what belongs to them).

use kith_cache::{Consistency, remote::Snapshot};

use crate::{
    faults::Fault,
    holds::{Call, Direction},
    peer::Peer,
    truth::{Kind, LIST, ONE, RIGHT, TWO},
    wire::Link,
    world::{World, sleep_ms},
};

/// This is longer than any bound except a dead writer's.
const BOUND: u64 = 3_000;

/// Interleaving 1.
#[tokio::test(start_paused = true)]
async fn promoted_replica_with_right_numbers_is_a_fork() {
    let (world, [a, b]) = World::with_cached(ONE).await;
    world.take_dump();
    for _ in 0..3 {
        a.put(TWO).await.unwrap();
    }
    sleep_ms(1).await;
    assert_eq!(b.node.applied(), 4);
    b.wire.set(Link::Closed);
    a.kill();
    world.restore_dump(true);
    // A node that joins now knows no better: its writes take the numbers that the replica lacks, and one more
    // number.
    let c = world.start();
    sleep_ms(10).await;
    c.put(ONE).await.unwrap();
    for _ in 0..3 {
        c.put(TWO).await.unwrap();
    }
    b.wire.set(Link::Up);
    sleep_ms(BOUND).await;
    assert_eq!((b.read(ONE).await, b.read(TWO).await), (Some(2), Some(6)));
}

/// Interleaving 2.
#[tokio::test(start_paused = true)]
async fn restored_dump_brings_back_no_old_copy() {
    let (world, [a, b]) = World::with_cached(ONE).await;
    world.take_dump();
    a.put(ONE).await.unwrap();
    world.restore_dump(false);
    sleep_ms(BOUND).await;
    assert_eq!((a.read(ONE).await, b.read(ONE).await), (Some(2), Some(2)));
    assert!(world.store.epoch() > 1);
}

/// The question was for the previous server, and the server that its node has accepted since then answers it
/// from the dump.
#[tokio::test(start_paused = true)]
async fn answer_of_a_left_epoch_is_dropped() {
    let (world, [a, b, _c]) = World::with_cached(ONE).await;
    // The reader does not wait for its fill.
    sleep_ms(1).await;
    world.take_dump();
    a.put(ONE).await.unwrap();
    let (question, reader) = b.held(Call::Read, Direction::Request, |b| b.reads(ONE)).await;
    world.restore_dump(false);
    sleep_ms(1_000).await;
    assert!(b.node.epoch() > 1);
    question.open();
    assert_eq!(reader.await.unwrap(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn server_fallback_is_a_fork() {
    let (world, [a, _b]) = World::with_cached(ONE).await;
    let dump = world.server.snapshot();
    a.put(ONE).await.unwrap();
    world.server.fall_back(&dump);
    sleep_ms(BOUND).await;
    let late = world.start();
    sleep_ms(300).await;
    assert_eq!(late.read(ONE).await, Some(2));
}

/// The writer is dead, no node received its change, and the replica lacks it.
#[tokio::test(start_paused = true)]
async fn other_server_with_known_data_is_not_trusted() {
    let (world, [a, b]) = World::with_cached(ONE).await;
    world.take_dump();
    b.wire.lose_entries(1);
    a.put(ONE).await.unwrap();
    a.kill();
    world.restore_dump(false);
    sleep_ms(BOUND).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

/// The writer is dead, no node received its change, no node reads the change feed, and the server fell back
/// without a trace.
#[tokio::test(start_paused = true)]
async fn undetectable_loss_ends_with_the_copies() {
    let (world, [a, b]) = World::with_cached(ONE).await;
    let dump = world.server.snapshot();
    a.wire.lose_entries(1);
    b.wire.lose_entries(1);
    a.put(ONE).await.unwrap();
    a.kill();
    world.server.fall_back(&dump);
    sleep_ms(BOUND).await;
    assert_eq!(b.read(ONE).await, Some(1), "nothing invalidates it");
    for _ in 0..10 {
        // It is read all the while.
        sleep_ms(66_000).await;
        b.read(ONE).await;
    }
    assert_eq!(b.read(ONE).await, Some(2));
}

/// Interleaving 7.
#[tokio::test(start_paused = true)]
async fn full_server_loses_trust_soon() {
    let (world, [a, b]) = World::with_cached(ONE).await;
    world.server.refuse_writes(true);
    a.put(ONE).await.unwrap();
    sleep_ms(BOUND).await;
    assert_eq!(b.read(ONE).await, Some(2), "from memory");
    let late = world.start();
    sleep_ms(300).await;
    assert_eq!(late.read(ONE).await, Some(2), "from the copy that nodes share");
}

#[tokio::test(start_paused = true)]
async fn missed_entry_is_replayed_with_the_next() {
    let (_world, [a, b]) = World::with_cached(ONE).await;
    b.wire.lose_entries(1);
    a.put(ONE).await.unwrap();
    a.put(TWO).await.unwrap();
    sleep_ms(1).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn missed_last_entry_is_replayed_by_probe() {
    let (_world, [a, b]) = World::with_cached(ONE).await;
    b.wire.lose_entries(1);
    a.put(ONE).await.unwrap();
    sleep_ms(600).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn forged_channel_message_moves_no_node() {
    let (world, [a, b]) = World::scripted_with(&[Fault::NoFeed, Fault::Forged]).await;
    for turn in 1..200 {
        a.put(ONE).await.unwrap();
        sleep_ms(20).await;
        assert_eq!(b.read(ONE).await, Some(turn));
    }
    assert_eq!(world.store.epoch(), 1);
}

/// Interleaving 10, the first half.
#[tokio::test(start_paused = true)]
async fn queued_writes_are_published_after_a_cut() {
    let (_world, [a, b]) = World::scripted().await;
    let ids = || (0..200).map(|key| (Kind::Thing, key));
    for id in ids() {
        a.put(id).await.unwrap();
        b.read(id).await;
    }
    a.wire.set(Link::Closed);
    for _ in 0..5 {
        for id in ids() {
            a.put(id).await.unwrap();
            assert_eq!(a.read(id).await, b.client.store.truth.newest(id).map(|(_, position)| position));
        }
    }
    sleep_ms(5_000).await;
    a.wire.set(Link::Up);
    sleep_ms(BOUND).await;
    for id in ids() {
        assert_eq!(b.read(id).await, Some(6));
    }
}

#[tokio::test(start_paused = true)]
async fn full_queue_raises_the_epoch() {
    let (world, [a, b]) = World::scripted_with(&[Fault::NoFeed, Fault::Overflow]).await;
    let ids = [ONE, TWO, (Kind::Thing, 0), LIST];
    for id in ids {
        a.put(id).await.unwrap();
        b.read(id).await;
    }
    a.wire.set(Link::Closed);
    for id in ids {
        a.put(id).await.unwrap();
    }
    a.wire.set(Link::Up);
    sleep_ms(BOUND).await;
    for id in ids {
        assert_eq!((a.read(id).await, b.read(id).await), (Some(2), Some(2)));
    }
    assert!(world.store.epoch() > 1);
}

/// Interleaving 12.
#[tokio::test(start_paused = true)]
async fn own_queued_write_is_read() {
    let (world, [a, _b]) = World::with_cached(LIST).await;
    world.server.refuse_writes(true);
    a.put(LIST).await.unwrap();
    assert_eq!(a.read(LIST).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn record_changed_during_publish_stays_queued() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    world.server.refuse_writes(true);
    a.put(ONE).await.unwrap();
    let mut publishing = a.holds.hold(Call::Change, Direction::Response);
    world.server.refuse_writes(false);
    publishing.entered().await;
    b.read(ONE).await;
    world.server.refuse_writes(true);
    a.put(ONE).await.unwrap();
    publishing.open();
    sleep_ms(1).await;
    world.server.refuse_writes(false);
    sleep_ms(2_000).await;
    assert_eq!(b.read(ONE).await, Some(3));
}

#[tokio::test(start_paused = true)]
async fn change_is_published_again_after_nodes_moved() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    let _behind = a.holds.held(Call::Probe, Direction::Request).await;
    let mut unseen = a.holds.hold(Call::Epoch, Direction::Request);
    b.queue.raise_barrier(world.store.raise());
    sleep_ms(1_000).await;
    unseen.entered().await;
    assert_eq!((a.node.epoch(), b.node.epoch()), (1, 2));
    b.read(ONE).await;
    a.put(ONE).await.unwrap();
    sleep_ms(1).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

/// The server fell back to before the epochs that its nodes follow: it cannot show the node that a later
/// epoch exists.
#[tokio::test(start_paused = true)]
async fn unknown_epoch_publishes_nothing() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    let fallen = world.server.snapshot();
    world.store.raise();
    sleep_ms(1_000).await;
    assert_eq!(a.node.epoch(), 2);
    write_from_an_epoch_behind(&world, &fallen, &a, &b).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

/// Like `unknown_epoch_publishes_nothing`, but the server knows the writer's epoch and has lost the end of
/// its log.
#[tokio::test(start_paused = true)]
async fn shorter_log_publishes_nothing() {
    let (world, [a, b]) = World::scripted().await;
    a.put(ONE).await.unwrap();
    let fallen = world.server.snapshot();
    for _ in 0..3 {
        a.put(TWO).await.unwrap();
    }
    sleep_ms(1).await;
    assert_eq!(a.node.epoch(), 1);
    write_from_an_epoch_behind(&world, &fallen, &a, &b).await;
    assert_eq!(b.read(ONE).await, Some(2));
}

/// The others are an epoch further than `a`, the server falls back, and `a` writes before any node notices.
async fn write_from_an_epoch_behind(world: &World, fallen: &Snapshot, a: &Peer, b: &Peer) {
    let behind = a.holds.held(Call::Probe, Direction::Request).await;
    let _unseen = a.holds.hold(Call::Epoch, Direction::Request);
    let before = a.node.epoch();
    b.queue.raise_barrier(world.store.raise());
    sleep_ms(1_000).await;
    assert_eq!((a.node.epoch(), b.node.epoch()), (before, before + 1));
    b.read(ONE).await;
    let knows = b.holds.held(Call::Probe, Direction::Request).await;
    world.server.fall_back(fallen);
    a.put(ONE).await.unwrap();
    // A node that joins now sends the epoch to the server, and the nodes in the epoch notice nothing.
    world.start();
    sleep_ms(300).await;
    knows.open();
    behind.open();
    sleep_ms(BOUND).await;
}

#[tokio::test(start_paused = true)]
async fn forgotten_epoch_is_published_again() {
    let (world, [a, b]) = World::scripted().await;
    let fallen = world.server.snapshot();
    world.store.raise();
    sleep_ms(1_000).await;
    world.server.fall_back(&fallen);
    sleep_ms(BOUND).await;
    b.read(RIGHT).await;
    a.put(RIGHT).await.unwrap();
    assert_eq!(b.read(RIGHT).await, Some(1));
    assert!(world.store.epoch() > 2);
}

#[tokio::test(start_paused = true)]
async fn raised_epoch_is_followed_at_once() {
    let (world, [a, b]) = World::scripted().await;
    // It looks at the epoch in the store, and gets no answer.
    let _look = b.holds.held(Call::Epoch, Direction::Request).await;
    a.queue.raise_barrier(world.store.raise());
    sleep_ms(1_700).await;
    assert_eq!((a.node.epoch(), b.node.epoch()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn epoch_raised_only_in_store_is_followed() {
    let (world, [a, b]) = World::scripted().await;
    world.store.raise();
    sleep_ms(BOUND).await;
    assert_eq!((a.node.epoch(), b.node.epoch()), (2, 2));
}

/// Interleaving 14.
#[tokio::test(start_paused = true)]
async fn a_token_of_another_epoch_goes_to_the_store() {
    let (world, [a, b]) = World::scripted().await;
    // The second is published again in the next epoch.
    a.put(ONE).await.unwrap();
    a.put(ONE).await.unwrap();
    b.read(ONE).await;
    sleep_ms(1).await;
    b.wire.set(Link::Frozen);
    a.queue.raise_barrier(world.store.raise());
    sleep_ms(1_000).await;
    assert_eq!((a.node.epoch(), b.node.epoch()), (2, 1));
    let (token, position) = a.put(ONE).await.unwrap();
    assert!(token.positions()[0].number <= b.node.applied(), "{token:?} {}", b.node.applied());
    assert_eq!(b.read(ONE).await, Some(2), "it cannot know, and is within its bound");
    let read = b.ask(ONE, &Consistency::AtLeast(vec![token])).await;
    assert_eq!(read.unwrap(), Some(position));
}

#[tokio::test(start_paused = true)]
async fn read_in_flight_ignores_a_replaced_server() {
    let (world, [a, b]) = World::with_cached(RIGHT).await;
    world.take_dump();
    a.put(RIGHT).await.unwrap();
    let (read, reading) = b.held(Call::Read, Direction::Request, |b| b.reads(RIGHT)).await;
    world.restore_dump(false);
    sleep_ms(1_200).await;
    assert!(b.node.epoch() > 1);
    read.open();
    assert_eq!(reading.await.unwrap(), Some(2));
}
