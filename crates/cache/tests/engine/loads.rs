//! Scripts: how much the store and the server are asked, and what a dead writer leaves (interleaving 10).

use std::sync::Arc;

use kith_cache::Consistency;

use crate::{
    holds::{Call, Direction},
    peer::Peer,
    truth::{Kind, ONE},
    wire::Link,
    world::{World, sleep_ms},
};

/// Loads of all nodes so far.
fn loads(peers: &[Arc<Peer>]) -> u64 {
    peers.iter().map(|peer| peer.loads(ONE.0)).sum()
}

#[tokio::test(start_paused = true)]
async fn cold_record_is_loaded_once_for_all_nodes() {
    let (_world, peers) = World::scripted::<4>().await;
    peers[0].client.store.apply_write(ONE, true);
    for turn in 1..4 {
        let readers = peers.iter().flat_map(|peer| (0..100).map(|_| peer.reads(ONE)));
        for reader in readers.collect::<Vec<_>>() {
            assert_eq!(reader.await.unwrap(), Some(turn));
        }
        assert_eq!(loads(&peers), turn);
        peers[0].client.store.apply_write(ONE, true);
        let invalidated = peers[0].cache(ONE.0).invalidate(&[(ONE.1, None)]).await;
        assert!(invalidated.is_ok());
        sleep_ms(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_whose_node_died_is_made_once_more() {
    let (_world, [a, b, c]) = World::scripted().await;
    a.client.store.apply_write(ONE, true);
    let (load, dying) = a.held(Call::Load, Direction::Request, |a| a.reads(ONE)).await;
    a.kill();
    load.open();
    let readers: Vec<_> = [&b, &c].iter().flat_map(|peer| (0..100).map(|_| peer.reads(ONE))).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), Some(1));
    }
    assert_eq!(b.loads(ONE.0) + c.loads(ONE.0), 1);
    dying.abort();
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_round_trip_of_each_kind() {
    let (_world, [a]) = World::scripted().await;
    let keys: Vec<u64> = (0..100).collect();
    let calls = [Call::Read, Call::Acquire, Call::Fill];
    let before = calls.map(|call| a.wire.calls(call));
    a.cache(ONE.0).get_many(&keys, &Consistency::Cached).await;
    assert_eq!(calls.map(|call| a.wire.calls(call)), before.map(|calls| calls + 1));
    assert_eq!(a.loads(ONE.0), 1);
}

#[tokio::test(start_paused = true)]
async fn loads_are_limited_without_a_server() {
    let (world, [a]) = World::scripted().await;
    a.wire.set(Link::Closed);
    let readers: Vec<_> = (0..50).map(|key| a.reads((Kind::Thing, key))).collect();
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(world.store.truth.violation(), None);
    assert_eq!(a.loads(ONE.0), 50);
}

/// Interleaving 10, the second half: the reader of the feed cannot publish, and the writer is dead.
#[tokio::test(start_paused = true)]
async fn feed_moves_from_a_cut_reader() {
    let (world, peers) = World::scripted_with::<3>(&[]).await;
    sleep_ms(1_000).await;
    let leader = world.store.stream.leader().unwrap();
    let (reads, others): (Vec<_>, Vec<_>) = peers.into_iter().partition(|peer| peer.id == leader);
    let [writer, other] = <[Arc<Peer>; 2]>::try_from(others).unwrap();
    writer.put(ONE).await.unwrap();
    other.read(ONE).await;
    sleep_ms(2_000).await;
    reads[0].wire.set(Link::Closed);
    let (change, writing) = writer.held(Call::Change, Direction::Request, |writer| writer.puts(ONE)).await;
    writer.kill();
    change.open();
    assert_eq!(writing.await.unwrap(), None);
    sleep_ms(11_000).await;
    assert_eq!(other.read(ONE).await, Some(2));
}

/// Like `feed_moves_from_a_cut_reader`, but the feed's reader dies with the writer.
#[tokio::test(start_paused = true)]
async fn feed_moves_from_a_dead_reader() {
    let (world, peers) = World::scripted_with::<2>(&[]).await;
    sleep_ms(1_000).await;
    let leader = world.store.stream.leader().unwrap();
    let (reads, others): (Vec<_>, Vec<_>) = peers.into_iter().partition(|peer| peer.id == leader);
    reads[0].put(ONE).await.unwrap();
    others[0].read(ONE).await;
    let mut change = reads[0].holds.hold(Call::Change, Direction::Request);
    let writing = reads[0].puts(ONE);
    change.entered().await;
    reads[0].kill();
    change.open();
    assert_eq!(writing.await.unwrap(), None);
    sleep_ms(11_000).await;
    assert_eq!(others[0].read(ONE).await, Some(2));
}
