use std::time::Instant;

use kith_lab::peers::Peers;
use tokio::time::sleep;

use crate::stage::{BOUND, FAULT, alone, assert_in_bounds, beside, readers, size, stage, warm, writes};

/// Keys that each node writes while Redis is away.
fn each() -> u64 {
    size(300, 1_000)
}

/// Writes on all nodes while Redis is away; returns how many were refused.
async fn written(peers: &Peers) -> u64 {
    let each = each();
    let (one, two, three) = tokio::join!(
        writes(peers.peer(0), 0..each, FAULT),
        writes(peers.peer(1), each..2 * each, FAULT),
        writes(peers.peer(2), 2 * each..3 * each, FAULT),
    );
    one + two + three
}

async fn scenario(what: &str, away: impl AsyncFnOnce(&mut Peers), back: impl AsyncFnOnce(&mut Peers)) {
    let (mut peers, keys) = (stage(3).await, each() * 3);
    warm(&peers, keys).await;
    let readers = readers(&peers, keys);
    away(&mut peers).await;
    let refused = written(&peers).await;
    back(&mut peers).await;
    let healed = Instant::now();
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    let late = tally.late.map(|late| late.saturating_duration_since(healed)).unwrap_or_default();
    println!(
        "Redis {what} for 5 s, {keys} writes: {refused} refused, {stale} stale after, last {late:.1?} after; {tally}"
    );
    assert_eq!((refused, stale), (0, 0));
    assert_in_bounds(&tally);
}

async fn killed() {
    let back = async |peers: &mut Peers| peers.redis.restart(None).await.unwrap();
    scenario("killed", async |peers| peers.redis.kill(), back).await;
}

async fn frozen() {
    let back = async |peers: &mut Peers| peers.redis.go_on().unwrap();
    scenario("frozen", async |peers| peers.redis.stop().unwrap(), back).await;
}

async fn full() {
    let back = async |peers: &mut Peers| peers.redis.fill_up(false).await.unwrap();
    scenario("full", async |peers| peers.redis.fill_up(true).await.unwrap(), back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_frozen_or_full_delays_no_read_and_refuses_no_write() {
    let _turn = alone().await;
    beside([Box::pin(killed()), Box::pin(frozen()), Box::pin(full())]).await;
}
