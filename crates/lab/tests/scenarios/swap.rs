use std::time::Duration;

use kith_lab::{peers::Peers, redis_server::RedisServer};
use tokio::time::sleep;

use crate::stage::{BOUND, assert_in_bounds, readers, size, stage, told, turn, warm, writes};

/// All connections lead to another server from now on.
fn aim(peers: &Peers, server: &RedisServer) {
    for node in &peers.nodes {
        node.link.aim(server.address());
        node.link.cut();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_redis_with_an_old_dump_leaves_nothing_stale() {
    let _turn = turn().await;
    let (mut peers, keys) = (stage(3).await, size(300, 1_000));
    warm(&peers, keys).await;
    let dump = peers.redis.dump().await.unwrap();
    let old = Duration::from_secs(size(2, 60));
    let refused = writes(peers.peer(0), 0..keys, old).await;
    assert_eq!(refused, 0);
    told(peers.peer(0)).await;
    let readers = readers(&peers, keys);
    peers.redis.restart(Some(&dump)).await.unwrap();
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    let epoch = peers.store.epoch();
    println!("Redis with a dump {old:?} old: {stale} of {keys} stale after, epoch {epoch}; {tally}");
    assert_eq!(stale, 0);
    assert_in_bounds(&tally);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_that_lacks_the_last_writes_leaves_nothing_stale() {
    let _turn = turn().await;
    let (peers, keys) = (stage(3).await, size(300, 1_000));
    let replica = peers.redis.replica().await.unwrap();
    warm(&peers, keys).await;
    // From here on it misses what is written.
    replica.promote().await.unwrap();
    let refused = writes(peers.peer(0), 0..keys, Duration::from_secs(1)).await;
    assert_eq!(refused, 0);
    told(peers.peer(0)).await;
    let readers = readers(&peers, keys);
    aim(&peers, &replica);
    // As many again, so that the numbers of its log catch up with those that the nodes know.
    let refused = writes(peers.peer(1), 0..keys, Duration::from_secs(1)).await;
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    println!("a promoted replica without {keys} writes: {stale} stale after; {tally}");
    assert_eq!((refused, stale), (0, 0));
    assert_in_bounds(&tally);
}
