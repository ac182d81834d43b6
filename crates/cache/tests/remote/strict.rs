use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::stage::Stage;

/// This is longer than nodes in an earlier epoch could trust their memories.
const SETTLED: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn strict_write_ends_with_all_confirmations() {
    let stage = Stage::new();
    let (one, other) = (stage.peer(1, true).await, stage.peer(2, true).await);
    sleep(SETTLED).await;
    stage.store.put(7, 1);
    one.read(7).await;
    other.read(7).await;
    let began = Instant::now();
    one.write(&stage.store, 7, 2).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
    assert_eq!(other.read(7).await.0, Some(2), "at once");
}

#[tokio::test(start_paused = true)]
async fn strict_write_awaits_a_silent_node() {
    let stage = Stage::new();
    let (one, other) = (stage.peer(1, true).await, stage.peer(2, true).await);
    sleep(SETTLED).await;
    stage.store.put(7, 1);
    other.read(7).await;
    other.die();
    assert_eq!(other.read(7).await.0, Some(1));
    let began = Instant::now();
    one.write(&stage.store, 7, 2).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(1) && began.elapsed() <= Duration::from_secs(2));
    assert_eq!(other.read(7).await.0, Some(2), "its memory is not served any more");
}

#[tokio::test(start_paused = true)]
async fn unpublished_strict_write_is_not_acknowledged() {
    let stage = Stage::new();
    let one = stage.peer(1, true).await;
    sleep(SETTLED).await;
    stage.server.refuse_writes(true);
    assert!(one.write(&stage.store, 7, 2).await.is_err());
    assert!(!one.member.bus.sharing.queue.is_empty(), "and is published as soon as possible");
}

#[tokio::test(start_paused = true)]
async fn strict_write_awaits_nodes_of_old_epoch() {
    let stage = Stage::new();
    let one = stage.peer(1, true).await;
    let began = Instant::now();
    one.write(&stage.store, 7, 2).await.unwrap();
    assert!(began.elapsed() > Duration::from_millis(1_400), "{:?}", began.elapsed());
}
