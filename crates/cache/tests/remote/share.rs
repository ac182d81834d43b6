use std::{sync::atomic::Ordering, time::Duration};

use kith_cache::{Tier, remote::Epochs as _};
use tokio::time::{Instant, sleep};

use crate::stage::Stage;

#[tokio::test(start_paused = true)]
async fn record_loaded_by_one_node_is_shared() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    assert_eq!(one.read(7).await, (Some(1), Some(Tier::Store)));
    assert_eq!(other.read(7).await, (Some(1), Some(Tier::Redis)));
    assert_eq!(other.read(7).await, (Some(1), Some(Tier::Memory)));
    assert_eq!(stage.store.loads.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn written_value_spares_other_nodes_a_load() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    one.read(7).await;
    other.read(7).await;
    one.write(&stage.store, 7, 2).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(other.read(7).await, (Some(2), Some(Tier::Redis)));
    assert_eq!(one.read(7).await, (Some(2), Some(Tier::Memory)));
    assert_eq!(stage.store.loads.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn end_of_load_wakes_nodes_that_wait() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    stage.store.takes.store(140, Ordering::Relaxed);
    let began = Instant::now();
    let both = tokio::join!(one.read(7), other.read(7));
    assert_eq!((both.0.0, both.1.0), (Some(1), Some(1)));
    assert_eq!(stage.store.loads.load(Ordering::Relaxed), 1);
    assert!(began.elapsed() <= Duration::from_millis(142), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_holder_is_gone_is_taken_over() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    stage.store.takes.store(100_000, Ordering::Relaxed);
    let cache = one.cache.clone();
    let holder = tokio::spawn(async move { cache.get(&7).await.map(drop) });
    sleep(Duration::from_millis(20)).await;
    stage.store.takes.store(1, Ordering::Relaxed);
    let began = Instant::now();
    assert_eq!(other.read(7).await.0, Some(1));
    assert!(began.elapsed() <= Duration::from_millis(150), "{:?}", began.elapsed());
    assert_eq!(stage.store.loads.load(Ordering::Relaxed), 2);
    holder.abort();
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_is_asked_once_by_each_read() {
    let stage = Stage::new();
    let one = stage.peer(1, false).await;
    stage.server.refuse_writes(true);
    stage.store.put(7, 1);
    assert_eq!(one.read(7).await, (Some(1), Some(Tier::Store)), "a full server keeps no lease");
    assert_eq!(stage.store.loads.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn epoch_raised_in_the_store_is_followed() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    one.read(7).await;
    let epoch = stage.store.raise(one.node.epoch(), "0").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!((one.node.epoch(), other.node.epoch()), (epoch, epoch));
    assert_eq!(other.read(7).await.1, Some(Tier::Store), "every copy of the epoch before is given up");
}

#[tokio::test(start_paused = true)]
async fn cut_node_replays_and_keeps_the_rest() {
    let (stage, one, other) = Stage::with_two_peers().await;
    for key in 0..10 {
        stage.store.put(key, 1);
        other.read(key).await;
    }
    let epoch = other.node.epoch();
    stage.server.cut();
    one.write(&stage.store, 7, 2).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(other.node.epoch(), epoch);
    assert_eq!(other.read(7).await.0, Some(2));
    assert_eq!(other.read(8).await, (Some(1), Some(Tier::Memory)));
}

#[tokio::test(start_paused = true)]
async fn read_only_server_loses_trust() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    one.read(7).await;
    // The loaded copy is left in the shared tier without its reader.
    sleep(Duration::from_millis(1)).await;
    stage.server.refuse_writes(true);
    one.write(&stage.store, 7, 2).await.unwrap();
    assert_eq!(other.read(7).await, (Some(1), Some(Tier::Redis)), "the change could not be published");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(other.read(7).await, (Some(2), Some(Tier::Store)));
}

#[tokio::test(start_paused = true)]
async fn outage_ends_after_queued_publishes() {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    other.read(7).await;
    stage.server.refuse_writes(true);
    one.write(&stage.store, 7, 2).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    stage.server.refuse_writes(false);
    // The writer is late too: memory and the shared copy are of before.
    sleep(Duration::from_millis(700)).await;
    assert_eq!(other.read(7).await.0, Some(2));
    one.drain();
    sleep(Duration::from_secs(2)).await;
    assert!(other.node.trusted());
    assert_eq!(other.read(7).await.0, Some(2));
}
