//! Records that change without a broadcast: their age bounds how wrong a copy is, whichever tiers it went
//! through.

use std::{sync::atomic::Ordering, time::Duration};

use kith_cache::{Policy, Tier};
use tokio::time::{Instant, sleep, sleep_until};

use crate::stage::{Peer, Stage};

const AGE_MAX: Duration = Duration::from_secs(9);
/// The pause between two reads on a node.
const LOOK: Duration = Duration::from_millis(100);

async fn peers() -> (Stage, [Peer; 3]) {
    let stage = Stage::new();
    let policy = || Policy { age_max: Some(AGE_MAX), ..Policy::new("thing", |_| 8) };
    let peers = [
        stage.peer_of(1, policy()).await,
        stage.peer_of(2, policy()).await,
        stage.peer_of(3, policy()).await,
    ];
    (stage, peers)
}

/// Starts nodes in turn, so that each takes the oldest copy there is, and reads all the time from then on.
/// Returns how long after `changed` the last node answered with something else than `right`.
async fn oldest(peers: &[Peer], changed: Instant, right: Option<u64>) -> Duration {
    let mut oldest = Duration::ZERO;
    while changed.elapsed() < 3 * AGE_MAX {
        for (peer, after) in peers.iter().zip([Duration::ZERO, AGE_MAX / 4, AGE_MAX / 2 - LOOK]) {
            if changed.elapsed() < after {
                continue;
            }
            let asked = changed.elapsed();
            if peer.read(7).await.0 != right {
                oldest = oldest.max(asked);
            }
        }
        sleep(LOOK).await;
    }
    oldest
}

#[tokio::test(start_paused = true)]
async fn silent_change_is_seen_within_the_age() {
    let (stage, peers) = peers().await;
    stage.store.put(7, 1);
    peers[0].read(7).await;
    stage.store.put(7, 2);
    let oldest = oldest(&peers, Instant::now(), Some(2)).await;
    assert!(oldest > AGE_MAX / 2 && oldest <= AGE_MAX, "{oldest:?}");
}

#[tokio::test(start_paused = true)]
async fn silent_creation_is_seen_within_the_age() {
    let (stage, peers) = peers().await;
    peers[0].read(7).await;
    stage.store.put(7, 1);
    let oldest = oldest(&peers, Instant::now(), Some(1)).await;
    assert!(oldest <= AGE_MAX, "{oldest:?}");
}

#[tokio::test(start_paused = true)]
async fn age_counts_from_the_start_of_the_load() {
    let (stage, peers) = peers().await;
    stage.store.put(7, 1);
    stage.store.takes.store(1_900, Ordering::Relaxed);
    let changed = Instant::now();
    peers[0].read(7).await;
    stage.store.put(7, 2);
    stage.store.takes.store(0, Ordering::Relaxed);
    let oldest = oldest(&peers, changed, Some(2)).await;
    assert!(oldest <= AGE_MAX, "{oldest:?}");
}

#[tokio::test(start_paused = true)]
async fn value_that_a_writer_brings_has_an_age_too() {
    let (stage, peers) = peers().await;
    stage.store.put(7, 1);
    peers[0].read(7).await;
    sleep(LOOK).await;
    peers[0].write(&stage.store, 7, 2).await.unwrap();
    stage.store.put(7, 3);
    let oldest = oldest(&peers, Instant::now(), Some(3)).await;
    assert!(oldest <= AGE_MAX, "{oldest:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_store_is_waited_for() {
    let (stage, [peer, ..]) = peers().await;
    stage.store.put(7, 1);
    peer.read(7).await;
    stage.store.put(7, 2);
    sleep_until(Instant::now() + 2 * AGE_MAX).await;
    stage.store.takes.store(1_000, Ordering::Relaxed);
    assert_eq!(peer.read(7).await, (Some(2), Some(Tier::Store)), "not the copy that has expired");
}
